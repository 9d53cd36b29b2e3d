"""The directories in which trials keep their layers: private ones, locked while a trial has them, and swept when one died."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _private
from .commit import BESIDE, remove

assert sys.platform == "linux"

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def close(self) -> None:
        """Remove it. A second time, nothing is done."""
        if self._lock is not None:
            remove(self._top)
            os.unlink(self._top + _LOCK)
            os.close(self._lock)
            self._lock = None


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
