"""The tool itself: a model's parameters in, a `ShellResult` out, whatever happens between."""

from __future__ import annotations

import hashlib
import posixpath
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import anyio

from .. import _descriptions, policy, shells
from .._exceptions import AnyshellError
from .._types import ApprovalRequest, Approved, Output, Refused
from .._variables import NOT_FOR_MODELS
from ..shells.syntax import leading_cd
from . import words
from .definition import ToolDefinition, schema
from .limits import ToolLimits
from .params import Call, InvalidParams, ShellParams, parse
from .result import (
    CallStatus,
    DisplayBlock,
    LeftBehindProcess,
    OutputArtifact,
    ShellDetails,
    ShellResult,
    Truncation,
)
from .signals import number_of
from .updates import OnUpdate, Updates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .._environment import Environment
    from .._types import Command, Outcome
    from ..abc import Approver

REMEMBERED = 1000
"""Requests that are approved always, at most; the one that was asked for longest ago is then forgotten."""

HOST_BOUND = 5.0
"""Seconds that a question to the host's files may take. Every such question has an answer that is always safe."""


class ShellTool:
    """A shell that a model calls: three lines hold always.

    Parameters are bounded. Every run passes the approver, which sees exactly what runs. Every run has a
    deadline, after which nothing of it is left.

    Args:
        env: Where commands run. Entered with ``async with``, it also gives updates while they do.
        approver: Decides about every command. There is no default: `approve_all` must be somebody's decision.
        limits: What a model may ask for.
    """

    def __init__(self, env: Environment, *, approver: Approver, limits: ToolLimits | None = None) -> None:
        self._env = env
        self._approver = approver
        self._limits = limits or ToolLimits()
        self._always: OrderedDict[bytes, None] = OrderedDict()

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: a name, a description of this host and its limits, and a JSON schema."""
        env = self._env
        return ToolDefinition(
            name="shell",
            description=_descriptions.describe(
                shell=env.shell,
                info=env.info,
                directory=env.directory,
                limits=env.limits,
                timeout=self._limits.default_timeout,
                max_timeout=self._limits.max_timeout,
                kept=env.artifacts is not None,
                snapshot=env.snapshot is not None,
            ),
            parameters=schema(self._limits, directory=env.directory, guarded=not env.interactive),
        )

    async def __call__(
        self, params: Mapping[str, object] | ShellParams, *, on_update: OnUpdate | None = None
    ) -> ShellResult:
        """Carry out one call.

        Args:
            params: As the model gave them, unchecked.
            on_update: Is given the end of the output so far while the command runs, cleaned and bounded, at
                intervals. An async one never delays the command; one that is not async and blocks holds up
                the event loop, and so the command's deadline. Once it has raised, it is not called again, and
                never after the call. Is not called at all if the environment was not entered.

        Returns:
            What came of it. Wrong parameters, a refusal, a failure and a timeout are results.

        Raises:
            asyncio.CancelledError: The calling task was cancelled; the whole tree is gone.
        """
        try:
            call = parse(params, self._limits)
        except InvalidParams as error:
            said = [words.invalid(str(error))]
            return _result(ShellDetails(status="invalid"), said, output=None, is_error=True)
        run = await self._prepared(call)
        answer = await self._ask(run.request)
        if isinstance(answer, Refused):
            return run.unrun("refused", words.refused(answer.reason))
        try:
            return await self._run(run, on_update)
        except AnyshellError as error:
            return run.unrun("failed", words.failed(str(error)))

    async def _prepared(self, call: Call) -> _Run:
        """Settle what is going to run, exactly."""
        env, command = self._env, call.command
        dropped = [] if env.interactive else sorted(NOT_FOR_MODELS & command.env.keys())
        if dropped:
            kept = {name: value for name, value in command.env.items() if name not in dropped}
            command = replace(command, env=kept)
        original, command = command, await self._rewritten(command)
        request = ApprovalRequest(
            text=command.text,
            shell=env.shell,
            host=env.host,
            directory=env.info.resolve(command.cwd, env.directory),
            env=tuple(sorted(command.env.items())),
            stdin=call.stdin,
            timeout=call.timeout,
            prefix=env.prefix,
            snapshot=env.snapshot,
            original=None if command is original else original.text,
            description=call.label,
        )
        notices = []
        if dropped:
            notices.append(words.guarded(dropped))
        if call.requested_timeout is not None and call.requested_timeout != call.timeout:
            notices.append(words.clamped(call.requested_timeout, call.timeout, self._limits))
        return _Run(call, replace(request, display=policy.display(request)), tuple(notices))

    async def _rewritten(self, command: Command) -> Command:
        env = self._env
        if env.snapshot is not None:
            return command  # the user's own cd may be another
        if not shells.SHELLS[env.shell.kind].starts_as_if_by_cd(env.shell):
            return command
        return await policy.leading_cd_into_cwd(
            command,
            parse=leading_cd,
            info=env.info,
            directory=env.directory,
            can_enter=self._can_enter,
        )

    async def _can_enter(self, path: str) -> bool:
        """Whether a path is a directory, and one that may be entered: only then is there something below it."""
        with anyio.move_on_after(HOST_BOUND):
            try:
                return await self._env.files.is_dir(posixpath.join(path, "."))
            except (OSError, AnyshellError):
                pass  # then the command itself meets whatever is wrong
        return False

    async def _ask(self, request: ApprovalRequest) -> Approved | Refused:
        key = _key(request)
        if key in self._always:
            self._always.move_to_end(key)
            return Approved()
        answer = await policy.ask(self._approver, request, timeout=self._limits.approval_timeout)
        if isinstance(answer, Approved) and answer.always:
            self._always[key] = None
            if len(self._always) > REMEMBERED:
                self._always.popitem(last=False)
        return answer

    async def _run(self, run: _Run, on_update: OnUpdate | None) -> ShellResult:
        text, how = run.request.text, self._how(run)
        if on_update is None or not self._env.entered:
            return self._finished(run, await self._env.run(text, **how))
        interval, limit = self._limits.update_interval, self._limits.update_bytes
        async with (
            Updates(on_update, interval=interval, limit=limit) as updates,
            self._env.stream(text, by="chunks", **how) as events,
        ):
            async for event in events:
                updates.feed(event.data)
        return self._finished(run, events.outcome, updates.error)

    def _how(self, run: _Run) -> _How:
        """What was approved, and nothing else."""
        request = run.request
        return {
            "cwd": request.directory,
            "env": dict(request.env),
            "stdin": request.stdin,
            "timeout": request.timeout,
            "grace": self._limits.grace,
            "left_behind": "stop",
        }

    def _finished(
        self, run: _Run, outcome: Outcome, update_error: BaseException | None = None
    ) -> ShellResult:
        env, output, call = self._env, outcome.output, run.call
        ending = words.ending(
            outcome, timeout=call.timeout, limits=self._limits, os=env.os, command=run.request.text
        )
        said = [ending, *run.notices]
        if output.truncated:
            readable = env.info.is_this_machine
            said.append(words.truncated(output, max_line=env.limits.max_line, readable=readable))
        said += words.left_behind(outcome.left_behind)
        exit_code = outcome.exit_code
        if outcome.signal is not None and (number := number_of(outcome.signal, env.os)) is not None:
            exit_code = 128 + number
        details = run.details(
            outcome.status,
            exit_code=exit_code,
            signal=outcome.signal,
            started=outcome.started,
            duration=outcome.duration,
            truncation=Truncation.of(output),
            artifact=OutputArtifact.of(output.artifact),
            left_behind=tuple(map(LeftBehindProcess.of, outcome.left_behind)),
            update_error=None if update_error is None else type(update_error).__name__,
        )
        is_error = outcome.status != "running" and (outcome.status != "exited" or exit_code != 0)
        return run.result(details, said, output=output, is_error=is_error)


class _How(TypedDict):
    cwd: str
    env: dict[str, str]
    stdin: bytes | None
    timeout: float | None
    grace: float
    left_behind: Literal["stop"]


@dataclass(frozen=True, slots=True)
class _Run:
    """A call on its way, and everything that is told about it.

    Attributes:
        call: What was asked for.
        request: What runs if it is approved.
        notices: What to say besides how it ended.
    """

    call: Call
    request: ApprovalRequest
    notices: tuple[str, ...]

    def details(self, status: CallStatus, **facts: Any) -> ShellDetails:
        call = self.call
        return ShellDetails(
            status=status, timeout=call.timeout, requested_timeout=call.requested_timeout, **facts
        )

    def unrun(self, status: CallStatus, message: str) -> ShellResult:
        """Say that nothing ran. The notices tell of a run, so they are left out."""
        return self.result(self.details(status), [message], output=None, is_error=True)

    def result(
        self, details: ShellDetails, said: list[str], *, output: Output | None, is_error: bool
    ) -> ShellResult:
        return _result(details, said, output=output, is_error=is_error, before=(self._shown(),))

    def _shown(self) -> DisplayBlock:
        request = self.request
        return DisplayBlock(
            type="command",
            text=policy.visible_lines(request.original or request.text),
            title=policy.visible(request.description),
        )


def _result(
    details: ShellDetails,
    said: list[str],
    *,
    output: Output | None,
    is_error: bool,
    before: tuple[DisplayBlock, ...] = (),
) -> ShellResult:
    printed = "" if output is None else output.text
    display = [*before]
    if printed:
        display.append(DisplayBlock(type="output", text=policy.printable(printed)))
    display += (DisplayBlock(type="notice", text=sentence) for sentence in said)
    if details.update_error is not None:
        display.append(
            DisplayBlock(type="notice", text=f"Updates ended early: on_update raised {details.update_error}.")
        )
    return ShellResult(
        is_error=is_error,
        output=printed,
        message=" ".join(said),
        text=_text(output, said),
        display=tuple(display),
        details=details,
    )


def _text(output: Output | None, said: list[str]) -> str:
    """What was printed, but for its last line feed, an empty line, and what we say."""
    if output is None:
        return words.said_by_us(said)
    printed = output.text.removesuffix("\n")
    if output.total_bytes == 0:
        said = [words.NO_OUTPUT, *said]
    elif not output.text.strip():
        said = [words.INVISIBLE_OUTPUT, *said]
    return f"{printed}\n\n{words.said_by_us(said)}" if printed else words.said_by_us(said)


def _key(request: ApprovalRequest) -> bytes:
    """A digest of all that decides what a request does: a set of whole requests could be of any size."""
    shell, timeout = request.shell, request.timeout
    digest = hashlib.sha256()
    for part in (
        *(shell.kind, shell.path, shell.version, request.host, request.directory),
        *(None if timeout is None else repr(timeout), request.prefix, request.snapshot),
        *(request.original, request.text, request.stdin),
        *(text for variable in request.env for text in variable),
    ):
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        # With its length before it, no part can pass for another, or for two.
        digest.update(b"none;" if data is None else b"%d;" % len(data))
        digest.update(data or b"")
    return digest.digest()
