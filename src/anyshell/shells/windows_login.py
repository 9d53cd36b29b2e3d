"""The text for a Windows server's login shell, which makes PowerShell start a command there.

OpenSSH for Windows passes the one string to cmd.exe, as ``cmd.exe /c "STRING"``, or to its ``DefaultShell``: PowerShell, or
the bash of Git for Windows, MSYS2 or Cygwin, as ``SHELL -c STRING``. These shells read the string by different rules, and
cmd.exe alone has a limit of 8,191 characters. So the string only makes PowerShell read a program from its stdin and run it.
Everything that differs from command to command, and may hold secrets, is in that program.

Where the login shell already is PowerShell, it reads the program itself, since starting another takes as long again:
PowerShell leaves stdin alone unless its command contains ``$input``. The settings of PowerShell's profile cannot reach the
command, which is a process of its own.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from subprocess import list2cmdline
from typing import TYPE_CHECKING

from .windows import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

QUESTION = "echo anyshell-%OS%-$env:OS-"
"""A line that each login shell of Windows answers differently, in a single round trip."""

_CMD = re.compile(r"anyshell-Windows_NT-")
_POWERSHELL = re.compile(r"anyshell-%OS%-Windows_NT-")

_POSIX = re.compile(r"(?:MINGW(?:32|64)|UCRT64|CLANG\w*|MSYS|CYGWIN)_NT-|Windows_NT\Z")
"""The output of ``uname -s`` in Git for Windows, MSYS2, Cygwin, and in a busybox for Windows."""

_PROGRAMS = ("pwsh", "powershell")
"""PowerShell 7 and Windows PowerShell. Either will do; the first to answer is used."""

_OPTIONS = "-NoLogo -NoProfile -NonInteractive -InputFormat None -OutputFormat Text -EncodedCommand"


@dataclass(frozen=True, slots=True)
class WindowsLogin:
    """The writer of lines for one kind of login shell of a Windows host.

    Attributes:
        name: The name of the login shell for a person.
        program: The PowerShell that the login shell must start; empty when the login shell is PowerShell.
    """

    name: str
    program: str = ""

    def read_and_run(self, size: int) -> str:
        """Return the line that makes PowerShell run a UTF-8 text from its stdin: exactly `size` bytes, and not one more."""
        # Without characters that cmd.exe, PowerShell, bash or sshd, on its way to PowerShell, would interpret; and without
        # a quote at the beginning, which would make sshd treat the text as quoted.
        text = (
            f"$b=[byte[]]::new({size});$s=[Console]::OpenStandardInput();"
            f"for($i=0;$i -lt {size} -and ($r=$s.Read($b,$i,{size}-$i)) -gt 0;$i+=$r){{}};"
            ". ([scriptblock]::Create([Text.Encoding]::UTF8.GetString($b)))"
        )
        if not self.program:
            return text
        return f"{self.program} {_OPTIONS} {base64.b64encode(text.encode('utf-16-le')).decode()}"

    def command_line(self, argv: Sequence[str]) -> str | None:
        """Return a command line that a C library splits into exactly these strings; ``None`` if the line is too long."""
        return list2cmdline(argv) if fits(argv) else None


def windows_logins(said: str) -> Sequence[WindowsLogin]:
    """Identify a host's login shell, and return the ways to start PowerShell there.

    Args:
        said: The host's answer to `QUESTION`; or, of a POSIX shell, to ``uname -s``.

    Returns:
        The ways to start PowerShell there that are worth trying; none when the host does not run Windows.
    """
    if _POWERSHELL.search(said):
        return (WindowsLogin("PowerShell"),)
    if _CMD.search(said):
        return tuple(WindowsLogin("cmd.exe", program) for program in _PROGRAMS)
    if _POSIX.match(said):
        return tuple(WindowsLogin("a POSIX shell", program) for program in _PROGRAMS)
    return ()
