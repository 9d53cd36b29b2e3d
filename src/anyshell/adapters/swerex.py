"""An environment as a runtime of SWE-ReX."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

from .._engine import Control
from .._exceptions import AnyshellError
from .._types import ExpectTimeout, ProgramEnded
from ..shells import SHELLS
from . import needs
from .whole import MAX_OUTPUT, run_whole, write_whole

with needs("swerex", "swerex"):
    from swerex import exceptions
    from swerex.runtime import abstract as rex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._environment import Environment
    from ..terminal import DrivenTerminal
    from .whole import Whole

ALIVE_SECONDS = 10.0
"""Seconds for a host to run an empty command, unless SWE-ReX gives another number; then the host counts as not alive."""

_ALL = re.compile(r"[\s\S]*")


class Runtime(rex.AbstractRuntime):
    """The commands, sessions and files of an environment, for SWE-ReX.

    Processes that a command leaves behind go on until the command's session or the runtime is closed.

    Args:
        env: An environment with bash that was entered with ``async with``; the caller closes it.
    """

    def __init__(self, env: Environment) -> None:
        self.logger = logging.getLogger(__name__)
        self._env = env
        self._shells: dict[str, _Shell] = {}
        self._loose: set[str] = set()

    async def is_alive(self, *, timeout: float | None = None) -> rex.IsAliveResponse:
        """Check whether the host runs commands."""
        try:
            outcome = await self._env.run(":", timeout=timeout or ALIVE_SECONDS)
        except AnyshellError as error:
            return rex.IsAliveResponse(is_alive=False, message=str(error))
        alive = outcome.exit_code == 0
        return rex.IsAliveResponse(is_alive=alive, message="" if alive else f"a command was {outcome.status}")

    async def create_session(self, request: rex.CreateSessionRequest) -> rex.CreateSessionResponse:
        """Make a shell, and let the shell source its startup files."""
        if request.session in self._shells:
            raise exceptions.SessionExistsError(f"there is a session {request.session!r} already")
        quote = SHELLS[self._env.shell.kind].join
        text = "\n".join(f"source {quote([path])}" for path in request.startup_source)
        with _as_swerex_errors():
            shell = self._shells[request.session] = _Shell(self._env)
            try:
                await shell.run(":", ALIVE_SECONDS)  # a far host may start a shell slowly
                whole = await shell.run(text or ":", request.startup_timeout)
            except BaseException:
                del self._shells[request.session]
                await shell.aclose()
                raise
        return rex.CreateBashSessionResponse(output=_text(whole.stdout))

    async def run_in_session(self, action: rex.Action) -> rex.Observation:
        """Run a command in a session, or type a line for the program on its terminal, or interrupt the program."""
        shell = self._shell(action.session)
        with _as_swerex_errors():
            if isinstance(action, rex.BashInterruptAction):
                return await shell.interrupt(action)
            interactive = action.is_interactive_command or action.is_interactive_quit
            if interactive or action.expect or shell.terminal is not None:
                seen = await shell.type(action)
            else:
                seen = await shell.observe(action)
        if interactive:
            return seen.model_copy(update={"exit_code": 0})
        if action.check == "ignore":
            return seen.model_copy(update={"exit_code": None})
        if action.check == "raise" and not seen.expect_string and seen.exit_code != 0:
            kind = exceptions.NoExitCodeError if seen.exit_code is None else exceptions.NonZeroExitCodeError
            raise kind(_failed(action, seen.exit_code, f"{seen.failure_reason} Output:\n{seen.output!r}"))
        return seen

    async def close_session(self, request: rex.CloseSessionRequest) -> rex.CloseSessionResponse:
        """End a session's shell, and stop the processes that its commands left behind."""
        shell = self._shell(request.session)
        del self._shells[request.session]
        await shell.aclose()
        return rex.CloseBashSessionResponse()

    async def execute(self, command: rex.Command) -> rex.CommandResponse:
        """Run a command in a fresh shell; the command's variables override those of the host."""
        words = [command.command] if isinstance(command.command, str) else command.command
        if command.shell and len(words) != 1:
            raise ValueError("shell=True takes one text, and shell=False a program with its arguments")
        with _as_swerex_errors():
            whole = await run_whole(
                self._env,
                words[0] if command.shell else words,
                cwd=command.cwd,
                variables=command.env,
                timeout=command.timeout,
                split_stderr=not command.merge_output_streams,
            )
        _check(self._env, whole, self._loose, command.command, command.timeout)
        if whole.exit_code is None:
            raise exceptions.NoExitCodeError(_failed(command, None, f"It was {whole.outcome.status}."))
        response = rex.CommandResponse(
            stdout=_text(whole.stdout), stderr=_text(whole.stderr), exit_code=whole.exit_code
        )
        if command.check and whole.exit_code != 0:
            printed = f"Stdout:\n{response.stdout!r}\nStderr:\n{response.stderr!r}"
            raise exceptions.NonZeroExitCodeError(_failed(command, whole.exit_code, printed))
        return response

    async def read_file(self, request: rex.ReadFileRequest) -> rex.ReadFileResponse:
        """Read a file as text; line ends stay unchanged."""
        encoding, errors = request.encoding or "utf-8", request.errors or "strict"
        with _as_swerex_errors():
            text = await self._env.files.read_text(request.path, encoding=encoding, errors=errors)
        return rex.ReadFileResponse(content=text)

    async def write_file(self, request: rex.WriteFileRequest) -> rex.WriteFileResponse:
        """Replace a file, and make its parent directories."""
        with _as_swerex_errors():
            await write_whole(self._env, request.path, request.content.encode())
        return rex.WriteFileResponse()

    async def upload(self, request: rex.UploadRequest) -> rex.UploadResponse:
        """Copy a file or a directory of this machine; a directory is merged into an existing directory."""
        with _as_swerex_errors():
            await self._env.files.upload(request.source_path, request.target_path, into=False)
        return rex.UploadResponse()

    async def close(self) -> rex.CloseResponse:
        """End all shells, and stop the processes that commands left behind; the environment stays open."""
        shells, self._shells = self._shells, {}
        await asyncio.gather(_stop(self._env, self._loose), *(shell.aclose() for shell in shells.values()))
        return rex.CloseResponse()

    def _shell(self, name: str) -> _Shell:
        if name not in self._shells:
            raise exceptions.SessionDoesNotExistError(f"there is no session {name!r}")
        return self._shells[name]


