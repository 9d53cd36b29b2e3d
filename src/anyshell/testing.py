r"""Scripted test doubles: a backend whose programs do what a test says, at the time that the test says.

For tests of code that uses anyshell, and for anyshell's own tests. The doubles keep the contract that every backend keeps::

    backend = FakeBackend({"make": Script(stdout=[b"ok\n"]), "deploy": Script(exit=None)})
    async with Environment.detect(backend) as env:
        outcome = await env.run("make")            # exits with 0
        outcome = await env.run("deploy", timeout=0.1)  # runs until it is stopped

No double starts a process or touches a file of the machine.
"""

from __future__ import annotations

import errno
import itertools
import os
import posixpath
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from ._exceptions import BackendUnavailable, InvalidCommand, SpawnError
from ._types import (
    ExitStatus,
    FileEntry,
    FileStat,
    Foreground,
    HostInfo,
    HostQuery,
    ProcessInfo,
    ShellInfo,
    Signal,
    Spawn,
    Terminal,
    TerminalKind,
)
from .backends.tree import Ungrouped

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence

    from .abc import Backend, CommandTree, Files, PipeDirectory, Program

__all__ = [
    *(
        "EVERY_SIGNAL",
        "FAKE_HOST",
        "FakeBackend",
        "FakeFiles",
        "FakeProcess",
        "FakeStdin",
        "FakeStream",
        "Script",
    ),
    "command_text",
]

EVERY_SIGNAL: frozenset[Signal] = frozenset({"interrupt", "terminate", "kill"})

