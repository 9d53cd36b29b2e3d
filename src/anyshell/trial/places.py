"""The directories in which trials keep their layers: private ones, locked while a trial has them, and swept when one died."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from .. import _private
from .. import effects as looks
from .commit import BESIDE, Commit, remove
from .layer import Before, changes_of, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._types import Effects

_LOCK = ".lock"
_SHARED = "/dev/shm"  # noqa: S108 - a directory of the user's own is made in it


def roots() -> Iterator[Path]:
    """Where layers may be: the kernel takes one on some file systems, and outside of what it is laid over."""
    with suppress(OSError):
        yield _private.state_directory("trials")
    for top in (tempfile.gettempdir(), _SHARED):
        yield Path(top) / f"anyshell-trials-{os.geteuid()}"


class Place:
    """A directory of one trial, with an upper layer and what overlayfs needs beside it.

    Args:
        root: Where it is made.

    Raises:
        OSError: It cannot be made there.
    """

    def __init__(self, root: Path) -> None:
        _private.make_directories(root)
        _private.check_directory(root, refusal="{fault}")
        _sweep(root)
        self.key = secrets.token_hex(8)
        self._top = str(root / self.key)
        self._lock = _locked(self._top + _LOCK)
        assert self._lock is not None
        self.upper, self.work = f"{self._top}/upper", f"{self._top}/work"
        self.journal = f"{self._top}/journal"
        for path in (self._top, self.upper, self.work):
            os.mkdir(path, 0o700)

    def remember(self, root: str, look: looks.Look) -> None:
        """Take note of what the command finds."""
        self._before = Before(root, look)

    def read(self) -> Effects:
        """Read what the command wrote.

        Raises:
            AnyshellError, OSError: It cannot be read, or is too much.
        """
        self._changes = changes_of(self.upper, self._before)
        effects = effects_of(self.upper, self._before, self._changes)
        then = _contents(self._before.root, [each.path for each in (*effects.changed, *effects.deleted)])
        diff, without = looks.unified(effects, then, _contents(self.upper, looks.to_read(effects)))
        return replace(effects, diff=diff, without_diff=without)

    def commit(self) -> None:
        """Make it real. `Commit` says more."""
        Commit(self.upper, self._before, self._changes, self.key, self.journal).run()

    def close(self) -> None:
        """Remove it. A second time, nothing is done."""
        if self._lock is not None:
            remove(self._top)
            os.unlink(self._top + _LOCK)
            os.close(self._lock)
            self._lock = None


def _contents(top: str, paths: Iterable[str]) -> dict[str, bytes]:
    """The contents of small files."""
    found: dict[str, bytes] = {}
    for path in paths:
        with suppress(OSError):
            at = os.lstat(os.path.join(top, path))
            if stat.S_ISREG(at.st_mode) and at.st_size <= looks.LARGEST_FILE:
                found[path] = Path(top, path).read_bytes()
    return found


def _locked(path: str) -> int | None:
    """Open a file and lock it; ``None`` if a running program has the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def _sweep(root: Path) -> None:
    """Remove what trials have left whose program was killed, beside files of their directories as well."""
    for lock in root.glob(f"*{_LOCK}"):
        with suppress(OSError):
            if (fd := _locked(str(lock))) is None:
                continue
            top = str(lock)[: -len(_LOCK)]
            with suppress(FileNotFoundError):
                for directory in Path(top, "journal").read_bytes().split(b"\0"):
                    with suppress(FileNotFoundError):
                        for name in os.listdir(directory):
                            if name.startswith(os.fsencode(f"{BESIDE}{os.path.basename(top)}-")):
                                remove(os.fsdecode(os.path.join(directory, name)))
            remove(top)
            lock.unlink()
            os.close(fd)
