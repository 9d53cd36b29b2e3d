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
    """The facts of an environment. Reading them asks nothing of the host and changes nothing there.

    Attributes:
        runner: Runs commands there, for the other rooms of anyshell.
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
        """The reach of its commands, with absolute paths; ``None`` if no reach confines them."""
        reach: Reach | None = getattr(self.runner.sandbox, "reach", None)
        return reach

    @property
    def unconfined(self) -> bool:
        """Whether its commands may do what their user may, and that was not asked for: by a preset ``none``."""
        policy = self._options.policy
        return self._options.reach is None and (policy is None or policy.reach is None)

    @property
    def info(self) -> HostInfo:
        """Everything that is known of the host."""
        return self.runner.info

    def quote(self, *arguments: Argument) -> str:
        """Make words of the shell's language of arguments, each taken literally: to build a text that holds them.

        Args:
            arguments: Text, paths, numbers, or bytes of names.

        Raises:
            InvalidCommand: One is nothing of that, or holds a NUL.
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
        """Whether it was closed, and starts nothing more."""
        return self.runner.closed

    @property
    def entered(self) -> bool:
        """Whether it was entered with ``async with``, and so may own what it starts."""
        return self.runner.entered

    @property
    def interactive(self) -> bool:
        """Whether the host's pager, editor, prompt, colour and progress variables are left as they are."""
        return self._options.interactive is True

    @property
    def limits(self) -> OutputLimits:
        """The limits of an output's text."""
        return self.runner.limits

    @property
    def artifacts(self) -> ArtifactStore | None:
        """The store of whole outputs that were cut; ``None`` when they are not kept."""
        return self.runner.artifacts

    @property
    def audit(self) -> Audit | None:
        """Records every command; ``None`` records nothing."""
        return self._options.audit

    @property
    def policy(self) -> Policy | None:
        """Decides on what models send; ``None`` is no policy."""
        return self._options.policy

    @property
    def prefix(self) -> str | None:
        """The words that stand before the shell that runs a command."""
        prefix = self.runner.prefix
        return None if prefix is None else prefix.text

    @property
    def terminals(self) -> bool:
        """Whether commands may be given a terminal here: false where ``ANYSHELL_NO_PTY`` was set when it was detected.

        It is for code that offers terminals to others, as the tool and the command line do. A host can still refuse one,
        and what is asked for by `terminal` or ``terminal=`` is tried in any case.
        """
        return self._offers_terminals

    @property
    def snapshot(self) -> str | None:
        """The file on the host that every shell reads first; ``None`` without a snapshot, asked for or not."""
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
        """The jobs of this environment that run, and those that ended lately."""
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
