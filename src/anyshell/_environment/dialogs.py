"""The part of an environment that talks with programs and shells: terminals and sessions."""

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
"""Sessions with a name in one environment; one more is an error."""


MAX_FORKS = 64
"""Forks of sessions that are open at once in one environment; one more is an error."""


class EnvironmentDialogs(EnvironmentFacts):
    """The programs on terminals and the persistent shells of an environment."""

    def __init__(self, detected: Detected | None = None) -> None:
        if not isinstance(detected, Detected):
            raise InvalidCommand(
                "an environment is not made so: use 'async with Environment.detect(...) as env', or without an event loop "
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
        r"""Give a program a terminal, and drive it: type, read its screen, wait for what it shows.

        ``async with env.terminal("python3 -i") as t:``, then ``await t.expect(">>> ")`` and ``await t.send("6*7\r")``.
        Leaving it stops the program. Variables are those of a command that is run on a terminal.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`, whose words are
                quoted for that shell.
            columns: 2 to 1,000; `DrivenTerminal.resize` changes it.
            rows: 2 to 1,000.
            term: Its type, as `Terminal` says.
            cwd: The directory in which it runs; relative to `directory`. Must be there.
            env: Variables set over everything else; ``None`` as a value removes one.
            timeout: Seconds from when it is entered until the whole tree is stopped; ``None`` is no bound.
            silence: As for `run`; what is typed is input.
            grace: Seconds between the request to end and the kill, also when it is left.
            left_behind: The fate of processes that outlive the command, as for `run`.
            listener: Is given every piece of output as it comes, without secrets, and is awaited: a slow one slows the
                program down.
            answers: Whether programs that ask the terminal what it is, or where its cursor stands, are answered.
            scrollback: For showing it to a person, as `anyshell.console.Console` does: colours are kept, and so many
                rows that have left the screen at its top, 0 to 10,000; and a program that asks for kitty's keyboard
                protocol gets it. ``None`` keeps neither, which takes less time for each byte.
            record: As for `run`. Secrets that are typed by `DrivenTerminal.send_secret`, or hidden, are masked there too.
            reach: As for `run`.
            control: As for `run`.

        Raises:
            InvalidCommand: Bad input. What the host must say, such as a missing directory, is raised when it is entered.
            AnyshellError: The environment was not entered with ``async with``. When it is entered: as many terminals as
                may be are there already.
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
                    f"as many terminals run already as may, {most}: leave one of them, or raise max_terminals="
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
        """Give a shell that lasts: directory, variables and functions go from one command to the next.

        ``async with env.session() as session:``, then ``await session.run(...)``. Leaving it ends the shell, unless it
        has a name: then it is shared by that, and lasts until it is closed, unused for long, or the environment ends.

        Args:
            name: The name by which it is shared.
            cwd: The directory in which it begins; relative to `directory`. Counts when the session is made.
            env: Variables that it begins with. Counts when the session is made.
            reach: The reach of its shell, as for `run`. Counts when the session is made.

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
