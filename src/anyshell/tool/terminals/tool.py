"""The tool by which a model drives programs on terminals."""

from __future__ import annotations

import contextlib
import inspect
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ... import policy
from ..._exceptions import AnyshellError, InvalidCommand, TerminalUnavailable
from ..._types import ApprovalRequest, Output, Refused, exact
from ...terminal.secrets import ask as ask_for_secret
from .. import words
from ..definition import ToolDefinition, number, object_of, properties_of
from ..host import no_directory
from ..params import InvalidParams
from ..result import DisplayBlock, InputState, OutputArtifact, TerminalDetails, TerminalResult, blocks
from ..signals import number_of
from . import words as terminal_words
from .params import ACTIONS, KEYS, PATIENCE, REACTION, TerminalParams, parse
from .tracked import OtherQuestion, names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..._environment import Environment
    from ...terminal import SecretRequest, SecretSource
    from ..approvals import Approvals
    from ..calls import Calls, Ongoing
    from ..hiding import Hidden
    from ..limits import ToolLimits
    from ..result import JobCallStatus
    from .params import TerminalCall
    from .tracked import Found, Held, Question, Terminals, View

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
        env: Environment,
        terminals: Terminals,
        *,
        approvals: Approvals,
        limits: ToolLimits,
        secrets: SecretSource | None,
        hidden: Hidden,
        calls: Calls,
        directory: Callable[[], str],
    ) -> None:
        self._env = env
        self._terminals = terminals
        self._approvals = approvals
        self._limits = limits
        self._secrets = secrets
        self._hidden = hidden
        self._calls = calls
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
        with self._calls.begin(call_id) as ongoing:
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
            held = self._terminals.get(call.id)
            match call.action:
                case "screen":
                    return await self._seen(call, held, [], screen=True)
                case "wait":
                    return await self._wait(call, held, ongoing)
                case "close":
                    return await self._close(call, held)
                case "secret":
                    return await self._secret(call, held, ongoing)
                case _:
                    return await self._type(call, held, ongoing)
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
        request = self._shown(
            ApprovalRequest(
                text=command.text,
                shell=env.shell,
                host=env.host,
                directory=env.info.resolve(command.cwd, self._directory()),
                timeout=call.timeout,
                prefix=env.prefix,
                snapshot=env.snapshot,
                size=call.size,
                end_of_input=False,
                call_id=ongoing.id,
            )
        )
        missing = ""
        with ongoing.interruptible():
            if command.cwd is not None:
                missing = await no_directory(env, request.directory)
            if not missing:
                answer = await self._approvals.ask(request)
        if ongoing.cancelled:
            return self._result(call, "cancelled", [words.UNBEGUN])
        if missing:
            return self._result(call, "failed", [words.failed(missing)])
        if isinstance(answer, Refused):
            return self._result(call, "refused", [words.refused(answer.reason)])
        said = []
        if call.timeout is not None and call.requested_timeout not in (None, call.timeout):
            said.append(words.clamped(call.requested_timeout, call.timeout, self._limits))
        try:
            async with self._terminals.begin(request, ongoing.control) as held:
                waiting = await held.settle(call.wait)
                if ongoing.cancelled:
                    outcome = await held.driven.wait()
                    view = await held.look(self._env.limits)
                    stopped = [words.UNBEGUN if outcome.started is False else words.STOPPED]
                    return self._result(call, "cancelled", stopped, held=held, view=view)
                self._terminals.keep(held)
        except TerminalUnavailable as error:
            return self._result(call, "failed", [terminal_words.none_here(str(error))])
        return await self._seen(call, held, [terminal_words.started(held), *said], waiting=waiting)

    async def _wait(self, call: TerminalCall, held: Held, ongoing: Ongoing) -> TerminalResult:
        began = time.monotonic()
        found: bool | None = None
        waiting: Found = "ask"
        with ongoing.interruptible():
            if call.until:
                found, waiting = await held.wait_until(call.until, call.wait)
            else:
                waiting = await held.wait(call.wait)
        if ongoing.cancelled:
            return await self._seen(call, held, [words.CUT_SHORT], status="cancelled")
        said = [terminal_words.not_found(round(time.monotonic() - began, 1))] if found is False else []
        return await self._seen(call, held, said, found=found, waiting=waiting)

    async def _close(self, call: TerminalCall, held: Held) -> TerminalResult:
        before = held.over
        if not before:
            await held.driven.stop()
        view = await held.look(self._env.limits)
        said = [terminal_words.closed(held, before=before), *terminal_words.shown(view)]
        return self._result(call, "done", said, held=held, view=view)

    async def _settled(
        self, call: TerminalCall, held: Held, said: list[str], ongoing: Ongoing
    ) -> TerminalResult:
        """Tell what the program has done after something was typed."""
        waiting: Found = "ask"
        with ongoing.interruptible():
            waiting = await held.settle(call.wait)
        if ongoing.cancelled:
            return await self._seen(call, held, [*said, words.CUT_SHORT], status="cancelled")
        return await self._seen(call, held, said, waiting=waiting)

    async def _type(self, call: TerminalCall, held: Held, ongoing: Ongoing) -> TerminalResult:
        if held.over:
            return await self._seen(call, held, [terminal_words.over(held)], status="failed")
        asked = await held.question()
        with ongoing.interruptible():
            answer = await self._approvals.ask(
                self._request(held, asked, ongoing.id, typed=call.text, keys=call.keys)
            )
        if ongoing.cancelled:
            return self._result(call, "cancelled", [terminal_words.UNTYPED], held=held)
        if isinstance(answer, Refused):
            return self._result(call, "refused", [words.refused(answer.reason, "typed")], held=held)
        if held.over:
            return await self._seen(call, held, [terminal_words.over(held)], status="failed")
        begun = False
        try:
            async with held.turn:
                waited = await held.check(asked)
                if call.text:
                    await held.driven.send(call.text)
                    begun = True
                if call.keys:
                    await held.driven.send_key(*call.keys)
        except OtherQuestion as error:
            return await self._other(call, held, error)
        except AnyshellError as error:
            nothing = isinstance(error, InvalidCommand) and not begun
            said = [(terminal_words.untyped if nothing else terminal_words.failed_typing)(str(error))]
            return await self._seen(call, held, said, status="failed")
        said = [terminal_words.typed(held, len(call.text), call.keys)]
        if not waited and asked.seat is not None:
            said.append(terminal_words.unasked())
        return await self._settled(call, held, said, ongoing)

    async def _secret(self, call: TerminalCall, held: Held, ongoing: Ongoing) -> TerminalResult:
        if held.over:
            return await self._seen(call, held, [terminal_words.over(held)], status="failed")
        asked = await held.question()
        with ongoing.interruptible():
            answer = await self._approvals.ask(self._request(held, asked, ongoing.id, secret=True))
        if ongoing.cancelled:
            return self._result(call, "cancelled", [terminal_words.UNTYPED], held=held)
        if isinstance(answer, Refused):
            return self._result(call, "refused", [words.refused(answer.reason, "typed")], held=held)
        if held.over:
            return await self._seen(call, held, [terminal_words.over(held)], status="failed")
        given: str | None = None
        waited = gave_up = False
        async with contextlib.AsyncExitStack() as turn:

            async def guarded(request: SecretRequest) -> str | None:
                nonlocal given, waited
                # Whoever is asked may take long: others may type meanwhile, or close it.
                secret = None
                with ongoing.interruptible():
                    secret = await ask_for_secret(self._given, request)
                if secret is None or gave_up or ongoing.cancelled:
                    return None
                self._terminals.hide(secret)
                await turn.enter_async_context(held.turn)
                waited = await held.check(asked)
                given = secret
                return secret

            try:
                typed = await held.driven.send_secret(guarded)
            except OtherQuestion as error:
                return await self._other(call, held, error)
            except _NoSourceError as error:
                failed = terminal_words.no_source(str(error))
                return await self._seen(call, held, [failed], status="failed")
            except AnyshellError as error:
                if given is not None:
                    said = terminal_words.failed_typing(str(error))
                elif held.over:
                    said = terminal_words.over(held)
                else:
                    said = terminal_words.untyped(str(error))
                return await self._seen(call, held, [said], status="failed")
            finally:
                gave_up = True
        if not typed and ongoing.cancelled:
            return self._result(call, "cancelled", [terminal_words.UNTYPED], held=held)
        if not typed:
            return await self._seen(call, held, [terminal_words.no_secret(held)], status="refused")
        seat = asked.seat
        said_so = [
            terminal_words.secret(held, echo=seat is not None and seat.echo is True, empty=given == "")
        ]
        if not waited and seat is not None:
            said_so.append(terminal_words.unasked())
        return await self._settled(call, held, said_so, ongoing)

    async def _given(self, request: SecretRequest) -> str | None:
        """Ask for a secret.

        Raises:
            _NoSourceError: Whoever gives it has failed. They may raise anything, with a secret in it.
        """
        source = self._secrets
        assert source is not None
        try:
            given = source(request)
            return await given if inspect.isawaitable(given) else given
        except Exception as error:  # noqa: BLE001 - see above
            raise _NoSourceError(type(error).__name__) from None

    async def _other(self, call: TerminalCall, held: Held, error: OtherQuestion) -> TerminalResult:
        """Say that nothing was typed, since it was meant for something else."""
        if held.over:
            said = terminal_words.over(held)
        elif error.line is None:
            said = terminal_words.changed(error.before, error.now)
        else:
            said = terminal_words.asked_anew(error.line)
        return await self._seen(call, held, [said], status="failed", screen=not held.over)

    def _request(
        self,
        held: Held,
        asked: Question,
        call_id: str,
        *,
        typed: str = "",
        keys: tuple[str, ...] = (),
        secret: bool = False,
    ) -> ApprovalRequest:
        started = held.request
        return self._shown(
            ApprovalRequest(
                text=started.text,
                shell=started.shell,
                host=started.host,
                directory=started.directory,
                prefix=started.prefix,
                snapshot=started.snapshot,
                terminal=held.id,
                program=names(asked.seat),
                prompt=_end(asked.line),
                typed=typed,
                keys=keys,
                secret=secret,
                end_of_input=False,
                call_id=call_id,
            )
        )

    def _shown(self, request: ApprovalRequest) -> ApprovalRequest:
        return replace(request, display=policy.display(request))

    async def _seen(
        self,
        call: TerminalCall,
        held: Held,
        said: list[str],
        *,
        status: JobCallStatus = "done",
        screen: bool = False,
        found: bool | None = None,
        waiting: Found = "ask",
    ) -> TerminalResult:
        """Tell what was done, and what there is to see now."""
        view = await held.look(self._env.limits, screen=screen, waiting=waiting)
        said = [*said, *terminal_words.state(held, view, secrets=self._secrets is not None)]
        if call.requested_wait is not None and call.requested_wait > call.wait:
            said.append(terminal_words.clamped(call.requested_wait, call.wait))
        return self._result(call, status, said, held=held, view=view, found=found)

    def _result(
        self,
        call: TerminalCall | None,
        status: JobCallStatus,
        said: list[str],
        *,
        held: Held | None = None,
        view: View | None = None,
        found: bool | None = None,
    ) -> TerminalResult:
        outcome = None if view is None else view.outcome
        frame = None if view is None else view.frame
        if outcome is not None:
            readable = self._env.info.is_this_machine
            said = [*said, *terminal_words.kept(outcome.output.artifact, readable=readable)]
            said += terminal_words.skipped(outcome.output)
            said += words.left_behind(outcome.left_behind, outcome.job)
        said += map(terminal_words.news, self._terminals.news())
        said = self._hidden.texts(said)
        text = "" if view is None else view.text
        display = [*_shown_call(call), *blocks(None if view is None else Output(text=text), said)]
        exit_code = None if outcome is None else outcome.exit_code
        if outcome is not None and outcome.signal is not None:
            number = number_of(outcome.signal, self._env.os)
            exit_code = None if number is None else 128 + number
        details = TerminalDetails(
            status=status,
            action=None if call is None else call.action,
            terminal=None if held is None else held.id or None,
            running=held is not None and not held.over,
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
            message=" ".join(said),
            text=terminal_words.text(text, said, frame),
            display=tuple(map(self._hidden.facts, display)),
            details=self._hidden.facts(details),
        )


class _NoSourceError(Exception):
    """Whoever gives secrets has failed: the name of the error. Becomes a result; never leaves this module."""


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


def input_state(view: View) -> InputState | None:
    """What a program waits for, as a fact of a result."""
    if view.waiting is None:
        return None
    return InputState(
        certain=view.waiting.certainty == "certain",
        prompt=policy.visible(view.waiting.prompt),
        password=view.password,
    )
