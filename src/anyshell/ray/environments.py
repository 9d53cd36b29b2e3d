"""The pool: its environments, and the calls in each."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import ray
from ray.exceptions import RayError

from .._exceptions import (
    AnyshellError,
    BackendUnavailable,
    ConnectionFailed,
    EnvironmentLost,
    HostKeyUntrusted,
    InvalidCommand,
    SpawnError,
)
from .._runner import RunOptions, to_command
from .._types import check_choice, check_count, check_seconds, check_text, to_scan
from .._waits import to_the_end
from .places import PER_ENVIRONMENT, Actor, ActorPlace
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from os import PathLike
    from types import TracebackType
    from typing import Concatenate, ParamSpec, Self, Unpack

    from .._environment import Environment
    from .._types import Command, Outcome, OutputLimits, Scan, Terminal
    from .._types.checks import Seconds
    from .worker import Make

    P = ParamSpec("P")

T = TypeVar("T")

PER_ACTOR = 50
"""Environments that one actor, which is one process, holds, unless `Environments(per_actor=)` says otherwise."""

IN_FLIGHT = 64
"""Commands that a pool has under way at once, unless `Environments(in_flight=)` says otherwise; one more waits for its turn."""

AHEAD = 4
"""Commands that `Environments.map` has begun or keeps the results of, for each that may be in flight."""

RETRIES = 3
"""Further environments that are tried for what never started, unless `Environments(retries=)` says otherwise."""

RESTARTS = 3
"""Times that Ray starts a lost actor anew, unless the option ``max_restarts`` of Ray says otherwise."""

START_SECONDS = 60.0
"""Seconds for all actors to start, and for an environment to open, unless `Environments(start_timeout=)` says otherwise."""

_OURS = ("max_task_retries", "max_concurrency", "name", "namespace", "lifetime", "get_if_exists")
_NEVER_STARTED = (ConnectionFailed, HostKeyUntrusted, SpawnError)


class RunArguments(TypedDict, total=False):
    """The arguments of a run, as for `Environment.run`. Processes that outlive it are stopped, unless they are to be kept."""

    cwd: str | PathLike[str] | None
    env: Mapping[str, str] | None
    stdin: bytes | str | None
    timeout: Seconds | None
    silence: Seconds | None
    grace: Seconds
    left_behind: Literal["stop", "keep"]
    split_stderr: bool
    terminal: Terminal | None
    limits: OutputLimits | None
    effects: bool | Sequence[str] | Scan


class Environments:
    """Many environments, held by actors on a cluster of Ray, which ``ray.init`` has connected to before.

    ``async with Environments(1000) as pool:``, then ``await pool.run("make test", timeout=600)``. Each environment is opened at
    its first use. Leaving closes all of them, stops what runs there, and ends the actors.

    An actor that is lost, with its node or alone, is started anew by Ray. What had not started there runs in another
    environment; what may have started is never run again, and raises `EnvironmentLost`.

    Args:
        count: The number of places.
        make: Gives the environment of a number, from 0: ``lambda number: Environment.detect(HOSTS[number % 4])``, or any
            async context manager, which may make a directory or a container first and remove it at the end. It is called in
            the actor, and is pickled. Default: the actor's own machine.
        per_actor: Environments that one actor holds.
        options: Ray's own options for actors, such as ``num_cpus``, ``resources``, ``label_selector``, ``scheduling_strategy``,
            ``runtime_env`` and ``max_restarts``; or a function that gives those of an actor by its number.
        in_flight: Commands that are under way at once in the pool.
        retries: Further environments that are tried for what never started.
        start_timeout: Seconds for all actors to start, and for an environment to open.

    Raises:
        InvalidCommand: A number out of range.
    """

    def __init__(
        self,
        count: int,
        *,
        make: Make | None = None,
        per_actor: int = PER_ACTOR,
        options: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None,
        in_flight: int = IN_FLIGHT,
        retries: int = RETRIES,
        start_timeout: Seconds = START_SECONDS,
    ) -> None:
        check_count("count", count)
        check_count("per_actor", per_actor)
        check_count("in_flight", in_flight)
        if retries:
            check_count("retries", retries)
        self._count = count
        self._make = make
        self._per_actor = per_actor
        self._options = options
        self._retries = retries
        self._ahead = AHEAD * in_flight
        self._turns = asyncio.Semaphore(in_flight)
        self._seconds = check_seconds("start_timeout", start_timeout, none=False)
        self._actors: list[Actor] = []
        self._free: asyncio.Queue[ActorPlace | None] = asyncio.Queue()
        """In the order of their use. ``None``, behind which nothing comes, when there will be no more."""
        self._entered = False

    async def __aenter__(self) -> Self:
        if not ray.is_initialized():
            raise AnyshellError("Ray is not connected to: call ray.init() first, with the cluster's address")
        if self._actors:
            raise AnyshellError("a pool is entered once: make another one")
        places: list[list[ActorPlace]] = []
        try:
            for first in range(0, self._count, self._per_actor):
                actor = Actor(self._start(len(self._actors)), self._give_up)
                self._actors.append(actor)
                numbers = range(first, min(first + self._per_actor, self._count))
                places.append([ActorPlace(actor, number, self._turns, self._seconds) for number in numbers])
            async with asyncio.timeout(self._seconds):
                await asyncio.gather(*(actor.meet() for actor in self._actors))
        except (RayError, TimeoutError) as error:
            await self.aclose()
            met = sum(actor.node != "" for actor in self._actors)
            raise BackendUnavailable(
                f"{met} of {len(self._actors)} actors have started on Ray within {self._seconds:g} s: check that nodes have what "
                "options= asks for, and anyshell installed"
            ) from error
        except BaseException:
            await self.aclose()
            raise
        for at in range(self._per_actor):  # one of each actor, then the next of each: work spreads
            for own in places:
                if at < len(own):
                    self._free.put_nowait(own[at])
        self._entered = True
        return self

    def _start(self, number: int) -> Any:
        own = self._options(number) if callable(self._options) else self._options
        options = {"max_restarts": RESTARTS, **(own or {})}
        if refused := [name for name in _OURS if name in options]:
            raise InvalidCommand(
                f"options: {refused[0]} is the pool's own: with another, a command could run twice"
            )
        most = self._per_actor * (PER_ENVIRONMENT + 1) * 2 + 10
        try:
            actor = ray.remote(Worker).options(max_task_retries=0, max_concurrency=most, **options)
        except (TypeError, ValueError) as error:
            raise InvalidCommand(f"options: {error}") from error
        return actor.remote(self._make, self._seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_the_end(self.aclose(), lambda: None)

    async def aclose(self) -> None:
        """Close all environments, stop what runs there, and end the actors. Leaving ``async with`` does it."""
        self._entered = False
        self._free.put_nowait(None)
        ends = await asyncio.gather(*(actor.aclose() for actor in self._actors), return_exceptions=True)
        for failure in filter(None, ends):
            raise failure

    async def run(self, command: str, **arguments: Unpack[RunArguments]) -> Outcome:
        """Run a command in an environment that has nothing to do, and wait for its end.

        It waits for a turn without a bound of its own: `asyncio.timeout` around it is one, and `timeout` is the command's.
        It uses an environment as the last command has left it.

        Raises:
            InvalidCommand: Bad input.
            EnvironmentLost: Its actor or node was lost meanwhile, or none is left.
            AnyshellError: What the last environment that was tried has raised, with a note of where that was.
            asyncio.CancelledError: After the command's tree is gone.
        """
        request, options = _read(command, arguments)
        place, outcome = await self._somewhere(lambda place: place.run(request, options, opens=True))
        self._free.put_nowait(place)
        return outcome

    async def map(
        self, commands: Iterable[str], **arguments: Unpack[RunArguments]
    ) -> AsyncGenerator[Outcome | AnyshellError]:
        """Run many commands, each as `run` does, and give what became of each in their order.

        An error of one is given in its place, and the others go on. Commands are taken as there is room for them: a slow
        reader holds back the rest. Leaving early stops what runs, with `contextlib.aclosing` at once.

        Raises:
            InvalidCommand: Bad input for all of them.
        """
        _read("", arguments)

        async def one(command: str) -> Outcome | AnyshellError:
            try:
                return await self.run(command, **arguments)
            except AnyshellError as error:
                return error

        tasks: deque[asyncio.Task[Outcome | AnyshellError]] = deque()
        try:
            for command in commands:
                if len(tasks) == self._ahead:
                    yield await tasks.popleft()
                tasks.append(asyncio.create_task(one(command)))
            while tasks:
                yield await tasks.popleft()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    @contextlib.asynccontextmanager
    async def environment(self) -> AsyncIterator[Leased]:
        """Take an environment for several commands. Nothing else runs in it meanwhile, and it is opened anew after that."""
        place, _ = await self._somewhere(ActorPlace.open)
        leased = Leased(place)
        try:
            yield leased
        finally:
            leased._place = None
            try:
                await to_the_end(place.close(), lambda: None)
            finally:
                self._free.put_nowait(place)

    async def _somewhere(self, use: Callable[[ActorPlace], Awaitable[T]]) -> tuple[ActorPlace, T]:
        """Use a free environment, and after a failure of what never started another one. It is kept if that succeeds."""
        left = self._retries
        while True:
            place = await self._take()
            place.opened = False
            try:
                return place, await use(place)
            except BaseException as error:
                self._free.put_nowait(place)
                again = isinstance(error, _NEVER_STARTED) or getattr(error, "started", None) is False
                if not left or not isinstance(error, Exception) or (place.opened and not again):
                    raise
                left -= 1

    async def _take(self) -> ActorPlace:
        while True:
            if not self._entered:
                raise AnyshellError(
                    "the pool is not open: use it within 'async with Environments(...) as pool'"
                )
            place = await self._free.get()
            if place is None:
                self._free.put_nowait(None)
                if self._entered:
                    raise EnvironmentLost(
                        "all actors of the pool are lost; nothing has started", started=False
                    )
            elif place.actor.coming is None:
                return place
            else:
                place.actor.coming.add_done_callback(partial(self._give_back, place))

    def _give_back(self, place: ActorPlace, _: object) -> None:
        self._free.put_nowait(place)

    def _give_up(self) -> None:
        if all(actor.gone for actor in self._actors):
            self._free.put_nowait(None)


class Leased:
    """An environment of a pool, for several commands: what `Environments.environment` gives.

    Attributes:
        number: Its number in the pool.
        node: The id of its node, as Ray has it.
    """

    def __init__(self, place: ActorPlace) -> None:
        self._place: ActorPlace | None = place
        self.number = place.number
        self.node = place.actor.node

    async def run(self, command: str, **arguments: Unpack[RunArguments]) -> Outcome:
        """Run a command in a fresh shell there, as `Environments.run` does, but nowhere else.

        Raises:
            EnvironmentLost: The environment is gone, with all that was in it. `EnvironmentLost.started` is of the command.
        """
        return await self._held_place().run(*_read(command, arguments))

    async def call(
        self,
        function: Callable[Concatenate[Environment, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call an async function with the `Environment` itself, in the actor: for sessions, jobs, files and tools.

        It is pickled with its arguments, and so is what it returns or raises. Cancelling the call cancels it there.
        """
        result: T = await self._held_place().call(function, args, named)
        return result

    def _held_place(self) -> ActorPlace:
        if self._place is None:
            raise AnyshellError("this environment was given back to its pool: take another one")
        return self._place


def _read(text: str, arguments: RunArguments) -> tuple[Command, RunOptions]:
    """The checked arguments of a call to an actor.

    Raises:
        InvalidCommand: Names what is wrong.
    """
    given: dict[str, Any] = dict(arguments)
    if wrong := sorted(given.keys() - RunArguments.__annotations__.keys()):
        raise InvalidCommand(f"{wrong[0]}= is not for a pool: give {', '.join(RunArguments.__annotations__)}")
    check_text("the command", text)  # the shell that would quote a list is elsewhere
    where = given.pop("cwd", None), given.pop("env", None), given.pop("stdin", None)
    request = to_command(text, *where, kind="sh")
    if hasattr(request.stdin, "__aiter__"):
        raise InvalidCommand("stdin must be bytes or text, which can be sent to another process")
    given.setdefault("left_behind", "stop")
    check_choice("left_behind", given["left_behind"], ("stop", "keep"))
    given["effects"] = to_scan(given.get("effects", False))
    return request, RunOptions(**given)
