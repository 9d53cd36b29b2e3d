"""A Windows host: the questions for its facts, and the starts of programs there.

Unlike on a POSIX host, no second session stops the programs of other sessions. Every command has a leader of its own,
`leader.ps1`, on its own channel. Most of the time to begin a command is the start of PowerShell. So one leader is
started ahead, if there is room, and waits for its command. The first leader is the PowerShell that reported the host's
facts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import anyio

from ...._answers import whole
from ...._exceptions import AnyshellError, ConnectionFailed, InvalidCommand, SpawnError, TerminalUnavailable
from ...._types import cut_name, one_line
from ...._waits import shielded, to_the_end
from ...collect import fill
from ..channel import LONGEST_ANSWER, Channel, new_token, noise_words
from ..facts import FactLines
from .channel import WindowsChannel
from .process import WindowsProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ...._types import HostQuery, Spawn
    from ....abc import WindowsLauncher

    Open = Callable[[Channel, str], Awaitable[object]]

ANSWER_SECONDS = 60.0
"""Seconds for a Windows host to report its facts: PowerShell's first start is slow, and each tried shell is started too."""

START_SECONDS = 30.0
"""Seconds for PowerShell on a Windows host to begin a command."""

PAUSE_SECONDS = 0.25
"""Seconds after a command's end until a PowerShell is started on a Windows host for the next command. After a last
command, the host is closed sooner; a command that comes sooner starts a PowerShell for itself."""

SPARE_SECONDS = 120.0
"""Seconds for which a PowerShell waits on a Windows host for the next command; then it is ended. The PowerShell takes
some 60 MB of memory there."""

LONGEST_VARIABLE = 32_766
"""Units of UTF-16 of a variable for a Windows host; a longer variable is refused (SetEnvironmentVariableW: 32,767)."""

_END = b"fact end\n"
"""The last line of `facts.ps1`."""

_REFUSED = {
    "program": "it does not exist, or may not be executed",
    "script": "the host has no room for a temporary file",
    "job": "the host refuses a job object, without which it could not be stopped",
}


