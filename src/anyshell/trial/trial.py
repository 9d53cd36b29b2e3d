"""Trials: a command runs on a layer above its directory, and its writes become real only on request."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError, InvalidCommand, ReachUnavailable
from .._runner.effects import LOOK_SECONDS, MOST_FILES, SETTLE_SECONDS, still_running
from .._types import ExitStatus, Spawn
from .._waits import to_the_end
from ..backends.collect import collect
from ..reach import NONE, LocalPlaces, Reach, compile_reach, python_here
from ..reach.bubblewrap import Bubblewrap
from ..reach.host import text_of
from ..reach.landlock import Landlock
from ..reach.values import lies_in
from .hosts import Host
from .told import tell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from .. import _engine
    from .._runner import Runner, RunOptions
    from .._types import Command, Effects, Outcome
    from ..reach import Facts, Sandbox

MOUNT_SECONDS = 10.0
"""Seconds for a test mount of the overlay; then the trial is refused."""

_LONGEST_COMPLAINT = 300
"""Characters of the complaint about an overlay that an error message repeats; the rest is cut."""

_WAY = "run it on Linux 5.11 or later, as a user who may make user namespaces ('anyshell doctor' tells), or without a trial"


class Trial:
    """A command on trial: ``async with env.trial("make fix") as trial:`` runs it, and no write is real before `commit`.

    Leaving the block without `commit` discards all writes.
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
        self._host: Host | None = None
        self._has_run = False
        self._root = ""
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome of the command; its `Outcome.effects` are `effects`. Raises `AnyshellError` before the end."""
        if self._outcome is None:
            raise AnyshellError(
                "the trial has not run to its end: enter it with 'async with', or await run()"
            )
        return self._outcome

    @property
    def effects(self) -> Effects:
        """The effects that a commit would have in the directory of the environment."""
        assert self.outcome.effects is not None
        return self.outcome.effects

    @property
    def diff(self) -> str:
        """The changes of text files as a unified diff; `Effects.without_diff` names the files without a diff."""
        return self.effects.diff or ""

    async def __aenter__(self) -> Self:
        await self.run()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.discard()

    async def run(self) -> Outcome:
        """Run the command, once. The caller then has to call `discard`, unless `run` raises. ``async with`` calls both.

        Raises:
            ReachUnavailable: The host cannot run a trial; nothing was started.
            AnyshellError: As for `Environment.run`; or the directory has too many files, or too many files were written.
        """
        if self._runner.info.os != "linux":
            raise ReachUnavailable("overlays: a trial runs on Linux alone", "run the command without a trial")
        if self._has_run or self._host is not None:
            raise AnyshellError("a trial runs once: make another one")
        try:
            return await self._run()
        except BaseException as error:
            with suppress(AnyshellError, OSError):  # the first error is raised
                await self.discard()
            if isinstance(error, OSError) and not isinstance(error, AnyshellError):
                raise AnyshellError(f"no trial in {self._root}: {error.strerror}") from error
            raise

    async def _run(self) -> Outcome:
        runner, options = self._runner, self._options
        self._root = runner.directory
        command = await runner.addresses.expand(self._command)
        runner.check(options)
        here, base = runner.info.is_this_machine, runner.sandbox
        facts = base.facts if isinstance(base, Bubblewrap) else await self._facts()
        wanted, places = self._wanted(base), LocalPlaces() if here else None
        if base is NONE:
            compile_reach(wanted, facts, places)  # refuse a bad reach before the first step on the host
        python = python_here() if here else facts.python or "python3"
        self._host = host = Host(runner.backend, None if here else python)
        real, mount, tops = await host.ask("prepare", [runner.directory, *wanted.write])
        self._root = root = real[0]
        if root == "/":
            raise InvalidCommand(
                "a trial needs a directory to run above, and '/' is all of them: give the environment another"
            )
        if mount:
            raise ReachUnavailable(
                f"an overlay above {root}: another file system is mounted at {mount}, which it would not show",
                "give the environment a directory without mounts in it",
            )
        # Only the directory is writable in the sandbox: a write elsewhere would be real, and no layer could show or undo it.
        write = (
            (root,) if lies_in(root, real[1:]) else tuple(path for path in real[1:] if lies_in(path, (root,)))
        )
        wanted = replace(wanted, read=(*wanted.read, *wanted.write), write=write)
        sandbox: Sandbox
        if isinstance(base, Bubblewrap):
            sandbox = base.narrowed(wanted)
        else:
            sandbox = compile_reach(wanted, facts, places)
        spawn = sandbox.wrap(runner.spawn_of(command, options, confined=False))
        mounting = await self._choose(host, python, tops)
        newest = await host.ask("look", MOST_FILES, LOOK_SECONDS)
        self._has_run = True
        if time.time_ns() - newest < SETTLE_SECONDS * 1e9 or not here:
            await asyncio.sleep(SETTLE_SECONDS)
        spawn = replace(spawn, argv=(*mounting, *spawn.argv))
        outcome = await runner.run(command, options, spawn=spawn, control=self._control)
        try:
            effects = await tell(host, LOOK_SECONDS)
        except OSError as error:
            raise AnyshellError(
                f"what the command wrote cannot be read: {error.strerror}: {error.filename}"
            ) from error
        if why := still_running(outcome):
            effects = replace(effects, incomplete=(*effects.incomplete, why))
        self._outcome = replace(outcome, effects=effects)
        return self._outcome

    async def commit(self) -> None:
        """Make the command's writes real: all writes, or none. Each file is whole at every moment.

        Raises:
            CommitConflict: Another program has changed some of the files since the trial began. The error names the files.
            AnyshellError: The trial was committed or discarded before, or a file cannot be written.
        """
        host = self._host
        if host is None or not self._has_run:
            raise AnyshellError(
                "there is nothing to commit: the trial was committed or discarded, or has not run"
            )
        try:
            await to_the_end(host.ask("commit"), lambda: None)
        except OSError as error:
            where = error.filename or self._root
            raise AnyshellError(f"nothing was committed: {error.strerror}: {where}") from error
        with suppress(AnyshellError, OSError):  # committed; the next trial removes the remaining files
            await self.discard()

    async def discard(self) -> None:
        """Discard the command's writes. A second call, or a call after a commit, does nothing."""
        host, self._host = self._host, None
        if host is not None:
            await to_the_end(host.ask("close"), lambda: None)

    def _wanted(self, base: Sandbox) -> Reach:
        """Return the reach of the command, before its writable paths are limited to the directory."""
        runner, asked = self._runner, self._options.reach
        root = runner.directory
        if asked is not None:
            asked = asked.resolved(root, runner.info.home)
        if isinstance(base, Landlock):
            raise ReachUnavailable(
                "a trial within Landlock alone: it needs namespaces", "run the command without a trial"
            )
        if isinstance(base, Bubblewrap):
            return asked or base.reach
        if base is not NONE:
            raise ReachUnavailable(
                "a trial within a sandbox of the caller's own", "give the environment a Reach instead"
            )
        return asked or Reach(read=("/", root), write=(root,), hide=(), protect=(), network=True)

    async def _choose(self, host: Host, python: str, tops: list[str]) -> tuple[str, ...]:
        """Find a place where the kernel can mount the layer; return the words that mount it and then execute a program."""
        complaint = "there is no directory for its layer"
        for top in tops:
            try:
                upper, work = await host.ask("make", top, self._root)
            except OSError as error:
                complaint = f"{top}: {error.strerror}"
                continue
            text = text_of("overlay.py", __package__)
            mounting = (python, "-I", "-S", "-c", text, self._root, upper, work)
            asked = Spawn(argv=(*mounting, "/bin/sh", "-c", ":"), cwd="/", split_stderr=True)
            try:
                status, _, err = await collect(self._runner.backend, asked, seconds=MOUNT_SECONDS, most=1)
            except TimeoutError:
                status, err = None, b"it took too long"
            if status == ExitStatus(code=0):
                return mounting
            complaint = err.decode(errors="replace").strip().removeprefix("anyshell: ")[:_LONGEST_COMPLAINT]
            await to_the_end(host.ask("close"), lambda: None)
        raise ReachUnavailable(f"an overlay above {self._root} ({complaint})", _WAY)
