"""Properties of an environment: its host, its shell, and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import shells
from ..backends import here
from . import descriptions
from .detection import Detected, offers_terminals

if TYPE_CHECKING:
    from .._files import HostFiles
    from .._types import HostInfo, OperatingSystem, OutputLimits, ShellInfo
    from ..jobs import Jobs
    from ..output import ArtifactStore
    from ..policy.audit import Audit
    from ..policy.rules import Policy
    from ..reach import Reach
    from ..shells.words import Argument


class EnvironmentFacts:
    """The facts of an environment. Reading a fact sends no request to the host.

    Attributes:
        runner: The runner of commands on the host, for the other packages of anyshell.
    """

    def __init__(self, detected: Detected) -> None:
        self.runner = detected.runner
        self._options = detected.options
        self._owns_backend = detected.owns_backend
        self._snapshot_notices = detected.snapshot_notices
        self._offers_terminals = offers_terminals()
        self._files: HostFiles | None = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else "entered" if self.entered else "not entered"
        return f"<Environment {self.host}, {self.os}, {self.shell.kind} in {self.directory!r}, {state}>"

    @property
    def reach(self) -> Reach | None:
        """The reach of the environment's commands, with absolute paths; ``None`` without a reach."""
        reach: Reach | None = getattr(self.runner.sandbox, "reach", None)
        return reach

    @property
    def unconfined(self) -> bool:
        """Whether commands have no reach by default, rather than by an explicit preset ``none``."""
        policy = self._options.policy
        return self._options.reach is None and (policy is None or policy.reach is None)

    @property
    def info(self) -> HostInfo:
        """The facts of the host."""
        return self.runner.info

    def quote(self, *arguments: Argument) -> str:
        """Quote arguments as words of the shell's language, so that a text can hold each argument literally.

        Args:
            arguments: Text, paths, numbers, or bytes of names.

        Raises:
            InvalidCommand: An argument is of another type, or holds a NUL.
        """
        return shells.quoted(arguments, shells.SHELLS[self.shell.kind])

    @property
    def os(self) -> OperatingSystem:
        """The host's system: ``linux``, ``macos`` or ``windows``."""
        return self.runner.info.os

    @property
    def arch(self) -> str:
        """The host's architecture, such as ``x86_64``."""
        return self.runner.info.arch

    @property
    def shell(self) -> ShellInfo:
        """The shell that runs commands: its kind, path and version."""
        return self.runner.shell

    @property
    def host(self) -> str:
        """The name of the host for people."""
        return self.runner.host

    @property
    def directory(self) -> str:
        """The default directory of commands; absolute, on the host."""
        return self.runner.directory

    @property
    def closed(self) -> bool:
        """Whether the environment was closed, and starts no more commands."""
        return self.runner.closed

    @property
    def entered(self) -> bool:
        """Whether the environment was entered with ``async with``, and so may own jobs, sessions and terminals."""
        return self.runner.entered

    @property
    def interactive(self) -> bool:
        """Whether the host's pager, editor, prompt, colour and progress variables are left unchanged."""
        return self._options.interactive is True

    @property
    def limits(self) -> OutputLimits:
        """The limits of an output's text."""
        return self.runner.limits

    @property
    def artifacts(self) -> ArtifactStore | None:
        """The store of whole outputs whose text was cut; ``None`` when no whole output is kept."""
        return self.runner.artifacts

    @property
    def audit(self) -> Audit | None:
        """The audit log of every command; ``None`` without an audit log."""
        return self._options.audit

    @property
    def policy(self) -> Policy | None:
        """The policy for commands of models; ``None`` means no policy."""
        return self._options.policy

    @property
    def prefix(self) -> str | None:
        """The words that stand before the shell that runs a command."""
        prefix = self.runner.prefix
        return None if prefix is None else prefix.text

    @property
    def terminals(self) -> bool:
        """Whether terminals should be offered: false if ``ANYSHELL_NO_PTY`` was set when the environment was made.

        Code that offers terminals to others asks this property, as the tool and the command line do. A host can still refuse
        a terminal, and `terminal` and ``terminal=`` try to open a terminal in any case.
        """
        return self._offers_terminals

    @property
    def snapshot(self) -> str | None:
        """The file on the host that every shell reads first; ``None`` if no snapshot was requested, or none could be made."""
        return self.runner.snapshot

    @property
    def snapshot_notices(self) -> tuple[str, ...]:
        """Notices about the snapshot of the user's set-up, one sentence each: failures and omissions.

        Not for models.
        """
        return self._snapshot_notices

    @property
    def files(self) -> HostFiles:
        """The host's files."""
        if self._files is None:
            from .._files import HostFiles  # here, since most environments run commands alone

            runner = self.runner
            self._files = HostFiles(runner.backend.files, runner.info, runner.directory, here=here())
        return self._files

    @property
    def jobs(self) -> Jobs:
        """The running jobs of this environment, and the jobs that ended lately."""
        return self.runner.jobs

    @property
    def background_after(self) -> float | None:
        """Seconds after which a command that `run` waits for goes on as a job; ``None`` is never."""
        return self._options.background_after

    @property
    def description(self) -> str:
        """The description of this host's shell for a model, with its values filled in."""
        return descriptions.Description(
            shell=self.runner.shell,
            info=self.runner.info,
            directory=self.runner.directory,
            limits=self.runner.limits,
            kept=self.runner.artifacts is not None,
            addressed=self.runner.addresses.read_kept,
            snapshot=self.snapshot is not None,
        ).text()
