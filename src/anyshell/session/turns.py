"""The spawners of a session's texts: commands in their turns, and texts of anyshell's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import _engine
from .._types import SessionReport, Spawn
from ..output import OutputBuilder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .._engine import Control
    from .._runner.effects import Looks
    from .._types import Network, Outcome
    from ..abc import Process, Spawner
    from .process import SessionProcess
    from .shell import SessionShell


class Turn:
    """The spawner that starts one command of a session when it is the command's turn.

    Args:
        begin: Waits for the turn, and starts the command.
        variables: Whether to report the variables that the command has changed.
        may_be_fresh: Whether the command may run in another shell than the command before.
        looks: The looks at the files, before the command and after it.
        fork: The name under which the shell writes its state instead of running a text; empty for a command.
        asks: Whether the shell may have received the command before its begin is confirmed: see `Spawn.on_asked`.
    """

    def __init__(
        self,
        begin: Callable[..., Awaitable[tuple[SessionProcess, SessionShell]]],
        *,
        variables: bool,
        may_be_fresh: bool,
        looks: Looks | None = None,
        fork: str = "",
        asks: bool = False,
    ) -> None:
        self._begin = begin
        self.asks = asks
        self._fork = fork
        self.looks = looks
        self.release: Callable[[], object] | None = None
        """A function that passes the turn to the next command; ``None`` until this command has begun."""
        self._awaited = 1 if looks is None else 2
        self._variables = variables
        self._may_be_fresh = may_be_fresh
        self._process: SessionProcess | None = None
        self._shell: SessionShell | None = None
        self._fresh = ""

    async def spawn(self, spawn: Spawn) -> Process:
        """Start the `script` of a spawn; its argv is ignored, and an empty `cwd` is the shell's present directory."""
        self._process, self._shell = await self._begin(
            spawn, self, variables=self._variables, may_be_fresh=self._may_be_fresh, fork=self._fork
        )
        self._fresh = self._shell.fresh
        return self._process

    def ended(self) -> None:
        """Pass the turn to the next command, once this command has ended and the looks at its files are over."""
        self._awaited -= 1
        if self._awaited == 0 and self.release is not None:
            self.release()

    def looked(self) -> None:
        """Record that the looks at the command's files are over."""
        if self.looks is not None:
            self.ended()

    def network(self) -> Network | None:
        """Return the network use of the command; ``None`` where the use is not known."""
        return None if self._process is None else self._process.network()

    @property
    def shell(self) -> SessionShell | None:
        """The shell of the command, once the command has begun."""
        return self._shell

    @property
    def problem(self) -> str:
        """The reason why the shell did not begin the command; empty when the shell did."""
        return "" if self._process is None else self._process.problem

    async def why_not(self) -> str:
        """Return that reason as a sentence."""
        assert self._shell is not None
        return await self._shell.why_not(self.problem)

    def report(self) -> SessionReport | None:
        """Return the effects of the command on the session; ``None`` when the command never began."""
        process = self._process
        if process is None or self._shell is None or not (process.ended.done() or self._shell.doomed):
            return None
        self._shell.fresh = ""  # the caller now knows the reason
        return SessionReport(
            state=process.state,
            directory=process.directory,
            fresh=self._fresh,
            variables=process.changes() if self._variables else None,
        )


class Exit:
    """The spawner of the last command of a shell: ``exit``."""

    def __init__(self, shell: SessionShell) -> None:
        self._shell = shell

    async def spawn(self, spawn: Spawn) -> Process:
        """Start ``exit``, without waiting for a turn."""
        self._shell.leaving = True
        return await self._shell.run(replace(spawn, script="exit"), variables=False)


class Check:
    """The spawner of a fork's first text, which checks that the fork has taken the whole state of the other shell."""

    def __init__(self, shell: SessionShell, like: SessionShell, name: str) -> None:
        self._shell, self._like, self._name = shell, like, name

    async def spawn(self, spawn: Spawn) -> Process:
        """Start the check, without waiting for a turn."""
        spawn = replace(spawn, script=self._like.fork(self._name).check())
        return await self._shell.run(spawn, variables=False, own="\n")


async def run_own(spawner: Spawner, timeout: float | None, control: Control) -> Outcome:
    """Run a text of anyshell's own, and discard its output."""
    output = OutputBuilder(head=0, tail=0, max_line=1)
    spawn = Spawn(argv=(), script="", cwd="")
    return await _engine.run(spawner, spawn, output=output, timeout=timeout, grace=0, control=control)
