"""The shell on the host that answers questions about processes and signals them.

The shell has a session of its own, which stays open, since a host where processes must be stopped is one that can start
nothing new: the sessions are taken, the processes are used up, or the connection is silent. A silent shell's question
goes to a new shell over another connection.
"""

from __future__ import annotations

import asyncio
import pkgutil
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ...._answers import Nonsense, real, whole
from ...._exceptions import AnyshellError
from ...._waits import note_failure, shielded
from ..channel import LONGEST_ANSWER, Channel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SILENCE_SECONDS = 0.8
"""Seconds of silence after which a host that owes an answer about processes counts as away, a new connection included.
A host that is only slow goes on answering other questions."""

ANSWER_SECONDS = 3.0
"""Seconds for one answer about processes, from a host that can be heard meanwhile."""

HEDGE_SECONDS = 0.3
"""Seconds of silence after which a question about processes is put again over another connection; up to twice as many
where two round trips take longer."""

AWAY_SECONDS = 1.0
"""Seconds in which a host that is away is asked nothing, unless a connection is made."""

SERVER_SECONDS = 1
"""Seconds for a connection's server process to end with the connection; then the watcher on the host looks for commands
that lost their server."""

ORPHAN_GRACE = 2
"""Seconds between the request to end and the kill, both by the watcher on the host, for commands whose connection has ended."""


LOAD_SECONDS = 0.25
"""Seconds that a command runs before the watcher on the host is sent the functions that look at processes, unless a
question needs the functions sooner."""

_KNOWN = frozenset({"group", "ping", "sweep"})
"""The questions that a watcher answers without `looks.sh`."""


class HostAway(Exception):  # noqa: N818 - it is not an error but a state, and never leaves this package
    """The host did not answer in time."""


class NoProcesses(HostAway):
    """The host answers, but cannot look at processes: the user has no process left to start a program with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a host.

    Attributes:
        lines: The lines of the answer, without line ends.
        clock: Seconds of the host's clock when it answered; process start times count by the same clock.
        asked: Seconds of our monotonic clock when the question was put.
        heard: Seconds of our monotonic clock when the answer arrived.
        place: The host and the pid namespace of the shell that answered; empty where there is no ``/proc``.
    """

    lines: tuple[str, ...]
    clock: float
    asked: float
    heard: float
    place: str = ""


