"""``anyshell replay``: a recording that is played on the terminal with its timing."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ...._exceptions import RecordingError
from ...failure import Failure
from ...options import Duration, complete_file
from ...printing import mention, printable
from .lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....recordings import Event, Header

PIECE = 64 * 1024
"""Bytes of a recording that are gathered for one write to a pipe."""

_STDOUT = 1  # no bound: a descriptor


class Speed(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """A factor for the speed of the playback."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            speed = float(value)
        except ValueError:
            speed = math.nan
        if not 0 < speed < math.inf:
            self.fail(f"{value!r} is not a speed: give a number above 0, such as 2 or 0.5", param, ctx)
        return speed


@click.command(short_help="Play a recording on the terminal.")
@click.option(
    "--speed",
    type=Speed(),
    default=1.0,
    metavar="N",
    help="Play N times as fast. Default: 1, the recorded speed.",
)
@click.option(
    "--idle-limit",
    type=Duration(),
    metavar="DURATION",
    help="Wait at most this much recorded time between two events. Default: the limit in the recording, if "
    "there is one.",
)
@click.argument("file", shell_complete=complete_file)
@click.pass_context
def replay(ctx: click.Context, /, *, file: str, speed: float, idle_limit: float | None) -> None:
    """Play the recording FILE (asciicast v1, v2 or v3, as anyshell and asciinema write them) as it happened.

    Keys: space pauses and goes on, q or Ctrl-C stops, Ctrl-Z suspends. However it ends, the terminal is put back as it
    was. Only drawing is passed on: no other sequence of the recording reaches the terminal.

    If stdout is not a terminal, the same is printed at once, without its timing.

    \b
    Examples:
      anyshell replay build.cast
      anyshell replay --speed 4 --idle-limit 1 build.cast
      anyshell replay build.cast | less -R
    \b
    Exit code:
      0      it was played, or q was pressed
      2      wrong usage
      125    the file is not a recording, or is broken: the message names the line
      128+n  signal n ended it (130: Ctrl-C)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ....recordings import read

    with open(file, "rb", buffering=0) as opened:
        lines = Lines(opened)
        try:
            header, events = read(lines)
            if not sys.stdout.isatty():
                _print_at_once(events)
                return
            _mention_size(header)
            from ...process import signals
            from .playback import Playback

            limit = header.idle_time_limit if idle_limit is None else idle_limit
            ctx.exit(signals.run(Playback(events, lines, speed=speed, idle_limit=limit).play))
        except RecordingError as error:
            raise Failure(printable(f"{file}: {error}")) from error


def _print_at_once(events: Iterator[Event]) -> None:
    from ...terminal.modes import TerminalModes
    from .filter import Filter

    passing, modes = Filter(), TerminalModes()
    gathered: list[bytes] = []
    size = 0
    try:
        for event in events:
            if event.code != "o":
                continue
            data = passing.feed(event.data).encode()
            modes.feed(data)
            gathered.append(data)
            size += len(data)
            if size >= PIECE:
                click.echo(b"".join(gathered), nl=False)
                gathered, size = [], 0
    finally:  # also before an error reports that the rest cannot be read
        click.echo(b"".join([*gathered, modes.back]), nl=False)


def _mention_size(header: Header) -> None:
    try:
        columns, rows = os.get_terminal_size(_STDOUT)
    except OSError:
        return
    if (columns, rows) not in ((header.columns, header.rows), (0, 0)):
        mention(
            f"recorded on a terminal of {header.columns} columns and {header.rows} rows; this one has "
            f"{columns} and {rows}, and may show it otherwise"
        )
