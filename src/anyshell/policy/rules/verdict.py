"""The verdict of a policy on a text, as values. They travel with a request for approval, so `_types/verdict.py` has them."""

from __future__ import annotations

from ..._types.verdict import Access as Access
from ..._types.verdict import Action as Action
from ..._types.verdict import CommandVerdict as CommandVerdict
from ..._types.verdict import Reason as Reason
from ..._types.verdict import Verdict as Verdict
