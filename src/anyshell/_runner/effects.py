"""The effects of a run: the difference between a look at the host's files before the run and a look after it."""

from __future__ import annotations

import asyncio
import ntpath
import os
import posixpath
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .. import effects
from .._exceptions import AnyshellError, BackendError, InvalidCommand
from .._types import ExitStatus, Spawn
from .._waits import in_a_worker
from ..backends.collect import collect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._types import HostInfo, Outcome, Scan
    from ..abc import Backend

LOOK_SECONDS = 10.0
"""Seconds of one look at the files (`Outcome.effects`), before or after a command; with more, no effects are reported. As
many again are for reading the files of a diff; files not read by then are not in the diff.
"""

MOST_FILES = 500_000
"""Files that one look at this machine takes; with more, no effects are reported."""

LONGEST_LOOK = 64 * 1024 * 1024
"""Bytes that one look at another host takes, some 100 for each file; with more, no effects are reported."""

SETTLE_SECONDS = 0.01
"""Seconds between the look and the command, unless the files are older: a kernel's file clock advances every 1 to 10
milliseconds, and two changes of a file within that time have the same timestamp.
"""

READS = 16
"""Files that are read at once for a diff."""

_NO_PROGRAM = 127  # no bound


class Looks:
    """The looks at the files of one run, before and after it.

    Args:
        backend: Reaches the host.
        info: The host's facts.
        scan: The files to look at.
        base: The environment's own directory.

    Raises:
        InvalidCommand: A path that the host cannot have.
        AnyshellError: A Windows host that is reached by SSH, where no look is possible.
    """

    def __init__(self, backend: Backend, info: HostInfo, scan: Scan, base: str) -> None:
        windows, self._here = info.os == "windows", info.is_this_machine
        if windows and not self._here:
            raise AnyshellError(
                "effects= does not work on a Windows host over SSH: leave out effects=, and use git there"
            )
        self._backend = backend
        self._scan = scan
        self._base = base = info.resolve(scan.directory, base)
        self._paths = ntpath if windows else posixpath
        self._names: dict[str, str] = {}
        for path in scan.paths:
            root = info.resolve(path, base)
            plain = _plain(path.replace("\\", "/") if windows else path)
            above = path.startswith("~") or self._paths.isabs(path)
            if windows:
                root = ntpath.normpath(root).replace("\\", "/")
            elif self._here and ".." in plain.split("/"):
                # A diff with the relative path of a file above the directory could not be applied.
                root, above = os.path.realpath(root), True
            else:
                root = f"/{_plain(root)}"
            self._names.setdefault(root.rstrip("/"), root if above else plain)
        self._roots = [root or "/" for root in self._names]
        self._before = effects.Look(None)
        self._kept: dict[str, bytes] = {}

    async def begin(self) -> None:
        """Look at the files before the command.

        Raises:
            InvalidCommand: A path is not a directory of the host.
            BackendError: The host has no program that looks at files.
        """
        self._before = await self._look()
        if self._before.missing:
            raise InvalidCommand(
                f"effects: {self._before.missing[0]!r} is not a directory that can be looked at"
            )
        if self._scan.diff and self._before.records is not None:
            self._kept = await self._read(effects.to_keep(effects.parse(self._before.records, self._names)))
        newest = self._before.newest
        if newest is None or time.time_ns() - newest < SETTLE_SECONDS * 1e9:
            await asyncio.sleep(SETTLE_SECONDS)

    async def end(self, outcome: Outcome) -> Outcome:
        """Look at the files after the command, and add the difference to the outcome."""
        try:
            after = await self._look(self._before)
            for root in after.missing:
                if not await self._is_gone(root):
                    after = replace(
                        after,
                        incomplete=f"{root} cannot be looked at any more",
                        unseen=after.unseen | {effects.start(root)},
                    )
        except (AnyshellError, OSError) as error:
            after = effects.Look(None, f"the files could not be looked at after the command: {error}")
        compare = partial(effects.compare, self._before, after, self._names)
        found = await in_a_worker(compare)
        if self._scan.diff and after.records is not None:
            contents = await self._read(effects.to_read(found))
            diff, without = await in_a_worker(partial(effects.unified, found, self._kept, contents))
            found = replace(found, diff=diff, without_diff=without)
        if why := still_running(outcome):
            found = replace(found, incomplete=(*found.incomplete, why))
        return replace(outcome, effects=found)

    async def _look(self, known: effects.Look | None = None) -> effects.Look:
        if self._here:
            look = partial(
                effects.here, self._roots, self._scan.skip, seconds=LOOK_SECONDS, most=MOST_FILES, known=known
            )
            return await in_a_worker(look, abandon_on_cancel=True)
        argv = effects.arguments(self._roots, self._scan.skip)
        spawn = Spawn(argv=argv, cwd="/", split_stderr=True)
        try:
            status, out, complaint = await collect(
                self._backend, spawn, seconds=LOOK_SECONDS, most=LONGEST_LOOK
            )
        except TimeoutError:
            return effects.Look(None, effects.too_slow(LOOK_SECONDS))
        if status is None:
            return effects.Look(None, effects.too_many(f"{LONGEST_LOOK >> 20} MiB of paths and facts"))
        if status == ExitStatus(code=_NO_PROGRAM):
            raise BackendError(
                f"{self._backend.name} lacks a program that effects= needs: find, and stat or GNU's find"
            )
        whole = status == ExitStatus(code=0)
        return await in_a_worker(
            partial(effects.printed, out, complaint, self._roots, self._scan.skip, whole=whole)
        )

    async def _is_gone(self, root: str) -> bool:
        try:
            return (await self._backend.files.stat(root)).kind != "directory"
        except (AnyshellError, OSError) as error:
            return isinstance(error, FileNotFoundError | NotADirectoryError)

    async def _read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Read files, up to `READS` at once; leave out files that cannot be read, or not in time."""
        contents: dict[str, bytes] = {}
        waiting = iter(paths)

        async def work() -> None:
            for path in waiting:
                try:
                    content = await self._backend.files.read(
                        self._paths.join(self._base, path), length=effects.LARGEST_FILE + 1
                    )
                except (AnyshellError, OSError):
                    continue
                if len(content) <= effects.LARGEST_FILE:
                    contents[path] = content

        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS), asyncio.TaskGroup() as group:
                for _ in range(READS):
                    group.create_task(work())
        return contents


def still_running(outcome: Outcome) -> str:
    """Return the reason why the command may change files after the look; empty if it cannot."""
    if outcome.job is not None or any(process.alive for process in outcome.left_behind):
        return "processes of the command still run, and may change more"
    return "it is not known whether the command still runs" if outcome.status == "lost" else ""


def _plain(path: str) -> str:
    """Return a path without its meaningless parts. Two dots stay: they may lead out of a link."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
