"""The request for the names of a host's variables, from which the variables of commands are selected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .. import shells
from .._exceptions import BackendError
from .._types import ExitStatus, Spawn
from ..backends.collect import collect

if TYPE_CHECKING:
    from .._types import HostInfo, ShellInfo
    from ..abc import Backend

NAMES_SECONDS = 10.0
"""Seconds for a host to report the names of its variables (``variables=``); then the detection fails."""

LONGEST_NAMES = 1024 * 1024
"""Bytes of the names of a host's variables; with more, the detection fails."""

_POSIX = "awk 'BEGIN { for (name in ENVIRON) print name }' </dev/null"
_POWERSHELL = "[Environment]::GetEnvironmentVariables().Keys"

# Names that a shell can unset. Functions exported by bash have other names; such functions are not searched for secrets.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


async def ask_names(backend: Backend, info: HostInfo, shell: ShellInfo) -> frozenset[str]:
    """Ask a host for the names of the variables that a command inherits there, never for a value.

    Raises:
        BackendError: The host did not report all names: an unknown variable cannot be kept from commands.
    """
    text = _POWERSHELL if shell.kind in ("pwsh", "powershell") else _POSIX
    launch = shells.SHELLS[shell.kind].launch(shell, text)
    spawn = Spawn(argv=launch.argv, script=launch.script, cwd=info.home, split_stderr=True)
    try:
        status, out, _ = await collect(backend, spawn, seconds=NAMES_SECONDS, most=LONGEST_NAMES)
    except TimeoutError:
        status, out = None, b""
    names = frozenset(filter(_NAME.match, out.decode(errors="replace").split()))
    if status != ExitStatus(code=0) or not names:
        raise BackendError(
            f"{backend.name} did not list the names of its variables, which variables= needs: leave out variables=, or "
            "install awk there"
        )
    return names