class _Shell:
    """One session: its shell, and the program on its terminal."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._session = env.session()
        self._left: set[str] = set()
        self._unread = ""
        self._running: dict[asyncio.Event, Control] = {}
        self._scope = AsyncExitStack()
        self.terminal: DrivenTerminal | None = None

    async def run(self, command: str, timeout: float | None) -> Whole:
        """Run a command in the session; the output of a timed-out command stays unread for `interrupt`."""
        control, over = Control(), asyncio.Event()
        self._running[over] = control
        try:
            whole = await run_whole(
                self._env,
                command,
                timeout=timeout,
                split_stderr=False,
                session=self._session,
                control=control,
            )
        finally:
            del self._running[over]
            over.set()
        self._unread = _text(whole.stdout) if whole.outcome.status == "timed_out" else ""
        _check(self._env, whole, self._left, command, timeout)
        return whole

    async def observe(self, action: rex.BashAction) -> rex.BashObservation:
        """Check the syntax of a command, and run the command if the syntax is valid."""
        shell = SHELLS[self._env.shell.kind].join([self._env.shell.path, "-n"])
        parsed = await self._env.run(
            shell, stdin=f"{action.command}\n", split_stderr=True, timeout=action.timeout
        )
        if parsed.status == "exited" and parsed.exit_code and parsed.stderr is not None:
            said = {"bash_stdout": parsed.output.text, "bash_stderr": parsed.stderr.text}
            raise exceptions.BashIncorrectSyntaxError(
                f"nothing of {action.command!r} ran, as its syntax is wrong: {parsed.stderr.text}",
                extra_info=said,
            )
        whole = await self.run(action.command, action.timeout)
        outcome = whole.outcome
        reason = "" if outcome.status == "exited" else f"The command was {outcome.status}, and may have run."
        if outcome.session is not None and outcome.session.fresh:
            reason = f"The shell was a fresh one: {outcome.session.fresh}. {reason}".rstrip()
        return rex.BashObservation(
            output=_text(whole.stdout), exit_code=whole.exit_code, failure_reason=reason
        )

    async def type(self, action: rex.BashAction) -> rex.BashObservation:
        """Start a program on a terminal, or type a line for the running program; wait for an expected text or the end."""
        if self.terminal is None:
            exported = (await self.run("env -0", action.timeout)).stdout.split(b"\0")
            made = self._env.terminal(
                action.command,
                cwd=self._session.directory,
                env={
                    os.fsdecode(name): os.fsdecode(value)
                    for name, _, value in (each.partition(b"=") for each in exported)
                    if name
                },
                left_behind="stop",
            )
            self.terminal = await self._scope.enter_async_context(made)
        else:
            await self.terminal.send(f"{action.command}\r".replace("\n", "\r"))
        seen = await self._expect(action.expect, action.timeout)
        if seen is None:
            raise _late(action.command, action.timeout, "it goes on: interrupt it, or type more")
        output = seen.output.lstrip().removeprefix(action.command).strip()
        return seen.model_copy(update={"output": output})

    async def _expect(self, patterns: list[str], timeout: float | None) -> rex.BashObservation | None:
        """Wait for one of the patterns or the program's end; ``None`` if neither comes in time."""
        assert self.terminal is not None
        expected: list[re.Pattern[str] | type[ExpectTimeout] | type[ProgramEnded]]
        expected = [*(re.compile(pattern, re.DOTALL) for pattern in patterns), ExpectTimeout, ProgramEnded]
        which = await self.terminal.expect(expected, timeout=timeout)
        if which < len(patterns):
            return rex.BashObservation(output=self.terminal.before, expect_string=patterns[which])
        if (outcome := self.terminal.outcome) is None:
            return None
        return rex.BashObservation(output=await self._leave(), exit_code=outcome.exit_code)

    async def interrupt(self, action: rex.BashInterruptAction) -> rex.BashObservation:
        """Interrupt running commands as ^C does, stop the commands that go on, and return the unread output."""
        if self.terminal is not None:
            for _ in range(action.n_retry):
                if self.terminal.running:
                    await self.terminal.send_key("Ctrl-C")
                if seen := await self._expect(action.expect, action.timeout):
                    return seen.model_copy(update={"exit_code": 0, "output": seen.output.strip()})
            return rex.BashObservation(output=(await self._leave()).strip(), exit_code=0)
        for over, control in tuple(self._running.items()):
            for _ in range(action.n_retry):
                await self._session.interrupt()
                try:
                    await asyncio.wait_for(over.wait(), action.timeout)
                    break
                except TimeoutError:
                    continue
            else:
                control.cancel()
                await over.wait()
        output, self._unread = self._unread, ""
        return rex.BashObservation(output=output.strip(), exit_code=0)

    async def _leave(self) -> str:
        """Stop the program on the terminal, and return its unread output."""
        rest = await self.terminal.find(_ALL, timeout=0) if self.terminal is not None else None
        self.terminal = None
        await self._scope.aclose()
        return "" if rest is None else rest[0]

    async def aclose(self) -> None:
        await self._leave()
        await self._session.aclose()
        await _stop(self._env, self._left)


