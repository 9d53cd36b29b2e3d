"""Checkpoints: earlier states of a directory's files, which can be restored."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _private
from .._exceptions import AnyshellError
from .._runner.effects import LOOK_SECONDS, MOST_FILES, SETTLE_SECONDS
from .._types.effects import SKIPPED
from .._waits import in_a_worker, to_the_end
from .hosts import Far
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .._runner import Runner

_WORDS = (SKIPPED, MOST_FILES, LOOK_SECONDS, SETTLE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of a directory's files at one time.

    Attributes:
        id: The name of the checkpoint.
        directory: The directory, without links.
        made: The time of the checkpoint, in seconds since the epoch.
        files: The number of covered files, links and directories.
        skipped: Directories that the checkpoint does not cover, since programs can make the files in them anew.
        left_out: Files that the checkpoint does not cover, with the reason.
        since: The id of the checkpoint before the changes that can be undone, if this checkpoint was made after them; else empty.
    """

    id: str
    directory: str
    made: float
    files: int = 0
    skipped: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of an undo.

    Attributes:
        restored: Paths that were put back to their earlier state.
        removed: New paths that were removed.
        kept: Paths that were left unchanged, with the reason: the undo did not know the path, or could not write there.
        before: The checkpoint of the state before the undo.
    """

    restored: tuple[str, ...]
    removed: tuple[str, ...]
    kept: Mapping[str, str]
    before: Checkpoint


class Checkpoints:
    """The checkpoints of one directory.

    Args:
        directory: The directory.
        far: The SSH host that has the store; ``None`` is this machine.
    """

    def __init__(self, directory: str, far: Far | None = None) -> None:
        self._directory, self._far = directory, far
        if far is None:
            state = str(_private.state_directory("checkpoints").parent)
            self._store = Store(directory, state, _own, _private.create_file)

    async def take(self, *, since: Checkpoint | None = None) -> Checkpoint:
        """Make a checkpoint. `Environment.checkpoint` says more."""
        return _checkpoint(await self._ask("take", *_WORDS, "" if since is None else since.id))

    async def restore(self, checkpoint: Checkpoint, *, until: Checkpoint | None = None) -> Restored:
        """Restore the state of a checkpoint. `Environment.restore` says more."""
        start, end = ((each.id, each.directory) if each else None for each in (checkpoint, until))
        done = await to_the_end(self._ask("restore", start, end, _WORDS), lambda: None)
        return Restored(
            restored=tuple(done["restored"]),
            removed=tuple(done["removed"]),
            kept=done["kept"],
            before=_checkpoint(done["before"]),
        )

    async def kept(self) -> Sequence[Checkpoint]:
        """Return the kept checkpoints, the newest first."""
        return [_checkpoint(each) for each in await self._ask("kept")]

    async def between(self, start: Checkpoint, end: Checkpoint) -> Sequence[str]:
        """Return the paths that differ between two checkpoints."""
        return list(await self._ask("between", start.id, end.id))

    async def forget(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint. A later `take` removes contents that no other checkpoint has."""
        await self._ask("forget", checkpoint.id)

    async def _ask(self, step: str, *words: object) -> Any:
        with _told():
            if self._far is not None:
                return await self._far.ask(self._directory, step, words)
            return await in_a_worker(partial(getattr(self._store, step), *words))


@contextmanager
def _told() -> Iterator[None]:
    """Turn an `OSError` of the store into an `AnyshellError`."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise AnyshellError(f"{error.strerror}{where}") from error


def checkpoints_of(runner: Runner, directory: str | None = None) -> Checkpoints:
    """Return the checkpoints of a directory on the host of an environment; by default of the environment's directory.

    Raises:
        AnyshellError: The host is a Windows machine that SSH reaches.
    """
    directory = runner.directory if directory is None else directory
    if runner.info.is_this_machine:
        return Checkpoints(directory)
    if runner.info.os == "windows":
        raise AnyshellError("checkpoints need a POSIX host, or this machine: run anyshell on that host")
    return Checkpoints(directory, Far(runner.backend, "python3", ("files", "store")))


def _own(path: str) -> None:
    _private.make_directories(Path(path))
    _private.check_directory(Path(path), refusal="checkpoints are not kept: {fault}")


def _checkpoint(told: dict[str, Any]) -> Checkpoint:
    return Checkpoint(**{**told, "skipped": tuple(told["skipped"])})
