"""``anyshell artifacts``: outputs that were kept whole because their text had to be bounded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..._exceptions import ArtifactNotFound, InvalidCommand
from ..failure import CommandGroup, Failure
from ..options import Duration, Size, WholeNumber
from ..printing import ago

if TYPE_CHECKING:
    from ... import ArtifactStore


class NotKept(Failure):
    """No output is kept under an id. The exit code is that of grep for no match."""

    exit_code = 1


@click.group(cls=CommandGroup, short_help="List, show and remove kept outputs.")
def artifacts() -> None:
    """List, show and remove kept outputs.

    An output that is too long for its text is kept in a file, for a week and up to 1 GiB in all. The files are
    below $ANYSHELL_STATE_DIR, or else below the user's own state directory.

    \b
    Examples:
      anyshell artifacts list
      anyshell artifacts show 20261120-051200-a1b2c3d4 --tail 50
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines


@artifacts.command("list", short_help="List the kept outputs, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with one object per entry.")
def list_(*, as_json: bool) -> None:
    """List the kept outputs, the newest first: id, size, age.

    stderr shows their number, total size and directory.

    \b
    Examples:
      anyshell artifacts list
      anyshell artifacts list --json | jq -r '.[0].path'
    \b
    Exit code:
      0    also if no output is kept
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


class OutputRange(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A range of lines or bytes."""

    name = "range"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        """Parse a range, as in the address of an artifact."""
        from ...output.selection import range_of

        try:
            found = range_of(param.name if param is not None and param.name else "range", value)
        except InvalidCommand as error:
            self.fail(str(error), param, ctx)
        assert found is not None
        return found


@artifacts.command(short_help="Write a kept output, or a part of it, to stdout.")
@click.argument("address", metavar="ADDRESS", shell_complete=_complete_id)
@click.option(
    "--lines", type=OutputRange(), metavar="A-B", help="Only the lines from A to B, from 1; A- up to the end."
)
@click.option(
    "--bytes", type=OutputRange(), metavar="A-B", help="Only the bytes from A to B, from 0, B included."
)
@click.option("--head", type=WholeNumber(), metavar="N", help="Only the first N lines.")
@click.option("--tail", type=WholeNumber(), metavar="N", help="Only the last N lines.")
@click.option("--grep", metavar="REGEX", help="Only the lines that match, with their numbers.")
@click.option(
    "--context",
    type=WholeNumber(),
    metavar="N",
    help="With --grep: also N lines before and after each match.",
)
@click.option("--offset", type=WholeNumber(), metavar="BYTES", help="Skip this many bytes first.")
@click.option("--length", type=WholeNumber(), metavar="BYTES", help="Show at most this many bytes.")
def show(
    *,
    address: str,
    lines: tuple[int, int | None] | None,
    bytes: tuple[int, int | None] | None,  # noqa: A002 - the name of the option
    head: int | None,
    tail: int | None,
    grep: str | None,
    context: int | None,
    offset: int | None,
    length: int | None,
) -> None:
    """Write one kept output to stdout, byte for byte, or a part of it.

    ADDRESS is an id, or artifact://ID?lines=100-200 and the like, between quotes. --grep searches the part that the other
    options select; stderr names that part.

    \b
    Examples:
      anyshell artifacts show 20261120-051200-a1b2c3d4 | less -R
      anyshell artifacts show 20261120-051200-a1b2c3d4 --tail 50
      anyshell artifacts show 20261120-051200-a1b2c3d4 --grep 'error|FAILED' --context 3
      anyshell artifacts show 'artifact://20261120-051200-a1b2c3d4?lines=100-200'
    \b
    Exit code:
      0    it was written
      1    no output has that id; with --grep, no line matches
      125  anyshell itself failed
      141  the reader of stdout went away
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...output.selection import ArtifactAddress, PartReading, Selection
    from ..printing import mention

    ranged = offset is not None or length is not None
    given = [lines is not None, bytes is not None, head is not None, tail is not None, ranged]
    if given.count(True) > 1:
        raise click.UsageError("give one of --lines, --bytes, --head, --tail, or --offset with --length")
    place = ArtifactAddress.parse(address)
    asked = any(given) or grep is not None or context is not None
    if place.selection != Selection() and asked:
        raise click.UsageError("the address says which part: give it there, or by options")
    store, start = _store(), offset or 0
    try:
        with store.open(place.id) as file:
            if 0 in (head, tail, length) or start >= max(store.get(place.id).size, 1):
                return
            if head:
                lines = (1, head)
            elif ranged:
                bytes = (start, None if length is None else start + length - 1)  # noqa: A001 - the name of the option
            if asked:
                chosen = Selection(lines=lines, bytes=bytes, tail=tail, grep=grep, context=context or 0)
                place = ArtifactAddress(place.id, chosen)
            reading = PartReading(file, place, limit=None)
            found = False
            for piece in reading.pieces():
                found = True
                click.echo(piece, nl=False)
            if place.selection.grep is not None:
                mention(reading.note)
                if not found:
                    raise click.exceptions.Exit(NotKept.exit_code)
    except ArtifactNotFound as error:
        raise NotKept(str(error)) from error


@artifacts.command(short_help="Remove old outputs, and the oldest ones beyond a total size.")
@click.option(
    "--max-age",
    type=Duration(zero=True),
    help="Remove outputs older than this: seconds, or 30m, 12h, 7d. Default: 7d.",
)
@click.option(
    "--max-total",
    type=Size(),
    help="Keep at most this much in all: bytes, or 64k, 100m, 2g. Default: 1g.",
)
@click.option("--all", "everything", is_flag=True, help="Remove every kept output.")
def prune(*, max_age: float | None, max_total: int | None, everything: bool) -> None:
    """Remove old outputs, and the oldest of the rest beyond a total size.

    The ids of the removed outputs are printed. An output that is being written or read is never removed.

    \b
    Examples:
      anyshell artifacts prune --max-age 12h --max-total 100m
      anyshell artifacts prune --all
    \b
    Exit code:
      0    also when there was nothing to remove
      125  anyshell itself failed
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import mention

    if everything and (max_age, max_total) != (None, None):
        raise click.UsageError("give --all alone, or --max-age and --max-total")
    store = _store()
    removed = (
        store.prune(max_age=0, max_total=0)
        if everything
        else store.prune(max_age=max_age, max_total=max_total)
    )
    for artifact in removed:
        click.echo(artifact)
    mention(f"{len(removed)} removed")


def _store() -> ArtifactStore:
    from ... import ArtifactStore

    return ArtifactStore()
