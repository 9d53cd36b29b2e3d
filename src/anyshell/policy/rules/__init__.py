"""Rules on parsed commands: the rules decide which commands may run."""

from __future__ import annotations

from .facts import ROUNDS as ROUNDS
from .facts import Answers as Answers
from .facts import HostFacts as HostFacts
from .facts import LocalFacts as LocalFacts
from .policy import Policy as Policy
from .verdict import Access as Access
from .verdict import CommandVerdict as CommandVerdict
from .verdict import Reason as Reason
from .verdict import Verdict as Verdict
