"""A command on trial: it runs above its directory, and what it wrote becomes real when that is asked for."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import effects as looks
from .._exceptions import AnyshellError, InvalidCommand, ReachUnavailable
from .._runner.effects import LOOK_SECONDS, MOST_FILES, SETTLE_SECONDS, still_running
from .._types import ExitStatus, Spawn
from .._waits import in_a_worker, to_the_end
from ..backends.collect import collect
from ..reach import NONE, LocalPlaces, Reach, compile_reach, python_here
from ..reach.bubblewrap import Bubblewrap
from ..reach.host import text_of
from ..reach.values import lies_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from .. import _engine
    from .._runner import Runner, RunOptions
    from .._types import Command, Effects, Outcome
    from ..reach import Facts, Sandbox

MOUNT_SECONDS = 10.0
"""Seconds for an overlay to be mounted, to see whether it can be; then the trial is refused."""

_LONGEST_COMPLAINT = 300
"""Characters of what the kernel says against an overlay that an error repeats."""

_WAY = "run it on Linux 5.11 or later, as a user who may make user namespaces ('anyshell doctor' tells), or without a trial"


class _Place(Protocol):
    """Where the layer of a trial is: a `places.Place`."""

    upper: str
    work: str

    def remember(self, root: str, look: looks.Look) -> None: ...
    def read(self) -> Effects: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class Trial:
    """A command on trial: ``async with env.trial("make fix") as trial:`` runs it, and nothing is real before `commit`.

    Leaving it without that discards everything.
    """

    def __init__(
        self,
        runner: Runner,
        command: Command,
        options: RunOptions,
        *,
        facts: Callable[[], Awaitable[Facts]],
        control: _engine.Control | None = None,
    ) -> None:
        self._runner, self._command, self._options = runner, command, options
        self._facts, self._control = facts, control
        self._place: _Place | None = None
        self._has_run = False
        self._root = ""
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """What became of the command; its `Outcome.effects` are `effects`. Raises `AnyshellError` before the end."""
        if self._outcome is None:
            raise AnyshellError("the trial has not run to its end: enter it with async with, or await run()")
        return self._outcome

    @property
    def effects(self) -> Effects:
        """What it would change in the directory of the environment."""
        assert self.outcome.effects is not None
        return self.outcome.effects

    @property
    def diff(self) -> str:
        """The changes of text files as a unified diff; `Effects.without_diff` names the files that are not in it."""
        return self.effects.diff or ""

    async def __aenter__(self) -> Self:
        await self.run()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.discard()

    async def run(self) -> Outcome:
        """Run the command. To be called once; `discard` has to follow, unless this raises. ``async with`` does both.

        Raises:
            ReachUnavailable: The host cannot do it; nothing was started.
            AnyshellError: As for `Environment.run`; or too many files are in the directory, or were written.
        """
        if not self._runner.info.is_this_machine or self._runner.info.os != "linux":
            raise ReachUnavailable(
                "overlays: a trial runs on Linux, on this machine alone",
                "run anyshell there, or the command without a trial",
            )
        if self._has_run or self._place is not None:
            raise AnyshellError("a trial runs once: make another one")
        try:
            return await self._run()
        except BaseException:
            await self.discard()
            raise

    async def _run(self) -> Outcome:
        runner, options = self._runner, self._options
        self._root = os.path.realpath(runner.directory)
        command = await runner.addresses.expand(self._command)
        runner.check(options)
        sandbox = await self._sandbox()
        spawn = sandbox.wrap(runner.spawn_of(command, options, confined=False))
        _refuse_mounts(self._root)
        self._place = place = await self._choose()
        look = partial(looks.here, [self._root], (), seconds=LOOK_SECONDS, most=MOST_FILES)
        seen = await in_a_worker(look, abandon_on_cancel=True)
        if seen.records is None:
            raise AnyshellError(f"no trial in {self._root}: {seen.incomplete}")
        place.remember(self._root, seen)
        self._has_run = True
        if seen.newest is None or time.time_ns() - seen.newest < SETTLE_SECONDS * 1e9:
            await asyncio.sleep(SETTLE_SECONDS)
        argv = (*self._mounting(place), *spawn.argv)
        outcome = await runner.run(command, options, spawn=replace(spawn, argv=argv), control=self._control)

        try:
            effects = await in_a_worker(place.read)
        except OSError as error:
            raise AnyshellError(
                f"what the command wrote cannot be read: {error.strerror}: {error.filename}"
            ) from error
        if why := still_running(outcome):
            effects = replace(effects, incomplete=(*effects.incomplete, why))
        self._outcome = replace(outcome, effects=effects)
        return self._outcome

    async def commit(self) -> None:
        """Make real what the command wrote: all of it, or nothing. Each file is whole at every moment.

        Raises:
            CommitConflict: Another program has changed some of the files since the trial began, which are named.
            AnyshellError: It was committed or discarded before, or a file cannot be written.
        """
        place = self._place
        if place is None or not self._has_run:
            raise AnyshellError(
                "there is nothing to commit: the trial was committed or discarded, or has not run"
            )
        try:
            await to_the_end(in_a_worker(place.commit), lambda: None)
        except OSError as error:
            raise AnyshellError(
                f"nothing was committed: {error.strerror}: {error.filename or self._root}"
            ) from error
        await self.discard()

    async def discard(self) -> None:
        """Throw away what the command wrote. A second time, and after a commit, nothing is done."""
        place, self._place = self._place, None
        if place is not None:
            await to_the_end(in_a_worker(place.close), lambda: None)

    async def _sandbox(self) -> Sandbox:
        """What keeps the command from writing elsewhere."""
        runner, root = self._runner, self._root
        asked, base = self._options.reach, runner.sandbox
        if asked is not None:
            asked = asked.resolved(runner.directory, runner.info.home)
        if isinstance(base, Bubblewrap):
            wanted = asked or base.reach
        elif base is NONE:
            wanted = asked or Reach(read=("/", root), write=(root,), hide=(), protect=(), network=True)
        else:
            raise ReachUnavailable(
                "a trial within a sandbox of the caller's own", "give the environment a Reach instead"
            )
        if root == "/":
            raise InvalidCommand(
                "a trial needs a directory to run above, and '/' is all of them: give the environment another"
            )
        real = [os.path.realpath(path) for path in wanted.write]
        write = (root,) if lies_in(root, real) else tuple(path for path in real if lies_in(path, (root,)))
        wanted = replace(wanted, read=(*wanted.read, *wanted.write), write=write)
        if isinstance(base, Bubblewrap):
            return base.narrowed(wanted)
        return compile_reach(wanted, await self._facts(), LocalPlaces())

    async def _choose(self) -> _Place:
        """Find a place for the layer that the kernel takes."""
        # mypy sees nothing of it for other systems.
        places: Any = import_module(".places", __package__)
        complaint = "there is no directory for its layer"
        for root in places.roots():
            try:
                await in_a_worker(partial(self._take, places.Place, root))
            except OSError as error:
                complaint = f"{root}: {error.strerror}"
                continue
            place = self._place
            assert place is not None
            os.chmod(place.upper, os.stat(self._root).st_mode & 0o7777)
            asked = Spawn(argv=(*self._mounting(place), "/bin/sh", "-c", ":"), cwd="/", split_stderr=True)
            try:
                status, _, err = await collect(self._runner.backend, asked, seconds=MOUNT_SECONDS, most=1)
            except TimeoutError:
                status, err = None, b"it took too long"
            if status == ExitStatus(code=0):
                return place
            complaint = err.decode(errors="replace").strip().removeprefix("anyshell: ")[:_LONGEST_COMPLAINT]
            await self.discard()
        raise ReachUnavailable(f"an overlay above {self._root} ({complaint})", _WAY)

    def _take(self, make: Callable[[Path], _Place], root: Path) -> None:
        self._place = make(root)  # here, since a cancellation comes between a call in a worker and its answer

    def _mounting(self, place: _Place) -> tuple[str, ...]:
        text = text_of("overlay.py", __package__)
        return (python_here(), "-I", "-S", "-c", text, self._root, place.upper, place.work)


def _refuse_mounts(root: str) -> None:
    """Refuse a directory with another file system in it, of which an overlay would show nothing.

    Raises:
        ReachUnavailable: There is one.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        path = line.split(" ")[4].replace("\\040", " ")
        if path != root and lies_in(path, (root,)):
            raise ReachUnavailable(
                f"an overlay above {root}: another file system is mounted at {path}, which it would not show",
                "give the environment a directory without mounts in it",
            )