_SIGNAL_NAMES: Mapping[Signal, str] = {"interrupt": "SIGINT", "terminate": "SIGTERM", "kill": "SIGKILL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The behaviour of a fake program.

    Attributes:
        stdout: Chunks that the program prints to stdout at once.
        stderr: Chunks that the program prints to stderr at once; after the chunks of stdout when the channels are one.
        exit: The exit status of the program, without a signal, at once; ``None`` when the program runs until a signal or
            `FakeProcess.exit`.
        echo: Whether the program prints its input, and ends at end-of-file, like ``cat``.
        heeds: The signals that end the program. A kill always does.
        can_terminate: Whether the program can be asked to end; if not, every signal ends it at once, as on Windows without a
            terminal.
        leaves: The number of children that outlive the program; the same signals end them.
        error: The reason why the program cannot be started; ``None`` if it can.
    """

    stdout: Sequence[bytes] = ()
    stderr: Sequence[bytes] = ()
    exit: ExitStatus | None = field(default_factory=lambda: ExitStatus(code=0))
    echo: bool = False
    heeds: frozenset[Signal] = EVERY_SIGNAL
    can_terminate: bool = True
    leaves: int = 0
    error: str | None = None


class FakeStream(ByteReceiveStream):
    """A stream of bytes that a test feeds."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self._closed = False
        self._changed = anyio.Event()

    def feed(self, data: bytes) -> None:
        """Make bytes available."""
        if data and not self._ended:
            self._pieces.append(data)
        self._notify()

    def end(self) -> None:
        """End the stream after the bytes that were fed."""
        self._ended = True
        self._notify()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next fed bytes."""
        while not self._pieces:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            await self._changed.wait()
        piece = self._pieces.popleft()
        if len(piece) > max_bytes:
            self._pieces.appendleft(piece[max_bytes:])
        return piece[:max_bytes]

    async def aclose(self) -> None:
        """Close the stream; bytes that are still unread are lost."""
        self._pieces.clear()
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class FakeStdin(ByteSendStream):
    """A stdin that keeps all sent bytes, and passes them to the process."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.received = b""
        self.closed = False
        self._on_data = on_data
        self._on_end = on_end

    async def send(self, item: bytes) -> None:
        """Keep the bytes and pass them to the process."""
        if self.closed:
            raise anyio.ClosedResourceError
        self.received += item
        self._on_data(item)

    async def aclose(self) -> None:
        """Close the stdin and tell the process."""
        if not self.closed:
            self.closed = True
            self._on_end()


class FakeProcess(Ungrouped):
    """A program that follows a script, and otherwise does what a test tells it.

    Attributes:
        spawn: The requested spawn.
        signals: Every signal that was sent to the process, in order.
        released: Whether the process was released.
        closed: Whether the process was closed.
        terminal: The present terminal of the process; ``None`` without a terminal.
        seat: The answer of `foreground`, for a test to set; ``None`` by default.
    """

    started = True
    lost = False
    usage = None

    def __init__(self, pid: int, spawn: Spawn, script: Script) -> None:
        self.pid = pid
        self.spawn = spawn
        self.signals: list[Signal] = []
        self.released = False
        self.closed = False
        self.stdout = FakeStream()
        self.stderr = FakeStream() if spawn.split_stderr else None
        self.terminal = spawn.terminal
        self.seat: Foreground | None = None
        has_stdin = spawn.stdin or spawn.terminal is not None
        self.stdin = FakeStdin(self._on_stdin, self._on_stdin_end) if has_stdin else None
        self._script = script
        self._status: ExitStatus | None = None
        self._exited = anyio.Event()
        self._gone = anyio.Event()
        self._children: list[ProcessInfo] = []
        for piece in script.stdout:
            self.print(piece)
        for piece in script.stderr:
            self.print_error(piece)
        if script.echo and self.stdin is None:
            self.exit(0)
        elif not script.echo and script.exit is not None:
            self._end(script.exit)

    def print(self, data: bytes) -> None:
        """Write to stdout."""
        self.stdout.feed(data)

    def print_error(self, data: bytes) -> None:
        """Write to stderr."""
        (self.stderr or self.stdout).feed(data)

    def exit(self, code: int) -> None:
        """End the program by itself, with the children that the script leaves behind."""
        self._end(ExitStatus(code=code))

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the terminal, as on POSIX."""
        return None if self.terminal is None else "pty"

    @property
    def can_terminate(self) -> bool:
        """Whether the script lets the program be asked to end."""
        return self._script.can_terminate

    async def wait(self) -> ExitStatus:
        """Wait for the end of the program."""
        await self._exited.wait()
        assert self._status is not None
        return self._status

    async def send_signal(self, signal: Signal) -> None:
        """Record a signal, and end the processes that heed the signal."""
        self.signals.append(signal)
        if signal == "kill" or not self.can_terminate or signal in self._script.heeds:
            self._children.clear()
            if self._status is None:
                self._status = (
                    ExitStatus(signal=_SIGNAL_NAMES[signal]) if self.can_terminate else ExitStatus()
                )
                self._exited.set()
            self._settle()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the program until it ends, and the children that it leaves."""
        own = [] if self._status else [ProcessInfo(self.pid, "fake", float(self.pid))]
        return [*own, *self._children]

    async def wait_gone(self) -> None:
        """Wait until no process of the tree lives."""
        await self._gone.wait()

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Do nothing: `survivors` names the children until they end."""

    async def resize(self, terminal: Terminal) -> None:
        """Store the new terminal size, if the process has a terminal."""
        if self.terminal is not None:
            self.terminal = terminal

    async def foreground(self) -> Foreground | None:
        """Return the value that a test has set as `seat`."""
        return self.seat

    async def release(self) -> None:
        """Let the children run on."""
        self.released = True
        await self._close()

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> CommandTree:
        """Refuse: a script is not a shell."""
        raise BackendUnavailable("a FakeProcess has no command trees")

    async def aclose(self) -> None:
        """Kill the living processes, unless the process was released."""
        if self.closed:
            return
        if await self.survivors():
            await self.send_signal("kill")
        await self._close()

    async def _close(self) -> None:
        self.closed = True
        await self.stdout.aclose()
        if self.stderr is not None:
            await self.stderr.aclose()

    def _end(self, status: ExitStatus) -> None:
        if self._status is None:
            self._status = status
            numbers = range(self.pid + 1, self.pid + 1 + self._script.leaves)
            self._children = [ProcessInfo(pid, "fake-child", float(pid)) for pid in numbers]
            self._exited.set()
            self._settle()

    def _settle(self) -> None:
        if self._status is not None and not self._children:
            self.stdout.end()
            if self.stderr is not None:
                self.stderr.end()
            self._gone.set()

    def _on_stdin(self, data: bytes) -> None:
        if self._script.echo:
            self.print(data)

    def _on_stdin_end(self) -> None:
        if self._script.echo:
            self.exit(0)


class FakeFiles:
    """Files in memory, without a tree: every parent directory of a file exists by itself.

    Args:
        contents: Files by their absolute paths.
        directories: Directories that exist although they are empty.
        links: The targets of links, by their absolute paths. No path is followed through a link.

    Attributes:
        modes: Permission bits that were set, by path.
        times: Modification times that were set, by path, in seconds since the epoch.
    """

    def __init__(
        self,
        contents: Mapping[str, bytes] | None = None,
        directories: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
    ) -> None:
        self.contents = dict(contents or {})
        self.directories = {"/", *directories}
        self.links = dict(links or {})
        self.modes: dict[str, int] = {}
        self.times: dict[str, float] = {}

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file, a directory or a link."""
        if path.endswith("/."):  # a directory, as seen from inside
            path = path[:-2] or "/"
            if path in self.contents:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if path in self.links:
            if follow:
                return await self.stat(posixpath.join(posixpath.dirname(path), self.links[path]))
            return FileStat(kind="link", size=len(self.links[path]), mode=0o777, modified=0.0)
        if path in self.contents:
            mode = self.modes.get(path, 0o600)
            size, modified = len(self.contents[path]), self.times.get(path, 0.0)
            return FileStat(kind="file", size=size, mode=mode, modified=modified)
        if self._is_directory(path):
            mode, modified = self.modes.get(path, 0o700), self.times.get(path, 0.0)
            return FileStat(kind="directory", size=0, mode=mode, modified=modified)
        raise _missing(path)

    async def list(self, path: str) -> Sequence[FileEntry]:
        """Return the entries of a directory."""
        if not self._is_directory(path):
            raise _missing(path)
        below = path.rstrip("/") + "/"
        names = {
            p[len(below) :].partition("/")[0] for p in self._paths() if p.startswith(below) and p != below
        }
        return [FileEntry(name, (await self.stat(below + name, follow=False)).kind) for name in sorted(names)]

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or a range of them."""
        if path not in self.contents:
            raise _missing(path)
        end = None if length is None else offset + length
        return self.contents[path][offset:end]

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Replace a file, or append to it."""
        self.contents[path] = (self.contents.get(path, b"") if append else b"") + bytes(data)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory."""
        if self._is_directory(path) and not exist_ok:
            raise _existing(path)
        self.directories.add(path)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link, or a directory with its entries."""
        if path in self.contents or path in self.links:
            self.contents.pop(path, None)
            self.links.pop(path, None)
            return
        if not self._is_directory(path):
            raise _missing(path)
        below = path.rstrip("/") + "/"
        if not recursive and any(p.startswith(below) for p in self._paths()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.contents = {p: data for p, data in self.contents.items() if not p.startswith(below)}
        self.links = {p: target for p, target in self.links.items() if not p.startswith(below)}
        self.directories = {p for p in self.directories if p != path and not p.startswith(below)}

    async def rename(self, source: str, target: str) -> None:
        """Rename a file or a link."""
        if source in self.links:
            moved = self.links.pop(source)
            self.contents.pop(target, None)
            self.links[target] = moved
            return
        if source not in self.contents:
            raise _missing(source)
        self.links.pop(target, None)
        self.contents[target] = self.contents.pop(source)
        if source in self.modes:
            self.modes[target] = self.modes.pop(source)
        if source in self.times:
            self.times[target] = self.times.pop(source)

    async def readlink(self, path: str) -> str:
        """Return the target of a link."""
        if path in self.links:
            return self.links[path]
        await self.stat(path)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    async def symlink(self, target: str, path: str) -> None:
        """Make a link."""
        self._refuse_existing(path)
        self.links[path] = target

    async def chmod(self, path: str, mode: int) -> None:
        """Set permission bits."""
        await self.stat(path)
        self.modes[path] = mode

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file or a directory."""
        await self.stat(path)
        self.times[path] = modified

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file's bytes, 64 KiB at a time."""
        data = await self.read(path)
        for start in range(0, len(data), 64 * 1024):
            yield data[start : start + 64 * 1024]

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Create a new file, whole or not at all."""
        self._refuse_existing(path)
        data = bytearray()
        async for chunk in chunks:
            data += chunk
        self.contents[path] = bytes(data)
        self.modes[path] = mode

    def _paths(self) -> Sequence[str]:
        return [*self.contents, *self.directories, *self.links]

    def _is_directory(self, path: str) -> bool:
        below = path.rstrip("/") + "/"
        return path in self.directories or any(p.startswith(below) for p in self._paths())

    def _refuse_existing(self, path: str) -> None:
        if path in self.contents or path in self.links or self._is_directory(path):
            raise _existing(path)


def _existing(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


FAKE_HOST = HostInfo(
    os="linux",
    arch="x86_64",
    name="Fake Linux",
    version="1",
    hostname="fake",
    user="tester",
    home="/home/tester",
    directory="/project",
)


class FakeBackend:
    """A host on which every program follows a script.

    Args:
        scripts: The scripts by the text of a command, or a function that returns the script of a `Spawn`.
        info: The host's facts; the programs and the shell are filled in from the query.
        programs: The programs that the host has.
        files: The host's files; a command's directory must be among them.

    Attributes:
        processes: Every process that was started, in order.
        ports: TCP ports at which something accepts connections.
    """

    name = "fake"

    def __init__(
        self,
        scripts: Mapping[str, Script] | Callable[[Spawn], Script],
        *,
        info: HostInfo = FAKE_HOST,
        programs: Sequence[str] = ("git", "python3"),
        files: FakeFiles | None = None,
    ) -> None:
        self._scripts = scripts
        self._info = info
        self._programs = programs
        self._pids = itertools.count(1000, 100)
        self.files: Files = files or FakeFiles(directories=[info.directory, info.home])
        self.processes: list[FakeProcess] = []
        self.ports: set[int] = set()

    async def info(self, query: HostQuery) -> HostInfo:
        """Return the host's facts; the shell is the first one that the query asks for."""
        shell = self._info.shell
        if shell is None and query.shells_on(self._info.os):
            first = query.shells_on(self._info.os)[0]
            shell = ShellInfo(kind=first.kind, path=posixpath.join("/bin", first.path), version="5.2")
        programs = {name: f"/usr/bin/{name}" for name in query.programs if name in self._programs}
        return replace(self._info, shell=shell, programs=programs)

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a fake program."""
        try:
            kind = (await self.files.stat(spawn.cwd)).kind
        except FileNotFoundError as error:
            raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: {error.strerror}") from error
        if kind != "directory":
            raise InvalidCommand(f"cwd {spawn.cwd!r} is not a directory")
        script = self._scripts(spawn) if callable(self._scripts) else self._scripts[command_text(spawn)]
        if script.error is not None:
            raise SpawnError(f"cannot start {spawn.argv[0]}: {script.error}")
        process = FakeProcess(next(self._pids), spawn, script)
        self.processes.append(process)
        return process

    async def pipe_directory(self) -> PipeDirectory:
        """Refuse: a script is one program, not a persistent shell."""
        raise BackendUnavailable("a FakeBackend has no sessions: try them on this machine")

    async def connects(self, port: int) -> bool:
        """Return whether a port is among `ports`."""
        return port in self.ports

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Return no process."""
        return ()

    async def aclose(self) -> None:
        """End every program."""
        for process in self.processes:
            await process.aclose()


def command_text(spawn: Spawn) -> str:
    """Return the text of a spawn's command."""
    return spawn.argv[-2] if spawn.script is None else spawn.script[:-1]


def _keeps_the_protocols(
    backend: FakeBackend, process: FakeProcess, files: FakeFiles
) -> tuple[Backend, Program, Files]:
    return backend, process, files
