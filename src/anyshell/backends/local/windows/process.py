"""Programs on this machine, on Windows: start, signals, and control of the whole tree by a job object."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

assert sys.platform == "win32"

from ...._exceptions import InvalidCommand, SpawnError
from ...._types import ExitStatus, Foreground, ProcessInfo
from ...._waits import threads_as_os_errors
from ...tree import Ungrouped
from ..process import LocalProcess, ReleasedStreams
from . import win32
from .command_tree import Commands, WindowsCommandTree
from .job_object import ENDED_BY_JOB, JobObject
from .pipes import PipeReceiveStream, PipeSendStream, pipe_to_read, pipe_to_write
from .process_handle import TO_OWN, UNNAMED, ProcessHandle, running
from .programs import find_program
from .pseudoconsole import Pseudoconsole
from .scripts import ScriptFile
from .terminals import TerminalReceiveStream, TerminalSendStream
from .variables import EnvBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...._types import Signal, Spawn, Terminal, TerminalKind, Usage

_LOOK_AGAIN = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Seconds between two checks whether a Windows job has ended, where the last value repeats; also between the reads of a new
process's name, which stop after the last value."""

_CLOSE_BOUND = 0.5
"""Seconds for which closing a process on Windows waits for the end of the process's job; then the wait ends."""

_EXTENSIONS = ".COM;.EXE"
"""Suffixes of programs that Windows starts itself; the other suffixes in PATHEXT need a shell."""

_BATCH_FILES = (".bat", ".cmd")
"""Suffixes of scripts that Windows starts through cmd.exe, which splits arguments in its own way (CVE-2024-24576). Windows
ignores blanks and dots after the suffix (CVE-2024-43402)."""

_WHAT_TO_DO: Mapping[int, str] = {
    4: "too many open files; run fewer commands at once",
    8: "not enough memory",
    193: "it is not a program for this Windows",
    win32.ERROR_FILENAME_EXCED_RANGE: "the command line is too long for Windows, which takes 32,767 characters; pass long values by stdin or a file",
    740: "it must be run as administrator, and asks a person for that",
    1455: "not enough memory: the page file is too small; run fewer commands at once",
    1816: "a job or a user of this machine may not have more processes or memory",
}
"""The messages for some errors of Windows, by winerror."""


class LocalSpawner:
    """Starts programs and keeps track of the running programs.

    Attributes:
        released: The output streams of released programs, and the discarded pipes.
    """

    def __init__(self) -> None:
        self._running: set[LocalWindowsProcess] = set()
        self.released = ReleasedStreams()
        self._left: set[JobObject] = set()
        self._closed = False

    async def spawn(self, spawn: Spawn) -> LocalWindowsProcess:
        """Start a program in a job of its own.

        Blocks the event loop while Windows starts the program.

        Raises:
            InvalidCommand: The directory does not exist, or is not a directory.
            SpawnError: The program could not be started.
        """
        if self._closed:
            raise SpawnError("this backend is closed: it starts nothing more")
        _check_directory(spawn.cwd)
        self._forget_left()
        try:
            process = await self._start(spawn)
        except OSError as error:
            _check_length(spawn.cwd, error)
            raise SpawnError(f"cannot start {spawn.argv[0]}: {_explain(error)}") from error
        except psutil.Error as error:
            raise SpawnError(f"cannot start {spawn.argv[0]}: it has ended before it began") from error
        except NotImplementedError as error:
            raise SpawnError(
                "this event loop starts no programs on Windows; use asyncio's ProactorEventLoop, which asyncio.run() "
                "does unless a SelectorEventLoop or its policy was chosen"
            ) from error
        self._running.add(process)
        return process

    async def _start(self, spawn: Spawn) -> LocalWindowsProcess:
        variables = EnvBlock()
        variables.remove(spawn.unset)
        if spawn.terminal is not None:
            # These variables describe another terminal, and programs use them before they ask this terminal.
            variables.remove(("COLUMNS", "LINES"))
            variables.update({"TERM": spawn.terminal.term})
        variables.update(spawn.settings)
        variables.update(spawn.env)
        program = find_program(spawn.argv[0], variables.get("PATH"), _EXTENSIONS)
        if program is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), spawn.argv[0])
        if program.rstrip(" .").lower().endswith(_BATCH_FILES):
            raise SpawnError(
                f"cannot start {program}: it is a batch file, whose arguments cmd.exe would read as commands; "
                "have a shell run it"
            )
        argv = (program, *spawn.argv[1:])
        if not _fits(argv):
            raise SpawnError(f"cannot start {program}: {_WHAT_TO_DO[win32.ERROR_FILENAME_EXCED_RANGE]}")
        with ExitStack() as undo:
            job = JobObject(*spawn.job_limits)
            undo.callback(job.close)
            script = None
            if spawn.script is not None:
                script = ScriptFile(spawn.script)
                undo.callback(script.close)
                variables.update({"ANYSHELL_SCRIPT": script.path})
            ending = _Ending(script.close if script is not None else lambda: None)
            start = _start_on_pipes if spawn.terminal is None else _start_on_terminal
            started = await start(argv, spawn, variables, job, ending, undo)
            undo.pop_all()
        return LocalWindowsProcess(
            job,
            ending,
            started,
            on_closed=self._running.discard,
            released=self.released,
            on_left=self._left.add,
        )

    def _forget_left(self) -> None:
        """Close the jobs of ended persistent shells whose commands have no living process left."""
        for job in tuple(self._left):
            with suppress(OSError):
                if not job.members():
                    self._left.discard(job)
                    job.close()

    async def aclose(self) -> None:
        """End all running programs, start no more, and stop reading the output of released programs."""
        self._closed = True
        await asyncio.gather(*(process.aclose() for process in self._running))
        self.released.close()
        for job in self._left:
            job.let_go()
            job.close()
        self._left.clear()
        await asyncio.sleep(0)


