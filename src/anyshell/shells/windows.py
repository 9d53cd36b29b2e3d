"""Command lines of Windows, where a program is given one text that it splits itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_COMMAND_LINE = 32_766
"""Units of UTF-16 of a command line on Windows, and of one that starts PowerShell anywhere; with a longer one, the text
travels in a file (CreateProcessW: 32,767 with its end).
"""


LONGEST_FOR_MSYS2 = 4_000
"""Units of UTF-16 of a text that bash of Git for Windows, MSYS2 or Cygwin takes from its command line; with a longer one, the
text travels in a file, since they cut it silently (glob.cc, MAXPATHLEN: 4,096; 8,191 arrived).
"""


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units, as Windows counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def fits(argv: Sequence[str]) -> bool:
    """Return whether Windows accepts a program and its arguments, as Python makes a command line of them."""
    return units(subprocess.list2cmdline(argv)) <= LONGEST_COMMAND_LINE
