"""An environment as the operating system of kimi-cli."""

from __future__ import annotations

import asyncio
import errno
import ntpath
import os
import posixpath
import stat as modes
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Literal

from .._engine import Control
from .._exceptions import AnyshellError, InvalidCommand
from .._waits import shielded
from ..shells import SHELLS
from ..tool.signals import number_of
from . import needs

with needs("kaos", "kaos", alone="pykaos"):
    from kaos import StatResult
    from kaos.path import KaosPath

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping
    from pathlib import PurePath
    from types import ModuleType
    from typing import TypeAlias

    from kaos import AsyncReadable, AsyncWritable

    from .._environment import Environment
    from .._types import Channel, Outcome

    AnyPath: TypeAlias = "str | KaosPath"
    Errors: TypeAlias = Literal["strict", "ignore", "replace"]

PENDING = 1024 * 1024
"""Bytes of a line in a channel of a process; to asyncio a longer line is an error. A process with twice as many unread bytes in a
channel is slowed down."""

LOST = 1  # no bound: an exit code
"""The exit code of a process whose real exit code is unknown."""

_TYPES = {"file": modes.S_IFREG, "directory": modes.S_IFDIR, "link": modes.S_IFLNK}
_UNTOLD = ("st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_atime", "st_ctime")


class Kaos:
    """The commands and files of an environment, for ``kaos.set_current_kaos``.

    Args:
        env: An environment that was entered with ``async with``. The caller closes it, which stops the remaining processes.
    """

    name = "anyshell"

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._rules: ModuleType = ntpath if env.os == "windows" else posixpath
        self._directory = env.directory

    def pathclass(self) -> type[PurePath]:
        """Return the class of the host's paths."""
        return PureWindowsPath if self._env.os == "windows" else PurePosixPath

    def normpath(self, path: AnyPath) -> KaosPath:
        """Return a normalised path, for example without doubled separators."""
        return KaosPath(self._rules.normpath(str(path)))

    def gethome(self) -> KaosPath:
        """Return the home directory of the host's user."""
        return KaosPath(self._env.info.home)

    def getcwd(self) -> KaosPath:
        """Return the directory in which programs run and relative paths start."""
        return KaosPath(self._directory)

    async def chdir(self, path: AnyPath) -> None:
        """Change the working directory of this object; the directory of this process stays."""
        there = self._at(path)
        if (await self._env.files.stat(there)).kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), there)
        if self._rules is posixpath:
            outcome = await self._env.run("pwd -P", cwd=there, timeout=60)
            there = outcome.check().output.text.removesuffix("\n")
        self._directory = there

    async def stat(self, path: AnyPath, *, follow_symlinks: bool = True) -> StatResult:
        """Describe a file; facts that the host does not tell are 0."""
        found = await self._env.files.stat(self._at(path), follow=follow_symlinks)
        return StatResult(
            st_mode=found.mode | _TYPES.get(found.kind, 0),
            st_size=found.size,
            st_mtime=found.modified,
            **dict.fromkeys(_UNTOLD, 0),
        )

    async def iterdir(self, path: AnyPath) -> AsyncGenerator[KaosPath]:
        """Yield the paths in a directory."""
        for name in await self._env.files.list(self._at(path)):
            yield self._below(path, name)

    async def glob(
        self, path: AnyPath, pattern: str, *, case_sensitive: bool = True
    ) -> AsyncGenerator[KaosPath]:
        """Yield the paths in a directory that match a pattern, including hidden files."""
        if not case_sensitive:
            raise ValueError("a glob is case-sensitive here: name both cases, as in [Rr]eadme")
        there = self._at(path)
        try:
            found = await self._env.files.glob(pattern, directory=there, hidden=True)
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in found:
            yield self._below(path, self._rules.relpath(each, there))

    async def readbytes(self, path: AnyPath, n: int | None = None) -> bytes:
        """Read a file, or its beginning."""
        return await self._env.files.read(self._at(path), length=None if n is None or n < 0 else n)

    async def readtext(self, path: AnyPath, *, encoding: str = "utf-8", errors: Errors = "strict") -> str:
        """Read a file as text; line ends stay unchanged."""
        return await self._env.files.read_text(self._at(path), encoding=encoding, errors=errors)

    async def readlines(
        self, path: AnyPath, *, encoding: str = "utf-8", errors: Errors = "strict"
    ) -> AsyncGenerator[str]:
        """Yield the lines of a file, each with its line end."""
        for line in await self._env.files.read_lines(self._at(path), encoding=encoding, errors=errors):
            yield line

    async def writebytes(self, path: AnyPath, data: bytes) -> int:
        """Replace a file, and return the number of bytes."""
        await self._env.files.write(self._at(path), data)
        return len(data)

    async def writetext(
        self,
        path: AnyPath,
        data: str,
        *,
        mode: Literal["w", "a"] = "w",
        encoding: str = "utf-8",
        errors: Errors = "strict",
    ) -> int:
        """Replace a file by a text, or append the text, and return the number of characters."""
        write = self._env.files.append_text if mode == "a" else self._env.files.write_text
        return await write(self._at(path), data, encoding=encoding, errors=errors)

    async def mkdir(self, path: AnyPath, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory."""
        await self._env.files.mkdir(self._at(path), parents=parents, exist_ok=exist_ok)

    async def exec(self, *args: str, env: Mapping[str, str] | None = None) -> Process:
        """Start a program.

        The variables override those of the host. Another host gets only the variables that differ from this process's own:
        callers extend a copy of their own variables, whose PATH and HOME mean nothing on the other host.

        Raises:
            OSError: The program could not be started.
        """
        if not args:
            raise ValueError("exec needs a program")
        here = {} if self._env.info.is_this_machine else os.environ
        variables = {name: value for name, value in (env or {}).items() if here.get(name) != value}
        process = Process()
        try:
            await process.start(
                self._env, SHELLS[self._env.shell.kind].join(args), self._directory, variables
            )
        except AnyshellError as error:
            raise OSError(f"nothing was started: {error}") from error
        return process

    def _at(self, path: AnyPath) -> str:
        if not str(path):
            raise InvalidCommand("the path is empty")
        joined: str = self._rules.join(self._directory, str(path))
        return joined

    def _below(self, path: AnyPath, name: str) -> KaosPath:
        return KaosPath(self._rules.join(str(path), name))


class Process:
    """A running program, with all processes that it starts."""

    def __init__(self) -> None:
        self._input = _Input()
        self._flows = {"stdout": _Flow(), "stderr": _Flow()}
        self.stdin: AsyncWritable = self._input
        self.stdout: AsyncReadable = self._flows["stdout"].reader
        self.stderr: AsyncReadable = self._flows["stderr"].reader
        self._control = Control()
        self._task: asyncio.Task[int] | None = None

    async def start(self, env: Environment, text: str, directory: str, variables: Mapping[str, str]) -> None:
        """Start the program, and return once it runs."""
        self._task = asyncio.ensure_future(self._run(env, text, directory, variables))
        begun = asyncio.ensure_future(self._input.begun.wait())
        try:
            await asyncio.wait([self._task, begun], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.kill()
            raise
        finally:
            begun.cancel()
        if not self._input.begun.is_set():
            await self._task  # raises the error of the start

    async def _run(self, env: Environment, text: str, directory: str, variables: Mapping[str, str]) -> int:
        async def hear(channel: Channel, data: bytes) -> None:
            await self._flows[channel].feed(data)

        try:
            outcome = await env.run(
                text,
                cwd=directory,
                env=variables,
                stdin=self._input.pieces(),
                split_stderr=True,
                listener=hear,
                background_after=None,
                control=self._control,
            )
            return self._code(outcome, env)
        except AnyshellError as error:
            if not self._input.begun.is_set():
                raise
            self.stderr.feed_data(f"[anyshell] {error}\n".encode())
            return LOST
        finally:
            self.stdout.feed_eof()
            self.stderr.feed_eof()
            self._input.end()

    def _code(self, outcome: Outcome, env: Environment) -> int:
        if outcome.exit_code is not None:
            return outcome.exit_code
        name = "SIGKILL" if outcome.status == "cancelled" else outcome.signal
        if name is None or (number := number_of(name, env.os)) is None:
            self.stderr.feed_data(
                f"[anyshell] The program was {outcome.status}, and may have run.\n".encode()
            )
            return LOST
        return -number

    @property
    def pid(self) -> int:
        """The process number of the program on the host; -1 if unknown."""
        process = self._control.process
        return -1 if process is None or process.pid is None else process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended the program; ``None`` while the program runs."""
        return self._task.result() if self._task is not None and self._task.done() else None

    async def wait(self) -> int:
        """Wait for the program's end, and return the exit code; cancelling the wait does not stop the program."""
        assert self._task is not None
        return await shielded(self._task)

    async def kill(self) -> None:
        """Kill the program with all processes that it has started, and wait for the end."""
        self._control.cancel()
        self._control.cancel()
        for flow in self._flows.values():
            flow.free()  # unread output must not hold up the end
        if self._task is not None:
            await asyncio.wait([self._task])


class _Flow(asyncio.ReadTransport):
    """The output channel of a process, which slows the process down while output is unread."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = asyncio.StreamReader(PENDING)
        self.reader.set_transport(self)
        self.open = asyncio.Event()
        self.open.set()
        self._free = False

    def pause_reading(self) -> None:
        self.open.clear()

    def resume_reading(self) -> None:
        self.open.set()

    def free(self) -> None:
        self._free = True
        self.open.set()

    async def feed(self, data: bytes) -> None:
        self.reader.feed_data(data)
        if not self._free:
            await self.open.wait()


class _Input:
    """The input of a process."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._data = bytearray()
        self._unread = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._closing = self._over = False

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the pieces written to stdin, each at once; the first request for a piece shows that the process runs."""
        self.begun.set()
        while self._data or not self._closing:
            self._changed.clear()
            if self._data:
                piece = bytes(self._data)
                self._data.clear()
                yield piece
                self._unread -= len(piece)
            else:
                self._taken.set()
                await self._changed.wait()
        self._taken.set()

    def end(self) -> None:
        """Record that the process reads nothing more."""
        self._over = self._closing = True
        self._taken.set()

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        self._unread += len(data)
        if not self._over:
            self._data += data
            self._taken.clear()
            self._changed.set()

    def writelines(self, data: Iterable[bytes], /) -> None:
        self.write(b"".join(data))

    async def drain(self) -> None:
        await self._taken.wait()
        if self._over and self._unread:
            raise BrokenPipeError(errno.EPIPE, "the program has ended and not read it")

    def close(self) -> None:
        self._closing = True
        self._changed.set()

    def write_eof(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    async def wait_closed(self) -> None:
        await self._taken.wait()
