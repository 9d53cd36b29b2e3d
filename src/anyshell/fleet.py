"""One command on many hosts: so many at a time, one outcome each as it comes, and no host that costs another.

Each host has an environment of its own, which is opened for the command and closed behind it. So what is held at any
moment is bounded by how many hosts have their turn, and not by how many there are. What becomes of one host, whatever it
is, is its own `HostOutcome`; nothing that a host does is raised here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import anyio

from . import shells
from ._engine import Control
from ._environment import GRACE, Environment, _request
from ._exceptions import AnyshellError, ConnectionFailed, InvalidCommand
from ._types import Outcome, check_choice, check_count, check_seconds, check_text
from ._waits import outlast
from .backends import SSHOptions, describe_address, read_address
from .output import ArtifactStore, LineDecoder, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from os import PathLike
    from types import TracebackType
    from typing import Self

    from ._types import Channel, HostInfo, OutputLimits, ProcessInfo
    from .abc import Backend

    Target = SSHOptions | Backend | None
    """What `Environment.detect` takes; ``None`` is this machine."""

HostState = Literal["waiting", "connecting", "running", "closing", "done", "failed", "not_started"]

PARALLELISM = 32
"""Hosts that have their turn at once, unless `Fleet(parallelism=)` or `--parallel` says otherwise; as with pssh and clush."""

MAX_HOSTS = 10_000
"""Hosts in one fleet; more is an error."""

CONNECT_SECONDS = 60.0
"""Seconds to reach a host and learn what it is, unless `Fleet(connect_timeout=)` or `--connect-timeout` says otherwise."""

TAIL = 4096
"""Bytes of the end of a host's output in which its last line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutcome:
    """What became of a command on one host.

    Attributes:
        host: The host's name, as it was given; another entry of the same name has a number behind it, `` (2)``.
        state: ``done``: it ran there and exited with 0. ``failed``: it did not. ``not_started``: the host's turn never
            came, since another had failed or all was cancelled; nothing was sent there.
        outcome: What became of the command, if the host was reached. Cancelled while it was being reached, it has the
            status ``cancelled`` and was not started.
        error: Why there is no outcome: the host could not be reached, its key is not trusted, its directory or shell is
            not there. Beside an outcome: what failed when the environment was closed.
        notices: What a person should know of the way to the host, one sentence each.
        duration: Seconds from the beginning of its turn to its end, connecting and closing included.
    """

    host: str
    state: Literal["done", "failed", "not_started"]
    outcome: Outcome | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()
    duration: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ran there and exited with 0."""
        return self.state == "done"

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """What of it was alive when the host was asked last, or may be, as the host did not answer any more."""
        return () if self.outcome is None else _alive(self.outcome)

    def check(self) -> Outcome:
        """Return the outcome if it ran there and exited with 0.

        Raises:
            CommandFailed: It ran, and did not; the exception carries the outcome.
            AnyshellError: It was not started.
            Exception: `error`, if there is one.
        """
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AnyshellError(f"the command was not started on {self.host}: its turn never came")
        return self.outcome.check()


class HostProgress:
    """How far one host has come: what a program shows while a fleet runs. It changes as the host does."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._state: HostState = "waiting"
        self._began: float | None = None
        self._ended: float | None = None
        self._tail = b""
        self._bytes = 0
        self._info: HostInfo | None = None
        self._survivors: tuple[ProcessInfo, ...] = ()

    @property
    def host(self) -> str:
        """The host's name, as in its `HostOutcome`."""
        return self._host

    @property
    def state(self) -> HostState:
        """What it does: waits for its turn, connects, runs, closes, or how it has ended, as in its `HostOutcome`."""
        return self._state

    @property
    def elapsed(self) -> float:
        """Seconds since its turn began, until that is over; 0 before."""
        if self._began is None:
            return 0.0
        return (self._ended or time.monotonic()) - self._began

    @property
    def output_bytes(self) -> int:
        """Bytes that the command has printed so far."""
        return self._bytes

    @property
    def last_line(self) -> str:
        """The last line of its output that is not blank, cleaned; of a very long one the end."""
        page = None if self._info is None else Page.of(self._info.code_page)
        decoder = LineDecoder(page)
        lines = [line.text for line in (*decoder.feed(self._tail), *decoder.flush())]
        if len(lines) > 1 and self._bytes > len(self._tail):
            del lines[0]  # its beginning is not there
        return next((text for text in reversed(lines) if text.strip()), "")

    @property
    def info(self) -> HostInfo | None:
        """What the host is, once it has been reached."""
        return self._info

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """As in its `HostOutcome`; also when nobody has taken that."""
        return self._survivors

    def _hear(self, data: bytes) -> None:
        self._bytes += len(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]


