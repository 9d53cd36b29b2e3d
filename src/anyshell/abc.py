"""Protocols that other packages can implement: a backend, its processes and files, a command approver; and backend values.

Each is a small Protocol: any object of the right shape will do. `anyshell.testing` has scripted implementations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ._lazy import importer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Collection, Iterable, Sequence

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from ._types import (
        ApprovalRequest,
        Approved,
        LoginCommand,
        Refused,
        Signal,
        Terminal,
        TerminalKind,
        Usage,
    )
    from ._types import ExitStatus as ExitStatus
    from ._types import FileEntry as FileEntry
    from ._types import FileStat as FileStat
    from ._types import Foreground as Foreground
    from ._types import HostInfo as HostInfo
    from ._types import HostQuery as HostQuery
    from ._types import ProcessInfo as ProcessInfo
    from ._types import Resolved as Resolved
    from ._types import ShellCandidate as ShellCandidate
    from ._types import ShellInfo as ShellInfo
    from ._types import Spawn as Spawn


class Process(Protocol):
    """A started program and its process tree: the program with all its descendants."""

    @property
    def pid(self) -> int | None:
        """The pid of the program on the host; ``None`` where the host does not tell the pid."""

    @property
    def stdin(self) -> ByteSendStream | None:
        """The stdin of the program, if a pipe was asked for. Closing the stream sends end-of-file.

        On a terminal, stdin is always present and carries what is typed. Closing stdin types the terminal's end-of-input
        key once: ^D, or ^Z and Enter on Windows. Bytes sent after that are still typed: on a terminal, end-of-file does not
        close the input.
        """

    @property
    def stdout(self) -> ByteReceiveStream:
        """The output of the tree: both channels in true order, or stdout alone if the channels were split."""

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """The stderr of the tree, if the channels were split."""

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the program's terminal; ``None`` without a terminal."""

    @property
    def started(self) -> bool | None:
        """Whether the program has begun; ``None`` while that is not known. ``False`` is final: the program will never begin."""

    @property
    def lost(self) -> bool:
        """Whether the connection to the process is lost: later output and the exit status cannot be learnt."""

    @property
    def usage(self) -> Usage | None:
        """The resources that the tree has used, once the tree is gone; ``None`` where the usage is not known."""

    @property
    def can_terminate(self) -> bool:
        """Whether ``terminate`` asks the tree to end. Where a host cannot ask, every signal kills the tree at once."""

    async def wait(self) -> ExitStatus:
        """Wait until the program itself has ended. The output may end much later."""

    async def send_signal(self, signal: Signal) -> None:
        """Send a signal to every process of the tree that can be found. Never fails because the tree is gone."""

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the processes of the tree that are alive now. Cheap when there are none."""

    async def wait_gone(self) -> None:
        """Wait until no process of the tree is alive. Has no timeout of its own: the caller cancels the call."""

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Make `survivors` return these processes until each ends, even if a process makes itself a daemon."""

    async def resize(self, terminal: Terminal) -> None:
        """Resize the process's terminal; the foreground processes get SIGWINCH. Never fails because the process is gone.

        Without a terminal this does nothing.
        """

    async def foreground(self) -> Foreground | None:
        """Return the foreground processes of the terminal; ``None`` without a terminal, or when the host cannot tell."""

    async def release(self) -> None:
        """Let the surviving processes of the tree run on; read and discard the tree's output from now on.

        The output is read until the backend is closed; after that, the processes fail when they write.
        """

    async def aclose(self) -> None:
        """Give back all resources. Unless `release` was called, no process of the tree is left behind."""


