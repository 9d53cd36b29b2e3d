"""The part of an environment that runs commands on trial, and undoes their effects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .._runner import RunOptions, to_command
from .._types import DEFAULT_GRACE
from .confining import facts_of
from .dialogs import EnvironmentDialogs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from .. import _engine
    from .._runner.redirects import Stdin
    from .._stream import Listener
    from .._types import OutputLimits
    from .._types.checks import Seconds
    from ..reach import Reach
    from ..shells.words import CommandLike
    from ..trial import Checkpoint, Restored, Trial


class EnvironmentTrials(EnvironmentDialogs):
    """The trials and checkpoints of an environment."""

    def trial(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: Stdin | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        split_stderr: bool = False,
        listener: Listener | None = None,
        limits: OutputLimits | None = None,
        reach: Reach | None = None,
        control: _engine.Control | None = None,
    ) -> Trial:
        """Run a command on a layer above `directory`, and show its effects on files without changing one.

        ``async with env.trial("make fix") as trial:``, then `Trial.effects` and `Trial.diff`. ``await trial.commit()`` makes the
        changes real; without a commit, no file changes. The command can write only `directory` and its own ``/tmp``.
        Processes that the command leaves behind are stopped. A trial needs Linux and bubblewrap, over SSH also Python 3.6
        or later.

        Args:
            command: As for `run`.
            cwd: As for `run`.
            env: As for `run`.
            stdin: As for `run`.
            timeout: As for `run`.
            silence: As for `run`.
            grace: As for `run`.
            split_stderr: As for `run`.
            listener: As for `run`.
            limits: As for `run`.
            reach: The command's reach, which may not exceed the environment's own reach. Of the paths of `Reach.write`, those
                in `directory` can be written. ``None`` is the environment's own reach; without one, the command can read
                every file and use the network.
            control: As for `run`.

        Raises:
            InvalidCommand: Bad input.
            ReachUnavailable: When entered: the host cannot run a trial. The message names the missing part.
        """
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind="stop",
            split_stderr=split_stderr,
            listener=listener,
            limits=limits,
            reach=reach,
        )
        from ..trial import Trial  # here, since few programs need it

        facts = partial(facts_of, self.runner.backend, here=self.info.is_this_machine)
        return Trial(
            self.runner,
            to_command(command, cwd, env, stdin, kind=self.shell.kind),
            options,
            facts=facts,
            control=control,
        )

    async def checkpoint(self, *, since: Checkpoint | None = None) -> Checkpoint:
        """Save the present state of the files in `directory`, which `restore` can bring back.

        A private directory of anyshell's own, on the host, keeps the state; no repository is needed or used. A checkpoint
        leaves out `SKIPPED` directories, and large and special files: `Checkpoint.skipped` and `Checkpoint.left_out` have
        the names.

        Args:
            since: An earlier checkpoint. ``anyshell undo`` takes back the changes between the two checkpoints.

        Raises:
            AnyshellError: The host is a Windows host reached by SSH, or has no Python 3.6 or later; or there are too many
                files.
        """
        from ..trial.checkpoints import checkpoints_of  # here and below, since few programs need it

        return await checkpoints_of(self.runner).take(since=since)

    async def restore(self, checkpoint: Checkpoint, *, until: Checkpoint | None = None) -> Restored:
        """Restore the files in `directory` to their state at a checkpoint.

        Changed and deleted files are restored. New files are kept and named, unless `until` has them. The present state is
        saved first: `Restored.before` can bring that state back.

        Args:
            checkpoint: The state to restore.
            until: A later checkpoint, made at the end of the changes to undo. A file that came between the two checkpoints is
                removed if `until` has its present state. A file that was created or changed after `until`, perhaps by another
                program, is kept and named.

        Raises:
            AnyshellError: As for `checkpoint`; or the checkpoint is of another directory, or is not kept any more.
        """
        from ..trial.checkpoints import checkpoints_of

        return await checkpoints_of(self.runner).restore(checkpoint, until=until)
