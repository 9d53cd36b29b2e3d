"""The commands of a text, as values. They travel with a request for approval, so `_types/parsed.py` has them."""

from __future__ import annotations

from ..._types.parsed import Argument as Argument
from ..._types.parsed import Assignment as Assignment
from ..._types.parsed import Parsed as Parsed
from ..._types.parsed import ParsedCommand as ParsedCommand
from ..._types.parsed import Redirection as Redirection
from ..._types.parsed import Span as Span