class Program(Process, Protocol):
    """A process that a backend has started itself."""

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> CommandTree:
        """Return the tree of the processes that a persistent shell starts from now on, without earlier ones.

        Args:
            pipes: The paths of the pipes that the command prints to. All processes of the command inherit the first pipe.
            fd: The descriptor of the first pipe in the command's processes; negative when no number can be told.
            shell: The pid of the shell, if the program is not the shell itself but the parent that runs the shell.
        """

    async def pid_outside(self, pid: int) -> int | None:
        """Return the pid on the host of the process that has `pid` inside the tree; ``None`` if there is no such process.

        The two pids differ in a pid namespace, where the host shows the mapping.
        """

    async def group(self) -> Sequence[ProcessInfo]:
        """Return the other living processes of the program's process group. Empty where the host has no process groups.

        Raises:
            OSError: This process is out of descriptors: nothing is known.
        """

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Send a signal to these just found members of the tree, and to no other process. Never fails because they are gone."""


class CommandTree(Protocol):
    """The process tree of one command of a persistent shell: the processes that the shell starts from one moment on."""

    @property
    def mark(self) -> str:
        """The environment variable that the shell must export to the processes of the command."""

    @property
    def tag(self) -> int | None:
        """The soft limit on file locks that the shell must set for the command's processes; ``None`` where none can be set."""

    @property
    def wants_pids(self) -> bool:
        """Whether the shell should report the last pid that the host gave, before and after the command."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Return whether any process of the command may be alive. Cheap when the command started no process.

        Args:
            first: The last pid that the host gave before the command, if the shell was asked for the pid and could tell.
            last: The same after the command; ``None`` from a shell that ended with the command.
        """

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the command. Never the shell itself.

        Raises:
            OSError: This process is out of descriptors or memory: nothing is known.
        """

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return whether a process that is not a member holds one of these pipes, as far as that is known.

        Args:
            held: Paths of pipes of the command that can still be written to. No member is alive.

        Raises:
            OSError: As `members`.
        """

    async def shell_is_back(self) -> bool:
        """Return whether the shell has its own input again; true where the host does not tell. Reads at most one process."""

    def cpu(self) -> tuple[float, float] | None:
        """Return the seconds of CPU time of the shell and of the children it has waited for: in user mode and in the kernel.

        ``None`` where the times are not known, and while the shell has a child: the shell may wait for that child in
        another command.
        """

    async def send_signal(self, signal: Signal) -> None:
        """Send a signal to all processes of the command. Never fails because they are gone; never reaches any other process."""

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself, and wake the shell if it is stopped."""

    async def kill_shell(self) -> None:
        """Kill the shell itself, and none of the processes that the shell has started."""


class OutputPipe(Protocol):
    """The pipe for the output of one command of a persistent shell."""

    @property
    def path(self) -> str:
        """The name by which the shell opens the pipe: a path on the host, or the number of a handle."""

    @property
    def stream(self) -> ByteReceiveStream:
        """The output of the command. The stream ends when the command has ended and no process holds the pipe any more."""

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def held(self) -> bool:
        """Whether a process can write to the pipe now. False where the host does not tell."""

    @property
    def lost(self) -> bool:
        """Whether the connection to the pipe is lost, with all output that is still to come."""

    def command_ended(self) -> None:
        """End the stream when its last writer closes the pipe. Before this call the pipe is kept open for the shell."""

    def discard(self) -> None:
        """Read and discard all further output, so that a write neither fails nor blocks."""

    def close(self) -> None:
        """Stop reading; a writer then gets SIGPIPE. Never waits."""

    def give_back(self) -> None:
        """Close the pipe, which no command has used, and which may be used again. Never waits."""


class InputPipe(Protocol):
    """The pipe for the input of one command of a persistent shell."""

    @property
    def path(self) -> str:
        """The name by which the shell opens the pipe, as for an `OutputPipe`."""

    @property
    def stream(self) -> ByteSendStream:
        """The stdin of the command, read as soon as the command has opened the pipe. Closing the stream is end-of-file."""

    def close(self) -> None:
        """Stop sending. Never waits."""


class PipeDirectory(Protocol):
    """A private directory on the host, through which this process and a persistent shell exchange data.

    On Windows there is no such directory: pipes are handles, which the shell's process is given.
    """

    @property
    def directory(self) -> str | None:
        """The absolute path of the directory; ``None`` where pipes are handles of the shell."""

    def open_to(self, pid: int) -> None:
        """Make pipes for the shell with this pid from now on. Does nothing where pipes have names.

        Raises:
            OSError: The shell cannot be given pipes.
        """

    @property
    def longest_line(self) -> int:
        """Bytes that reach the shell sooner in its input line than by `write`."""

    async def write(self, name: str, data: bytes) -> None:
        """Write a file into the directory. No reader may still be reading the file's old version."""

    async def is_gone(self) -> bool:
        """Return whether another process has removed the directory, as far as that can be told."""

    @property
    def retracts(self) -> bool:
        """Whether `retract` does anything."""

    def retract(self, name: str) -> None:
        """Empty a file that the shell may not have read yet, if that is possible at once. Never waits."""

    @property
    def opens_alone(self) -> bool:
        """Whether the shell may open its ends of the pipes at once, because the other ends are already open."""

    async def output_pipe(self) -> OutputPipe:
        """Make a pipe for the output of a command.

        Raises:
            BrokenPipeError: The shell has ended. A backend need not notice that here.
        """

    async def input_pipe(self) -> InputPipe:
        """Make a pipe for the input of a command. Raises what `output_pipe` raises."""

    async def aclose(self) -> None:
        """Remove the directory."""


class Files(Protocol):
    """The files of a host, as a few operations on bytes. Paths are absolute.

    A missing file is `FileNotFoundError` with its ``errno``, on every backend; other failures are the `OSError` that the
    same call raises on a local file. A name that is not UTF-8 is returned, and accepted, with ``surrogateescape``. When a
    call returns, its change has either happened or not, also when the call was cancelled; no part of the change happens
    afterwards.
    """

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""

    async def list(self, path: str) -> Sequence[FileEntry]:
        """List the names and kinds of a directory's entries, in no order, without ``.`` and ``..``."""

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it. Returns fewer bytes where the file ends."""

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file atomically: a reader sees the old or the new content, never a mixture."""

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory; with `parents`, also its missing parent directories."""

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive`, a whole tree. Never follows links."""

    async def rename(self, source: str, target: str) -> None:
        """Rename a file or a link atomically. Replaces a file or a link at `target`."""

    async def readlink(self, path: str) -> str:
        """Return the target of a link, exactly as the link stores it. ``EINVAL`` when the file is not a link."""

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces an existing file."""

    async def chmod(self, path: str, mode: int) -> None:
        """Set exactly these permission bits on a file or a directory."""

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file or a directory, in seconds since the epoch; at least to the second."""

    def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file in chunks, with a bounded number of chunks in memory. Close the generator when done."""

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Create a new file from chunks as they come, with exactly these permission bits.

        The file is whole or absent: when the call fails, is cancelled, or `chunks` raises (the exception passes unchanged),
        the file is removed again where possible. Until the file is whole, only its owner can read it.

        Raises:
            FileExistsError: `path` already exists.
        """