class LocalWindowsProcess(
    Ungrouped,
    LocalProcess[
        PipeReceiveStream | TerminalReceiveStream, PipeReceiveStream, PipeSendStream | TerminalSendStream
    ],
):
    """A program on this machine, with the processes that the program starts, in one job.

    A program on pipes cannot be asked to end: every signal ends the job at once. On a terminal every signal but ``kill``
    presses ^C.
    """

    def __init__(
        self,
        job: JobObject,
        ending: _Ending,
        started: _Started,
        *,
        on_closed: Callable[[LocalWindowsProcess], object],
        released: ReleasedStreams,
        on_left: Callable[[JobObject], object],
    ) -> None:
        super().__init__(started.stdout, started.stderr, started.stdin)
        self._pid = started.pid
        self._handle = started.handle
        self._job = job
        self._ending = ending
        self._on_closed = on_closed
        self._released = released
        self._on_left = on_left
        self._commands: Commands | None = None
        self._signalled = False
        self._drained = False
        self._ended = False
        self._status: ExitStatus | None = None
        self._closed = False

    @property
    def pid(self) -> int:
        """The program's pid."""
        return self._pid

    @property
    def usage(self) -> Usage | None:
        """The resource usage of the job, after the program has ended and before this object is closed; ``None`` otherwise."""
        return None if self._closed or self._handle.running else self._job.usage()

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the terminal that pywinpty has made; ``None`` without a terminal."""
        return self._stdout.kind if isinstance(self._stdout, TerminalReceiveStream) else None

    @property
    def can_terminate(self) -> bool:
        """Whether the program has a terminal, and so can be asked by ^C.

        A program without a terminal shares no console with this process, and has no window.
        """
        return isinstance(self._stdin, TerminalSendStream)

    async def wait(self) -> ExitStatus:
        """Wait until the program has ended; return its exit status, which is empty if anyshell has ended the program."""
        # The handle may show the end earlier than the event loop reports the end.
        if self._closed or self._handle.running:
            await self._ending.wait()
        if isinstance(self._stdin, TerminalSendStream):
            self._stdin.let_go()
        if isinstance(self._stdout, TerminalReceiveStream) and not (self._signalled or self._drained):
            self._drained = True  # only once: a call after a cancelled call only asks for the exit status
            await self._stdout.drained()
        if self._status is None:
            self._status = self._learn()
        return self._status

    def _learn(self) -> ExitStatus:
        if self._closed or self._handle.running:
            return ExitStatus()
        code = self._handle.exit_code
        return ExitStatus() if self._ended and code == ENDED_BY_JOB else ExitStatus(code=code)

    async def send_signal(self, signal: Signal) -> None:
        """End the job, whatever the signal. On a terminal, press ^C instead, unless the signal is ``kill``."""
        self._signalled = True
        if signal != "kill" and isinstance(self._stdin, TerminalSendStream):
            await self._stdin.interrupt()
        else:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._job.terminate()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the job's running processes, without the console host. Windows ends a console host with its last user.

        Costs one system call if no process runs. If the job cannot be read, the result names the program as ``unknown``.
        """
        for pause in (*_LOOK_AGAIN, None):
            try:
                found = running(self._job.members())
            except OSError:  # a failed scan must not pass for an empty job
                return [ProcessInfo(self._pid, "unknown", 0.0)]
            # A console host that has just begun has no name yet, and is left out by its name.
            if pause is None or not any(info.started and info.name == UNNAMED for info in found):
                break
            await asyncio.sleep(pause)
        return found

    async def wait_gone(self) -> None:
        """Wait until the job is empty, by polling: no notification is reliable (see JOBOBJECT_ASSOCIATE_COMPLETION_PORT)."""
        for pause in itertools.chain(_LOOK_AGAIN, itertools.repeat(_LOOK_AGAIN[-1])):
            if not await self.survivors():
                return
            await asyncio.sleep(pause)

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> WindowsCommandTree:
        """Begin a command of a persistent shell: the processes that start in the job from now on. `pipes` and `fd` are unused."""
        if self._commands is None:
            self._commands = Commands(self._job, self._pid)
        return self._commands.begin(shell or self._pid)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Do nothing: `survivors` names daemons as well, because no process leaves the job."""

    async def pid_outside(self, pid: int) -> int | None:
        """Return `pid` if a process of the tree has this pid, else ``None``. Windows has no pid namespaces."""
        return pid if pid in {info.pid for info in await self.survivors()} else None

    async def resize(self, terminal: Terminal) -> None:
        """Resize the process's terminal. Without a terminal, do nothing."""
        if isinstance(self._stdout, TerminalReceiveStream):
            await self._stdout.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """Return all processes of the job: a console has no foreground, and does not show which process reads."""
        if not isinstance(self._stdout, TerminalReceiveStream):
            return None
        members = await self.survivors()
        return Foreground(processes=tuple(members), cpu=_cpu(members)) if members else None

    async def release(self) -> None:
        """Let the living processes go on, also after the end of this process, and read their output until the backend is closed.

        Processes of a persistent shell are let go only when the backend is closed.
        """
        if self._closed:
            return
        if self._commands is None:
            self._job.let_go()
        self._released.add(self._stdout, self._stderr)
        self._give_back()

    async def aclose(self) -> None:
        """Kill the remaining processes of the job, and close all handles."""
        if self._closed:
            return
        self._end()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_BOUND):
                await self.wait_gone()
                await self._ending.wait()
        await self._stdout.aclose()
        if self._stderr is not None:
            self._stderr.close()
        self._give_back()
        await asyncio.sleep(0)  # the event loop closes the transports in its next turn

    def _give_back(self) -> None:
        if self._closed:
            return
        self._status = self._status or self._learn()
        self._closed = True
        if self._commands is None:
            self._job.close()
        else:  # the command trees still read the job, whose members still end with this process
            self._on_left(self._job)
        self._handle.close()
        if self._stdin is not None:
            self._stdin.close()
        self._ending.close()
        self._on_closed(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A started program in its job, with our ends of the program's pipes or terminal."""

    pid: int
    handle: ProcessHandle
    stdout: PipeReceiveStream | TerminalReceiveStream
    stderr: PipeReceiveStream | None = None
    stdin: PipeSendStream | TerminalSendStream | None = None


async def _start_on_pipes(
    argv: Sequence[str], spawn: Spawn, variables: EnvBlock, job: JobObject, ending: _Ending, undo: ExitStack
) -> _Started:
    with ExitStack() as theirs:
        out, child_out = pipe_to_read()
        undo.callback(out.close)
        theirs.callback(os.close, child_out)
        child_err, child_in = subprocess.STDOUT, subprocess.DEVNULL
        if spawn.split_stderr:
            err, child_err = pipe_to_read()
            undo.callback(err.close)
            theirs.callback(os.close, child_err)
        if spawn.stdin:
            feed, child_in = pipe_to_write()
            undo.callback(feed.close)
            theirs.callback(os.close, child_in)
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: ending,
            *argv,
            stdin=child_in,
            stdout=child_out,
            stderr=child_err,
            cwd=spawn.cwd,
            env=variables.block(),
            # Suspended, so that the program starts no process before it is in the job; and with a hidden console.
            creationflags=win32.CREATE_SUSPENDED | subprocess.CREATE_NO_WINDOW,
        )
        undo.callback(transport.close)
    handle = ProcessHandle(transport.get_pid(), TO_OWN)
    undo.callback(handle.close)
    job.assign(handle.value)
    stdout = await PipeReceiveStream.connect(out)
    undo.callback(stdout.close)
    stderr = stdin = None
    if spawn.split_stderr:
        stderr = await PipeReceiveStream.connect(err)
        undo.callback(stderr.close)
    if spawn.stdin:
        stdin = await PipeSendStream.connect(feed)
        undo.callback(stdin.close)
    psutil.Process(transport.get_pid()).resume()
    return _Started(pid=transport.get_pid(), handle=handle, stdout=stdout, stderr=stderr, stdin=stdin)


