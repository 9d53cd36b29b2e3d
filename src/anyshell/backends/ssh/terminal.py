"""A program's terminal, which the host has: what is typed on it, how it is set, and who is in its foreground."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteSendStream

from ..._types import Foreground, ProcessInfo
from .channel import ChannelSendStream
from .processes import start_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Literal

    from .channel import Channel
    from .processes import Processes

MOST_SEEN = 64
"""Processes in the foreground of a terminal that are looked at, and threads of each."""

_READ = {"x86_64": {"0", "19"}, "aarch64": {"63", "65"}}
"""The system calls ``read`` and ``readv``. Their numbers are a matter of the architecture."""

_POLL = {
    "x86_64": {"7", "23", "232", "270", "271", "281", "441"},
    "aarch64": {"22", "72", "73", "441"},
}
"""The same for ``poll``, ``ppoll``, ``select``, ``pselect6``, ``epoll_wait``, ``epoll_pwait`` and ``epoll_pwait2``."""

_SLEEPING = {
    "wait_woken",
    "n_tty_read",
    "poll_schedule_timeout",
    "do_poll",
    "do_sys_poll",
    "do_select",
    "ep_poll",
}
"""Where in the kernel such processes sleep, if it does not say in which call. It is no certainty that they read:
a socket is waited for in the same place as a terminal."""

_END_KEY = re.compile(r"\beof = (\^?[!-~]);")

_END_OF_FILE = b"\x04"


@dataclass(frozen=True, slots=True)
class Modes:
    """How a terminal is set.

    Attributes:
        echo: Whether what is typed is shown.
        line_mode: Whether whole lines are passed on.
        end_key: What is end-of-file at the start of a line; ``None`` when nothing is.
    """

    echo: bool
    line_mode: bool
    end_key: bytes | None

    @classmethod
    def read(cls, lines: Iterable[str]) -> Modes | None:
        """Read what ``modes`` of `watcher.sh` prints: the words of ``stty -a``."""
        for line in lines:
            kind, _, text = line.partition(" ")
            words = set(text.split())
            if kind == "modes" and "icanon" in {word.lstrip("-") for word in words}:
                return cls("echo" in words, "icanon" in words, _end_key(text))
        return None


def _end_key(text: str) -> bytes | None:
    found = _END_KEY.search(text)
    if found is None:
        return None
    key = found[1]
    return key.encode() if len(key) == 1 else bytes([ord(key[1].upper()) ^ 64])


class TerminalSendStream(ByteSendStream):
    """What is typed on a terminal.

    Args:
        channel: Leads to the terminal.
        modes: Asks the host how it is set.
    """

    def __init__(self, channel: Channel, modes: Callable[[], Awaitable[Modes | None]]) -> None:
        self._keys = ChannelSendStream(channel)
        self._modes = modes
        self._begun = False
        self._closed = False

    async def send(self, item: bytes) -> None:
        """Type all of `item`, as fast as the server takes it.

        Raises:
            anyio.BrokenResourceError: The program has ended, or the connection is lost.
            anyio.ClosedResourceError: Nothing more can be typed.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        await self._keys.send(item)
        if item:
            self._begun = item[-1:] not in (b"\n", b"\r")

    async def aclose(self) -> None:
        """Type ^D, if the terminal is in line mode: twice on a line that has been begun, which the first one ends.

        When the host does not say how it is set, it is taken for a new one.
        """
        if self._closed:
            return
        self._closed = True
        modes = await self._modes()
        key = _END_OF_FILE if modes is None else modes.end_key if modes.line_mode else None
        if key is not None:
            with suppress(anyio.BrokenResourceError):
                await self._keys.send(key * 2 if self._begun else key)


def read_foreground(lines: Iterable[str], host: Processes) -> Foreground | None:
    """Read what ``foreground`` of `watcher.sh` prints; ``None`` when there is no terminal."""
    lines = tuple(lines)
    if not any(line.startswith("modes ") for line in lines):
        return None
    modes = Modes.read(lines)
    members: list[ProcessInfo] = []
    cpu = 0.0
    terminals: set[tuple[str, str]] = set()
    calls: list[tuple[str, list[str]]] = []
    sleeping: set[str] = set()
    for line in lines:
        kind, _, rest = line.partition(" ")
        pid, _, value = rest.partition(" ")
        if kind == "member":
            began, used, name = value.split(" ", 2)
            members.append(ProcessInfo(int(pid), name, start_time(began)))
            cpu += float(used) / host.ticks
        elif kind == "has":
            terminals.add((pid, value))
        elif kind == "call":
            calls.append((pid, value.split()))
        elif kind == "sleeps" and value in _SLEEPING:
            sleeping.add(pid)
    return Foreground(
        processes=tuple(members),
        asleep_in=_asleep_in(terminals, calls, sleeping, host.architecture),
        cpu=cpu if members else None,
        echo=None if modes is None else modes.echo,
        line_mode=None if modes is None else modes.line_mode,
    )


def _asleep_in(
    terminals: set[tuple[str, str]],
    calls: list[tuple[str, list[str]]],
    sleeping: set[str],
    architecture: str,
) -> Literal["read", "poll"] | None:
    read, poll = _READ.get(architecture, set()), _POLL.get(architecture, set())
    for pid, call in calls:
        if len(call) > 1 and call[0] in read and (pid, str(int(call[1], 16))) in terminals:
            return "read"
    have = {pid for pid, _ in terminals}
    if any(pid in have and call[0] in poll for pid, call in calls if call):
        return "poll"
    told = {pid for pid, _ in calls} if read else set()
    return "poll" if (sleeping & have) - told else None
