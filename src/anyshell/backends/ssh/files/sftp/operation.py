"""One call on an SFTP service: its requests, each within a time limit, and their possible changes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import posixpath
from typing import TYPE_CHECKING, TypeVar, cast

import asyncssh

from ....._types import FileEntry
from ....._waits import note_failure, to_the_end
from ..errors import MAX_ENTRIES, MAX_LINKS, check_regular, too_many

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from ....._types import FileKind


T = TypeVar("T")

CANCEL_SECONDS = 5.0
"""Seconds for a cancelled change over SFTP to be answered; then its connection is given up."""

CHUNK = 256 * 1024
"""Bytes of one SFTP request."""

WINDOW = 16
"""Requests of one file over SFTP that are on their way at once."""

AT_ONCE = 32
"""Files asked about or removed at once over SFTP."""

_KINDS: dict[int, FileKind] = {
    asyncssh.FILEXFER_TYPE_REGULAR: "file",
    asyncssh.FILEXFER_TYPE_DIRECTORY: "directory",
    asyncssh.FILEXFER_TYPE_SYMLINK: "link",
}


class Lost(Exception):  # noqa: N818 - never leaves this package
    """The connection ended; `sent` is false only if the request was certainly never on its way."""

    def __init__(self, sent: bool) -> None:
        super().__init__()
        self.sent = sent


class Stalled(Exception):  # noqa: N818 - never leaves this package
    """No answer came in time."""


class Operation:
    """One call on one service. Every request has a time limit, and the call records which changes may have happened.

    Args:
        client: The service.
        stall: Seconds for one answer.
        close_later: Closes a file that was read, without waiting.

    Attributes:
        changed: Whether a request was sent that makes a change which others see.
        litter: Temporary files that may remain.
    """

    def __init__(
        self,
        client: asyncssh.SFTPClient,
        stall: float,
        close_later: Callable[[asyncssh.SFTPClient, asyncssh.SFTPClientFile], None],
    ) -> None:
        self.client = client
        self.changed = False
        self.litter: list[str] = []
        self._stall = stall
        self._close_later = close_later

    async def ask(self, request: Awaitable[T]) -> T:
        """Await an answer, for at most `stall` seconds."""
        try:
            async with asyncio.timeout(self._stall):
                return await request
        except TimeoutError as error:
            raise Stalled from error
        except asyncssh.SFTPNoConnection as error:
            raise Lost(sent=False) from error
        except asyncssh.SFTPConnectionLost as error:
            raise Lost(sent=True) from error
        except asyncssh.SFTPError:
            raise
        except (asyncssh.Error, OSError) as error:
            raise Lost(sent=True) from error
        except (ValueError, IndexError) as error:  # errors of asyncssh for a malformed answer
            raise OSError(errno.EPROTO, "The server's answer is malformed") from error

    async def change(self, request: Coroutine[object, object, T], *, seen: bool = True) -> T:
        """Await the answer to a request that changes something, even when cancelled: the request may be on its way.

        Args:
            request: The request that is sent.
            seen: Whether others see the change. Otherwise the whole call may be repeated.
        """
        before, self.changed = self.changed, self.changed or seen

        bound: asyncio.Timeout | None = None

        async def bounded() -> T:
            nonlocal bound
            async with asyncio.timeout(self._stall) as bound:
                return await request

        def hurry() -> None:
            if bound is not None:
                with contextlib.suppress(RuntimeError):  # the timeout is over
                    bound.reschedule(asyncio.get_running_loop().time() + min(CANCEL_SECONDS, self._stall))

        async def asked() -> T:
            return await self.ask(bounded())

        try:
            return await to_the_end(asked(), hurry)
        except Lost as lost:
            if not lost.sent:
                self.changed = before
            raise

    async def stat(self, path: str, *, follow: bool = True) -> asyncssh.SFTPAttrs:
        """Describe a file."""
        return await self.ask(self.client.stat(encode(path), follow_symlinks=follow))

    async def kind(self, path: str, *, follow: bool = True) -> FileKind | None:
        """Return the kind of the file; ``None`` when the server does not show the file."""
        try:
            return kind_of(await self.stat(path, follow=follow))
        except asyncssh.SFTPError:
            return None

    async def regular(self, path: str) -> asyncssh.SFTPAttrs:
        """Describe a regular file; refuse any other file before it is opened."""
        attrs = await self.stat(path)
        check_regular(kind_of(attrs), path)
        return attrs

    async def list(self, path: str) -> list[FileEntry]:
        """List the names and kinds of a directory's entries."""
        found: list[FileEntry] = []
        unknown: list[str] = []
        names = cast("AsyncGenerator[asyncssh.SFTPName, None]", self.client.scandir(encode(path)))
        try:
            while (entry := await self.ask(anext(names, None))) is not None:
                raw = entry.filename
                name = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
                if name in (".", ".."):
                    continue
                if len(found) + len(unknown) >= MAX_ENTRIES:
                    raise too_many(path)
                if entry.attrs.type == asyncssh.FILEXFER_TYPE_UNKNOWN:
                    unknown.append(name)
                else:
                    found.append(FileEntry(name, kind_of(entry.attrs)))
        finally:
            await names.aclose()
        for start in range(0, len(unknown), AT_ONCE):
            some = unknown[start : start + AT_ONCE]
            asked = (self.kind(posixpath.join(path, name), follow=False) for name in some)
            # Without return_exceptions, a failed request hides a cancellation of the same moment, and the
            # other requests run on.
            kinds = await asyncio.gather(*asked, return_exceptions=True)
            for name, kind in zip(some, kinds, strict=True):
                if isinstance(kind, BaseException):
                    raise kind
                found.append(FileEntry(name, kind or "other"))
        return found

    async def readlink(self, path: str) -> str:
        """Return the target of a link."""
        return (await self.ask(self.client.readlink(encode(path)))).decode("utf-8", "surrogateescape")

    async def resolved(self, path: str) -> str | None:
        """Return the name at the end of a chain of links, whether the file exists or not; ``None`` when the chain has no end."""
        for _ in range(MAX_LINKS):
            if await self.kind(path, follow=False) != "link":
                return path
            path = posixpath.join(posixpath.dirname(path), await self.readlink(path))
        return None

    def close_later(self, file: asyncssh.SFTPClientFile) -> None:
        """Close a file that was read, without waiting."""
        self._close_later(self.client, file)


def kind_of(attrs: asyncssh.SFTPAttrs) -> FileKind:
    """Return the kind of a file from its attributes."""
    return _KINDS.get(attrs.type, "other")


def encode(path: str) -> bytes:
    """Encode a path for a request."""
    return path.encode("utf-8", "surrogateescape")


def cancel(requests: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel requests. Late answers are discarded."""
    for task in requests:
        task.cancel()
        task.add_done_callback(note_failure)
