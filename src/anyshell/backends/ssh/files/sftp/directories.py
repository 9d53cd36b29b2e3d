"""Directories over SFTP: making a directory with its parents, and removing a directory with its content."""

from __future__ import annotations

import asyncio
import errno
import posixpath
from typing import TYPE_CHECKING

from ..errors import os_error
from .errors import explained
from .operation import AT_ONCE, encode, kind_of

if TYPE_CHECKING:
    from .operation import Operation


async def mkdir(op: Operation, path: str, parents: bool, exist_ok: bool) -> None:
    """Make a directory; with `parents`, also its missing parent directories."""
    path = path.rstrip("/") or "/"
    try:
        await _mkdir(op, path)
    except FileNotFoundError:
        above = posixpath.dirname(path)
        if not parents or above == path:
            raise
        await mkdir(op, above, True, True)
        try:
            await _mkdir(op, path)
        except FileExistsError:
            if not exist_ok or await op.kind(path) != "directory":
                raise
    except FileExistsError:
        if not exist_ok or await op.kind(path) != "directory":
            raise


async def _mkdir(op: Operation, path: str) -> None:
    async with explained(op, "mkdir", path):
        await op.change(op.client.mkdir(encode(path)))


async def remove(op: Operation, path: str, recursive: bool) -> None:
    """Remove a file, a link or an empty directory; with `recursive`, a whole tree."""
    path = path.rstrip("/") or "/"
    if posixpath.basename(path) in (".", ".."):
        raise os_error(errno.EINVAL, path)
    if kind_of(await op.stat(path, follow=False)) != "directory":
        await op.change(op.client.remove(encode(path)))
    elif recursive:
        await _remove_tree(op, path)
    else:
        await _rmdir(op, path)


async def _remove_tree(op: Operation, top: str) -> None:
    """Remove a tree depth first, without recursion: a tree may be deeper than Python's stack."""
    left = [(top, False)]
    while left:
        path, emptied = left.pop()
        if emptied:
            await _rmdir(op, path)
            continue
        left.append((path, True))
        async with explained(op, "list", path):
            entries = await op.list(path)
        files = [posixpath.join(path, entry.name) for entry in entries if entry.kind != "directory"]
        left += [(posixpath.join(path, entry.name), False) for entry in entries if entry.kind == "directory"]
        for start in range(0, len(files), AT_ONCE):
            some = files[start : start + AT_ONCE]
            for failed in await asyncio.gather(*(_unlink(op, each) for each in some), return_exceptions=True):
                if failed is not None:
                    raise failed


async def _unlink(op: Operation, path: str) -> None:
    async with explained(op, "remove", path):
        await op.change(op.client.remove(encode(path)))


async def _rmdir(op: Operation, path: str) -> None:
    async with explained(op, "rmdir", path):
        await op.change(op.client.rmdir(encode(path)))
