"""``anyshell audit``: the recorded requests, decisions and runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..failure import CommandGroup, Failure
from ..options import Directory

if TYPE_CHECKING:
    from collections.abc import Callable


class NotWhole(Failure):
    """The answer that the audit is not as written. anyshell itself has not failed, so the exit code is 1, as of grep."""

    exit_code = 1


@click.group(cls=CommandGroup, short_help="Show, search and verify the audit: requests, decisions and runs.")
def audit() -> None:
    """Show, search and verify the audit: requests, decisions and runs.

    The files are below $ANYSHELL_STATE_DIR, or else below the user's own state directory, unless a program keeps its audit
    elsewhere.

    \b
    Examples:
      anyshell audit show
      anyshell audit grep 'rm -r'
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines


def _directory(command: Callable[..., None]) -> Callable[..., None]:
    place = Directory(path_type=Path)
    return click.option("--directory", type=place, help="The directory of the files.")(command)


_JSON = click.option("--json", "as_json", is_flag=True, help="Print each entry as stored.")


@audit.command(short_help="Print the entries, the oldest first.")
@_directory
@_JSON
def show(*, directory: Path | None, as_json: bool) -> None:
    """Print the entries, the oldest first.

    \b
    Examples:
      anyshell audit show
      anyshell audit show --json | jq 'select(.event == "decided")'
    \b
    Exit code:
      0    there is an audit
      125  there is no audit
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    _print(directory, lambda _: True, as_json=as_json)


@audit.command(short_help="Print the entries that match a pattern.")
@click.argument("pattern")
@_directory
@_JSON
def grep(*, pattern: str, directory: Path | None, as_json: bool) -> None:
    """Print the entries that match a regular expression.

    \b
    Examples:
      anyshell audit grep 'rm -rf'
      anyshell audit grep '"action": "deny"' --json
    \b
    Exit code:
      0    an entry matches
      1    no entry matches
      125  there is no audit
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    try:
        search = re.compile(pattern).search
    except re.error as error:
        raise click.UsageError(f"{pattern!r} is not a regular expression: {error}") from error
    if not _print(
        directory, lambda entry: search(json.dumps(entry, ensure_ascii=False)) is not None, as_json=as_json
    ):
        raise click.exceptions.Exit(1)


@audit.command(short_help="Check whether a line was changed or removed.")
@_directory
def verify(*, directory: Path | None) -> None:
    """Check whether a line was changed, moved or removed, and print each place.

    Two losses cannot be found: lines at the end of a file that was not closed, and the oldest files.

    \b
    Examples:
      anyshell audit verify
      anyshell audit verify --directory /srv/agent/audit
    \b
    Exit code:
      0    no fault was found
      1    a fault was found
      125  there is no audit
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...policy.audit import files
    from ...policy.audit import verify as find_problems
    from ..printing import mention, printable

    place = _place(directory)
    problems = find_problems(place)
    for problem in problems:
        click.echo(printable(f"{problem.file}:{problem.line}: {problem.text}"))
    if problems:
        raise NotWhole(f"the audit was changed in {_counted(len(problems), 'place')}")
    mention(f"nothing wrong in {_counted(len(files(place)), 'file')} of {printable(str(place))}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _place(directory: Path | None) -> Path:
    from ...policy.audit import Audit, files
    from ..printing import printable

    place = Audit(directory).directory
    if not files(place):
        why = "give the directory that has its files by --directory"
        if directory is None:
            why = "a program keeps one by Environment.detect(audit=...)"
        raise Failure(f"there is no audit in {printable(str(place))}: {why}")
    return place


def _print(directory: Path | None, wanted: Callable[[dict[str, Any]], bool], *, as_json: bool) -> int:
    from ...policy.audit import entries
    from ..printing import printable

    count = 0
    for entry in entries(_place(directory)):
        if not wanted(entry):
            continue
        count += 1
        click.echo(json.dumps(entry) if as_json else printable(_line(entry)))
    return count


def _line(entry: dict[str, Any]) -> str:
    facts = {
        name: value
        for name, value in entry.items()
        if name not in ("time", "event", "request", "line", "before", "hash", "file") and value is not None
    }
    words = " ".join(f"{name}={value}" for name, value in facts.items())
    return f"{entry.get('time')}  {entry.get('request', '-'):16}  {entry.get('event'):9}  {words}"