async def _start_on_terminal(
    argv: Sequence[str], spawn: Spawn, variables: EnvBlock, job: JobObject, ending: _Ending, undo: ExitStack
) -> _Started:
    assert spawn.terminal is not None

    def adopt(pid: int) -> None:
        """Put the program into the job at once. The program runs already: pywinpty starts no program suspended."""
        with ProcessHandle(pid, TO_OWN) as process:
            try:
                job.assign(process.value)
            except OSError:
                if process.running:
                    raise

    cwd, env, size = spawn.cwd, variables.block(), spawn.terminal
    stdout = await TerminalReceiveStream.start(
        lambda reader: Pseudoconsole.start(argv, cwd=cwd, env=env, terminal=size, adopt=adopt, reader=reader)
    )
    undo.callback(stdout.close)
    handle = ProcessHandle(stdout.pid, TO_OWN)
    undo.callback(handle.close)
    ending.watch(ProcessHandle(stdout.pid))
    return _Started(pid=stdout.pid, handle=handle, stdout=stdout, stdin=stdout.keyboard)


class _Ending(asyncio.SubprocessProtocol):
    """The end of one program, as the event loop or a waiting thread reports it.

    Args:
        on_ended: Called at the program's end, before any waiting task is woken.
    """

    def __init__(self, on_ended: Callable[[], object]) -> None:
        self._on_ended = on_ended
        self._over = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None

    async def wait(self) -> None:
        """Wait until the program has ended, or `close` was called."""
        await self._over.wait()

    def watch(self, process: ProcessHandle) -> None:
        """Start a thread that waits for the end of a program that the event loop did not start.

        Args:
            process: The handle of the program. The thread owns and closes the handle.

        Raises:
            OSError: No thread can be started.
        """
        loop = asyncio.get_running_loop()

        def wait() -> None:
            with process, suppress(RuntimeError):  # the event loop is closed: no task waits
                process.wait()
                loop.call_soon_threadsafe(self.process_exited)

        with threads_as_os_errors():
            threading.Thread(target=wait, name="anyshell terminal: wait", daemon=True).start()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Only the event loop calls this method; `process_exited` is also called after `watch`."""
        self._transport = transport

    def process_exited(self) -> None:
        """Record the program's end."""
        self._on_ended()
        self._over.set()
        # An earlier close would end the program, and asyncio warns of a transport that is never closed.
        if self._transport is not None:
            self._transport.close()

    def close(self) -> None:
        """Stop waiting: end every `wait`."""
        self._over.set()


