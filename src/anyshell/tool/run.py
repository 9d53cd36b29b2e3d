"""A call before its result: the prepared request, its notices and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import policy, shells
from .._exceptions import AnyshellError
from .._runner.addresses import Expanded
from .._runner.variables import NOT_FOR_MODELS
from .._types import CommandRequest, Outcome, Terminal
from ..shells.from_windows import for_bash
from ..shells.syntax import leading_cd
from . import words
from .host import can_enter
from .jobs import terminal_words
from .jobs.tracked import TerminalReport, TrackedTerminal
from .result import CallStatus, DisplayBlock, ShellDetails
from .widening import beyond

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .._environment import Environment
    from .._types import Command, OutputLimits
    from ..policy.interception import Intercepted, InterceptionRule
    from ..policy.view_limit import ViewLimit
    from ..session import Session
    from .minimizing import Minimizable
    from .params import Call
    from .trying import Trying

WaitingTerminal = tuple[TrackedTerminal, TerminalReport]
"""A command that goes on on its terminal, with the report on the terminal."""


@dataclass(frozen=True, slots=True)
class StoppedByPerson:
    """The outcome of a command that a person stopped in its console."""

    outcome: Outcome


Became = Outcome | WaitingTerminal | StoppedByPerson
"""The outcome of a command: an end, a terminal on which the command goes on, or a stop by a person."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call before its result, and the facts for the result.

    Attributes:
        call: The call.
        request: The request that runs after an approval.
        notices: The sentences in addition to the sentence on the end.
        problem: The error that keeps the command from running; ``None`` if no such error is known.
        view: The limit on the shown output, if the command asks for fewer lines.
        trying: The trial of the command, if the approver sees effects.
    """

    call: Call
    request: CommandRequest
    notices: tuple[str, ...]
    problem: AnyshellError | None = None
    view: ViewLimit | None = None
    trying: Trying | None = None

    @property
    def makes_directory(self) -> bool:
        """Whether the command's directory exists only while the command runs."""
        text = self.request.text
        return isinstance(text, Expanded) and text.will_have(self.request.directory)

    def limits(self, way: Minimizable | None, env: Environment) -> OutputLimits | None:
        """Return the limits of the call's output; ``None`` for the limits of the environment."""
        if self.view is None:
            return None if way is None else way.limits
        from .viewing import limits_of  # here, since few tools need it

        return limits_of(env)

    def details(self, status: CallStatus, **facts: Any) -> ShellDetails:
        """Return the details of a result: the given facts and the facts of the call."""
        call = self.call
        return ShellDetails(
            status=status,
            command=self.request.text,
            timeout=call.timeout,
            requested_timeout=call.requested_timeout,
            **facts,
        )

    def shown(self) -> DisplayBlock:
        """Return the command as a block for a person."""
        request = self.request
        return DisplayBlock(
            type="command",
            text=policy.visible_lines(request.original or request.text),
            title=policy.visible(request.description),
        )


async def prepare(
    call: Call, call_id: str, *, env: Environment, session: Session | None, view_limits: bool = False
) -> ToolRun:
    """Build the exact request of a call: rewrite the text, expand addresses, and resolve the directory and the reach."""
    command = call.command
    no_terminal = call.no_terminal or ("" if env.terminals else terminal_words.NOT_HERE)
    size = Terminal() if call.pty and not no_terminal else None
    dropped = [] if env.interactive or size is not None else sorted(NOT_FOR_MODELS & command.env.keys())
    if dropped:
        kept = {name: value for name, value in command.env.items() if name not in dropped}
        command = replace(command, env=kept)
    original, command = command, await _rewritten(command, env, in_session=session is not None)
    translated, problem = command.text != original.text and env.shell.on_windows, None
    view = None
    if view_limits and not call.background and not call.pty:
        from .viewing import limited_view  # here, since few tools need it

        view = limited_view(command.text, env)
        if view is not None:
            command = replace(command, text=view.text)
    try:
        command = await env.runner.addresses.expand(command)
    except AnyshellError as error:
        problem = error
    before = env.directory if call.restart or session is None else session.directory
    directory = env.info.resolve(command.cwd, before)
    try:
        more = beyond(call, env, directory)
    except AnyshellError as error:
        more, problem = {}, error
    if call.background or call.pty or any(more.values()):
        session = None
    request = CommandRequest(
        text=command.text,
        shell=env.shell,
        host=env.host,
        directory=directory,
        env=tuple(sorted(command.env.items())),
        stdin=call.stdin,
        timeout=call.timeout,
        prefix=env.prefix,
        snapshot=env.snapshot,
        original=None if command.text == original.text else original.text,
        session=session is not None,
        fresh=session is not None and (call.restart or not session.alive),
        restart=call.restart,
        background=call.background,
        size=size,
        description=call.label,
        call_id=call_id,
        **more,
    )
    notices = []
    if translated:
        notices.append(words.TRANSLATED)
    if call.pty and size is None:
        notices.append(terminal_words.without(no_terminal))
    if dropped:
        notices.append(words.guarded(dropped))
    if call.timeout is not None and call.requested_timeout not in (None, call.timeout):
        notices.append(words.clamped(call.requested_timeout, call.timeout))
    return ToolRun(call, request, tuple(notices), problem, view)


def intercepted(
    request: CommandRequest, rules: Iterable[InterceptionRule], tools: Collection[str]
) -> Intercepted | None:
    """Return the match of an interception rule with the model's text or the rewritten text; ``None`` without a match."""
    from ..policy.interception import intercept  # a late import, since the module loads the parser
    from ..policy.parse import parse

    given = request.original or request.text
    for text in dict.fromkeys((given, request.text)):
        found = intercept(parse(text, request.shell.kind), tools=tools, rules=rules)
        if found is not None:
            return replace(found, command=given)
    return None


async def _rewritten(command: Command, env: Environment, *, in_session: bool) -> Command:
    if env.shell.on_windows and isinstance(shells.SHELLS[env.shell.kind], shells.Shell):
        command = replace(command, text=for_bash(command.text))
    # In a session the cd must last beyond the command; with a snapshot, cd may be the user's own function.
    if in_session or env.snapshot is not None:
        return command
    if not shells.SHELLS[env.shell.kind].starts_as_if_by_cd(env.shell):
        return command
    return await policy.leading_cd_into_cwd(
        command,
        parse=leading_cd,
        info=env.info,
        directory=env.directory,
        can_enter=lambda path: can_enter(env, path),
    )