@cache
def text_of(name: str) -> str:
    """Return one of the texts that a shell on the host runs, without comments and indentation."""
    data = pkgutil.get_data(__package__, name)  # importlib.resources takes 7 ms to import
    assert data is not None  # as a file and a zip have it
    lines = (line.strip() for line in data.decode().splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def boot(mark: str, token: str, first: str = "", *, whole: bool = True) -> str:
    """Return the text that the shell is sent: the program, and the work before it waits for questions.

    Args:
        mark: The prefix of our marks' names: only letters, digits and underlines.
        token: The word that ends each answer; of the same characters as `mark`.
        first: A line of shell text, which may call ``facts``.
        whole: Whether to include the functions that look at processes. Otherwise they are loaded when they are needed.
    """
    looks = text_of("looks.sh") if whole else ""
    facts = text_of("facts.sh") if first else ""
    return (
        f"token={token[:10]}; token=${{token}}{token[10:]}; mark={mark}\n"
        f"server_seconds={SERVER_SECONDS} grace_seconds={ORPHAN_GRACE}\n{text_of('watcher.sh')}{looks}{facts}"
        f"printf '%s started %s\\n' $token $$\nsample\n{first}\nanswer\nboth\n"
    )


class WatcherShell:
    """The shell of one watcher, behind a channel. Has no task, since the end of the event loop would cancel a task.

    Args:
        token: The word that ends every answer.
        whole: Whether the shell was started with all functions that look at processes.
    """

    def __init__(self, token: str, *, whole: bool = True) -> None:
        self.channel = Channel(token, take=self._take)
        """The channel of the shell, which has to be sent the text that `boot` returns."""
        self._loaded = self._whole = whole
        self._loading: asyncio.TimerHandle | None = None
        self._token = f"{token} ".encode()
        self._waiting: dict[int, tuple[float, asyncio.Future[Answer]]] = {}
        self._last = 0
        self._lines: list[str] = []
        self._held = b""
        self._size = 0
        self.alive = True
        self.last_heard = 0.0
        """The time at which the host was last heard, by our monotonic clock."""
        self.round_trip = 0.0
        """Seconds between a question and its answer, at best; 0 before the first answer."""
        self.busy = False
        """Whether the shell has reported that it works on an answer."""
        self.crippled = False
        """Whether the shell has reported that it can start no program."""

    def ask(self, question: str = "") -> asyncio.Future[Answer]:
        """Put a question.

        Args:
            question: One line, in `watcher.sh`'s language; empty to await the answer to the text that the shell was
                started with.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.alive:
            _set_exception(future, HostAway())
            return future
        number = 0
        if question:
            if question.partition(" ")[0] not in _KNOWN:
                self.load()
            self._last = number = self._last + 1
            self.channel.write_now(f"{number} {question}\n".encode())
        self._waiting[number] = (time.monotonic(), future)
        return future

    def hold(self, leader: int, tag: int) -> None:
        """Tell the shell to stop a command when the connection ends. Never waits, and there is no answer."""
        if self.alive:
            self.channel.write_now(f"0 hold {leader} {tag}\n".encode())
            if not self._loaded and self._loading is None:
                self._loading = asyncio.get_running_loop().call_later(LOAD_SECONDS, self.load)

    def load(self) -> None:
        """Send the functions that look at processes, while the shell can still examine the host's tools. Never waits."""
        if self.alive and not self._loaded:
            self._loaded = True
            self.channel.write_now(f"0 load\n{text_of('looks.sh')}.\n".encode())

    def _take(self, data: bytes) -> None:
        *whole, self._held = (self._held + data).split(b"\n")
        for line in whole:
            if line.startswith(self._token):
                self.last_heard = time.monotonic()
                self.busy = line.endswith(b"+")
                if not self.busy:
                    if line.endswith(b"!"):
                        self.crippled, self._loaded = True, self._whole
                        self._fail(NoProcesses())
                    else:
                        self._answer(tuple(self._lines), line)
                    self._lines, self._size = [], 0
                continue
            self._size += len(line)
            if self._size <= LONGEST_ANSWER:
                self._lines.append(line.decode("utf-8", "replace"))
        if self._size + len(self._held) > LONGEST_ANSWER:
            self.close()

    def _answer(self, lines: tuple[str, ...], end: bytes) -> None:
        number, _, said = end[len(self._token) :].decode("utf-8", "replace").strip().partition(" ")
        try:
            asked, future = self._waiting.pop(whole("a question's number", number))
        except (Nonsense, KeyError):
            return  # the answer is not awaited any more
        if int(number):  # the first answer takes as long as the shell needs to start
            self.round_trip = min(self.round_trip or HEDGE_SECONDS, self.last_heard - asked)
        if future.done():
            return
        clock_said, _, place = said.partition(" ")
        try:
            clock = real("the clock", clock_said)
        except Nonsense as error:
            _set_exception(future, error)
            return
        if "failed" in lines:
            _set_exception(future, NoProcesses())
        else:
            future.set_result(Answer(lines, clock, asked, self.last_heard, place))

    def _fail(self, error: HostAway) -> None:
        while self._waiting:
            _, (_, future) = self._waiting.popitem()
            _set_exception(future, error)

    def ended(self) -> None:
        """Fail all pending questions: the shell is gone."""
        self.alive = False
        if self._loading is not None:
            self._loading.cancel()
        self._fail(HostAway())

    def close(self) -> None:
        """End the shell. Never waits."""
        if self.alive:
            self.ended()
            self.channel.abort()


class Watcher:
    """The watcher of a host: puts questions about processes to the shell, and so over the connection, that answers.

    Args:
        start: Starts a shell; over a new connection when the argument is true.
    """

    def __init__(self, start: Callable[[bool], Awaitable[WatcherShell]]) -> None:
        self._start = start
        self._shell: WatcherShell | None = None
        self._starting: dict[bool, asyncio.Task[WatcherShell]] = {}
        self._away_until = 0.0

    def adopt(self, shell: WatcherShell) -> None:
        """Use a shell that was started elsewhere, and close the old shell."""
        old, self._shell = self._shell, shell
        if old is not None:
            old.close()

    def ask_now(self, question: str) -> asyncio.Future[Answer] | None:
        """Put a question without waiting; ``None`` without a living shell."""
        if self._shell is None or not self._shell.alive:
            return None
        return self._shell.ask(question)

    def hold(self, leader: int, tag: int) -> None:
        """Tell the shell, if there is one, to stop a command when the connection ends."""
        if self._shell is not None:
            self._shell.hold(leader, tag)

    async def ask(self, question: str, asked: asyncio.Future[Answer] | None = None) -> Answer:
        """Put a question that is safe to put twice.

        Args:
            question: A question in `watcher.sh`'s language.
            asked: The same question, if it was put already.

        Raises:
            NoProcesses: The host cannot look, and a new connection would not help.
            HostAway: No answer came within `SILENCE_SECONDS` or `ANSWER_SECONDS`, or the host could not be reached.
        """
        if time.monotonic() < self._away_until:
            raise HostAway
        began = time.monotonic()
        tasks: set[asyncio.Future[Answer]] = set()
        try:
            far = 0.0 if self._shell is None else self._shell.round_trip
            for fresh, until in ((False, max(HEDGE_SECONDS, 2 * far)), (True, None)):
                asking = None if fresh else asked
                tasks.add(asking or asyncio.ensure_future(self._ask(question, fresh=fresh)))
                if (answer := await self._first(tasks, began, until)) is not None:
                    return answer
                if any(_is_crippled(task) for task in tasks):
                    raise NoProcesses
        finally:
            for task in tasks:
                task.cancel()
        self._away_until = time.monotonic() + AWAY_SECONDS
        raise HostAway

    async def _first(
        self, tasks: set[asyncio.Future[Answer]], began: float, seconds: float | None
    ) -> Answer | None:
        """Return the first answer; ``None`` when the time is over, the host is silent, or every task failed."""
        waiting = set(tasks)
        while waiting:
            shell, now = self._shell, time.monotonic()
            heard = began if shell is None else now if shell.busy else max(began, shell.last_heard)
            give_up = min(heard + (SILENCE_SECONDS if seconds is None else seconds), began + ANSWER_SECONDS)
            left = give_up - now
            if left <= 0:
                return None
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled() and task.exception() is None:
                    return task.result()
        return None

    async def _ask(self, question: str, *, fresh: bool) -> Answer:
        shell = self._shell
        if fresh or shell is None or not shell.alive:
            shell = await self._started(fresh=fresh)
        return await shell.ask(question)

    async def _started(self, *, fresh: bool) -> WatcherShell:
        """Start a shell, once for all callers."""
        task = self._starting.get(fresh)
        if task is None or task.done():
            task = self._starting[fresh] = asyncio.get_running_loop().create_task(
                self._start_one(fresh=fresh)
            )
            task.add_done_callback(note_failure)
        return await shielded(task)

    async def _start_one(self, *, fresh: bool) -> WatcherShell:
        shell = await self._start(fresh)
        old, self._shell = self._shell, shell
        if old is not None:  # the old shell may still answer pending questions
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, old.close)
        return shell

    async def renew(self) -> None:
        """Start another shell, if the current one can no longer look at processes.

        Raises:
            HostAway: The start fails.
        """
        if self._shell is not None and self._shell.crippled:
            self._shell.close()
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    await self._started(fresh=False)
            except (TimeoutError, AnyshellError) as error:
                raise HostAway from error

    def heard(self) -> None:
        """Allow questions again: the host was heard from."""
        self._away_until = 0.0

    async def aclose(self) -> None:
        """End the shell on the host."""
        for task in self._starting.values():
            task.cancel()
        if self._starting:
            await asyncio.wait(self._starting.values())
        if self._shell is not None:
            self._shell.close()


def _is_crippled(task: asyncio.Future[Answer]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), NoProcesses)


def _set_exception(future: asyncio.Future[Answer], error: HostAway | Nonsense) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks the error as seen, since perhaps no task waits any more
