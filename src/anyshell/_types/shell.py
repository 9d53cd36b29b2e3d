"""A shell of a host."""

from __future__ import annotations

import ntpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


ShellKind = Literal["bash", "zsh", "sh", "pwsh", "powershell", "wsl"]

_SHELL_NAMES: Mapping[ShellKind, str] = {
    "pwsh": "PowerShell",
    "powershell": "Windows PowerShell",
    "wsl": "bash in WSL",
}


@dataclass(frozen=True, slots=True)
class ShellInfo:
    """A shell of a host that answered.

    Attributes:
        kind: The shell's language: bash, zsh or sh; pwsh is PowerShell 7, powershell is Windows PowerShell 5.1; wsl is the
            bash of the Windows Subsystem for Linux, started from the Windows host.
        path: The shell's path on the host.
        version: The version that the shell reports; empty when the shell cannot report a version (dash).
    """

    kind: ShellKind
    path: str
    version: str = ""

    @property
    def name(self) -> str:
        """The name of the shell for people, such as ``bash 5.2.15``."""
        name = _SHELL_NAMES.get(self.kind, self.kind)
        return f"{name} {self.version}" if self.version else name

    @property
    def on_windows(self) -> bool:
        """Whether the shell is a Windows program, whose arguments are one text: its path begins with a drive or a share."""
        return bool(ntpath.splitdrive(self.path)[0])


@dataclass(frozen=True, slots=True)
class ShellCandidate:
    """A shell that the host may have, with the arguments that make the shell answer.

    Attributes:
        kind: The shell's language.
        path: An absolute path on the host, or a bare name that is looked up on the host's PATH. On Windows ``%NAME%``
            in a path stands for a variable of the host. There a bare ``bash`` is any bash that runs Windows' own programs,
            so never the bash of WSL.
        arguments: The arguments with which the shell prints a line ``anyshell <version>``.
    """

    kind: ShellKind
    path: str
    arguments: tuple[str, ...]
