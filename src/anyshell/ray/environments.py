"""The pool of environments on a Ray cluster, and the calls in each environment."""

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
"""Environments that one actor (one process) holds, unless `Environments(per_actor=)` says otherwise."""

IN_FLIGHT = 64
"""Commands under way at once in a pool, unless `Environments(in_flight=)` says otherwise; one more waits for its turn."""

AHEAD = 4
"""Commands that `Environments.map` begins ahead of the reader, for each command in flight; further commands wait."""

RETRIES = 3
"""Further environments that are tried for a command that never started, unless `Environments(retries=)` says otherwise."""

RESTARTS = 3
"""Times that Ray restarts a lost actor, unless Ray's option ``max_restarts`` says otherwise."""

START_SECONDS = 60.0
"""Seconds for all actors to start, and for an environment to open, unless `Environments(start_timeout=)` says otherwise."""

_OURS = ("max_task_retries", "max_concurrency", "name", "namespace", "lifetime", "get_if_exists")
_NEVER_STARTED = (ConnectionFailed, HostKeyUntrusted, SpawnError)


class RunArguments(TypedDict, total=False):
    """The arguments of a run, as for `Environment.run`; by default processes that outlive the command are stopped."""

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
    """A pool of many environments, held by actors on a Ray cluster; call ``ray.init`` first.

    ``async with Environments(1000) as pool:``, then ``await pool.run("make test", timeout=600)``. The first use of an
    environment opens it. Leaving the pool closes all environments, stops their commands, and ends the actors.

    Ray restarts an actor that is lost, with its node or alone. A command that had not started there runs in another
    environment. A command that may have started is never run again, and raises `EnvironmentLost`.

    Args:
        count: The number of environments.
        make: The function that makes the environment of a number, from 0, such as
            ``lambda number: Environment.detect(HOSTS[number % 4])``. The function may return any async context manager, for
            example to make a directory or a container first and remove it at the end. The function is pickled, and called
            in the actor. Default: the actor's own machine.
        per_actor: Environments that one actor holds.
        options: Ray's own options for actors, such as ``num_cpus``, ``resources``, ``label_selector``, ``scheduling_strategy``,
            ``runtime_env`` and ``max_restarts``; or a function that returns the options of an actor by number.
        in_flight: Commands under way at once in the pool.
        retries: Further environments that are tried for a command that never started.
        start_timeout: Seconds for all actors to start, and for an environment to open.

    Raises:
        InvalidCommand: A number is out of range.
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
        """The free places, in the order of their last use; a final ``None`` when no place is left."""
        self._entered = False

    async def __aenter__(self) -> Self:
        if not ray.is_initialized():
            raise AnyshellError(
                "there is no connection to Ray: call ray.init() first, with the cluster's address"
            )
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
        for at in range(self._per_actor):  # one of each actor, then the next of each: spreads the work
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
        """Close all environments, stop their commands, and end the actors. Leaving ``async with`` does the same."""
        self._entered = False
        self._free.put_nowait(None)
        ends = await asyncio.gather(*(actor.aclose() for actor in self._actors), return_exceptions=True)
        for failure in filter(None, ends):
            raise failure

    async def run(self, command: str, **arguments: Unpack[RunArguments]) -> Outcome:
        """Run a command in a free environment, and wait for the command's end.

        The wait for a turn has no bound: `timeout` bounds only the command, and `asyncio.timeout` can bound the whole call. The
        environment is in the state in which the last command left it.

        Raises:
            InvalidCommand: Bad input.
            EnvironmentLost: The actor or its node was lost during the command, or no actor is left.
            AnyshellError: The error of the last environment that was tried, with a note that names the environment.
            asyncio.CancelledError: The task was cancelled; the command's tree is gone.
        """
        request, options = _read(command, arguments)
        place, outcome = await self._somewhere(lambda place: place.run(request, options, opens=True))
        self._free.put_nowait(place)
        return outcome

    async def map(
        self, commands: Iterable[str], **arguments: Unpack[RunArguments]
    ) -> AsyncGenerator[Outcome | AnyshellError]:
        """Run many commands, each as `run` does, and yield the outcome of each in the order of the commands.

        An error takes the place of its command's outcome, and the other commands go on. Commands are read only when there is
        room: a slow reader of outcomes holds back further commands. Leaving early stops running commands; with
        `contextlib.aclosing` this happens at once.

        Raises:
            InvalidCommand: Bad input for all commands.
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
        """Lease an environment for several commands: no other command runs there, and the environment is reopened afterwards."""
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
        """Use a free environment; if nothing has started, retry in another. Return the successful place, not yet given back."""
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
    """An environment of a pool, leased for several commands by `Environments.environment`.

    Attributes:
        number: The number of the environment in the pool.
        node: Ray's id of the environment's node.
    """

    def __init__(self, place: ActorPlace) -> None:
        self._place: ActorPlace | None = place
        self.number = place.number
        self.node = place.actor.node

    async def run(self, command: str, **arguments: Unpack[RunArguments]) -> Outcome:
        """Run a command in a fresh shell of this environment, as `Environments.run` does, but never in another environment.

        Raises:
            EnvironmentLost: The environment is gone with its state; `EnvironmentLost.started` tells about this command.
        """
        return await self._held_place().run(*_read(command, arguments))

    async def call(
        self,
        function: Callable[Concatenate[Environment, P], Awaitable[T]],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call an async function with the `Environment` itself, in the actor: for sessions, jobs, files and tools.

        The function, its arguments and its result or exception are pickled. Cancelling the call cancels the function.
        """
        result: T = await self._held_place().call(function, args, named)
        return result

    def _held_place(self) -> ActorPlace:
        if self._place is None:
            raise AnyshellError("this environment was given back to its pool: take another one")
        return self._place


def _read(text: str, arguments: RunArguments) -> tuple[Command, RunOptions]:
    """Check the arguments of a run, and return the command and the options to send to an actor.

    Raises:
        InvalidCommand: An argument is wrong; the message names it.
    """
    given: dict[str, Any] = dict(arguments)
    if wrong := sorted(given.keys() - RunArguments.__annotations__.keys()):
        raise InvalidCommand(f"{wrong[0]}= is not for a pool: give {', '.join(RunArguments.__annotations__)}")
    check_text("the command", text)  # only a text: the shell that would quote a list is in the actor
    where = given.pop("cwd", None), given.pop("env", None), given.pop("stdin", None)
    request = to_command(text, *where, kind="sh")
    if hasattr(request.stdin, "__aiter__"):
        raise InvalidCommand("stdin must be bytes or text, which can be sent to another process")
    given.setdefault("left_behind", "stop")
    check_choice("left_behind", given["left_behind"], ("stop", "keep"))
    given["effects"] = to_scan(given.get("effects", False))
    return request, RunOptions(**given)
