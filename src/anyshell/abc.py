"""Protocols for others to implement: a backend, its processes and files, the approver of commands; and values of a backend.

Each is a small Protocol: any object of the right shape will do. `anyshell.testing` has scripted ones.
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
    """A program that was started, and everything that it starts in turn: its tree."""

    @property
    def pid(self) -> int | None:
        """Its number on the host, where the host tells."""

    @property
    def stdin(self) -> ByteSendStream | None:
        """The input of the program, if a pipe was asked for. Closing it is end-of-file.

        On a terminal it is always there, and is what is typed; closing it types what ends input there, once: ^D, or ^Z and
        Enter on Windows. What is sent after that is typed all the same: there, the end of input ends nothing else.
        """

    @property
    def stdout(self) -> ByteReceiveStream:
        """The output of the tree: both channels in true order, or stdout alone if they were split."""

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """The output of the tree on stderr, if the channels were split."""

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of its terminal; ``None`` without one."""

    @property
    def started(self) -> bool | None:
        """Whether the program has begun; ``None`` while that is not known. ``False`` is final: it never will."""

    @property
    def lost(self) -> bool:
        """Whether the way to it is gone: what it prints from now on, and how it ends, cannot be learnt."""

    @property
    def usage(self) -> Usage | None:
        """The resources that its tree has used, once it is over; ``None`` where that is not known."""

    @property
    def can_terminate(self) -> bool:
        """Whether ``terminate`` asks its tree to end. Where there is no way to ask, every signal ends it at once."""

    async def wait(self) -> ExitStatus:
        """Wait until the program itself has ended. NOT the end of output, which may come much later."""

    async def send_signal(self, signal: Signal) -> None:
        """Signal the whole tree, everything that can be found of it. Never fails because it is gone."""

    async def survivors(self) -> Sequence[ProcessInfo]:
        """The processes of the tree that are alive now. Cheap when there are none."""

    async def wait_gone(self) -> None:
        """Wait until nothing of the tree is alive. Has no bound of its own: the caller cancels it."""

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Have `survivors` name these until they end, also those that make themselves daemons from now on."""

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size, of which the foreground hears by SIGWINCH. Never fails because it is gone.

        Without a terminal it does nothing.
        """

    async def foreground(self) -> Foreground | None:
        """The processes that have its terminal now. ``None`` when it has no terminal, or when the host cannot tell."""

    async def release(self) -> None:
        """Let what still lives of the tree go on; its output is read and thrown away from now on.

        That holds until the backend is closed; after that, writing fails for them.
        """

    async def aclose(self) -> None:
        """Give back everything that is held. Unless released, nothing of the tree is left behind."""


class Program(Process, Protocol):
    """A process that a backend has started itself."""

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> CommandTree:
        """The processes that a persistent shell starts from now on, apart from earlier ones.

        Args:
            pipes: The paths of the pipes that it prints to. All of it inherits the first.
            fd: The descriptor at which it does; negative when no number can be told.
            shell: The shell's pid, if the program is not the shell itself but what runs it.
        """

    async def pid_outside(self, pid: int) -> int | None:
        """The pid by which the host knows the process of the tree that knows itself by `pid`; ``None`` if there is none.

        The two differ in a pid namespace, where the host shows that.
        """

    async def group(self) -> Sequence[ProcessInfo]:
        """The living processes of the program's process group besides the program. Empty where there are no groups.

        Raises:
            OSError: This process is out of descriptors: nothing is known.
        """

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Signal some of the tree that were just found, and nothing else. Never fails because they are gone."""


class CommandTree(Protocol):
    """One command of a persistent shell: what the shell starts from one moment on."""

    @property
    def mark(self) -> str:
        """A variable that the shell has to export to what it starts."""

    @property
    def tag(self) -> int | None:
        """A soft limit on file locks that it has to set for what it starts, where there is one to be had."""

    @property
    def wants_pids(self) -> bool:
        """Whether the shell should say which pid the host gave last, before and after the command."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether anything of it may be alive. Cheap where nothing was started.

        Args:
            first: The pid that the host had given last before the command, if the shell was to say it and could.
            last: The same after it; not said by a shell that ended with it.
        """

    async def members(self) -> Sequence[ProcessInfo]:
        """The living processes of the command. Never the shell itself.

        Raises:
            OSError: This process is out of descriptors, or of memory: nothing is known.
        """

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process that is no member holds one of these pipes, as far as that is known.

        Args:
            held: Paths of pipes of the command that can be written to. No member is alive.

        Raises:
            OSError: As `members`.
        """

    async def shell_is_back(self) -> bool:
        """Whether the shell has its own input again; true where the host does not tell. Reads no more than one process."""

    def cpu(self) -> tuple[float, float] | None:
        """Seconds of CPU time that the shell, and what it has waited for, have used so far, in programs and in the kernel.

        ``None`` where that is not known, and while the shell has a child: it may wait for that in another command.
        """

    async def send_signal(self, signal: Signal) -> None:
        """Signal all of that. Never fails because it is gone, and never reaches anything else."""

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself, and wake it if it is stopped."""

    async def kill_shell(self) -> None:
        """Kill the shell itself, and nothing that it has started."""


class OutputPipe(Protocol):
    """The pipe for the output of one command of a persistent shell."""

    @property
    def path(self) -> str:
        """By what the shell has the pipe: its path on the host, or the number of a handle."""

    @property
    def stream(self) -> ByteReceiveStream:
        """The output of the command. It ends when the command has ended and no process holds the pipe any more."""

    @property
    def ended(self) -> bool:
        """Whether the stream's end was reached."""

    @property
    def held(self) -> bool:
        """Whether a process can write to the pipe now. False where nothing tells."""

    @property
    def lost(self) -> bool:
        """Whether the way to the pipe is gone, and what is printed with it."""

    def command_ended(self) -> None:
        """From now on the stream ends with its writers. Until then the pipe is kept open for the shell."""

    def discard(self) -> None:
        """Read on and throw away, so that writing neither fails nor blocks."""

    def close(self) -> None:
        """Read no more; a writer then gets SIGPIPE. Never waits."""

    def give_back(self) -> None:
        """Close it though no command has it: it is as good as new. Never waits."""