FleetListener = Callable[[HostProgress, "Channel", bytes], Awaitable[None]]
"""Is given every piece of output as it comes, and is awaited: a slow one slows the host's command down."""

FleetObserver = Callable[[HostProgress], object]
"""Is told when a host's state has changed."""


class Fleet:
    """Hosts on which one command runs at a time, and how many of them at once.

    ``async with Fleet(["web-1", "web-2", "local"]) as fleet:``, then ``async for result in fleet.run("uptime"):``. Leaving
    it stops what still runs there, and is sure of that. Nothing is contacted before.

    Args:
        hosts: Each is ``"local"``, an address as `Environment.detect` takes it, `SSHOptions`, or a backend of your own,
            which stays yours to close. The order is that in which they have their turns.
        parallelism: Hosts that have their turn at once, at most; 1 or more.
        batch: So many hosts begin together, and the next ones when all of these have ended; 1 or more. ``None`` is no
            batches: whoever ends makes room for the next.
        stop_on_failure: Begin no further host once one has failed. Those that have begun go on.
        connect_timeout: Seconds in which a host must be reached and have said what it is, with all that is asked on the
            way; the bounds of `SSHOptions` hold besides. ``None`` leaves it to those.
        shell: As for `Environment.detect`, on every host; and so are those that follow.
        cwd: See there.
        interactive: See there.
        limits: See there. What is held of a host's output is bounded by it.
        artifacts: See there.
        snapshot: See there.
        prefix: See there.

    Raises:
        InvalidCommand: No hosts, one that is there twice, a malformed address, a number out of range, a bad prefix.
        BackendUnavailable: An address that no backend knows.
    """

    def __init__(
        self,
        hosts: Iterable[str | SSHOptions | Backend],
        *,
        parallelism: int = PARALLELISM,
        batch: int | None = None,
        stop_on_failure: bool = False,
        connect_timeout: float | None = CONNECT_SECONDS,
        shell: str | None = None,
        cwd: str | PathLike[str] | None = None,
        interactive: bool = False,
        limits: OutputLimits | None = None,
        artifacts: ArtifactStore | Literal["default"] | None = "default",
        snapshot: bool = False,
        prefix: str | None = None,
    ) -> None:
        check_count("parallelism", parallelism)
        if batch is not None:
            check_count("batch", batch)
        check_seconds("connect_timeout", connect_timeout)
        if prefix is not None:
            shells.Prefix(prefix)
        self._targets = _read_hosts(hosts)
        self._parallelism = parallelism
        self._batch = batch
        self._stop_on_failure = stop_on_failure
        self._connect_timeout = connect_timeout
        self._shell = shell
        self._cwd = cwd
        self._interactive = interactive
        self._limits = limits
        self._artifacts = ArtifactStore() if artifacts == "default" else artifacts
        self._snapshot = snapshot
        self._prefix = prefix
        self._entered = False
        self._running: FleetRun | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, in their order."""
        return tuple(self._targets)

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered = False
        if self._running is not None:
            await self._running._aclose(quiet=error is not None)

    def run(
        self,
        command: str | Callable[[Environment], str],
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        left_behind: Literal["stop", "keep"] = "stop",
        split_stderr: bool = False,
        listener: FleetListener | None = None,
        observer: FleetObserver | None = None,
    ) -> FleetRun:
        """Run a command on every host, each in a fresh shell. It begins with the first step of ``async for``.

        Args:
            command: Text in the shell's own language; or a function that is given a host's environment and gives the
                text for it, where hosts differ. It may look, and must not wait.
            cwd: Where it runs; relative to the fleet's.
            env: Variables set over everything else.
            stdin: What it reads, the same on every host; by default end-of-file at once.
            timeout: Seconds for the command on each host, from when that was reached; ``None`` is no bound.
            silence: On each host, as for `Environment.run`.
            grace: Seconds between the request to end and the kill.
            left_behind: What becomes of processes that outlive the command: ``stop`` or ``keep``, as for
                `Environment.run`.
            split_stderr: Two texts. Otherwise one, in which both channels are in true order.
            listener: Is given a host's `HostProgress`, the channel and the bytes of every piece of output as it comes,
                and is awaited.
            observer: Is given a host's `HostProgress` when its state has changed. It must not wait. What it raises
                cancels the run, and is raised where that is iterated over, when all has ended.

        Raises:
            InvalidCommand: Bad input, before anything is contacted; the message names the culprit.
            AnyshellError: The fleet was not entered with ``async with``, or runs something already.
        """
        if not self._entered:
            raise AnyshellError(
                "run() starts what somebody must stop: use 'async with Fleet(hosts) as fleet'"
            )
        if self._running is not None and not self._running.ended:
            raise AnyshellError("this fleet runs a command already: iterate over that to its end first")
        if stdin is not None and not isinstance(stdin, bytes | bytearray | memoryview | str):
            raise InvalidCommand(
                f"stdin must be bytes or text, which every host can be given, not {type(stdin).__name__}"
            )
        if not callable(command):
            check_text("the command", command)
        request = _request("" if callable(command) else command, cwd, env, stdin)
        check_seconds("timeout", timeout)
        check_seconds("silence", silence)
        check_seconds("grace", grace, zero=True, none=False)
        check_choice("left_behind", left_behind, ("stop", "keep"))

        async def perform(environment: Environment, host: HostProgress, control: Control) -> Outcome:
            own = request if not callable(command) else replace(request, text=command(environment))

            async def hear(channel: Channel, data: bytes) -> None:
                host._hear(data)
                if listener is not None:
                    await listener(host, channel, data)

            return await environment._run(
                own,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=hear,
                control=control,
            )

        self._running = FleetRun(
            self._targets,
            self._open,
            perform,
            parallelism=self._parallelism,
            batch=self._batch,
            stop_on_failure=self._stop_on_failure,
            observer=observer,
        )
        return self._running

    async def _open(self, host: str, target: Target, keep: Callable[[Environment], object]) -> None:
        """Open a host's environment, in time. It is kept the moment that it is there: whoever cancels us closes it."""
        clock = asyncio.timeout(self._connect_timeout)
        try:
            async with clock:
                keep(
                    await Environment.detect(
                        target,
                        shell=self._shell,
                        cwd=self._cwd,
                        interactive=self._interactive,
                        limits=self._limits,
                        artifacts=self._artifacts,
                        snapshot=self._snapshot,
                        prefix=self._prefix,
                    )
                )
        except TimeoutError:
            if not clock.expired():
                raise
            raise ConnectionFailed(
                f"{host} was not reached within {self._connect_timeout:g} s, and nothing was started there; check the "
                "host, or give more time with connect_timeout=",
                stage="connect",
            ) from None


