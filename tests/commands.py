"""Actions of tests on hosts, as a text for each kind of shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshell import Environment


@dataclass(frozen=True, slots=True)
class Said:
    """One action.

    Attributes:
        posix: The text for sh, bash and zsh.
        powershell: The text for both PowerShells, on Windows.
    """

    posix: str
    powershell: str

    def to(self, env: Environment) -> str:
        """The text for the shell of an environment."""
        return self.powershell if env.shell.kind in ("pwsh", "powershell") else self.posix


def _to_background(text: str) -> str:
    """Have PowerShell start another PowerShell that outlives it."""
    return f"Start-Process ([Environment]::ProcessPath) -NoNewWindow -ArgumentList '-NoProfile', '-Command', '{text}'; "


HELLO = Said("echo hi", "'hi'")
PARTIAL = Said("printf partial; sleep 300", "[Console]::Out.Write('partial'); Start-Sleep 300")
EXIT_3 = Said("exit 3", "exit 3")
KILL_ITSELF = Said("kill -KILL $$", "[Diagnostics.Process]::GetCurrentProcess().Kill()")
CAT = Said("cat", "[Console]::OpenStandardInput().CopyTo([Console]::OpenStandardOutput())")
OUT_AND_ERR = Said("echo out; echo err >&2", "'out'; [Console]::Error.WriteLine('err')")
SLEEP = Said("sleep 300", "Start-Sleep 300")
SLEEP_ON = Said("trap '' TERM INT; sleep 300", "try { Start-Sleep 300 } finally { Start-Sleep 300 }")
LEAVE = Said("sleep 300 & echo started", _to_background("Start-Sleep 300") + "'started'")
LEAVE_DEAF = Said(
    "(trap '' TERM; sleep 300) & sleep 0.05; echo started",
    _to_background("try { Start-Sleep 300 } finally { Start-Sleep 300 }") + "'started'",
)
BYTES = Said("printf '\\0\\377\\n'", "[Console]::OpenStandardOutput().Write([byte[]](0, 255, 10), 0, 3)")
FLOOD = Said("head -c 3000000 /dev/zero | tr '\\0' x", "[Console]::Out.Write('x' * 3000000)")
NOTHING = Said("true", "")
