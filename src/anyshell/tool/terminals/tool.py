"""The tool by which a model drives programs on terminals."""

from __future__ import annotations

import contextlib
import inspect
import time
from functools import partial
from typing import TYPE_CHECKING

from ... import policy
from ..._exceptions import AnyshellError, InvalidCommand, TerminalUnavailable
from ..._types import CommandRequest, Output, Refused, SecretInputRequest, TerminalInputRequest, exact
from ...terminal.secrets import ask as ask_for_secret
from .. import words
from ..definition import ToolDefinition, number, object_of, properties_of
from ..host import no_directory
from ..params import InvalidParams
from ..result import DisplayBlock, InputState, OutputArtifact, TerminalDetails, TerminalResult, blocks
from ..signals import number_of
from . import words as terminal_words
from .params import ACTIONS, KEYS, PATIENCE, REACTION, TerminalParams, parse
from .question import OtherQuestion, Question, names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...terminal import SecretRequest, SecretSource
    from ..calls import Ongoing
    from ..context import ToolContext
    from ..result import JobCallStatus
    from .params import TerminalCall
    from .registry import Terminals
    from .tracked import Found, TerminalReport, TrackedTerminal

_DESCRIPTION = (
    "Drives programs that run on a terminal: those that the tool shell has started with pty and that wait for input, and those "
    "that start begins. Every result shows what is new on the terminal, or the screen that an editor or a pager draws, "
    "and whether the program waits for input. After typing, a call returns when the program has reacted: do not ask "
    "again and again. Close what is not needed any more."
)


