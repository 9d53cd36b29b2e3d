"""Command lines of Windows, where a program is given one text that it takes apart itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_COMMAND_LINE = 32_766
"""UTF-16 units of a command line on Windows (CreateProcessW: 32,767 with its end)."""


LONGEST_FOR_MSYS2 = 4_000
"""UTF-16 units of an argument for a program of MSYS2 or Cygwin, which cut off the rest of a longer one and say nothing
(glob.cc, MAXPATHLEN: 4,096; 8,191 arrived)."""


def units(text: str) -> int:
    """Count a text as Windows does, in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def fits(argv: Sequence[str]) -> bool:
    """Whether Windows takes a program and its arguments, as Python makes a command line of them."""
    return units(subprocess.list2cmdline(argv)) <= LONGEST_COMMAND_LINE
