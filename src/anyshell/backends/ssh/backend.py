"""The backend for a host that is reached by SSH."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

import asyncssh

from ..._answers import Nonsense
from ..._exceptions import (
    AnyshellError,
    BackendError,
    BackendUnavailable,
    ConnectionFailed,
    InvalidCommand,
    SpawnError,
)
from ..._terminals import LONGEST_LINE, LONGEST_LINE_OF_BSD
from ..._types import HostInfo, HostQuery, Spawn
from ..._waits import to_the_end
from ..collect import collect
from .channel import (
    HIGH_WATER,
    TERMINAL_HIGH_WATER,
    Channel,
    new_token,
    noise_words,
)
from .connection.options import describe_address
from .facts import FactLines
from .posix.pending_stops import PendingStops
from .posix.process import SSHProcess
from .posix.processes import CLOCK_SLACK, ROUNDING, SIGNALS, Processes, SSHTree
from .posix.start import begin, check_sizes
from .posix.watcher import SILENCE_SECONDS, HostAway, Watcher, WatcherShell, boot
from .sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ..._types import ProcessInfo, Signal
    from ...abc import Files, Launcher, PipeDirectory, Program, WindowsLauncher
    from .connection.options import SSHOptions
    from .files.either import SSHFiles
    from .posix.watcher import Answer
    from .windows.files import WindowsFiles
    from .windows.host import WindowsHost
    from .windows.process import WindowsProcess

PROBE_SECONDS = 30.0
"""Seconds for a host to report its facts; the startup files of its login shell run first."""

WINDOWS_SECONDS = 10.0
"""Seconds for a host without a POSIX shell to answer whether it is Windows."""

_BY_SIGNAL = 128  # no bound
"""The exit code that stands for a signal that ended one of anyshell's own programs, since ``None`` means a lost link."""

FILE_SECONDS = 600.0
"""Seconds for one file command, where a host has no SFTP, in addition to the seconds that `FILE_RATE` gives."""

FILE_RATE = 4096
"""Bytes a second: each byte that such a command was sent, or has printed, adds its part of a second to the limit."""


