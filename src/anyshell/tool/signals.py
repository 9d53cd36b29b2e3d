"""The numbers of signals on the host's system, which need not be this machine's system."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._types import OperatingSystem

_POSIX = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGILL": 4,
    "SIGTRAP": 5,
    "SIGABRT": 6,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGSEGV": 11,
    "SIGPIPE": 13,
    "SIGALRM": 14,
    "SIGTERM": 15,
    "SIGXCPU": 24,
    "SIGXFSZ": 25,
    "SIGVTALRM": 26,
    "SIGPROF": 27,
}

# signal(7) for x86, ARM and most others; <sys/signal.h> of macOS.
_LINUX = _POSIX | {
    "SIGBUS": 7,
    "SIGUSR1": 10,
    "SIGUSR2": 12,
    "SIGSTKFLT": 16,
    "SIGPOLL": 29,
    "SIGIO": 29,
    "SIGPWR": 30,
    "SIGSYS": 31,
}
_MACOS = _POSIX | {"SIGEMT": 7, "SIGBUS": 10, "SIGSYS": 12, "SIGUSR1": 30, "SIGUSR2": 31}

_NUMBERS: Mapping[OperatingSystem, Mapping[str, int]] = MappingProxyType(
    {"linux": _LINUX, "macos": _MACOS, "windows": _POSIX}
)


# Real-time signals with the names and numbers of bash and glibc. musl reserves one more and begins at 35. A backend may
# also give a number, as in SIG42, for a signal without a name.
_FIRST_REAL_TIME = 34  # no bound: the number of a signal
_LAST_REAL_TIME = 64  # no bound: the number of a signal
_REAL_TIME = re.compile(r"SIGRT(?:MIN(?:\+(\d{1,2}))?|MAX(?:-(\d{1,2}))?)")
_BY_NUMBER = re.compile(r"SIG(\d{1,2})")


def number_of(signal: str, os: OperatingSystem) -> int | None:
    """Return the number of a signal; ``None`` when no signal of that name ends programs on that system."""
    if numbered := _BY_NUMBER.fullmatch(signal):
        return int(numbered[1])
    if os == "linux" and (real_time := _REAL_TIME.fullmatch(signal)):
        after, before = (int(count or 0) for count in real_time.groups())
        number = _LAST_REAL_TIME - before if "MAX" in signal else _FIRST_REAL_TIME + after
        return number if _FIRST_REAL_TIME <= number <= _LAST_REAL_TIME else None
    return _NUMBERS[os].get(signal)


def signal_of(number: int, os: OperatingSystem) -> str | None:
    """Return the name of a signal; ``None`` when no signal of that number ends programs on that system."""
    return next((name for name, known in _NUMBERS[os].items() if known == number), None)
