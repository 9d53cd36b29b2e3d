"""The explanation of a sandbox's refusal, recognised in the output of a command.

A program prints the kernel's error and often the path, but not the cause. So a line counts as a refusal only if the reach
would refuse exactly that: a path in the line, or an absent network. If no line counts as a refusal, the explanation of an
error names a right that the sandbox does not give, which is true whatever the cause of the error was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .places import PRIVATE
from .values import lies_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .._types import Network
    from .values import Reach

LONGEST_SEARCH = 16 * 1024
"""Characters at the end of an output that are searched for a refusal; earlier text is not searched."""

MOST_NAMED = 5
"""Destinations on the network that a model is told one by one; of the rest, only the number."""

_ERROR = re.compile(
    r"(?P<write>read-only file system|EROFS|cross-device link|device or resource busy)"
    r"|(?P<any>permission denied|operation not permitted|no such file or directory|EACCES|EPERM|ENOENT)"
    r"|(?P<net>network is unreachable|temporary failure in name resolution|could not resolve host|ENETUNREACH|EAI_AGAIN"
    r"|name or service not known|getaddrinfo failed|no address associated with hostname)"
    r"|(?P<limit>cannot allocate memory|memoryerror|file too large|file size limit exceeded|resource temporarily unavailable"
    r"|cpu time limit exceeded|limit of memory was reached)",
    re.IGNORECASE,
)
_LACK = re.compile(
    r"(?P<process>no such process|ESRCH)"
    r"|(?P<network>connection refused|ECONNREFUSED)"
    r"|(?P<privilege>operation not permitted|EPERM|must be (?:root|superuser)|\A(?:sudo|unshare|nsenter|mount): )"
    r"|(?P<place>no such file or directory|not a directory|permission denied|ENOENT|EACCES)",
    re.IGNORECASE,
)
_PRIVILEGE = (
    "No command in the sandbox has privileges, not as root either: mounts, namespaces, devices, raw sockets, settings of the "
    "kernel and processes outside are not for it."
)
_PROCESS = "A command in the sandbox sees and signals its own processes alone."
_KERNEL = "/proc, /sys and /dev in the sandbox have no settings that can be written and no devices of disks, memory or others' terminals."
_KERNELS_OWN = ("/proc", "/sys", "/dev")
_OUTER_ROOT = re.compile(r"\A/proc/(?:self|\d+)/root(?=/)")
_PATH = re.compile(r"(?:(?<=[\s'\"(=:])|^)(~?/[^\s'\":;,)]+)")


def explain(output: str, reach: Reach, home: str, lacks: Collection[str] = ()) -> str:
    """Explain in one line which part of a reach made a command fail, with advice; empty if no part did.

    Args:
        output: The output of the command.
        reach: The reach of the command, with absolute paths.
        home: The user's home directory.
        lacks: The missing rights of the sandbox: ``privilege``, ``process``, ``network`` as `_LACK` has them,
            ``kernel`` and ``private`` places.
    """
    lines = output[-LONGEST_SEARCH:].splitlines()[::-1]
    for line in lines:
        found = _ERROR.search(line)
        if found is None:
            continue
        paths = [_OUTER_ROOT.sub("", re.sub(r"\A~(?=/)", home, path)) for path in _PATH.findall(line)]
        # Under Landlock alone, a refused write has the same error as missing permissions of a file.
        alone = reach.landlock and found[0].lower() in ("permission denied", "eacces")
        if said := _reason("write" if alone else found.lastgroup or "", paths, reach):
            return said
    for line in lines:
        for found in _LACK.finditer(line):
            kind = found.lastgroup or ""
            if kind == "place":
                said = _lacking_place(line, reach, lacks)
            else:
                said = _lacking(kind, reach) if kind in lacks else ""
            if said:
                return said
    return ""


def explain_network(network: Network | None, reach: Reach) -> str:
    """Explain in one line which destinations were refused, with advice; empty if no destination was."""
    refused = [each for each in (network.destinations if network else ()) if each.verdict == "refused"]
    if not refused or not isinstance(reach.network, tuple):
        return ""
    names = [f"{each.name}:{each.port}" for each in refused]
    why = "; ".join(dict.fromkeys(each.why for each in refused[:MOST_NAMED]))
    return (
        f"The sandbox let nothing connect to {_some(names)}: {why}. It has {_some(reach.network)}. "
        f"For more, ask for a reach with network={names[:1]!r}."
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _reason(kind: str, paths: list[str], reach: Reach) -> str:
    if kind == "net" and isinstance(reach.network, tuple):
        return f"The sandbox lets commands connect to {_some(reach.network)}, and by the proxy that http_proxy names alone."
    if kind == "net":
        return (
            ""
            if reach.network
            else "The sandbox gives no network. To use it, ask for a reach with network=True."
        )
    if kind == "limit":
        limits = reach.limits
        if (limits.memory, limits.processes, limits.file_size, limits.cpu) == (None, None, None, None):
            return ""
        return "The sandbox limits memory, processes, file sizes or processor time. To use more, ask for a reach with higher limits."
    for path in paths:
        if lies_in(path, _KERNELS_OWN):  # no reach gives writable kernel paths
            return _KERNEL if kind == "write" else ""
        if lies_in(path, reach.hide):
            return f"The sandbox hides {path}. {_asking('also_read', path, reach.hide)}"
        if kind == "write" or not lies_in(path, (*reach.read, *reach.write)):
            if lies_in(path, reach.protect) and lies_in(path, reach.write):
                return f"The sandbox keeps {path} as it is. {_asking('also_write', path, reach.protect)}"
            if not lies_in(path, reach.write):
                verb = "write" if lies_in(path, reach.read) else "read"
                return f"The sandbox does not let commands {verb} {path}. {_asking('also_' + verb, path, reach.protect)}"
    if kind == "write":
        places = ", ".join(reach.write[:3]) or "nothing but its own /tmp"
        return f"The sandbox lets commands write {places}. To write elsewhere, call again with that path in also_write: the user is asked."
    return ""


def _lacking(kind: str, reach: Reach) -> str:
    """Describe the missing right behind an error of a kind; empty if the sandbox gives that right."""
    if kind == "privilege":
        return _PRIVILEGE
    if kind == "process":
        return _PROCESS
    said = _reason("net", [], reach)
    return said and f"{said} Otherwise a command connects to what it has started itself."


def _lacking_place(line: str, reach: Reach, lacks: Collection[str]) -> str:
    """Describe the missing right at a path of a line; empty if the sandbox gives that right."""
    own = [path for path in PRIVATE if path not in (*reach.read, *reach.write) and "/" not in reach.write]
    paths = _PATH.findall(line)
    # Programs often report a missing socket without its path.
    if not paths and re.search(r"\[Errno 2\][^:]*\Z|ENOENT\s*\Z", line):
        paths = own
    for path in paths:
        if "process" in lacks and re.match(r"/proc/\d", path):
            return _PROCESS
        if "private" in lacks and own and lies_in(path, (*own, "/var/run")):
            return (
                f"A command in the sandbox has its own, at first empty {', '.join(own)}: "
                "what other programs and commands have there, sockets too, is not in them."
            )
        if "kernel" in lacks and lies_in(path, _KERNELS_OWN):
            return _KERNEL
    return ""


def _asking(parameter: str, path: str, whole: Sequence[str]) -> str:
    """Return the advice to ask a tool for a path, or for the whole hidden or protected directory that contains the path."""
    path = next((each for each in whole if lies_in(path, (each,))), path)
    return f"If the task needs it, call again with {parameter}={[path]!r}: the user is asked."
