"""The job tool's actions on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from functools import partial
from typing import TYPE_CHECKING

from ..._exceptions import AnyshellError, InvalidCommand
from ..._types import Refused, SecretInputRequest, TerminalInputRequest
from ...terminal.secrets import ask as ask_for_secret
from .. import words
from . import terminal_words
from . import words as job_words
from .params import REACTION, text_problems
from .parts import select
from .question import OtherQuestion, ProgramQuestion, names
from .results import state_of_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...terminal import SecretRequest, SecretSource
    from ..calls import Ongoing
    from ..context import ToolContext
    from ..result import JobCallStatus, JobResult
    from .params import JobCall
    from .results import JobResults
    from .terminals import Terminals
    from .tracked import TrackedTerminal, WaitState


class TerminalActions:
    """The actions of a `JobTool` on terminals: type, show, resize and stop.

    All typed input passes the approver. After the answer, the input is typed only if no other program may read it, and if
    the terminal of a waiting program has had no output and no input since. Looking, waiting and stopping need no approval.
    """

    def __init__(
        self, context: ToolContext, terminals: Terminals, results: JobResults, *, secrets: SecretSource | None
    ) -> None:
        self._context = context
        self._terminals = terminals
        self._results = results
        self._secrets = secrets

    async def perform(self, call: JobCall, terminal: TrackedTerminal, ongoing: Ongoing) -> JobResult:
        """Carry out a call.

        Raises:
            AnyshellError: The action cannot be carried out.
        """
        match call.action:
            case "screen":
                return await self._view_of(call, terminal, [], screen=True)
            case "stop":
                return await self._stop(call, terminal)
            case "secret":
                return await self._secret(call, terminal, ongoing)
            case "resize":
                return await self._resize(call, terminal)
            case "send":
                return await self._type(call, terminal, ongoing)
            case _:
                return await self._read(call, terminal, ongoing)

    async def _read(self, call: JobCall, terminal: TrackedTerminal, ongoing: Ongoing) -> JobResult:
        if call.part is not None:
            return await self._part(call, terminal)
        if not call.waits:
            return await self._view_of(call, terminal, [])
        return await self._awaited(call, terminal, [], ongoing, usual=0)

    async def _part(self, call: JobCall, terminal: TrackedTerminal) -> JobResult:
        """Show a part of the printed lines that are kept."""
        assert call.part is not None
        lines, limits = terminal.driven.lines(), self._context.env.limits
        text = "\n".join([*lines.texts, ""])
        data = self._context.hidden.text(text).encode(errors="replace")
        output, told = await asyncio.to_thread(select, [data], call.part, limits, code_page=None)
        messages = [told, *job_words.not_kept(lines.first, "lines")]
        if terminal.driven.screen.alternate and not terminal.over:
            messages.append(terminal_words.NOT_THESE)
        messages += job_words.shortened(output, limits.max_line)
        return self._results.make(call, "done", messages, [state_of_terminal(terminal)], output=output)

    async def _resize(self, call: JobCall, terminal: TrackedTerminal) -> JobResult:
        assert call.size is not None
        if terminal.over:
            return await self._view_of(call, terminal, [terminal_words.OVER], status="failed")
        await terminal.driven.resize(columns=call.size.columns, rows=call.size.rows)
        waiting = await terminal.settle(min(REACTION, self._context.limits.max_wait))
        return await self._view_of(call, terminal, [], screen=True, waiting=waiting)

    async def _stop(self, call: JobCall, terminal: TrackedTerminal) -> JobResult:
        before = terminal.over
        if not before:
            await terminal.driven.stop()
        view = await terminal.look(self._context.env.limits)
        messages = [terminal_words.stopped(terminal, before=before), *terminal_words.shown(view)]
        return self._results.of_terminal(call, "done", messages, terminal, view)

    async def _awaited(
        self,
        call: JobCall,
        terminal: TrackedTerminal,
        messages: list[str],
        ongoing: Ongoing,
        *,
        usual: float,
        typed: bool = False,
    ) -> JobResult:
        """Wait for the call's text or end, or for the program's reaction, and return the result."""
        found: bool | None = None
        waiting: WaitState = "ask"
        most = call.patience(usual, self._context.limits)
        began = time.monotonic()
        with ongoing.interruptible():
            if call.until is not None:
                found, waiting = await terminal.wait_until(call.until, most)
            elif call.until_end:
                found, waiting = await terminal.wait_end(most)
            else:
                waiting = await (terminal.settle if typed else terminal.wait)(most)
        if ongoing.cancelled:
            return await self._view_of(call, terminal, [*messages, words.CUT_SHORT], status="cancelled")
        if call.until is not None or (call.until_end and not found):
            waited = time.monotonic() - began
            before = call.until is not None and call.until.search("\n".join(terminal.driven.lines().texts))
            said = words.awaited(call.said, found=found is True, waited=waited, before=bool(before))
            messages = [*messages, said]
        return await self._view_of(call, terminal, messages, found=found, waiting=waiting)

    async def _approved(
        self,
        call: JobCall,
        terminal: TrackedTerminal,
        ongoing: Ongoing,
        make: Callable[..., TerminalInputRequest | SecretInputRequest],
    ) -> ProgramQuestion | JobResult:
        """Ask the approver about input to type; return the question that the input answers, or a result if not approved."""
        if terminal.over:
            return await self._view_of(call, terminal, [terminal_words.OVER], status="failed")
        asked, started = await terminal.question(), terminal.request
        request = self._context.request(
            make,
            ongoing,
            text=started.text,
            directory=started.directory,
            description=started.description,
            terminal=terminal.id,
            program=names(asked.foreground),
            prompt=_end(asked.line),
        )
        with ongoing.interruptible():
            decision = await self._context.decisions.decide(request, ongoing)
        if ongoing.cancelled:
            return self._results.of_terminal(call, "cancelled", [words.UNSENT], terminal)
        if isinstance(decision.answer, Refused):
            return self._results.of_terminal(
                call, "refused", [words.refused(decision.answer, "typed")], terminal
            )
        if terminal.over:
            return await self._view_of(call, terminal, [terminal_words.OVER], status="failed")
        return asked

    async def _type(self, call: JobCall, terminal: TrackedTerminal, ongoing: Ongoing) -> JobResult:
        if problem := text_problems(call.text, self._context.limits.max_typed):
            return self._results.of_terminal(call, "invalid", [words.invalid(f"{problem}.")], terminal)
        keys = _pressed(call)
        make = partial(TerminalInputRequest, typed=call.text, keys=keys)
        asked = await self._approved(call, terminal, ongoing, make)
        if not isinstance(asked, ProgramQuestion):
            return asked
        begun = False
        try:
            async with terminal.turn:
                waited = await terminal.check(asked)
                if call.text:
                    await terminal.driven.send(call.text)
                    begun = True
                if keys:
                    await terminal.driven.send_key(*keys)
        except OtherQuestion as error:
            return await self._other(call, terminal, error)
        except AnyshellError as error:
            nothing = isinstance(error, InvalidCommand) and not begun
            messages = [(words.undone if nothing else terminal_words.failed_typing)(str(error))]
            return await self._view_of(call, terminal, messages, status="failed")
        messages = []
        if not waited and asked.foreground is not None:
            messages.append(terminal_words.unasked())
        return await self._awaited(call, terminal, messages, ongoing, usual=REACTION, typed=True)

    async def _secret(self, call: JobCall, terminal: TrackedTerminal, ongoing: Ongoing) -> JobResult:
        asked = await self._approved(call, terminal, ongoing, SecretInputRequest)
        if not isinstance(asked, ProgramQuestion):
            return asked
        given: str | None = None
        waited = gave_up = False
        async with contextlib.AsyncExitStack() as turn:

            async def guarded(request: SecretRequest) -> str | None:
                nonlocal given, waited
                # The person may answer late: meanwhile other calls may type, or stop the terminal.
                secret = None
                with ongoing.interruptible():
                    secret = await ask_for_secret(self._ask_for_secret, request)
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
                return await self._view_of(call, terminal, [failed], status="failed", no_secret=True)
            except AnyshellError as error:
                if given is not None:
                    message = terminal_words.failed_typing(str(error))
                elif terminal.over:
                    message = terminal_words.OVER
                else:
                    message = f"{words.undone(str(error))} Tell the user."
                return await self._view_of(call, terminal, [message], status="failed", no_secret=True)
            finally:
                gave_up = True
        if not typed and ongoing.cancelled:
            return self._results.of_terminal(call, "cancelled", [words.UNSENT], terminal)
        if not typed:
            message = terminal_words.no_secret(terminal)
            return await self._view_of(call, terminal, [message], status="refused", no_secret=True)
        foreground = asked.foreground
        messages = [
            terminal_words.secret(
                terminal, echo=foreground is not None and foreground.echo is True, empty=given == ""
            )
        ]
        if not waited and foreground is not None:
            messages.append(terminal_words.unasked())
        return await self._awaited(call, terminal, messages, ongoing, usual=REACTION, typed=True)

    async def _ask_for_secret(self, request: SecretRequest) -> str | None:
        """Ask the source for a secret.

        Raises:
            _NoSourceError: The source has failed. Only the error's type is kept, since its text may hold a secret.
        """
        source = self._secrets
        assert source is not None
        try:
            given = source(request)
            return await given if inspect.isawaitable(given) else given
        except Exception as error:  # noqa: BLE001 - see above
            raise _NoSourceError(type(error).__name__) from None

    async def _other(self, call: JobCall, terminal: TrackedTerminal, error: OtherQuestion) -> JobResult:
        """Return the result that nothing was typed, since the question or the program has changed."""
        if terminal.over:
            message = terminal_words.OVER
        elif error.line is None:
            message = terminal_words.changed(error.before, error.now)
        else:
            message = terminal_words.asked_anew(error.line)
        return await self._view_of(call, terminal, [message], status="failed", screen=not terminal.over)

    async def _view_of(
        self,
        call: JobCall,
        terminal: TrackedTerminal,
        messages: list[str],
        *,
        status: JobCallStatus = "done",
        screen: bool = False,
        found: bool | None = None,
        waiting: WaitState = "ask",
        no_secret: bool = False,
    ) -> JobResult:
        """Return the result of an action, with the present view of the terminal."""
        view = await terminal.look(self._context.env.limits, screen=screen, waiting=waiting)
        secrets = None if no_secret else self._secrets is not None
        messages = [*messages, *terminal_words.state(terminal, view, secrets=secrets)]
        messages += words.waited_less(call.requested_wait, call.wait)
        return self._results.of_terminal(call, status, messages, terminal, view, found=found)


class _NoSourceError(Exception):
    """The source of secrets has failed; holds the error's type name. Becomes a result; never leaves this module."""


def _end(line: str) -> str:
    """Return the end of a line, with a mark if the beginning is cut."""
    most = terminal_words.SHOWN_LINE
    return line if len(line) <= most else f"…{line[1 - most :]}"


def _pressed(call: JobCall) -> tuple[str, ...]:
    """Return the keys that are pressed after the text."""
    return (*call.keys, *["Enter"] * call.enter, *["Ctrl-D"] * call.end_of_input)