class SSHBackend:
    """A backend that runs programs on a host by SSH.

    The host is not contacted before the first use. The first use binds the backend to its event loop.

    Args:
        options: The host, and the options to reach it.
        launcher: Makes the writer of command lines for a kind of login shell, given the shell's path.
    """

    def __init__(self, options: SSHOptions, launcher: Callable[[str], Launcher]) -> None:
        self._options = options
        self._launcher = launcher
        self._login = launcher("")
        self._owner = f"ANYSHELL_REMOTE_{secrets.token_hex(8)}_"
        self._numbers = itertools.count(secrets.randbits(30))
        self._sessions = Sessions(options, self._connected)
        self._watcher = Watcher(self._start_watcher)
        self._processes: Processes | None = None
        self._running: set[SSHProcess | WindowsProcess] = set()
        self._released: set[Channel] = set()
        self._pending = PendingStops(self._remove_directories)
        self._windows: WindowsHost | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """The host as a person wrote it."""
        return describe_address(self._options)

    @property
    def files(self) -> Files:
        """The files of the host."""
        return self._posix_files if self._windows is None else self._windows_files

    # Imported at the first use, since few commands use files.

    @cached_property
    def _posix_files(self) -> SSHFiles:
        from .files.either import SSHFiles

        return SSHFiles(self._sessions.sftp, self._run_for_files)

    @cached_property
    def _windows_files(self) -> WindowsFiles:
        from .windows.files import WindowsFiles

        return WindowsFiles(self._posix_files.sftp)

    async def info(self, query: HostQuery) -> HostInfo:
        """Ask the host for its facts, in one session, which stays open for stopping commands.

        If the session shows a Windows host, the session is closed and the facts are asked for in another. That session
        may stay open for the next command.

        Raises:
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
            BackendUnavailable: A Windows host without PowerShell.
            InvalidCommand: The options' directory is not a directory.
        """
        if self._windows is not None:
            return await self._info_of_windows([self._windows.login], query)
        words = [self._options.directory or "", *query.programs, "--"]
        brief = "1" if query.brief else ""
        for wanted in query.shells:
            words += [wanted.kind, wanted.path, *wanted.arguments, ","]
        first = f"brief={brief}\nfacts {self._login.join(words)}"
        shell = await self._start_watcher(fresh=False, first=first)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                answer = await shell.ask()
            facts = FactLines.read(answer.lines)
            ticks = facts.ticks
        except TimeoutError:
            shell.close()
            raise ConnectionFailed(
                f"{self.name}: the login shell did not answer within {PROBE_SECONDS:g} s; "
                f"do its startup files wait for something?{noise_words(shell.channel.noise)}",
                stage="session",
            ) from None
        except HostAway:
            if not shell.channel.over:
                raise ConnectionFailed(
                    f"the connection to {self.name} was lost while its login shell was asked", stage="session"
                ) from None
            logins = self._login.windows(await self._ask_what_else(shell.channel))
            return await self._info_of_windows(logins, query)
        except Nonsense as error:
            shell.close()
            raise BackendError(f"{self.name}: {error}") from error
        if logins := self._login.windows(facts.get("system")):
            shell.close()
            return await self._info_of_windows(logins, query)
        if facts.get("unheard"):
            shell.close()
            raise ConnectionFailed(
                f"{self.name} accepts the login but does not run what it is asked to: a command of its own (ForceCommand, or "
                "command= in authorized_keys) starts a shell that reads commands from its input; have that shell run "
                '"$SSH_ORIGINAL_COMMAND" (-c)',
                stage="session",
            )
        self._watcher.adopt(shell)
        self._login = self._launcher(facts.get("login"))
        self._processes = Processes(self._watcher, self._login.life_fd)
        self._processes.ticks = ticks
        self._processes.architecture = facts.get("arch")
        self._processes.longest_line = LONGEST_LINE if facts.get("proc") else LONGEST_LINE_OF_BSD
        self._processes.learn(answer)
        if not query.brief:
            shell.ask("ping").add_done_callback(self._learn)  # the first answer took as long as its questions
        if facts.get("wrong"):
            raise InvalidCommand(f"the directory {facts.get('wrong')!r} cannot be used on {self.name}")
        return facts.host(notices=self._sessions.notices)

    def _learn(self, answer: asyncio.Future[Answer]) -> None:
        if not answer.cancelled() and answer.exception() is None and self._processes is not None:
            self._processes.learn(answer.result())

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program.

        Raises:
            InvalidCommand: The directory does not exist, or is not a directory; nothing was started.
            SpawnError: The program could not be started.
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
        """
        if self._closed:
            raise SpawnError("this backend is closed: it starts nothing more")
        if self._processes is None and self._windows is None:
            await self.info(HostQuery())
        if self._windows is not None:
            return await self._windows.start(
                spawn,
                on_started=self._running.add,
                on_closed=self._running.discard,
                on_released=self._keep_reading,
            )
        check_sizes(spawn)
        processes = self._processes
        assert processes is not None
        number = next(self._numbers) % (2**31 - 1) + 1
        token, mark, tag = new_token(), f"{self._owner}{number:x}", number << 31
        start = self._login.start(spawn, token=token, mark=mark, tag=tag)
        since = processes.host_time(time.monotonic() - CLOCK_SLACK) - ROUNDING
        on_terminal = spawn.terminal is not None
        tree = SSHTree(processes, token, mark, tag, since, processes.sample, on_terminal=on_terminal)
        high_water = HIGH_WATER if spawn.terminal is None else TERMINAL_HIGH_WATER
        channel = Channel(token, split_stderr=spawn.split_stderr, high_water=high_water)
        channel.owned = True
        process = SSHProcess(
            channel,
            tree,
            processes,
            name=spawn.argv[0].rpartition("/")[2],
            has_stdin=spawn.stdin,
            terminal=spawn.terminal is not None,
            split_stderr=spawn.split_stderr,
            on_closed=self._running.discard,
            on_released=self._keep_reading,
            on_away=self._pending.add,
            signal_beside=self._signal_beside,
            holder=spawn.holder,
        )
        if spawn.on_asked is not None:
            channel.on_asked = partial(spawn.on_asked, process)
        self._running.add(process)
        try:
            beside = (
                0 if spawn.gate is None else 2
            )  # the session of the command's network, and the session for files
            process.holds_channel = await self._sessions.open(
                channel, start.line, spawn.terminal, beside=beside, lasts=bool(spawn.needs)
            )
            tree.leader = await begin(channel, start, spawn, self.name) or tree.leader
            process.be_held(self._watcher.hold)
        except BaseException as error:
            if not channel.asked or (isinstance(error, AnyshellError) and channel.over):
                channel.abort()
                process.forget()  # the server was not asked, or the program is over and the host has told why
            elif spawn.on_asked is None:
                await to_the_end(process.abandon(), lambda: None)
            raise
        return process

    async def pipe_directory(self) -> PipeDirectory:
        """Make a private directory for a persistent shell.

        Raises:
            SpawnError: The directory cannot be made.
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
        """
        if self._windows is not None:
            raise SpawnError(f"{self.name} is a Windows host, where there are no sessions over SSH")
        from .posix.pipe_directory import SSHPipeDirectory  # here, since few environments have sessions

        return await SSHPipeDirectory(
            self._spawn_apart, self._posix_files, self._pending.add_directory
        ).open()

    async def _spawn_apart(self, spawn: Spawn) -> SSHProcess:
        """Start a program whose stdout and stderr must be separate."""
        process = await self.spawn(spawn)
        assert isinstance(process, SSHProcess)  # `pipe_directory` refuses Windows hosts
        if process.is_joined:
            await process.aclose()
            raise SpawnError(
                f"a startup file of the login shell on {self.name} joins stderr to stdout (exec 2>&1), and a session needs "
                "them apart: let it do that for people alone (case $- in *i*)"
            )
        return process

    async def connects(self, port: int) -> bool:
        """Whether a port on the host accepts connections; the server itself tries the port."""
        return await self._sessions.connects(port)

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Return no processes: a mark does not show whether its anyshell, perhaps on another machine, has ended."""
        return ()

    async def aclose(self) -> None:
        """Stop every program that was started here, and close every connection."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(process.aclose() for process in tuple(self._running)))
        await self._pending.aclose()
        if self._windows is not None:
            await self._windows.aclose()
        for channel in tuple(self._released):
            channel.abort()
        if "_posix_files" in vars(self):
            await self._posix_files.aclose()
        await self._watcher.aclose()
        await self._sessions.aclose()

    def _connected(self) -> None:
        self._watcher.heard()
        self._pending.connected()

    # The watcher.

    async def _start_watcher(self, fresh: bool, first: str = "") -> WatcherShell:
        token = new_token()
        whole = not first  # started for no other reason than to look at processes
        start = self._login.read_and_run(boot(self._owner, token, first, whole=whole))
        shell = WatcherShell(token, whole=whole)
        await self._sessions.open_reserved(shell.channel, start.line, fresh=fresh, on_closed=shell.ended)
        shell.channel.write_now(start.sent)
        for process in self._running:
            if isinstance(process, SSHProcess):
                process.be_held(shell.hold)
        if not first:
            shell.ask()
        return shell

    async def _ask_what_else(self, channel: Channel) -> str:
        """Return the answer of a login shell that is not a POSIX shell.

        Raises:
            ConnectionFailed: There is no answer, or an answer that no Windows host gives.
        """
        asked = Channel(
            new_token()
        )  # the shell never prints the token, so only the end of its output is kept
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(WINDOWS_SECONDS):
                    await self._sessions.open(asked, self._login.question)
                    await asked.closed.wait()
        finally:
            asked.abort()
        said = asked.noise
        if self._login.windows(said):
            return said
        raise ConnectionFailed(
            f"{self.name} accepts the login but runs no commands: no usable login shell (nologin, perhaps), the key is "
            f"bound to a command of its own, or a startup file ends the shell{noise_words(channel.noise)}",
            stage="session",
        )

    async def _info_of_windows(self, logins: Sequence[WindowsLauncher], query: HostQuery) -> HostInfo:
        from .windows.host import WindowsHost  # here, since few hosts are Windows hosts

        noise = ""
        for login in logins:
            host = self._windows or WindowsHost(
                login, self.name, self._sessions.open, self._sessions.has_room
            )
            facts = await host.facts(self._options.directory or "", query)
            if facts is None:
                noise = host.noise or noise
                continue
            if facts.get("wrong"):
                raise InvalidCommand(f"the directory {facts.get('wrong')!r} cannot be used on {self.name}")
            self._windows = host
            return facts.host(notices=self._sessions.notices)
        raise BackendUnavailable(
            f"{self.name} is a Windows host whose login shell is {logins[0].name}, and neither PowerShell 7 (pwsh) nor "
            "Windows PowerShell 5.1 answers there: commands are started by one of them. Install it (winget install "
            f"Microsoft.PowerShell), and see that the account may run it{noise_words(noise)}"
        )

    async def _signal_beside(self, channel: Channel, tree: SSHTree, signal: Signal) -> None:
        """Signal the leader's group over the connection that started the leader, since other connections may lead elsewhere.

        The server itself is asked, which OpenSSH heeds unless the login is that of root. Another session is asked too,
        which need not be in the same pid namespace.
        """
        if tree.leader is None or channel.exit.done() or channel.connection is None:
            return
        name = SIGNALS[signal]
        channel.signal(name)
        if tree.leader <= 1:  # 1 is the first process of a pid namespace, and "-1" means every process
            return
        kill = f"kill -s {name} -- -{tree.leader} 2>/dev/null || kill -s {name} -{tree.leader}"
        # Where /proc exists, the pid must be the leader's: the process must have the tag.
        start = self._login.read_and_run(
            f"found=1; if [ -r /proc/self/limits ]; then found=; while read -r line; do case $line in "
            f"'Max file locks'*[!0-9]{tree.tag}[!0-9]*) found=1 ;; esac; done </proc/{tree.leader}/limits; fi; "
            f'[ "$found" ] && {{ {kill}; }}'
        )
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                process = await channel.connection.create_process(
                    start.line, input=start.sent, encoding=None, env=None, send_env=None, request_pty=False
                )
                await process.wait_closed()
        except (TimeoutError, asyncssh.Error, OSError):
            pass

    async def _remove_directories(self, names: Collection[str]) -> None:
        if self._processes is None:  # the host has never answered
            raise HostAway
        await self._processes.remove_directories(names)

    def _keep_reading(self, channel: Channel) -> None:
        self._released = {each for each in (*self._released, channel) if not each.closed.is_set()}

    # Files.

    async def _run_for_files(
        self, argv: Sequence[str], stdin: bytes | None, most: int
    ) -> tuple[int | None, bytes, bytes]:
        from .files.sftp.files import STALL_SECONDS

        status, out, err = await collect(
            self,
            Spawn(argv=tuple(argv), cwd="/", stdin=stdin is not None, split_stderr=True),
            seconds=FILE_SECONDS,
            most=most,
            stdin=stdin or b"",
            idle=STALL_SECONDS,
            rate=FILE_RATE,
        )
        return _BY_SIGNAL if status is None or status.signal is not None else status.code, out, err
