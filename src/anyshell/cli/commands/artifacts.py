"""``anyshell artifacts``: outputs that were kept whole because their text had to be bounded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ..._exceptions import ArtifactNotFound
from ..failure import Failure
from ..options import Age
from ..printing import ago

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ... import ArtifactStore

_PIECE = 1024 * 1024
"""Bytes of an artifact that `anyshell artifacts` reads at once."""


class NotKept(Failure):
    """Nothing is kept under an id. Nothing has failed: the answer is no, and the exit code that of grep."""

    exit_code = 1


@click.group(short_help="List, show and remove outputs that were kept whole.")
def artifacts() -> None:
    """List, show and remove outputs that were kept whole.

    An output that is too long for its text is kept in a file, for a week and up to 1 GiB in all. The files are
    below $ANYSHELL_STATE_DIR, or else below the user's own state directory.
    """


@artifacts.command("list", short_help="List what is kept, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with an object for each.")
def list_(*, as_json: bool) -> None:
    """List what is kept, the newest first: its id, its size, its age.

    How many there are, and where, is said on stderr.

    \b
    Examples:
      anyshell artifacts list
      anyshell artifacts list --json | jq -r '.[0].path'
    \b
    Exit code:
      0    also when nothing is kept
      125  anyshell itself failed, such as for a directory that cannot be read
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import mention, print_json, printable, size

    store = _store()
    entries = store.list()
    if as_json:
        print_json(entries)
        return
    now = time.time()
    for entry in entries:
        click.echo(f"{entry.id}  {size(entry.size):>10}  {ago(now - entry.modified)}")
    total = size(sum(entry.size for entry in entries))
    mention(f"{len(entries)} kept, {total}, in {printable(str(store.directory))}")


def _complete_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ..printing import size

    now = time.time()
    return [
        CompletionItem(entry.id, help=f"{size(entry.size)}, {ago(now - entry.modified)}")
        for entry in _store().list()
        if entry.id.startswith(incomplete)
    ]


@artifacts.command(short_help="Write one kept output to stdout, byte for byte.")
@click.argument("id_", metavar="ID", shell_complete=_complete_id)
@click.option("--head", type=click.IntRange(min=0), metavar="N", help="Only the first N lines.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--offset", type=click.IntRange(min=0), metavar="BYTES", help="Leave out so many bytes first.")
@click.option("--length", type=click.IntRange(min=0), metavar="BYTES", help="Show so many bytes at most.")
def show(*, id_: str, head: int | None, tail: int | None, offset: int | None, length: int | None) -> None:
    """Write one kept output to stdout, byte for byte.

    \b
    Examples:
      anyshell artifacts show 20261120-051200-a1b2c3d4 | less -R
      anyshell artifacts show 20261120-051200-a1b2c3d4 --tail 50
      anyshell artifacts show 20261120-051200-a1b2c3d4 --offset 1000000 --length 4096
    \b
    Exit code:
      0    it was written
      1    nothing is kept under that id
      125  anyshell itself failed
      141  the reader of stdout went away
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    ranged = offset is not None or length is not None
    if [head is not None, tail is not None, ranged].count(True) > 1:
        raise click.UsageError("give one of --head, --tail, or --offset with --length")
    store = _store()
    try:
        if head is not None:
            pieces = _first_lines(store, id_, head)
        elif tail is not None:
            pieces = _pieces(store, id_, _start_of_last_lines(store, id_, tail), None)
        else:
            pieces = _pieces(store, id_, offset or 0, length)
        for piece in pieces:
            click.echo(piece, nl=False)
    except ArtifactNotFound as error:
        raise NotKept(str(error)) from error


@artifacts.command(short_help="Remove outputs that are old, or too many.")
@click.option("--max-age", type=Age(), help="Remove what is older: seconds, or 30m, 12h, 7d. Default: 7d.")
@click.option("--all", "everything", is_flag=True, help="Remove all that is kept.")
def prune(*, max_age: float | None, everything: bool) -> None:
    """Remove old outputs, and the oldest of the rest if they are too large together.

    Prints the ids of those that were removed. What is being written now is never removed.

    \b
    Examples:
      anyshell artifacts prune --max-age 12h
      anyshell artifacts prune --all
    \b
    Exit code:
      0    also when there was nothing to remove
      125  anyshell itself failed
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import mention

    if everything and max_age is not None:
        raise click.UsageError("give --max-age or --all, not both")
    store = _store()
    removed = store.prune(max_age=0, max_total=0) if everything else store.prune(max_age=max_age)
    for artifact in removed:
        click.echo(artifact)
    mention(f"{len(removed)} removed")


def _store() -> ArtifactStore:
    from ... import ArtifactStore

    return ArtifactStore()


def _pieces(store: ArtifactStore, id_: str, offset: int, length: int | None) -> Iterator[bytes]:
    end = store.get(id_).size if length is None else offset + length
    while offset < end and (piece := store.read(id_, offset=offset, length=min(_PIECE, end - offset))):
        yield piece
        offset += len(piece)


def _first_lines(store: ArtifactStore, id_: str, count: int) -> Iterator[bytes]:
    for piece in _pieces(store, id_, 0, None):
        lines = piece.split(b"\n")
        if count < len(lines):
            yield b"".join(line + b"\n" for line in lines[:count])
            return
        count -= len(lines) - 1
        yield piece


def _start_of_last_lines(store: ArtifactStore, id_: str, count: int) -> int:
    """Where the last lines begin. The line feed at the very end begins no line."""
    end = store.get(id_).size
    if count == 0:
        return end
    missing = count
    position = end
    while position > 0:
        start = max(0, position - _PIECE)
        piece = store.read(id_, offset=start, length=position - start)
        if position == end:
            piece = piece.removesuffix(b"\n")
        at = len(piece)
        while (at := piece.rfind(b"\n", 0, at)) >= 0:
            missing -= 1
            if missing == 0:
                return start + at + 1
        position = start
    return 0
