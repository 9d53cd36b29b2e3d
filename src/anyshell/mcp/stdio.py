"""The protocol over this program's own stdin and stdout: one message a line.

The SDK's own transport is not used: it reads lines of any length, in a thread that a signal does not end.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, jsonrpc_message_adapter

from ..cli.process.descriptors import DescriptorReader, DescriptorWriter, lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing = MemoryObjectSendStream[SessionMessage]

LONGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes of a message from a client; a longer message is left unanswered, like a line that is not a message."""


@asynccontextmanager
async def messages() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Yield the stream of the client's messages and the stream for answers; the messages end when the client is gone."""
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, out = anyio.create_memory_object_stream[SessionMessage](0)
    reader, writer, reading = DescriptorReader(0), DescriptorWriter(1), anyio.CancelScope()

    async def read() -> None:
        with reading, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with into:
                async for line in lines(reader, LONGEST_MESSAGE):
                    message = _parsed(line)
                    await into.send(message)
                    if isinstance(message, Exception) and (answer := _refusal(line)) is not None:
                        tasks.start_soon(refuse, answer)

    async def refuse(answer: SessionMessage) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await outgoing.send(answer)

    async def write() -> None:
        async with out:
            async for message in out:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await writer.write(text.encode() + b"\n")
                if writer.error is not None:
                    reading.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield incoming, outgoing
        finally:
            reading.cancel()
            writer.hurry()
            await outgoing.aclose()


def _parsed(line: bytes) -> SessionMessage | Exception:
    if len(line) > LONGEST_MESSAGE:
        return ValueError(f"a message has up to {LONGEST_MESSAGE:,} bytes")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _refusal(line: bytes) -> SessionMessage | None:
    """Return the error for a malformed request, so that its client does not wait; ``None`` if the id is not readable."""
    try:
        given = json.loads(
            line
        )  # also accepts half of a surrogate pair, which the protocol's own parser rejects
        number = given["id"] if "method" in given else None
        if type(number) not in (int, str):
            return None
        str(number).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    error = ErrorData(
        code=INVALID_REQUEST, message="this is not a request: its form is wrong, or its text is not Unicode"
    )
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))
