"""The part of an environment for interactive programs and persistent shells: terminals and sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError, InvalidCommand
from .._runner import RunOptions, to_command
from .._types import DEFAULT_GRACE, LeftBehind, check_text
from .detection import Detected
from .facts import EnvironmentFacts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from .. import _engine
    from .._stream import Listener
    from .._types import Outcome, Recording, Terminal
    from .._types.checks import Seconds
    from ..reach import Reach
    from ..session import Session
    from ..shells.words import CommandLike
    from ..terminal import DrivenTerminal

MAX_NAMED_SESSIONS = 256
"""Sessions with a name in one environment; one more session is an error."""


MAX_FORKS = 64
"""Forks of sessions that are open at once in one environment; one more fork is an error."""


class EnvironmentDialogs(EnvironmentFacts):
    """The terminals and sessions of an environment."""

    def __init__(self, detected: Detected | None = None) -> None:
        if not isinstance(detected, Detected):
            raise InvalidCommand(
                "an environment is not constructed directly: use 'async with Environment.detect(...) as env', or without an event loop "
                "'with anyshell.connect(...) as env'"
            )
        super().__init__(detected)
        self._sessions: dict[str, Session] = {}
        self._all_sessions: set[Session] = set()
        self._terminals = 0

    def terminal(
        self,
        command: CommandLike,
        *,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        left_behind: LeftBehind = "adopt",
        listener: Listener | None = None,
        answers: bool = True,
        scrollback: int | None = None,
        record: str | PathLike[str] | Recording | None = None,
        reach: Reach | None = None,
        control: _engine.Control | None = None,
    ) -> DrivenTerminal:
        r"""Run a program on a terminal that the caller drives: type input, read the screen, wait for output.

        ``async with env.terminal("python3 -i") as t:``, then ``await t.expect(">>> ")`` and ``await t.send("6*7\r")``.
        Leaving ``async with`` stops the program. Variables are those of a command that is run on a terminal.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`. The
                words of a list or `sh` are quoted for that shell.
            columns: Columns, 2 to 1,000; `DrivenTerminal.resize` changes the size.
            rows: Rows, 2 to 1,000.
            term: The terminal type, as for `Terminal`.
            cwd: The working directory of the command, which must exist; relative to `directory`.
            env: Variables that override all others; ``None`` as a value removes a variable.
            timeout: Seconds from entering until the whole tree is stopped; ``None`` means no bound.
            silence: As for `run`; typed text counts as input.
            grace: Seconds between the request to end and the kill, also on leaving.
            left_behind: The fate of processes that outlive the command, as for `run`.
            listener: An async function that gets every piece of output on arrival, without secrets. The listener is awaited,
                so a slow listener slows the program down.
            answers: Whether anyshell answers programs that query the terminal's type or the cursor's position.
            scrollback: Rows that are kept after they leave the top of the screen, 0 to 10,000, for display to a person, as
                `anyshell.console.Console` does. Colours are then kept too.
                ``None`` keeps neither rows nor colours, and takes less time for each byte.
            record: As for `run`. Secrets that `DrivenTerminal.send_secret` types, or that are typed hidden, are masked in the
                recording too.
            reach: As for `run`.
            control: As for `run`.

        Raises:
            InvalidCommand: Bad input. A fault that only the host can report, such as a missing directory, is raised on
                entering.
            AnyshellError: The environment was not entered with ``async with``. On entering: the maximum number of terminals
                is open already.
        """
        self.runner.require_entered("terminal()")
        from .._runner.outputs import controller_of  # here and below, since few commands have a terminal
        from .._types import Terminal

        size = Terminal(columns=columns, rows=rows, term=term)
        request = to_command(command, cwd, env, kind=self.shell.kind)
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            terminal=size,
            recording=record,
            reach=reach,
        )
        self.runner.check(options)
        if listener is not None and not callable(listener):
            raise InvalidCommand(f"listener must be an async function, not {type(listener).__name__}")
        if scrollback is not None:
            from ..output import check_scrollback

            check_scrollback(scrollback)
        controller = controller_of(self.runner, size, self.artifacts, answers=answers, scrollback=scrollback)

        async def run(hear: Listener, control: _engine.Control, size: Terminal) -> Outcome:
            most = self._options.max_terminals
            if self._terminals >= most:
                raise AnyshellError(
                    f"the most terminals at once run already, {most}: end one of them, or raise max_terminals="
                )
            self._terminals += 1
            try:
                there = replace(options, listener=hear, terminal=size)
                return await self.runner.run(request, there, controller=controller, control=control)
            finally:
                self._terminals -= 1

        from ..terminal import DrivenTerminal

        return DrivenTerminal(
            run,
            controller,
            command=request.text,
            host=self.host,
            terminal=size,
            listener=listener,
            shows=scrollback is not None,
            control=control,
        )

    def session(
        self,
        name: str | None = None,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        reach: Reach | None = None,
    ) -> Session:
        """Return a session: a persistent shell that keeps directory, variables and functions between commands.

        ``async with env.session() as session:``, then ``await session.run(...)``. Leaving ``async with`` ends the shell of a
        session without a name. A session with a name is shared by that name, and lasts until the session is closed or the
        environment ends; if the session is long unused, its shell ends, and the next command has a fresh shell.

        Args:
            name: The name by which the session is shared.
            cwd: The session's first working directory; relative to `directory`. Ignored if the named session exists.
            env: The session's first variables. Ignored if the named session exists.
            reach: The reach of the session's shell, as for `run`. Ignored if the named session exists.

        Raises:
            InvalidCommand: Bad input, or too many sessions with names.
            AnyshellError: The environment was not entered with ``async with``.
        """
        self.runner.require_entered("session()")
        if name is not None:
            check_text("the name of a session", name)
            if (session := self._sessions.get(name)) is not None:
                return session
            if len(self._sessions) >= MAX_NAMED_SESSIONS:
                raise InvalidCommand(
                    f"there are {MAX_NAMED_SESSIONS} sessions with names already; close one of them"
                )
        from ..session import Session

        session = Session(
            self.runner,
            to_command("", cwd, env, kind=self.shell.kind),
            name=name,
            reach=reach,
            on_closed=self._forget_session,
            on_forked=self._add_fork,
        )
        self._all_sessions.add(session)
        if name is not None:
            self._sessions[name] = session
        return session

    def _add_fork(self, forked: Session) -> None:
        if sum(session.forked for session in self._all_sessions) >= MAX_FORKS:
            raise InvalidCommand(f"{MAX_FORKS} forks of sessions are open already; close one of them")
        self._all_sessions.add(forked)

    def _forget_session(self, session: Session) -> None:
        self._all_sessions.discard(session)
        if session.name is not None and self._sessions.get(session.name) is session:
            del self._sessions[session.name]
