"""The verdict of a policy on a text. The classes are in `_types/verdict.py`, because requests for approval carry verdicts."""

from __future__ import annotations

from ..._types.verdict import Access as Access
from ..._types.verdict import Action as Action
from ..._types.verdict import CommandVerdict as CommandVerdict
from ..._types.verdict import Reason as Reason
from ..._types.verdict import Verdict as Verdict