class FleetRun:
    """A command on the hosts of a fleet: iterate over it for each host's outcome, as it comes.

    Who takes them slowly holds back the hosts that have not begun yet; so no more outcomes are held than hosts have
    their turn at once.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        open_host: Callable[[str, Target, Callable[[Environment], object]], Awaitable[None]],
        perform: Callable[[Environment, HostProgress, Control], Awaitable[Outcome]],
        *,
        parallelism: int,
        batch: int | None,
        stop_on_failure: bool,
        observer: FleetObserver | None,
    ) -> None:
        self._targets = targets
        self._hosts = {name: HostProgress(name) for name in targets}
        self._open = open_host
        self._perform = perform
        self._parallelism = parallelism
        self._batch = len(targets) if batch is None else batch
        self._stop_on_failure = stop_on_failure
        self._observer = observer
        self._over = False
        """Whether no further host begins."""
        self._failure: Exception | None = None
        """What the observer has raised."""
        self._turns: set[_Turn] = set()
        self._send, self._receive = anyio.create_memory_object_stream[HostOutcome](0)
        self._task: asyncio.Task[None] | None = None
        self._left = False
        """Whether its fleet was left."""
        self._told = False
        """Whether its own failure, if it has one, was raised."""

    @property
    def hosts(self) -> tuple[HostProgress, ...]:
        """How far each host has come, in the fleet's order."""
        return tuple(self._hosts.values())

    @property
    def ended(self) -> bool:
        """Whether every host has ended, and nobody waits for an outcome to be taken."""
        return self._task is not None and self._task.done()

    def cancel(self) -> None:
        """Ask for the end on every host, and begin no other. Returns at once.

        The outcomes go on coming: of what ran, each when its tree is seen to be gone there, or with what may live in
        `HostOutcome.survivors`; of the others, that they were not started. A second call skips the grace.
        """
        self._over = True
        for turn in self._turns:
            turn.cancel()

    def __aiter__(self) -> AsyncIterator[HostOutcome]:
        return self

    async def __anext__(self) -> HostOutcome:
        if self._task is None:
            if self._left:
                raise AnyshellError(
                    "nothing was run: the fleet was left before anybody iterated over this; do so within 'async with'"
                )
            self._task = asyncio.ensure_future(self._run())
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            self._receive.close()
            await asyncio.wait([self._task])
            if (failure := self._take_failure()) is not None:
                raise failure from None
            raise StopAsyncIteration from None
        except anyio.ClosedResourceError:
            raise StopAsyncIteration from None  # its fleet was left

    async def _aclose(self, *, quiet: bool) -> None:
        """Stop what runs, wait until it is gone, and be cancelled then if somebody asked for that meanwhile.

        Args:
            quiet: Whether a failure of the run's own is passed over, since another is raised already.
        """
        self._left = True
        self.cancel()
        self._receive.close()
        if self._task is None:
            self._send.close()
            return
        cancelled = await outlast(self._task, self.cancel)
        failure = self._take_failure()
        if cancelled is not None:
            raise cancelled
        if failure is not None and not quiet:
            raise failure

    def _take_failure(self) -> BaseException | None:
        """What the run itself has failed with, once."""
        if self._task is None or self._task.cancelled() or self._told:
            return None
        self._told = True
        return self._task.exception()

    async def _run(self) -> None:
        """Give every host its turn, batch by batch."""
        with self._send:
            waiting = deque(self._hosts.values())
            while waiting and not self._over:
                batch = deque(waiting.popleft() for _ in range(min(self._batch, len(waiting))))
                await self._work_on(batch)
                waiting.extendleft(reversed(batch))
            for host in waiting:
                self._set(host, "not_started")
                await self._deliver(HostOutcome(host=host.host, state="not_started"))
        if self._failure is not None:
            raise self._failure

    async def _work_on(self, batch: deque[HostProgress]) -> None:
        async def work() -> None:
            while batch and not self._over:
                await self._deliver(await self._turn(batch.popleft()))

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work()) for _ in range(min(self._parallelism, len(batch)))]

        def end() -> None:
            self._over = True
            for task in tasks:
                task.cancel()

        cancelled = await outlast(asyncio.gather(*tasks, return_exceptions=True), end)
        if cancelled is not None:
            raise cancelled
        for task in tasks:
            task.result()

    async def _deliver(self, outcome: HostOutcome) -> None:
        with contextlib.suppress(anyio.BrokenResourceError):  # nobody wants to know any more
            await self._send.send(outcome)

    async def _turn(self, host: HostProgress) -> HostOutcome:
        """One host, from its beginning to its end. Raises nothing but a cancellation, when all is gone there."""
        turn = _Turn()
        self._turns.add(turn)
        host._began = time.monotonic()
        outcome: Outcome | None = None
        error: Exception | None = None
        notices: tuple[str, ...] = ()
        done = False
        try:
            try:
                self._set(host, "connecting")
                await turn.reach(self._open(host.host, self._targets[host.host], turn.keep))
                if turn.env is None or turn.control.requested:
                    outcome = Outcome(status="cancelled", started=False)
                else:
                    host._info = turn.env.info
                    notices = (*turn.env.info.notices, *turn.env.snapshot_notices)
                    self._set(host, "running")
                    outcome = await self._perform(turn.env, host, turn.control)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                error = _own_cancellation("what the command needs on this host")
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is this host's alone
                error = failure
            done = outcome is not None and outcome.status == "exited" and outcome.exit_code == 0
            if self._stop_on_failure and not done:
                self._over = True
            host._survivors = () if outcome is None else _alive(outcome)
        finally:
            try:
                if turn.env is not None:
                    self._set(host, "closing")
                    await turn.env.aclose()
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                error = error or _own_cancellation("what leaves this host")
            except Exception as failure:  # noqa: BLE001 - as above
                error = error or failure
            finally:
                self._turns.discard(turn)
                host._ended = time.monotonic()
        state: Literal["done", "failed"] = "done" if done and error is None else "failed"
        self._set(host, state)
        return HostOutcome(
            host=host.host,
            state=state,
            outcome=outcome,
            error=error,
            notices=notices,
            duration=host.elapsed,
        )

    def _set(self, host: HostProgress, state: HostState) -> None:
        host._state = state
        if self._observer is None or self._failure is not None:
            return
        try:
            self._observer(host)
        except asyncio.CancelledError:  # it waits for nothing, so it is nobody else's
            self._failure = _own_cancellation("the observer")
            self.cancel()
        except Exception as error:  # noqa: BLE001 - it is raised when all is stopped
            self._failure = error
            self.cancel()