class Spawner(Protocol):
    """An object that starts programs; a run needs nothing else. A backend, or a wrapper in front of a backend."""

    async def spawn(self, spawn: Spawn) -> Process:
        """Start a program. Raises what `Backend.spawn` raises."""


class Backend(Protocol):
    """A way to reach one host. A backend is complete when it passes the contract in ``tests/test_backends.py``."""

    @property
    def name(self) -> str:
        """The name of the host for people: ``local``, or an address."""

    @property
    def files(self) -> Files:
        """The files of the host."""

    async def info(self, query: HostQuery) -> HostInfo:
        """Ask the host for its facts, in as few round trips as possible."""

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program.

        Raises:
            InvalidCommand: The directory does not exist, or is not a directory; nothing was started.
            SpawnError: The program could not be started.
        """

    async def pipe_directory(self) -> PipeDirectory:
        """Make a private directory for a persistent shell.

        Raises:
            SpawnError: The directory cannot be made.
        """

    async def connects(self, port: int) -> bool:
        """Return whether something on the host accepts connections at a TCP port of the host. Has its own timeout.

        Nothing is sent, and the connection is closed at once.

        Raises:
            BackendError: The port cannot be tried: the host refuses the attempt, or cannot be reached.
        """

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Return the running processes of commands whose anyshell was killed before it could stop them."""

    async def aclose(self) -> None:
        """Stop every process that was started here, and give back all resources."""


class Launcher(Protocol):
    """The writer of command lines for one kind of login shell. A backend itself knows no quoting."""

    @property
    def life_fd(self) -> int:
        """The descriptor that every process of a command inherits."""

    @property
    def question(self) -> str:
        """One line of text that every Windows login shell answers in its own way."""

    def windows(self, said: str) -> Sequence[WindowsLauncher]:
        """Return the launchers for a Windows host, by its answer to `question` or by its output of ``uname -s``.

        The launcher that most likely finds PowerShell comes first. Empty if the host does not run Windows.
        """

    def join(self, arguments: Iterable[str]) -> str:
        """Quote strings as words of a POSIX shell text."""

    def read_and_run(self, text: str) -> LoginCommand:
        """Return the login command that runs a text in ``/bin/sh``, whatever the login shell is."""

    def start(self, spawn: Spawn, *, token: str, mark: str, tag: int) -> LoginCommand:
        """Return the login command that starts a command. See `anyshell.shells.login`."""


class WindowsLauncher(Protocol):
    """The writer of command lines for one kind of login shell of a Windows host. See `anyshell.shells.windows_login`."""

    @property
    def name(self) -> str:
        """The name of the login shell for people."""

    def read_and_run(self, size: int) -> str:
        """Return the line that lets PowerShell run a text from its stdin: exactly `size` bytes, and not one more."""

    def command_line(self, argv: Sequence[str]) -> str | None:
        """Return a command line that a C library splits into exactly these strings; ``None`` if the line is too long."""


class Resolver(Protocol):
    """The resolver of one scheme's internal addresses."""

    async def resolve(self, name: str) -> Resolved:
        """Resolve an address without side effects: the command has not been decided on yet.

        Args:
            name: The part after ``skill://``, as it was given; it need not be a path.

        Raises:
            InvalidCommand, LookupError, OSError: The address cannot be resolved; the command is not run, and the caller
                gets the message.
        """


class Approver(Protocol):
    """An object that decides whether a command runs.

    An approver is a function, async or not; a function that is not async blocks the event loop while it decides. An
    approver that raises, does not answer in time, or gives any other answer, has refused.
    """

    def __call__(self, request: ApprovalRequest, /) -> Awaitable[Approved | Refused] | Approved | Refused:
        """Answer one request. ``request.display`` is text that is safe to print."""


_OLD_NAMES = {"Exchange": PipeDirectory, "Outlet": OutputPipe, "Inlet": InputPipe, "Section": CommandTree}


_VALUES = importer(
    __name__,
    {
        "_types": "ExitStatus FileEntry FileStat Foreground HostInfo HostQuery ProcessInfo Resolved ShellCandidate ShellInfo Spawn"
    },
    below="anyshell",
)


def __getattr__(name: str) -> object:
    """Return a value type of backends, or a class by an old name, which version 0.3 removes."""
    return _OLD_NAMES[name] if name in _OLD_NAMES else _VALUES(name)
