"""The parsed commands of a text. The classes are in `_types/parsed.py`, because requests for approval carry commands."""

from __future__ import annotations

from ..._types.parsed import Argument as Argument
from ..._types.parsed import Assignment as Assignment
from ..._types.parsed import Parsed as Parsed
from ..._types.parsed import ParsedCommand as ParsedCommand
from ..._types.parsed import Redirection as Redirection
from ..._types.parsed import Span as Span
