"""Reading a file over SFTP, with several requests on their way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import asyncssh

from ....._waits import shielded
from .operation import CHUNK, WINDOW, cancel, encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from .operation import Operation


async def open_file(op: Operation, path: str) -> tuple[asyncssh.SFTPClientFile, int]:
    """Open a regular file to read, and return the file with its size."""
    attrs = await op.regular(path)
    opening = asyncio.ensure_future(
        op.client.open(encode(path), asyncssh.FXF_READ, encoding=None, block_size=0)
    )
    try:
        return await op.ask(shielded(opening)), attrs.size or 0
    except asyncio.CancelledError:
        # The file is not wanted any more: it is closed when the answer comes, or with the service.
        opening.add_done_callback(partial(_close_unused, op))
        raise


def _close_unused(op: Operation, opening: asyncio.Future[asyncssh.SFTPClientFile]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        op.close_later(opening.result())


@contextlib.asynccontextmanager
async def opened(op: Operation, path: str) -> AsyncIterator[tuple[asyncssh.SFTPClientFile, int]]:
    """Open a file like `open_file`, and close the file at the end."""
    file, size = await open_file(op, path)
    try:
        yield file, size
    finally:
        op.close_later(file)


async def pieces(
    op: Operation, file: asyncssh.SFTPClientFile, size: int, offset: int, length: int | None
) -> AsyncGenerator[bytes, None]:
    """Yield chunks in order, with several requests on their way.

    Beyond `size`, which is 0 for files of /proc, only one request is on its way.
    """
    pending: deque[tuple[int, int, asyncio.Task[bytes]]] = deque()
    most = min(CHUNK, op.client.limits.max_read_len)
    end = None if length is None else offset + length
    position = offset
    try:
        while True:
            while len(pending) < WINDOW and (position < size or not pending):
                wanted = most if end is None else min(most, end - position)
                if wanted <= 0:
                    break
                pending.append((position, wanted, asyncio.create_task(file.read(wanted, position))))
                position += wanted
            if not pending:
                return
            start, wanted, task = pending.popleft()
            try:
                piece = await op.ask(task)
            except BaseException:
                cancel([task])
                raise
            if not piece:
                return
            yield piece
            if len(piece) < wanted:
                if start + len(piece) >= size > 0:
                    return  # a regular file gives fewer bytes only at its end
                cancel(task for _, _, task in pending)
                pending.clear()
                position = start + len(piece)
    finally:
        cancel(task for _, _, task in pending)
