"""The text for a Windows server's login shell, so that PowerShell starts a command there.

OpenSSH for Windows hands the one string to cmd.exe, as ``cmd.exe /c "STRING"``, or to whatever its ``DefaultShell`` is:
PowerShell, or the bash of Git for Windows, MSYS2 or Cygwin, as ``SHELL -c STRING``. These read it by different rules,
and cmd.exe takes 8,191 characters alone. So the string only has PowerShell read a program from its stdin and run it;
all that differs from command to command, which may hold secrets, comes that way.

Where the login shell is PowerShell already, it reads the program itself, since to start another takes as long again:
PowerShell leaves stdin alone unless its command has ``$input`` in it. What its profile has set up cannot reach the
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
"""PowerShell 7 and Windows PowerShell. Either will do; the first to answer is taken."""

_OPTIONS = "-NoLogo -NoProfile -NonInteractive -InputFormat None -OutputFormat Text -EncodedCommand"


@dataclass(frozen=True, slots=True)
class WindowsLogin:
    """Writes for one kind of login shell of a Windows host.

    Attributes:
        name: Its name for a person.
        program: The PowerShell that it has to start; empty when it is one.
    """

    name: str
    program: str = ""

    def read_and_run(self, size: int) -> str:
        """Have PowerShell run a text in UTF-8 that it reads from its stdin: so many bytes, and not one more."""
        # Without the characters that cmd.exe, PowerShell, bash or sshd, on its way to PowerShell, would look at; and
        # without a quote at its beginning, by which sshd would take it to be quoted.
        text = (
            f"$b=[byte[]]::new({size});$s=[Console]::OpenStandardInput();"
            f"for($i=0;$i -lt {size} -and ($r=$s.Read($b,$i,{size}-$i)) -gt 0;$i+=$r){{}};"
            ". ([scriptblock]::Create([Text.Encoding]::UTF8.GetString($b)))"
        )
        if not self.program:
            return text
        return f"{self.program} {_OPTIONS} {base64.b64encode(text.encode('utf-16-le')).decode()}"

    def command_line(self, argv: Sequence[str]) -> str | None:
        """Make a command line that a program's C library cuts up into exactly these strings; ``None`` if too long."""
        return list2cmdline(argv) if fits(argv) else None


def windows_logins(said: str) -> Sequence[WindowsLogin]:
    """Tell what a host's login shell is.

    Args:
        said: Its answer to `QUESTION`; or, of a POSIX shell, to ``uname -s``.

    Returns:
        The ways to start PowerShell there that are worth trying; none when it is no Windows host.
    """
    if _POWERSHELL.search(said):
        return (WindowsLogin("PowerShell"),)
    if _CMD.search(said):
        return tuple(WindowsLogin("cmd.exe", program) for program in _PROGRAMS)
    if _POSIX.match(said):
        return tuple(WindowsLogin("a POSIX shell", program) for program in _PROGRAMS)
    return ()
