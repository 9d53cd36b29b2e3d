"""Commands in the terminals of an editor, by the Agent Client Protocol. Needs the extra ``acp``."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteReceiveStream

from . import shells
from ._exceptions import BackendUnavailable, InvalidCommand, SpawnError, TerminalUnavailable
from ._types import ExitStatus, ProcessInfo
from ._waits import shielded, to_the_end
from .backends.tree import Ungrouped

try:
    from acp import RequestError
    from acp.schema import EnvVariable
except ModuleNotFoundError as error:
    if error.name != "acp":
        raise
    raise ModuleNotFoundError(
        "anyshell.acp needs acp, which is not installed: pip install 'anyshell[acp]'", name="acp"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from acp import Client
    from acp.schema import CreateTerminalResponse

    from ._types import Foreground, HostInfo, HostQuery, Signal, Spawn, Terminal
    from .abc import Backend, CommandTree, Files, PipeDirectory

BYTE_LIMIT = 1024 * 1024
"""Bytes from the end of a command's output that the editor keeps; the rest is lost. A default of `AcpBackend`."""

CREATE_SECONDS = 60.0
"""Seconds for the editor to make a terminal; a terminal that comes later is killed and released."""

ANSWER_SECONDS = 5.0
"""Seconds for the editor to kill or release a terminal; then anyshell stops waiting."""

LOOK_SECONDS = (0.05, 2.0)
"""Seconds between two looks at the output of a command: the first pause, and the longest pause."""

_LOST = "\n[anyshell] The editor kept only the end of the output: a part is missing here, or shown twice.\n"