class InputPipe(Protocol):
    """The pipe for the input of one command of a persistent shell."""

    @property
    def path(self) -> str:
        """By what the shell has the pipe, as for an `OutputPipe`."""

    @property
    def stream(self) -> ByteSendStream:
        """Takes what the command reads, as soon as it has opened the pipe. Closing it is end-of-file."""

    def close(self) -> None:
        """Send no more. Never waits."""


class PipeDirectory(Protocol):
    """A private directory on the host, by which this process and a persistent shell there pass things.

    On Windows there is no such directory: pipes are handles there, which a process is given.
    """

    @property
    def directory(self) -> str | None:
        """The absolute path of the directory; ``None`` where pipes are handles of the shell's."""

    def open_to(self, pid: int) -> None:
        """Make pipes for this shell from now on. Does nothing where they have names.

        Raises:
            OSError: It cannot be given any.
        """

    @property
    def longest_line(self) -> int:
        """Bytes that reach the shell sooner in what it reads than by `write`."""

    async def write(self, name: str, data: bytes) -> None:
        """Put a file there, which a reader of the old one must not be reading any more."""

    async def is_gone(self) -> bool:
        """Whether another process has removed the directory, as far as that can be told."""

    @property
    def retracts(self) -> bool:
        """Whether `retract` does anything."""

    def retract(self, name: str) -> None:
        """Empty a file that the shell may not have read yet, if that can be done at once. Never waits."""

    @property
    def opens_alone(self) -> bool:
        """Whether the shell may open its ends of pipes at once, since the others are open already."""

    async def output_pipe(self) -> OutputPipe:
        """Make a pipe that a command prints to.

        Raises:
            BrokenPipeError: The shell has ended, which need not be noticed here.
        """

    async def input_pipe(self) -> InputPipe:
        """Make a pipe that a command reads from. Raises what `output_pipe` raises."""

    async def aclose(self) -> None:
        """Remove the directory."""


