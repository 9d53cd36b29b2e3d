"""The files of a Windows host over SFTP, whose paths OpenSSH for Windows writes as ``/C:/Users/name``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence

    from ...._types import FileEntry, FileStat
    from ....abc import Files


class WindowsFiles:
    """The files of a Windows host, by Windows paths.

    Args:
        files: The same files, by paths of the SFTP service.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        with _named(path):
            return await self._files.stat(to_sftp(path), follow=follow)

    async def list(self, path: str) -> Sequence[FileEntry]:
        """List the names and kinds of a directory's entries."""
        with _named(path):
            return await self._files.list(to_sftp(path))

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it."""
        with _named(path):
            return await self._files.read(to_sftp(path), offset=offset, length=length)

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file."""
        with _named(path):
            await self._files.write(to_sftp(path), data, append=append)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory."""
        with _named(path):
            await self._files.mkdir(to_sftp(path), parents=parents, exist_ok=exist_ok)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, a directory or a tree."""
        with _named(path):
            await self._files.remove(to_sftp(path), recursive=recursive)

    async def rename(self, source: str, target: str) -> None:
        """Rename a file."""
        with _named(source, target):
            await self._files.rename(to_sftp(source), to_sftp(target))

    async def readlink(self, path: str) -> str:
        """Return the target of a link."""
        with _named(path):
            return from_sftp(await self._files.readlink(to_sftp(path)))

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`."""
        with _named(path):
            await self._files.symlink(to_sftp(target), to_sftp(path))

    async def chmod(self, path: str, mode: int) -> None:
        """Set permission bits; Windows has only the bit that forbids writing."""
        with _named(path):
            await self._files.chmod(to_sftp(path), mode)

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file."""
        with _named(path):
            await self._files.set_modified(to_sftp(path), modified)

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file in chunks."""
        with _named(path):
            async with contextlib.aclosing(self._files.read_chunks(to_sftp(path))) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Create a new file from chunks as they come."""
        with _named(path):
            await self._files.write_chunks(to_sftp(path), chunks, mode=mode)


def to_sftp(path: str) -> str:
    r"""Convert a Windows path to a path of the SFTP service: ``C:\x``, ``\\?\C:\x`` and ``\\server\share\x``."""
    path = path.replace("\\", "/")
    if path[:8].upper() == "//?/UNC/":
        path = "//" + path[8:]
    elif path[:4] in ("//?/", "//./"):
        path = path[4:]
    if path[1:2] == ":":
        return f"/{path}/" if len(path) == 2 else f"/{path}"
    return path


def from_sftp(path: str) -> str:
    """Convert a path of the SFTP service to a Windows path."""
    path = path[1:] if path[:1] == "/" and path[2:3] == ":" else path
    return path.replace("/", "\\")


@contextlib.contextmanager
def _named(*paths: str) -> Iterator[None]:
    """Make errors name the paths that the caller gave."""
    try:
        yield
    except OSError as error:
        given = {to_sftp(path): path for path in reversed(paths)}
        if error.filename is not None:
            error.filename = given.get(error.filename, paths[0])
        if error.filename2 is not None:
            error.filename2 = given.get(error.filename2, paths[-1])
        raise


if TYPE_CHECKING:
    _keeps_protocol: type[Files] = WindowsFiles