class AcpBackend:
    """A backend that runs commands in the editor's terminals, and leaves everything else to another backend.

    The editor shows each command and reports its end. anyshell does not see processes that a command leaves behind: the editor
    owns these processes. A command has no input, no session and no terminal of anyshell's. stdout and stderr are one channel,
    and every stop is the editor's kill.

    Args:
        client: The connection to the editor, as the SDK gives it to an agent.
        session_id: The session of the protocol to which the terminals belong.
        backend: The backend of the POSIX host on which the editor runs commands. The caller closes the backend.
        on_terminal: A callback that is given the id of each new terminal, for example to show it in a tool call.
        byte_limit: Bytes of a command's output that the editor keeps.
    """

    def __init__(
        self,
        client: Client,
        session_id: str,
        backend: Backend,
        *,
        on_terminal: Callable[[str], object] | None = None,
        byte_limit: int = BYTE_LIMIT,
    ) -> None:
        self._client = client
        self._session = session_id
        self._backend = backend
        self._on_terminal = on_terminal
        self._byte_limit = byte_limit
        self._open: set[EditorTerminal] = set()
        self._late: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The name of the host for people."""
        return f"{self._backend.name}, in the editor"

    @property
    def files(self) -> Files:
        """The host's files."""
        return self._backend.files

    async def info(self, query: HostQuery) -> HostInfo:
        """Return the facts of the host.

        Raises:
            BackendUnavailable: The host runs Windows.
        """
        info = await self._backend.info(query)
        if info.os == "windows":
            raise BackendUnavailable(
                "an editor's terminals on Windows cannot be used: use the backend itself"
            )
        return info

    async def spawn(self, spawn: Spawn) -> EditorTerminal:
        """Ask the editor to make a terminal for a command.

        Raises:
            InvalidCommand: The directory does not exist, or `split_stderr` was asked for.
            TerminalUnavailable: A terminal of anyshell's was asked for.
            SpawnError: The editor makes no terminal, or the command has input or a text that is too long.
        """
        await self._check(spawn)
        variables = {**spawn.settings, **spawn.env}
        removed = sorted(name for name in spawn.unset if name.isidentifier() and name not in variables)
        forget = f"{shells.SHELLS['sh'].join(['unset', *removed])}; " if removed else ""
        creating = asyncio.ensure_future(
            self._client.create_terminal(
                self._session,
                "/bin/sh",
                args=["-c", f'{forget}exec "$@" </dev/null', "sh", *spawn.argv],
                env=[EnvVariable(name=name, value=value) for name, value in variables.items()],
                cwd=spawn.cwd,
                output_byte_limit=self._byte_limit,
            )
        )
        try:
            made = await asyncio.wait_for(shielded(creating), CREATE_SECONDS)
        except BaseException as error:
            if isinstance(error, RequestError):
                raise SpawnError(f"the editor makes no terminal: {error}") from error
            if creating.done() and not creating.cancelled() and creating.exception() is error:
                # The editor is gone, and may have got the request: `wait` of the process reports the unknown end.
                return EditorTerminal(self._client, self._session, "", self._open.discard, started=None)
            ending = asyncio.ensure_future(self._end_late(creating))
            self._late.add(ending)
            ending.add_done_callback(self._late.discard)
            if not isinstance(error, TimeoutError):
                await to_the_end(asyncio.wait([ending], timeout=ANSWER_SECONDS), lambda: None)
                raise
            raise SpawnError(
                f"the editor has made no terminal in {CREATE_SECONDS:g} s: one that comes later is killed"
            ) from error
        terminal = EditorTerminal(self._client, self._session, made.terminal_id, self._open.discard)
        self._open.add(terminal)
        if self._on_terminal is not None:
            self._on_terminal(made.terminal_id)
        return terminal

    async def _check(self, spawn: Spawn) -> None:
        if spawn.split_stderr:
            raise InvalidCommand("an editor's terminal has one output: leave out split_stderr")
        if spawn.terminal is not None:
            raise TerminalUnavailable("the editor's terminals are not driven: leave out the terminal")
        if spawn.stdin:
            raise SpawnError("an editor's terminal takes no input: put it into a file, and redirect it")
        if spawn.script is not None:
            raise SpawnError(
                "the command is too long for an editor's terminal: put it into a file, and run that"
            )
        try:
            kind = (await self.files.stat(spawn.cwd)).kind
        except OSError:
            kind = "other"
        if kind != "directory":
            raise InvalidCommand(f"cwd: {spawn.cwd} is not a directory on {self.name}")

    async def _end_late(self, creating: asyncio.Future[CreateTerminalResponse]) -> None:
        """Wait for a terminal that comes too late; then kill and release the terminal."""
        with contextlib.suppress(Exception):
            made = await creating
            await EditorTerminal(self._client, self._session, made.terminal_id, lambda _: None).aclose()

    async def pipe_directory(self) -> PipeDirectory:
        """Refuse: an editor's terminals have no persistent shells."""
        raise BackendUnavailable("an editor's terminals have no sessions: run each command in a fresh shell")

    async def connects(self, port: int) -> bool:
        """Whether something on the host accepts connections at a port."""
        return await self._backend.connects(port)

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Return the processes that a killed anyshell has left on the host."""
        return await self._backend.orphans()

    async def aclose(self) -> None:
        """Kill and release every terminal."""
        await asyncio.gather(*(terminal.aclose() for terminal in list(self._open)))
        if self._late:
            await asyncio.wait(self._late, timeout=ANSWER_SECONDS)


class EditorTerminal(Ungrouped):
    """A command in a terminal of the editor.

    Attributes:
        id: The editor's id of the terminal; empty when unknown.
        started: Whether the command has begun; ``None`` when unknown.
        lost: Whether the editor has stopped answering.
    """

    stdin = None
    stderr = None
    terminal_kind = None
    usage = None
    pid = None
    can_terminate = False

    def __init__(
        self,
        client: Client,
        session_id: str,
        terminal_id: str,
        on_closed: Callable[[EditorTerminal], object],
        *,
        started: bool | None = True,
    ) -> None:
        self.id = terminal_id
        self.started = started
        self.lost = False
        self._client = client
        self._session = session_id
        self._on_closed = on_closed
        self._released = False
        self._closing: asyncio.Future[None] | None = None
        self._exit = asyncio.ensure_future(self._ended())
        self._stdout = _Output(self)

    @property
    def stdout(self) -> ByteReceiveStream:
        """The command's output, as the editor shows the output."""
        return self._stdout

    @property
    def ended(self) -> bool:
        """Whether the editor has reported the command's end, or has stopped answering."""
        return self._exit.done()

    async def printed(self) -> tuple[str, bool]:
        """Return the output that the editor keeps, and whether the beginning is missing."""
        answer = await self._client.terminal_output(self._session, self.id)
        return answer.output, answer.truncated

    async def _ended(self) -> ExitStatus:
        try:
            answer = await self._client.wait_for_terminal_exit(self._session, self.id)
        except Exception:  # noqa: BLE001 - whatever it is, how the command ends cannot be learnt
            self.lost = True
            return ExitStatus()
        if answer.signal:
            signal = f"SIG{answer.signal.upper().removeprefix('SIG')}"
            return ExitStatus(signal=signal, editor_terminal=self.id)
        return ExitStatus(code=answer.exit_code, editor_terminal=self.id)

    async def wait(self) -> ExitStatus:
        """Wait until the editor reports the command's end, and return the exit status."""
        return await shielded(self._exit)

    async def wait_gone(self) -> None:
        """Wait for the command's end, as `wait` does: the editor shows no other process."""
        await self.wait()

    async def wait_for_news(self, seconds: float) -> None:
        """Wait for the command's end, `seconds` at most."""
        await asyncio.wait([self._exit], timeout=seconds)

    async def send_signal(self, signal: Signal) -> None:
        """Ask the editor to kill the command, for every signal: the protocol has only a kill."""
        if not self.ended:
            await self._ask(self._client.kill_terminal(self._session, self.id))

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the terminal as the only survivor, until the editor reports the command's end."""
        return () if self.ended else (ProcessInfo(0, f"terminal {self.id}", 0.0),)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Do nothing: `survivors` always names the terminal."""

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> CommandTree:
        """Refuse: an editor's terminals have no sessions."""
        raise BackendUnavailable("an editor's terminals have no sessions")

    async def resize(self, terminal: Terminal) -> None:
        """Do nothing: the editor decides the size."""

    async def foreground(self) -> Foreground | None:
        """Return ``None``: the editor does not tell the processes in the foreground."""
        return None

    async def release(self) -> None:
        """Leave the command running in the editor, where a person may look at the terminal."""
        self._released = True

    async def aclose(self) -> None:
        """Kill the command and release the terminal, unless `release` was called."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await shielded(self._closing)

    async def _close(self) -> None:
        self._on_closed(self)
        if not self._released:
            await self.send_signal("kill")
            await self._ask(self._client.release_terminal(self._session, self.id))
        self._exit.cancel()

    async def _ask(self, asking: Coroutine[Any, Any, object]) -> None:
        with contextlib.suppress(Exception):  # the terminal or the editor is gone
            await asyncio.wait_for(asking, ANSWER_SECONDS)


class _Output(ByteReceiveStream):
    """The output of an editor's terminal as a stream, by repeated looks: the protocol has no stream."""

    def __init__(self, terminal: EditorTerminal) -> None:
        self._terminal = terminal
        self._taken = 0
        self._pause = LOOK_SECONDS[0]
        self._waiting = b""
        self._over = False
        self._closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next piece of output."""
        while not self._waiting:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._over:
                raise anyio.EndOfStream
            ended = self._terminal.ended
            self._waiting = await self._look(ended)
            self._over = ended
            if not self._waiting and not ended:
                await self._terminal.wait_for_news(self._pause)
                self._pause = min(self._pause * 1.5, LOOK_SECONDS[1])
        piece, self._waiting = self._waiting[:max_bytes], self._waiting[max_bytes:]
        return piece

    async def _look(self, ended: bool) -> bytes:
        try:
            text, truncated = await self._terminal.printed()
        except Exception:  # noqa: BLE001 - whatever it is, nothing more can be learnt
            self._terminal.lost = True
            self._over = True
            return b""
        if truncated:  # the end cannot be joined to earlier pieces: return it once, at last
            new = _LOST + text if ended else ""
        else:
            new, self._taken = text[self._taken :], len(text)
        return new.encode(errors="replace")

    async def aclose(self) -> None:
        """Stop looking at the output."""
        self._closed = True