async def _stop(env: Environment, jobs: set[str]) -> None:
    await asyncio.gather(*(job.stop() for job in env.jobs.list() if job.id in jobs))


@contextmanager
def _as_swerex_errors() -> Iterator[None]:
    """Turn an exception of anyshell into SWE-ReX's own exception."""
    try:
        yield
    except AnyshellError as error:
        raise exceptions.SwerexException(str(error)) from error


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _check(env: Environment, whole: Whole, jobs: set[str], command: object, timeout: float | None) -> None:
    """Record the job of left-behind processes, drop forgotten jobs, and raise an error if the command was stopped."""
    outcome = whole.outcome
    jobs &= {job.id for job in env.jobs.list()}
    jobs |= {outcome.job} if outcome.job else set()
    if whole.too_much:
        said = f"the command {command!r} was stopped: it printed more than {MAX_OUTPUT} bytes"
        raise exceptions.SwerexException(f"{said}. Redirect its output, and read parts of it{whole.kept}")
    if outcome.status == "timed_out":
        printed = _text(whole.stdout + whole.stderr)
        raise _late(command, timeout, f"it was stopped{whole.alive}. Output:\n{printed!r}")


def _late(command: object, timeout: float | None, what: str) -> exceptions.CommandTimeoutError:
    return exceptions.CommandTimeoutError(f"the command {command!r} did not end within {timeout} s: {what}")


def _failed(command: rex.BashAction | rex.Command, exit_code: int | None, what: str) -> str:
    said = f"the command {command.command!r} ended with exit code {exit_code}. {what}"
    return f"{command.error_msg}: {said}" if command.error_msg else said
