"""Environment variables of programs on Windows, where the names of variables are case-insensitive."""

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
    """The environment variables of one program; initially the current variables of this process."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        self.update(os.environ)
        # Programs need SystemRoot to find the libraries of Windows, and ComSpec and PATHEXT to find other programs. The
        # parent of this process may have left out any of the three.
        root = self.get("SystemRoot") or win32.windows_directory()
        for name, value in (
            ("SystemRoot", root),
            ("ComSpec", ntpath.join(root, "System32", "cmd.exe")),
            ("PATHEXT", _PATHEXT),
        ):
            if not self.get(name):
                self.update({name: value})

    def get(self, name: str) -> str:
        """Return the value of a variable; empty if the variable is not set."""
        return self._values.get(name.upper(), (name, ""))[1]

    def update(self, variables: Mapping[str, str]) -> None:
        """Set variables, replacing variables whose names differ only in case."""
        for name, value in variables.items():
            self._values[name.upper()] = (name, value)

    def remove(self, names: Iterable[str]) -> None:
        """Remove variables, ignoring the case of the names."""
        for name in names:
            self._values.pop(name.upper(), None)

    def block(self) -> dict[str, str]:
        """Return all variables in the order that CreateProcess requires: by name, ignoring case."""
        return dict(value for _, value in sorted(self._values.items()))