class WindowsHost:
    """The facts of a Windows host, and the starts of its programs.

    Args:
        login: Writes the lines for the host's login shell.
        name: The host as a person wrote it.
        open: Opens a session for a channel, and tells the server to run a line.
        has_room: Returns whether there is room for a session that is started ahead of need.
    """

    def __init__(
        self,
        login: WindowsLauncher,
        name: str,
        open: Open,  # noqa: A002 - the word for it
        has_room: Callable[[], bool],
    ) -> None:
        self.login = login
        """The writer of lines for the host's login shell."""
        self.noise = ""
        """The output that came instead of the facts, when the host did not report them."""
        self._name = name
        self._open = open
        self._has_room = has_room
        self._spare: asyncio.Future[WindowsChannel] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def facts(self, directory: str, query: HostQuery) -> FactLines | None:
        """Ask the host for its facts; ``None`` when no PowerShell answers.

        Raises:
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
        """
        channel = WindowsChannel(new_token())
        asked = [_text(channel.token), _text(_as_windows(directory))]
        for names in (query.programs, query.variables):
            asked += (_count(names), *map(_text, names))
        candidates = query.shells_on("windows")
        asked.append(_count(candidates))
        for each in candidates:
            arguments = self.login.command_line(each.arguments) or ""
            asked += map(_text, (each.kind, each.path, arguments, each.arguments[-1]))
        text = _program("facts.ps1")
        line = self.login.read_and_run(len(text))
        await self._open(channel, line)
        keep = False
        try:
            channel.write_now(text + _sized(b"".join(asked)))
            async with asyncio.timeout(ANSWER_SECONDS):
                said = await channel.said
                answer = bytearray()
                if said == ["facts"]:
                    await fill(answer, channel.stdout, LONGEST_ANSWER, until=_END)
                if channel.broken:  # half an answer would look like a host without programs
                    raise ConnectionFailed(
                        f"the connection to {self._name} was lost while PowerShell there was asked",
                        stage="session",
                    )
        except TimeoutError:
            return None
        else:
            if not answer:
                return None
            facts = FactLines.read(answer.decode("utf-8", "replace").splitlines())
            keep = answer.endswith(_END) and not facts.get("wrong") and self._wants_spare()
            return facts
        finally:
            self.noise = channel.noise.replace(
                line.partition(" ")[2], "..."
            )  # the login shell may repeat the line
            if keep:
                self._go_on(channel)
            else:
                channel.abort()

    async def start(
        self,
        spawn: Spawn,
        *,
        on_started: Callable[[WindowsProcess], object],
        on_closed: Callable[[WindowsProcess], object],
        on_released: Callable[[Channel], object],
    ) -> WindowsProcess:
        """Start a program.

        Raises:
            InvalidCommand: The directory does not exist, or is not a directory; nothing was started.
            SpawnError: The program could not be started.
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
        """
        if spawn.terminal is not None:
            raise TerminalUnavailable(
                f"{self._name} is a Windows host, where commands have no terminal over SSH; run it without one"
            )
        order = self._order(spawn)
        channel = await self._leader()
        channel.splits = spawn.split_stderr
        process = WindowsProcess(
            channel,
            name=spawn.argv[0].replace("\\", "/").rpartition("/")[2],
            has_stdin=spawn.stdin,
            split_stderr=spawn.split_stderr,
            on_closed=on_closed,
            on_released=on_released,
        )
        on_started(process)
        if spawn.on_asked is not None:
            spawn.on_asked(process)
        try:
            await self._begin(channel, order, spawn)
        except BaseException:
            if spawn.on_asked is None:
                await to_the_end(process.abandon(), lambda: None)
            raise
        channel.exit.add_done_callback(self._pause)
        return process

    def _pause(self, _: object) -> None:
        """Start a leader soon, unless a command comes before."""
        if self._spare is None and not self._closed:
            self._set_timer(PAUSE_SECONDS, self._prepare)

    def _prepare(self) -> None:
        """Start a leader for the next command, unless a leader waits already. Never waits."""
        if self._wants_spare():
            self._keep(asyncio.get_running_loop().create_task(self._lead()))

    def _go_on(self, channel: WindowsChannel) -> None:
        """Make the PowerShell in which `facts.ps1` has ended the leader of the next command."""
        channel.begin_anew(new_token())
        channel.write_now(_sized(_program("leader.ps1")))
        spare: asyncio.Future[WindowsChannel] = asyncio.get_running_loop().create_future()
        spare.set_result(channel)
        self._keep(spare)

    def _wants_spare(self) -> bool:
        return self._spare is None and not self._closed and self._has_room()

    def _keep(self, spare: asyncio.Future[WindowsChannel]) -> None:
        self._spare = spare
        self._set_timer(SPARE_SECONDS, self._drop)

    def _set_timer(self, seconds: float, then: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _take(self) -> asyncio.Future[WindowsChannel] | None:
        spare, self._spare = self._spare, None
        if self._timer is not None:
            self._timer.cancel()
        return spare

    def _drop(self) -> asyncio.Future[WindowsChannel] | None:
        """End the waiting leader, if there is one, and return its future."""
        if (spare := self._take()) is not None:
            spare.cancel()
            spare.add_done_callback(_abort)
        return spare

    async def aclose(self) -> None:
        """Start no more leaders, and end the waiting leader."""
        self._closed = True
        if (spare := self._drop()) is not None:
            await asyncio.wait([spare])

    async def _leader(self) -> WindowsChannel:
        """Return the waiting leader, or a new leader."""
        if (spare := self._take()) is not None:
            with suppress(
                AnyshellError
            ):  # the start of another leader fails for the same reason, or works now
                channel = await spare
                if not channel.closed.is_set():
                    return channel
        return await self._lead()

    async def _lead(self) -> WindowsChannel:
        """Start a leader, which reads its order as soon as it can."""
        channel = WindowsChannel(new_token())
        text = _program("leader.ps1")
        await self._open(channel, self.login.read_and_run(len(text)))
        channel.write_now(text)
        return channel

    async def _begin(self, channel: WindowsChannel, order: bytes, spawn: Spawn) -> None:
        """Send the order for a command, and wait for the report that the command has begun."""
        try:
            async with asyncio.timeout(START_SECONDS):
                with suppress(anyio.BrokenResourceError):  # the error is raised below
                    await channel.write(_sized(_text(channel.token) + order))
                said = await shielded(channel.said)
        except TimeoutError:
            raise SpawnError(
                f"PowerShell on {self._name} did not say within {START_SECONDS:g} s that the command has begun, and it may have run"
            ) from None
        match said:
            case ["started", pid]:
                whole("a pid", pid, 1, 2**32 - 1)
                return
            case ["cwd", "file"]:
                raise InvalidCommand(f"cwd {spawn.cwd!r} is not a directory")
            case ["cwd", _]:
                raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: No such file or directory")
            case ["variable", name]:
                raise SpawnError(
                    f"{self._name} refuses the variable {cut_name(name)}: its value is too long, perhaps"
                )
            case [reason]:
                raise SpawnError(
                    f"cannot start {one_line(spawn.argv[0])}: {_REFUSED.get(reason) or one_line(reason)}"
                )
        if not channel.leader_ended:
            return  # the connection was lost meanwhile, and the command, if it had begun, is over
        raise SpawnError(
            f"PowerShell on {self._name} ended before the command began{noise_words(channel.noise) or ', and printed nothing'}"
        )

    def _order(self, spawn: Spawn) -> bytes:
        """Return the order for `leader.ps1`, to be sent behind the token."""
        line = self.login.command_line(spawn.argv)
        if line is None:
            raise SpawnError(
                f"cannot start {one_line(spawn.argv[0])}: its arguments are longer than a command line on Windows may be; pass big "
                "values by stdin or a file"
            )
        texts = (line, spawn.argv[0], spawn.cwd, spawn.script or "")
        given = {**spawn.settings, **spawn.env}
        for name, value in given.items():
            if len(value.encode("utf-16-le", "surrogatepass")) > 2 * LONGEST_VARIABLE:
                raise SpawnError(
                    f"cannot start {one_line(spawn.argv[0])}: the variable {cut_name(name)} is longer than the 32,766 characters that "
                    "Windows takes; pass big values by stdin or a file"
                )
        names = {name.upper() for name in given}
        unset = sorted(name for name in spawn.unset if name.upper() not in names)
        pairs = [_text(each) for pair in given.items() for each in pair]
        flags = bytes((spawn.stdin, spawn.split_stderr))
        return b"".join((*map(_text, texts), flags, _count(unset), *map(_text, unset), _count(given), *pairs))


def _abort(spare: asyncio.Future[WindowsChannel]) -> None:
    if not spare.cancelled() and spare.exception() is None:
        spare.result().abort()


def _as_windows(directory: str) -> str:
    """Return the directory of an address without the slash before the drive's letter."""
    return directory[1:] if directory[:1] == "/" and directory[2:3] == ":" else directory


@cache
def _program(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()


def _count(things: Iterable[object]) -> bytes:
    return len(list(things)).to_bytes(4, "little")


def _text(text: str) -> bytes:
    return _sized(text.encode("utf-8", "replace"))


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data
