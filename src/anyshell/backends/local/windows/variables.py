"""The variables of this machine's programs, where it is Windows: their names are the same in either case."""

from __future__ import annotations

import ntpath
import os
import sys
from typing import TYPE_CHECKING

assert sys.platform == "win32"

from . import win32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PATHEXT = ".COM;.EXE;.BAT;.CMD"
"""The suffixes of programs for cmd.exe where PATHEXT is not set."""


class EnvBlock:
    """The variables of one program, beginning with those of this process at this moment."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        self.update(os.environ)
        # Without the first, no program finds the libraries of Windows; without the others, none finds programs. The
        # parent of this process may have left them out.
        root = self.get("SystemRoot") or win32.windows_directory()
        for name, value in (
            ("SystemRoot", root),
            ("ComSpec", ntpath.join(root, "System32", "cmd.exe")),
            ("PATHEXT", _PATHEXT),
        ):
            if not self.get(name):
                self.update({name: value})

    def get(self, name: str) -> str:
        """The value of a variable; empty when it is not set."""
        return self._values.get(name.upper(), (name, ""))[1]

    def update(self, variables: Mapping[str, str]) -> None:
        """Set variables, whatever the case of those that are there."""
        for name, value in variables.items():
            self._values[name.upper()] = (name, value)

    def remove(self, names: Iterable[str]) -> None:
        """Remove variables, whatever their case."""
        for name in names:
            self._values.pop(name.upper(), None)

    def block(self) -> dict[str, str]:
        """All of them in the order that CreateProcess asks for: by name, without regard to case."""
        return dict(value for _, value in sorted(self._values.items()))
