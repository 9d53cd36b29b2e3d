"""``anyshell undo``: the files of a directory as they were before a command."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..failure import Failure
from ..options import host_option
from ..printing import ago, mention, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...trial import Checkpoints
    from ..process.signals import Interruption

MOST_SHOWN = 50
"""Paths of a kind that ``anyshell undo`` prints; further paths are counted."""


class NothingToUndo(Failure):
    """The answer that there is no checkpoint. anyshell itself has not failed, so the exit code is 1."""

    exit_code = 1


@click.command(short_help="Undo the last command's changes to the files of a directory.")
@host_option
@click.option(
    "--cwd",
    metavar="DIR",
    help="The directory in which the command ran. Default: the current directory; with --host, the login "
    "directory there.",
)
@click.option(
    "--list", "listed", is_flag=True, help="List the checkpoints of the directory, the newest first."
)
@click.option(
    "--to", metavar="ID", help="Go back to this checkpoint instead. Later files are kept, and named."
)
@click.option("--yes", is_flag=True, help="Undo without a question.")
def undo(*, host: str | None, cwd: str | None, listed: bool, to: str | None, yes: bool) -> None:
    """Undo the changes of the last command with --checkpoint to the files of a directory.

    Files that changed again since then are kept and named; so are files that other programs created. The present state is
    saved first, as a checkpoint: 'anyshell undo --to ID' restores it. Before the undo, half-finished commits of killed
    trials on this machine are undone, in every directory.

    \b
    Examples:
      anyshell run --checkpoint -- make clean
      anyshell undo
      anyshell undo --list
      anyshell undo --host deploy@web-1 --cwd /srv/app
    \b
    Exit code:
      0    every change was undone
      1    there is nothing to undo, or some files were kept
      2    wrong usage, such as no terminal to ask on and no --yes
      125  anyshell itself failed, or the host cannot be reached or has no Python 3.6
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..host.reach import parse
    from ..process import signals

    if listed and (yes or to is not None):
        raise click.UsageError("--list changes nothing: leave --to and --yes out")

    async def perform(_: Interruption) -> int:
        if parse(host) is not None:
            return await _elsewhere(host, cwd, listed=listed, to=to, yes=yes)
        from ...trial import Checkpoints
        from ...trial.hosts import end_killed_commits

        ended = [] if listed else end_killed_commits()
        for directory, left in ended:
            _show(
                {
                    "a killed commit of a trial is ended in": [directory],
                    "kept, since what took its place is newer": left,
                }
            )
        checkpoints = Checkpoints(cwd or ".")
        if not Path(cwd or ".").is_dir() and not await checkpoints.kept():
            raise Failure(f"cwd {cwd!r} is not a directory")
        return await _undo(checkpoints, listed=listed, to=to, yes=yes, ended=bool(ended))

    click.get_current_context().exit(signals.run(perform))


async def _elsewhere(host: str | None, cwd: str | None, *, listed: bool, to: str | None, yes: bool) -> int:
    from ... import Environment, InvalidCommand
    from ...trial.checkpoints import checkpoints_of
    from ..host.reach import Target, mention_notices

    async with Environment.detect(Target(host).options) as env:
        mention_notices(env.info)
        checkpoints = checkpoints_of(env.runner, env.info.resolve(cwd, env.directory))
        try:
            await env.runner.place(cwd or ".", env.directory)
        except InvalidCommand:
            if not await checkpoints.kept():  # the command may have removed the directory
                raise
        return await _undo(checkpoints, listed=listed, to=to, yes=yes)


async def _undo(
    checkpoints: Checkpoints, *, listed: bool, to: str | None, yes: bool, ended: bool = False
) -> int:
    """Undo the changes, or list the checkpoints, and return the exit code. `ended`: a killed commit was undone before."""
    from ..host.person import can_be_asked, confirm

    known = {each.id: each for each in await checkpoints.kept()}
    if listed:
        for each in known.values():
            of = f"after the command that began at {each.since}" if each.since in known else ""
            click.echo(f"{each.id}  {ago(time.time() - each.made):>10}  {each.files} files  {of}".rstrip())
        return 0
    # A command has two checkpoints. The later one names the earlier one in `since`, and the newest such pair is undone.
    end = next((each for each in known.values() if each.since in known), None)
    if to is not None:
        end = None
        if (start := known.get(to)) is None:
            raise NothingToUndo(f"there is no checkpoint {to} of this directory: see 'anyshell undo --list'")
    elif end is None:
        if ended:
            return 0
        raise NothingToUndo("there is nothing to undo: run the command with --checkpoint first")
    else:
        start = known[end.since]
        _show({"the command made, changed or removed": await checkpoints.between(start, end)})
    if not yes:
        if not can_be_asked():
            raise click.UsageError("undo asks on a terminal, and there is none: add --yes")
        if not await confirm(f"anyshell: Go back to {ago(time.time() - start.made)}? (yes/no) "):
            return 0
    done = await checkpoints.restore(start, until=end)
    if end is not None:
        await checkpoints.forget(end)
    _show({"as before": done.restored, "removed": done.removed, "kept": done.kept})
    mention(f"to take this back: anyshell undo --to {done.before.id}")
    return 1 if done.kept else 0


def _show(paths: Mapping[str, Iterable[str] | Mapping[str, str]]) -> None:
    for what, found in paths.items():
        each = [f"{path}: {why}" for path, why in found.items()] if hasattr(found, "items") else [*found]
        for line in each[:MOST_SHOWN]:
            mention(f"{what}: {printable(line)}")
        if len(each) > MOST_SHOWN:
            mention(f"{what}: {len(each) - MOST_SHOWN} more")
