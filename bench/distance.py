"""Distance: a port of this machine that forwards to another local port with the delay of a distant host."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from .floors import READ_SIZE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

HOST = "127.0.0.1"

_UNDER_WAY = 256
"""Pieces that may be under way in one direction; the next piece is read when a piece has arrived."""


@asynccontextmanager
async def distant(port: int, seconds: float) -> AsyncIterator[int]:
    """Listen at a port that forwards to another port, with a delay of so many seconds in each direction.

    Many pieces may be under way at the same time: the distance adds latency, and leaves the throughput high.
    """

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(HOST, port)
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_carry(reader, there_writer, seconds))
            directions.create_task(_carry(there_reader, writer, seconds))

    async with _listening(join) as listening:
        yield listening


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Listen at a port that sends received bytes back at once."""

    async def give_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _carry(reader, writer, 0)

    async with _listening(give_back) as listening:
        yield listening


@asynccontextmanager
async def _listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    served: set[asyncio.Future[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        served.add(task)
        task.add_done_callback(served.discard)

    server = await asyncio.start_server(connected, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(served):
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Copy every piece from the reader to the writer, delayed by `seconds`, and close the writer after the last piece."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

    async def leave() -> None:
        data = b"the first"
        while data:
            with suppress(ConnectionError):  # an error counts as the end of the stream
                data = b""
                data = await reader.read(READ_SIZE)
            await under_way.put((loop.time() + seconds, data))

    async def arrive() -> None:
        due, data = await under_way.get()
        while data:
            await asyncio.sleep(due - loop.time())
            writer.write(data)
            due, data = await under_way.get()
        await asyncio.sleep(due - loop.time())

    try:
        async with asyncio.TaskGroup() as ends:
            ends.create_task(leave())
            ends.create_task(arrive())
    finally:
        writer.close()
