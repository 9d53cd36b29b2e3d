"""The starts of a session's texts: commands in their turns, and texts of anyshell's own."""

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
    """Starts one command of a session when it is its turn.

    Args:
        begin: Waits for that, and starts it.
        variables: Whether to say which variables it has changed.
        may_be_fresh: Whether it may run in another shell than the one before.
        looks: At the files, before the command and after it.
        fork: By which name the shell is to tell its state, rather than run a text.
        asks: Whether its shell may have heard of it before it is known to begin: see `Spawn.on_asked`.
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
        """Gives the turn to the next command; ``None`` until this one has begun."""
        self._awaited = 1 if looks is None else 2
        self._variables = variables
        self._may_be_fresh = may_be_fresh
        self._process: SessionProcess | None = None
        self._shell: SessionShell | None = None
        self._fresh = ""

    async def spawn(self, spawn: Spawn) -> Process:
        """Start the text that is a spawn's `script`; its argv does not count, and an empty `cwd` is where the shell is."""
        self._process, self._shell = await self._begin(
            spawn, self, variables=self._variables, may_be_fresh=self._may_be_fresh, fork=self._fork
        )
        self._fresh = self._shell.fresh
        return self._process

    def ended(self) -> None:
        """Give the turn on, when the command has ended and its files were looked at."""
        self._awaited -= 1
        if self._awaited == 0 and self.release is not None:
            self.release()

    def looked(self) -> None:
        """Take note that its files are looked at no more."""
        if self.looks is not None:
            self.ended()

    def network(self) -> Network | None:
        """The network use of the command; ``None`` where that is not known."""
        return None if self._process is None else self._process.network()

    @property
    def shell(self) -> SessionShell | None:
        """The shell of the command, once the command has begun."""
        return self._shell

    @property
    def problem(self) -> str:
        """Why the shell did not begin with it; empty when it did."""
        return "" if self._process is None else self._process.problem

    async def why_not(self) -> str:
        """Say that in a sentence."""
        assert self._shell is not None
        return await self._shell.why_not(self.problem)

    def report(self) -> SessionReport | None:
        """The effects of the command on the session; ``None`` when it never began."""
        process = self._process
        if process is None or self._shell is None or not (process.ended.done() or self._shell.doomed):
            return None
        self._shell.fresh = ""  # the caller is told
        return SessionReport(
            state=process.state,
            directory=process.directory,
            fresh=self._fresh,
            variables=process.changes() if self._variables else None,
        )


class Exit:
    """Starts the last command of a shell."""

    def __init__(self, shell: SessionShell) -> None:
        self._shell = shell

    async def spawn(self, spawn: Spawn) -> Process:
        """Start it, without waiting for a turn."""
        self._shell.leaving = True
        return await self._shell.run(replace(spawn, script="exit"), variables=False)


class Check:
    """Starts the first text of a fork, which says whether that is what it is to be."""

    def __init__(self, shell: SessionShell, like: SessionShell, name: str) -> None:
        self._shell, self._like, self._name = shell, like, name

    async def spawn(self, spawn: Spawn) -> Process:
        """Start it, without waiting for a turn."""
        spawn = replace(spawn, script=self._like.fork(self._name).check())
        return await self._shell.run(spawn, variables=False, own="\n")


async def run_own(spawner: Spawner, timeout: float | None, control: Control) -> Outcome:
    """Run a text of anyshell's own, which prints nothing that counts."""
    output = OutputBuilder(head=0, tail=0, max_line=1)
    spawn = Spawn(argv=(), script="", cwd="")
    return await _engine.run(spawner, spawn, output=output, timeout=timeout, grace=0, control=control)
