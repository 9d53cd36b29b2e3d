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
        """Run a command above `directory`, without changing a file there, and see what it would change.

        ``async with env.trial("make fix") as trial:``, then `Trial.effects` and `Trial.diff`, and ``await trial.commit()`` if
        that is wanted; otherwise nothing has happened. The command writes `directory` and its own ``/tmp``, and nothing else;
        what it leaves behind is stopped. It needs Linux and bubblewrap, over SSH a Python of 3.6 or later as well.

        Args:
            command: As for `run`.
            cwd: As for `run`, and the following as well.
            env: See there.
            stdin: See there.
            timeout: See there.
            silence: See there.
            grace: See there.
            split_stderr: See there.
            listener: See there.
            limits: See there.
            reach: Its reach: no more than the environment's own reach allows. Of `Reach.write`, what lies
                in `directory` is written. ``None`` is the environment's own reach; where that has none, everything is read, and
                there is a network.
            control: See `run`.

        Raises:
            InvalidCommand: Bad input.
            ReachUnavailable: When it is entered: the host cannot do it. The message names the missing part.
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
        """Keep how the files in `directory` are now, so that `restore` can bring them back.

        They are kept in a private directory of anyshell's own, on the host. A repository there is not asked, and none is needed. Not covered
        are `SKIPPED` directories, large and special files: `Checkpoint.skipped` and `Checkpoint.left_out` name them.

        Args:
            since: An earlier one: what has changed since then is what ``anyshell undo`` takes back.

        Raises:
            AnyshellError: The host is a Windows that SSH reaches, or one without Python 3.6 or later; or there are too many files.
        """
        from ..trial.checkpoints import checkpoints_of  # here and below, since few programs need it

        return await checkpoints_of(self.runner).take(since=since)

    async def restore(self, checkpoint: Checkpoint, *, until: Checkpoint | None = None) -> Restored:
        """Bring the files in `directory` back to how they were at a checkpoint.

        What came since then, and what another program may have changed, is kept and named, unless `until` shows that it was so at
        the end of what is undone. How everything is now is kept first: `Restored.before` brings it back.

        Args:
            checkpoint: The state to restore.
            until: A later checkpoint, made at the end of what is undone. Files that came between the two are removed, if they are
                as they were then; files that have changed since then are kept.

        Raises:
            AnyshellError: As for `checkpoint`; or the checkpoint is of another directory, or is not kept any more.
        """
        from ..trial.checkpoints import checkpoints_of

        return await checkpoints_of(self.runner).restore(checkpoint, until=until)