class TerminalTool:
    """Starts, types on, shows and closes the terminals of one `ShellTool`, whose `ShellTool.terminal_tool` makes it.

    A model sees the terminals of its own calls alone. Whatever is started or typed passes the approver, and is not typed
    if another program may read it by the time of the answer, or the program waited and something was printed or typed
    there since; to look, to wait and to close does not.
    """

    def __init__(
        self,
        context: ToolContext,
        terminals: Terminals,
        *,
        secrets: SecretSource | None,
        directory: Callable[[], str],
    ) -> None:
        self._context = context
        self._env = context.env
        self._limits = context.limits
        self._hidden = context.hidden
        self._terminals = terminals
        self._secrets = secrets
        self._directory = directory

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: a name, a description, and a JSON schema with the limits in force."""
        offered = [action for action in ACTIONS if action != "secret" or self._secrets is not None]
        properties = properties_of(TerminalParams, KEYS)
        properties["action"] |= {
            "enum": offered,
            "description": " ".join(f"{action}: {ACTIONS[action]}" for action in offered),
        }
        properties["timeout"] |= {
            "minimum": number(self._limits.min_timeout),
            "maximum": number(self._limits.max_timeout),
        }
        properties["wait"] |= {"minimum": 0, "maximum": number(self._limits.max_wait)}
        usual, patient = (exact(min(seconds, self._limits.max_wait)) for seconds in (REACTION, PATIENCE))
        properties["wait"]["description"] += f" Without it: {usual}, and {patient} of wait."
        for name in ("columns", "rows"):
            properties[name] |= {"minimum": 2, "maximum": 1000}
        properties["keys"] |= {"items": {"type": "string"}, "maxItems": self._limits.max_keys}
        return ToolDefinition(
            name="terminal",
            title="Drive programs on terminals",
            description=_DESCRIPTION,
            parameters=object_of(properties, required=("action",)),
        )

    async def __call__(
        self, params: Mapping[str, object] | TerminalParams, *, call_id: str | None = None
    ) -> TerminalResult:
        """Carry out one call.

        Args:
            params: As the model gave them, unchecked.
            call_id: What `ShellTool.cancel` takes, as for that tool. What was being started is stopped then, with the
                result ``cancelled``; another terminal goes on, and the call no longer waits for the approver, for a
                secret or for the program.

        Returns:
            What came of it. Wrong parameters, a refusal and a terminal that there is not are results.

        Raises:
            InvalidCommand: `call_id` is empty, or that of another call under way.
            asyncio.CancelledError: The calling task was cancelled. What was being started is gone; another terminal
                goes on, and some of what was being typed there may have been typed.
        """
        with self._context.calls.begin(call_id) as ongoing:
            result = await self._call(params, ongoing)
        return result.model_copy(
            update={"details": result.details.model_copy(update={"call_id": ongoing.id})}
        )

    async def _call(self, params: Mapping[str, object] | TerminalParams, ongoing: Ongoing) -> TerminalResult:
        try:
            call = parse(params, self._limits, secrets=self._secrets is not None)
        except InvalidParams as error:
            return self._result(None, "invalid", [words.misunderstood(str(error))])
        try:
            if call.action == "start":
                return await self._start(call, ongoing)
            terminal = self._terminals.get(call.id)
            match call.action:
                case "screen":
                    return await self._seen(call, terminal, [], screen=True)
                case "wait":
                    return await self._wait(call, terminal, ongoing)
                case "close":
                    return await self._close(call, terminal)
                case "secret":
                    return await self._secret(call, terminal, ongoing)
                case _:
                    return await self._type(call, terminal, ongoing)
        except AnyshellError as error:
            return self._result(call, "failed", [words.undone(str(error))])

    async def _start(self, call: TerminalCall, ongoing: Ongoing) -> TerminalResult:
        env, command = self._env, call.command
        assert command is not None
        if self._terminals.closed or env.closed:
            return self._result(call, "failed", [terminal_words.CLOSED])
        if not env.terminals:
            return self._result(call, "failed", [terminal_words.none_here(terminal_words.NOT_HERE)])
        self._terminals.check_room()
        request = CommandRequest(
            text=command.text,
            shell=env.shell,
            host=env.host,
            directory=env.info.resolve(command.cwd, self._directory()),
            timeout=call.timeout,
            prefix=env.prefix,
            snapshot=env.snapshot,
            size=call.size,
            call_id=ongoing.id,
        )
        missing = ""
        with ongoing.interruptible():
            if command.cwd is not None:
                missing = await no_directory(env, request.directory)
            if not missing:
                answer = await self._context.approvals.ask(request)
        if ongoing.cancelled:
            return self._result(call, "cancelled", [words.UNBEGUN])
        if missing:
            return self._result(call, "failed", [words.failed(missing)])
        if isinstance(answer, Refused):
            return self._result(call, "refused", [words.refused(answer.reason)])
        messages = []
        if call.timeout is not None and call.requested_timeout not in (None, call.timeout):
            messages.append(words.clamped(call.requested_timeout, call.timeout, self._limits))
        try:
            async with self._terminals.begin(request, ongoing.control) as terminal:
                waiting = await terminal.settle(call.wait)
                if ongoing.cancelled:
                    outcome = await terminal.driven.wait()
                    view = await terminal.look(self._env.limits)
                    stopped = [words.UNBEGUN if outcome.started is False else words.STOPPED]
                    return self._result(call, "cancelled", stopped, terminal=terminal, view=view)
                self._terminals.keep(terminal)
        except TerminalUnavailable as error:
            return self._result(call, "failed", [terminal_words.none_here(str(error))])
        return await self._seen(
            call, terminal, [terminal_words.started(terminal), *messages], waiting=waiting
        )

    async def _wait(self, call: TerminalCall, terminal: TrackedTerminal, ongoing: Ongoing) -> TerminalResult:
        began = time.monotonic()
        found: bool | None = None
        waiting: Found = "ask"
        with ongoing.interruptible():
            if call.until:
                found, waiting = await terminal.wait_until(call.until, call.wait)
            else:
                waiting = await terminal.wait(call.wait)
        if ongoing.cancelled:
            return await self._seen(call, terminal, [words.CUT_SHORT], status="cancelled")
        messages = [terminal_words.not_found(round(time.monotonic() - began, 1))] if found is False else []
        return await self._seen(call, terminal, messages, found=found, waiting=waiting)

    async def _close(self, call: TerminalCall, terminal: TrackedTerminal) -> TerminalResult:
        before = terminal.over
        if not before:
            await terminal.driven.stop()
        view = await terminal.look(self._env.limits)
        messages = [terminal_words.closed(terminal, before=before), *terminal_words.shown(view)]
        return self._result(call, "done", messages, terminal=terminal, view=view)

    async def _settled(
        self, call: TerminalCall, terminal: TrackedTerminal, messages: list[str], ongoing: Ongoing
    ) -> TerminalResult:
        """Tell what the program has done after something was typed."""
        waiting: Found = "ask"
        with ongoing.interruptible():
            waiting = await terminal.settle(call.wait)
        if ongoing.cancelled:
            return await self._seen(call, terminal, [*messages, words.CUT_SHORT], status="cancelled")
        return await self._seen(call, terminal, messages, waiting=waiting)

    async def _approved(
        self,
        call: TerminalCall,
        terminal: TrackedTerminal,
        ongoing: Ongoing,
        make: Callable[..., TerminalInputRequest | SecretInputRequest],
    ) -> Question | TerminalResult:
        """Ask the approver about what is to be typed: the question that it answers, or why nothing is typed."""
        if terminal.over:
            return await self._seen(call, terminal, [terminal_words.over(terminal)], status="failed")
        asked, started = await terminal.question(), terminal.request
        request = make(
            text=started.text,
            shell=started.shell,
            host=started.host,
            directory=started.directory,
            prefix=started.prefix,
            snapshot=started.snapshot,
            terminal=terminal.id,
            program=names(asked.foreground),
            prompt=_end(asked.line),
            description=started.description,
            call_id=ongoing.id,
        )
        with ongoing.interruptible():
            answer = await self._context.approvals.ask(request)
        if ongoing.cancelled:
            return self._result(call, "cancelled", [terminal_words.UNTYPED], terminal=terminal)
        if isinstance(answer, Refused):
            return self._result(call, "refused", [words.refused(answer.reason, "typed")], terminal=terminal)
        if terminal.over:
            return await self._seen(call, terminal, [terminal_words.over(terminal)], status="failed")
        return asked

    async def _type(self, call: TerminalCall, terminal: TrackedTerminal, ongoing: Ongoing) -> TerminalResult:
        make = partial(TerminalInputRequest, typed=call.text, keys=call.keys)
        asked = await self._approved(call, terminal, ongoing, make)
        if not isinstance(asked, Question):
            return asked
        begun = False
        try:
            async with terminal.turn:
                waited = await terminal.check(asked)
                if call.text:
                    await terminal.driven.send(call.text)
                    begun = True
                if call.keys:
                    await terminal.driven.send_key(*call.keys)
        except OtherQuestion as error:
            return await self._other(call, terminal, error)
        except AnyshellError as error:
            nothing = isinstance(error, InvalidCommand) and not begun
            messages = [(terminal_words.untyped if nothing else terminal_words.failed_typing)(str(error))]
            return await self._seen(call, terminal, messages, status="failed")
        messages = [terminal_words.typed(terminal, len(call.text), call.keys)]
        if not waited and asked.foreground is not None:
            messages.append(terminal_words.unasked())
        return await self._settled(call, terminal, messages, ongoing)

    async def _secret(
        self, call: TerminalCall, terminal: TrackedTerminal, ongoing: Ongoing
    ) -> TerminalResult:
        asked = await self._approved(call, terminal, ongoing, SecretInputRequest)
        if not isinstance(asked, Question):
            return asked
        given: str | None = None
        waited = gave_up = False
        async with contextlib.AsyncExitStack() as turn:

            async def guarded(request: SecretRequest) -> str | None:
                nonlocal given, waited
                # The answer may take long: other calls may type meanwhile, or close it.
                secret = None
                with ongoing.interruptible():
                    secret = await ask_for_secret(self._given, request)
                if secret is None or gave_up or ongoing.cancelled:
                    return None
                self._terminals.hide(secret)
                await turn.enter_async_context(terminal.turn)
                waited = await terminal.check(asked)
                given = secret
                return secret

            try:
                typed = await terminal.driven.send_secret(guarded)
            except OtherQuestion as error:
                return await self._other(call, terminal, error)
            except _NoSourceError as error:
                failed = terminal_words.no_source(str(error))
                return await self._seen(call, terminal, [failed], status="failed")
            except AnyshellError as error:
                if given is not None:
                    message = terminal_words.failed_typing(str(error))
                elif terminal.over:
                    message = terminal_words.over(terminal)
                else:
                    message = terminal_words.untyped(str(error))
                return await self._seen(call, terminal, [message], status="failed")
            finally:
                gave_up = True
        if not typed and ongoing.cancelled:
            return self._result(call, "cancelled", [terminal_words.UNTYPED], terminal=terminal)
        if not typed:
            return await self._seen(call, terminal, [terminal_words.no_secret(terminal)], status="refused")
        foreground = asked.foreground
        messages = [
            terminal_words.secret(
                terminal, echo=foreground is not None and foreground.echo is True, empty=given == ""
            )
        ]
        if not waited and foreground is not None:
            messages.append(terminal_words.unasked())
        return await self._settled(call, terminal, messages, ongoing)

    async def _given(self, request: SecretRequest) -> str | None:
        """Ask for a secret.

        Raises:
            _NoSourceError: Its source has failed. A source may raise anything, with a secret in it.
        """
        source = self._secrets
        assert source is not None
        try:
            given = source(request)
            return await given if inspect.isawaitable(given) else given
        except Exception as error:  # noqa: BLE001 - see above
            raise _NoSourceError(type(error).__name__) from None

    async def _other(
        self, call: TerminalCall, terminal: TrackedTerminal, error: OtherQuestion
    ) -> TerminalResult:
        """Say that nothing was typed, since it was meant for something else."""
        if terminal.over:
            message = terminal_words.over(terminal)
        elif error.line is None:
            message = terminal_words.changed(error.before, error.now)
        else:
            message = terminal_words.asked_anew(error.line)
        return await self._seen(call, terminal, [message], status="failed", screen=not terminal.over)

    async def _seen(
        self,
        call: TerminalCall,
        terminal: TrackedTerminal,
        messages: list[str],
        *,
        status: JobCallStatus = "done",
        screen: bool = False,
        found: bool | None = None,
        waiting: Found = "ask",
    ) -> TerminalResult:
        """Tell what was done, and what there is to see now."""
        view = await terminal.look(self._env.limits, screen=screen, waiting=waiting)
        messages = [*messages, *terminal_words.state(terminal, view, secrets=self._secrets is not None)]
        if call.requested_wait is not None and call.requested_wait > call.wait:
            messages.append(terminal_words.clamped(call.requested_wait, call.wait))
        return self._result(call, status, messages, terminal=terminal, view=view, found=found)

    def _result(
        self,
        call: TerminalCall | None,
        status: JobCallStatus,
        messages: list[str],
        *,
        terminal: TrackedTerminal | None = None,
        view: TerminalReport | None = None,
        found: bool | None = None,
    ) -> TerminalResult:
        outcome = None if view is None else view.outcome
        frame = None if view is None else view.frame
        if outcome is not None:
            readable = self._env.info.is_this_machine
            messages = [*messages, *terminal_words.kept(outcome.output.artifact, readable=readable)]
            messages += terminal_words.skipped(outcome.output)
            messages += words.left_behind(outcome.left_behind, outcome.job)
        messages += map(terminal_words.news, self._terminals.news())
        messages = self._hidden.texts(messages)
        text = "" if view is None else view.text
        display = [*_shown_call(call), *blocks(None if view is None else Output(text=text), messages)]
        exit_code = None if outcome is None else outcome.exit_code
        if outcome is not None and outcome.signal is not None:
            number = number_of(outcome.signal, self._env.os)
            exit_code = None if number is None else 128 + number
        details = TerminalDetails(
            status=status,
            action=None if call is None else call.action,
            terminal=None if terminal is None else terminal.id or None,
            running=terminal is not None and not terminal.over,
            exit_code=exit_code,
            signal=None if outcome is None else outcome.signal,
            waiting=None if view is None else input_state(view),
            program=None if view is None else view.program,
            alternate=view is not None and view.screen.alternate,
            cursor=None if view is None else view.screen.cursor,
            left_out=0 if view is None else view.left_out,
            found=found,
            artifact=None if outcome is None else OutputArtifact.of(outcome.output.artifact),
        )
        return TerminalResult(
            is_error=status != "done",
            output=text,
            message=" ".join(messages),
            text=terminal_words.text(text, messages, frame),
            display=tuple(map(self._hidden.facts, display)),
            details=self._hidden.facts(details),
        )


class _NoSourceError(Exception):
    """The source of secrets has failed: the name of the error. Becomes a result; never leaves this module."""


def _end(line: str) -> str:
    """The end of a line, and that there is more of it."""
    most = terminal_words.SHOWN_LINE
    return line if len(line) <= most else f"…{line[1 - most :]}"


def _shown_call(call: TerminalCall | None) -> list[DisplayBlock]:
    """Show a person what was started or typed."""
    if call is None:
        return []
    if call.command is not None:
        return [DisplayBlock(type="command", text=policy.visible_lines(call.command.text))]
    if call.text or call.keys:
        keys = "".join(f" [{policy.visible(key)}]" for key in call.keys)
        return [DisplayBlock(type="command", text=f"{policy.visible(call.text)}{keys}".strip())]
    return []


def input_state(view: TerminalReport) -> InputState | None:
    """What a program waits for, as a fact of a result."""
    if view.waiting is None:
        return None
    return InputState(
        certain=view.waiting.certainty == "certain",
        prompt=policy.visible(view.waiting.prompt),
        password=view.password,
    )