class Files(Protocol):
    """The files of a host, as few operations on bytes. Paths are absolute.

    A missing file is `FileNotFoundError` with its ``errno``, on every backend; other failures are the
    `OSError` that the same call raises on a local file. A name that is no UTF-8 comes, and is understood, with
    ``surrogateescape``. What changes something has happened or not when control returns, also when it was
    cancelled; nothing of it goes on behind the caller's back.
    """

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""

    async def list(self, path: str) -> Sequence[FileEntry]:
        """Name what is in a directory and tell its kinds, in no order, without ``.`` and ``..``."""

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it. Fewer bytes come back where the file ends."""

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace it atomically: a reader sees the old or the new, never a half."""

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory, and those above it if asked."""

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; a whole tree if asked, never following links."""

    async def rename(self, source: str, target: str) -> None:
        """Give a file or a link another name, replacing a file or a link that has it, atomically."""

    async def readlink(self, path: str) -> str:
        """Tell what a link points to, exactly as the link has it. ``EINVAL`` when it is no link."""

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces what is there."""

    async def chmod(self, path: str, mode: int) -> None:
        """Give a file or a directory exactly these permission bits."""

    async def set_modified(self, path: str, modified: float) -> None:
        """Say when a file or a directory was changed last, in seconds since the epoch; to the second, at least."""

    def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, piece by piece, with a bounded number of them in memory. Close it when done."""

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Make a new file of pieces as they come, with exactly these permission bits.

        Whole or not at all: when it fails, is cancelled, or the pieces raise (which goes through as it is),
        the file is removed again where that can be done. Until it is whole only its owner can read it.

        Raises:
            FileExistsError: There is something at `path`.
        """


class Spawner(Protocol):
    """Whatever starts a program, which is all that a run needs: a backend, or what stands before one."""

    async def spawn(self, spawn: Spawn) -> Process:
        """Start a program. Raises what `Backend.spawn` raises."""


class Backend(Protocol):
    """A way to reach one host. It is done when the contract in ``tests/test_backends.py`` passes over it."""

    @property
    def name(self) -> str:
        """The name of the host for people: ``local``, or an address."""

    @property
    def files(self) -> Files:
        """The host's files."""

    async def info(self, query: HostQuery) -> HostInfo:
        """Ask the host what it is, in as few round trips as it takes."""

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program.

        Raises:
            InvalidCommand: The directory does not exist, or is no directory; nothing was started.
            SpawnError: The program could not be started.
        """

    async def pipe_directory(self) -> PipeDirectory:
        """Make a private directory for a persistent shell.

        Raises:
            SpawnError: It cannot be made.
        """

    async def connects(self, port: int) -> bool:
        """Whether something on the host accepts connections at a TCP port of its own; bounded by itself.

        Nothing is sent, and the connection is closed at once.

        Raises:
            BackendError: It cannot be tried: the host does not let us, or cannot be reached.
        """

    async def orphans(self) -> Sequence[ProcessInfo]:
        """The running processes of commands whose anyshell was killed before it could stop them."""

    async def aclose(self) -> None:
        """Stop everything that was started here and give back everything that is held."""


class Launcher(Protocol):
    """Writes what one kind of login shell is given. Quoting is a shell's business, and a backend knows none."""

    @property
    def life_fd(self) -> int:
        """The descriptor that everything inherits which a command starts."""

    @property
    def question(self) -> str:
        """One line that every login shell of Windows answers in a way of its own."""

    def windows(self, said: str) -> Sequence[WindowsLauncher]:
        """Return the ways to write for a Windows host, by its answer to `question`, or by what ``uname -s`` says there.

        The likeliest to find its PowerShell comes first. Empty if the host does not run Windows.
        """

    def join(self, arguments: Iterable[str]) -> str:
        """Make words of a POSIX shell text that mean exactly these strings."""

    def read_and_run(self, text: str) -> LoginCommand:
        """Have ``/bin/sh`` run a text, whatever the login shell is."""

    def start(self, spawn: Spawn, *, token: str, mark: str, tag: int) -> LoginCommand:
        """Have a command started. See `anyshell.shells.login`."""


class WindowsLauncher(Protocol):
    """Writes what one kind of login shell of a Windows host is given. See `anyshell.shells.windows_login`."""

    @property
    def name(self) -> str:
        """The name of that login shell for people."""

    def read_and_run(self, size: int) -> str:
        """Have PowerShell run a text that it reads from its stdin: so many bytes, and not one more."""

    def command_line(self, argv: Sequence[str]) -> str | None:
        """Make a command line that a program's C library cuts up into exactly these strings; ``None`` if too long."""


class Resolver(Protocol):
    """Says what the internal addresses of a scheme stand for."""

    async def resolve(self, name: str) -> Resolved:
        """Say what an address stands for, and change nothing: the command is not decided on yet.

        Args:
            name: What stands behind ``skill://``, as it was given; it need not be a path.

        Raises:
            InvalidCommand, LookupError, OSError: It stands for nothing; the command is not run, and the message is told.
        """


class Approver(Protocol):
    """Decides whether a command runs.

    A function, async or not; one that is not holds up the event loop while it decides. An approver that raises, gives no
    answer in time, or answers anything else, has refused.
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
    """Read the values that a backend is given and gives, and the names of before version 0.2, which takes them away."""
    return _OLD_NAMES[name] if name in _OLD_NAMES else _VALUES(name)
