"""A program's terminal on its host: the input, the settings, and the foreground processes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteSendStream

from ...._answers import LARGEST_PID, Nonsense, fields, real, whole
from ...._terminals import LineKeys, TtyModes, TypedLine, sleep_of
from ...._types import Foreground, ProcessInfo, one_line
from ..channel import ChannelSendStream
from .look import start_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ...._terminals import Sleep
    from ..channel import Channel
    from .processes import Processes

MOST_SEEN = 64
"""Processes of a terminal's foreground that are looked at by SSH, and threads of each; more are not looked at."""

_KEY = re.compile(r"\b([a-z0-9]+) = (\^?[!-~]);")

_END_OF_FILE = b"\x04"


def read_modes(lines: Iterable[str]) -> TtyModes | None:
    """Parse the output of ``modes`` of `looks.sh`: the words of ``stty -a``."""
    for line in lines:
        kind, _, text = line.partition(" ")
        words = set(text.split())
        if kind == "modes" and "icanon" in {word.lstrip("-") for word in words}:
            keys = {found[1]: _key(found[2]) for found in _KEY.finditer(text)}
            return TtyModes("echo" in words, "icanon" in words, keys.get("eof"), LineKeys.of(words, keys))
    return None


def _key(name: str) -> bytes:
    return name.encode() if len(name) == 1 else bytes([ord(name[1].upper()) ^ 64])


class ChannelTerminalStream(ByteSendStream):
    """The input of a terminal, which is typed there.

    Args:
        channel: The channel of the program on the terminal.
        modes: Asks the host for the terminal's settings.
        longest_line: Bytes of a line that the terminal passes on.
    """

    def __init__(
        self, channel: Channel, modes: Callable[[], Awaitable[TtyModes | None]], *, longest_line: int
    ) -> None:
        self._keys = ChannelSendStream(channel)
        self._modes = modes
        self._line = TypedLine(longest_line)
        self._ended = False

    async def send(self, item: bytes) -> None:
        """Type all of `item`, as fast as the server takes it.

        Raises:
            InvalidCommand: A line is longer than the terminal passes on in line mode. Nothing was typed.
            anyio.BrokenResourceError: The program has ended, or the connection is lost.
        """
        meaning: LineKeys | None = None
        if not self._line.fits(
            item
        ):  # an item that fits needs no question to the host about which keys end a line
            modes = await self._modes()
            if modes is not None and modes.line_mode:
                meaning = modes.keys
                if not self._line.takes(item, meaning):
                    raise self._line.refuse()
            else:
                self._line.forget()
                await self._keys.send(item)
                return
        try:
            await self._keys.send(item)
        finally:
            self._line.type(
                item, meaning
            )  # counts all bytes, also after a cancellation: how many were taken is not known

    async def aclose(self) -> None:
        """Type ^D if the terminal is in line mode; twice on a line that has been begun, since the first ^D ends the line.

        Text that is typed after the ^D still arrives, such as an answer to a question of the program to the terminal.
        When the host does not report the settings, the terminal counts as new.
        """
        if self._ended:
            return
        self._ended = True
        modes = await self._modes()
        key = _END_OF_FILE if modes is None else modes.end_key if modes.line_mode else None
        if key is not None:
            with suppress(anyio.BrokenResourceError):
                begun = self._line.begun(LineKeys() if modes is None else modes.keys)
                await self._keys.send(key * 2 if begun else key)


def read_foreground(lines: Iterable[str], host: Processes) -> Foreground | None:
    """Parse the output of ``foreground`` of `looks.sh`; ``None`` when there is no terminal.

    Raises:
        Nonsense: A line that ``foreground`` never prints.
    """
    lines = tuple(lines)
    if not any(line.startswith("modes ") for line in lines):
        return None
    modes = read_modes(lines)
    members: dict[str, ProcessInfo] = {}
    cpu = 0.0
    terminals: dict[str, set[int]] = {}
    threads: list[tuple[str, str, list[str]]] = []
    asleep: set[str] = set()
    hidden: set[str] = set()
    stopped: set[str] = set()
    for line in lines:
        kind, _, rest = line.partition(" ")
        pid, _, value = rest.partition(" ")
        if kind == "member":
            began, used, name = fields("a process", value, 3)
            number = whole("a pid", pid, 1, LARGEST_PID)
            members[pid] = ProcessInfo(number, one_line(name), start_time(began))
            cpu += real("a time", used) / host.ticks
        elif kind == "name" and pid in members:
            name = "".join(char if " " <= char <= "~" else "?" for char in value)
            members[pid] = replace(members[pid], name=name)
        elif kind == "has":
            terminals.setdefault(pid, set()).add(whole("a descriptor", value))
        elif kind == "thread":
            function, _, call = value.partition(" ")
            threads.append((pid, function, call.split()))
        elif kind == "asleep":
            asleep.add(pid)
        elif kind == "hidden":
            hidden.add(pid)
        elif kind == "stopped":
            stopped.add(pid)
    sleeps = {
        (pid, _sleep(host.architecture, call, function, terminals[pid]))
        for pid, function, call in threads
        if pid in terminals and pid not in stopped
    }
    # Processes of another user, such as sudo: the host shows that the processes sleep, but not in which call.
    # The processes have the terminal, and may wait for it.
    sleeps |= {(pid, "poll") for pid in asleep & hidden}
    ways = {way for _, way in sleeps}
    asleep_in: Sleep | None = "read" if "read" in ways else "poll" if "poll" in ways else None
    return Foreground(
        processes=tuple(members.values()),
        asleep_in=asleep_in,
        waiting=tuple(
            members[pid] for pid in members if asleep_in is not None and (pid, asleep_in) in sleeps
        ),
        cpu=cpu if members else None,
        echo=None if modes is None else modes.echo,
        line_mode=None if modes is None else modes.line_mode,
    )


def _sleep(machine: str, call: list[str], function: str, terminal: set[int]) -> Sleep | None:
    try:
        return sleep_of(machine, call, function, terminal)
    except ValueError as error:  # the words of a system call are not numbers, or too few
        raise Nonsense("a system call", " ".join(call)) from error