class _Turn:
    """What a host that has its turn can be stopped by."""

    def __init__(self) -> None:
        self.control = Control()
        self.env: Environment | None = None
        self._reaching: asyncio.Future[None] | None = None

    def keep(self, env: Environment) -> None:
        """Take the environment."""
        self.env = env

    async def reach(self, opening: Awaitable[None]) -> None:
        """Wait until the environment is there, or `cancel` has given it up; then there is none."""
        self._reaching = asyncio.ensure_future(opening)
        cancelled = await outlast(self._reaching, self._reaching.cancel)
        failure = None if self._reaching.cancelled() else self._reaching.exception()
        if cancelled is not None:
            raise cancelled
        if self._reaching.cancelled() and not self.control.requested:
            failure = _own_cancellation("what reaches this host")
        if failure is not None:
            raise failure

    def cancel(self) -> None:
        """Ask for the end; the second time, without the grace."""
        self.control.cancel()
        if self._reaching is not None:
            self._reaching.cancel()


def _is_cancelled() -> bool:
    """Whether somebody has cancelled this task. Otherwise a cancellation is that of something that it has waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _own_cancellation(what: str) -> AnyshellError:
    """What stands for a cancellation that nobody has asked for: raised as it is, it would end the run in silence."""
    return AnyshellError(f"{what} was cancelled from within; that is a bug of whoever wrote it")


def _alive(outcome: Outcome) -> tuple[ProcessInfo, ...]:
    return tuple(process for process in outcome.left_behind if process.alive)


def _read_hosts(hosts: Iterable[str | SSHOptions | Backend]) -> dict[str, Target]:
    """Each host's name, and what reaches it.

    Raises:
        InvalidCommand, BackendUnavailable: As for `Fleet`.
    """
    if isinstance(hosts, str | bytes | SSHOptions):
        raise InvalidCommand("hosts must be a list of hosts, not one host: put it into a list")
    found: dict[str, Target] = {}
    same_name: dict[str, list[Target]] = {}
    for number, host in enumerate(hosts, 1):
        if number > MAX_HOSTS:
            raise InvalidCommand(f"there are more than {MAX_HOSTS} hosts: make several fleets of them")
        name, target = _read_host(host, number)
        others = same_name.setdefault(_identity(target), [])
        if any(_is_same(target, other) for other in others):
            raise InvalidCommand(
                f"host {number}, {name!r}, is in the list twice: a command runs once on a host"
            )
        others.append(target)
        own, count = name, 1
        while own in found:
            count += 1
            own = f"{name} ({count})"
        found[own] = target
    if not found:
        raise InvalidCommand("there are no hosts: give one or more")
    return found


def _read_host(host: object, number: int) -> tuple[str, Target]:
    if isinstance(host, str):
        try:
            target = read_address(host)
        except AnyshellError as error:
            raise type(error)(f"host {number}: {error}") from None
        return host, target
    if isinstance(host, SSHOptions):
        return describe_address(host), host
    if not hasattr(host, "spawn"):
        raise InvalidCommand(
            f"host {number} must be an address, SSHOptions or a backend, not {type(host).__name__}; this machine is 'local'"
        )
    backend: Backend = host  # type: ignore[assignment]  # as far as can be seen
    return backend.name, backend


def _identity(target: Target) -> str:
    """What two entries for the same host have in common."""
    if target is None:
        return ""
    return describe_address(target) if isinstance(target, SSHOptions) else f"backend {id(target)}"


def _is_same(one: Target, other: Target) -> bool:
    return one is other or (isinstance(one, SSHOptions) and one == other)
