"""The files of an SSH host, by SFTP or by the host's shell."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .sftp.files import STALL_SECONDS, NoSubsystem, SFTPFiles
from .shell import ShellFiles

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence

    from ...._types import FileEntry, FileStat
    from ....abc import Files
    from .sftp.files import Open
    from .shell import Run


class SSHFiles:
    """The files of an SSH host: over SFTP, or by commands of its shell where the server has no SFTP service.

    The first use chooses between the two; the choice stays.

    Args:
        open: Opens an SFTP service over the current connection.
        run: Runs a program on the host, as `ShellFiles` takes it.
        stall: Seconds that the host may owe an answer.
    """

    def __init__(self, open: Open, run: Run, *, stall: float = STALL_SECONDS) -> None:  # noqa: A002 - the word for it
        self.sftp = SFTPFiles(open, stall=stall)
        """The files over SFTP, whether the host has the SFTP service or not."""
        self._run = run
        self._shell = ShellFiles(run)
        self._chosen: Files | None = None

    async def aclose(self) -> None:
        """End the SFTP service."""
        await self.sftp.aclose()

    async def _files(self, path: str) -> Files:
        if self._chosen is None:
            try:
                await self.sftp.ready()
            except NoSubsystem as error:
                # A service that ended while it started may mean that the whole connection has ended.
                if not error.certain:
                    await self._shell.stat("/")
                self._chosen = self._shell
            except TimeoutError as error:
                raise TimeoutError(error.errno, error.strerror, path) from error
            else:
                self._chosen = self.sftp
        return self._chosen

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        return await (await self._files(path)).stat(path, follow=follow)

    async def list(self, path: str) -> Sequence[FileEntry]:
        """List the names and kinds of a directory's entries."""
        return await (await self._files(path)).list(path)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it."""
        return await (await self._files(path)).read(path, offset=offset, length=length)

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file."""
        await (await self._files(path)).write(path, data, append=append)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory."""
        await (await self._files(path)).mkdir(path, parents=parents, exist_ok=exist_ok)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, a directory or a tree."""
        await (await self._files(path)).remove(path, recursive=recursive)

    async def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        await (await self._files(source)).rename(source, target)

    async def readlink(self, path: str) -> str:
        """Return the target of a link."""
        return await (await self._files(path)).readlink(path)

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`."""
        await (await self._files(path)).symlink(target, path)

    async def chmod(self, path: str, mode: int) -> None:
        """Set permission bits."""
        await (await self._files(path)).chmod(path, mode)

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file."""
        await (await self._files(path)).set_modified(path, modified)

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file in chunks."""
        async with contextlib.aclosing((await self._files(path)).read_chunks(path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Create a new file from chunks as they come."""
        await (await self._files(path)).write_chunks(path, chunks, mode=mode)


if TYPE_CHECKING:
    _keeps_protocol: tuple[type[Files], type[Files]] = (SFTPFiles, SSHFiles)