def orphans() -> Sequence[ProcessInfo]:
    """Return no processes: Windows ends a job with the process that has the handle, also after a crash of that process."""
    return ()


def _cpu(members: Sequence[ProcessInfo]) -> float:
    """Return the seconds of CPU time that processes have used."""
    used = 0.0
    for member in members:
        with suppress(OSError), ProcessHandle(member.pid) as process:
            used += process.cpu
    return used


def _check_directory(path: str) -> None:
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        _check_length(path, error)
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidCommand(f"cwd {path!r} cannot be used: {reason}") from error
    if not is_directory:
        raise InvalidCommand(f"cwd {path!r} is not a directory")


def _check_length(path: str, error: Exception) -> None:
    """Raise `InvalidCommand` if a path is too long for a working directory. Windows' own error names another reason."""
    if win32.units(path) > win32.LONGEST_DIRECTORY:
        raise InvalidCommand(
            f"cwd {path!r} is too long: Windows starts programs in directories of at most {win32.LONGEST_DIRECTORY} "
            "characters; give one above it, and have the command name the rest"
        ) from error


def _fits(argv: Sequence[str]) -> bool:
    """Whether the words fit into a command line of Windows. Not every error of Windows names this reason."""
    return win32.units(subprocess.list2cmdline(argv)) < win32.LONGEST_COMMAND_LINE


def _explain(error: OSError) -> str:
    return _WHAT_TO_DO.get(error.winerror or 0) or error.strerror or str(error)
