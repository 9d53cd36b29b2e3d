"""``anyshell screenshot``: the screen of a recording at some moment, as a picture."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import click

from ...._exceptions import RecordingError
from ...failure import Failure
from ...options import Duration, complete_file
from ...printing import mention, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...._types import Terminal
    from ....output import StyledEmulator
    from ....recordings import Event, Header

PIECE = 16 * 1024
"""Characters of a recording that are drawn at once; rows that scroll away are held until the piece is drawn."""

_FORMATS = ("svg", "png", "txt")


@click.command(short_help="Draw the screen of a recording at a moment.")
@click.option(
    "--at",
    "moment",
    type=Duration(zero=True),
    metavar="DURATION",
    help="The time in the recording. Default: the end; if the screen is blank at the end, the last time at "
    "which it was not.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    shell_complete=complete_file,
    help="The file of the picture; its suffix (.svg, .png or .txt) gives the format. '-' is stdout. An "
    "existing file is replaced. Default: text on stdout.",
)
@click.option("--format", "as_format", type=click.Choice(_FORMATS), help="The format, whatever the suffix.")
@click.argument("file", shell_complete=complete_file)
@click.pass_context
def screenshot(
    ctx: click.Context, /, *, file: str, moment: float | None, output: str | None, as_format: str | None
) -> None:
    """Draw the screen of the recording FILE (asciicast v1, v2 or v3) as it was at some moment.

    SVG and PNG have its colours; a PNG needs the extra 'png' of anyshell. Nothing is fetched from anywhere.

    \b
    Examples:
      anyshell screenshot build.cast
      anyshell screenshot build.cast --at 12.5 -o failed.svg
      anyshell screenshot edit.cast -o edit.png
    \b
    Exit code:
      0      it was drawn
      2      wrong usage
      125    the file is not a recording, or is broken before that moment;
             the picture cannot be drawn or written
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ....recordings import read
    from .picture import Picture, rasteriser

    kind = _format(output, as_format)
    if output not in (None, "-"):
        assert output is not None
        _check_output(output, file)
    if kind == "png":
        rasteriser()  # before anything else takes time
    with open(file, "rb") as opened:
        try:
            header, events = read(opened)
            drawn = _draw(header, events, moment)
            if moment is None and not drawn.is_used and drawn.used is not None and _begin_again(opened):
                header, events = read(opened)
                drawn = _draw(header, events, None, stop_after=drawn.used)
        except RecordingError as error:
            raise Failure(printable(f"{file}: {error}")) from error
    if not drawn.is_used:
        mention("the screen is blank")
    screen = drawn.screen
    picture = Picture(
        rows=tuple(screen.spans(row) for row in screen.rows),
        columns=screen.columns,
        title=header.title or header.command or "",
        theme=header.theme,
    )
    data = picture.png() if kind == "png" else (picture.svg() if kind == "svg" else picture.text()).encode()
    if output in (None, "-"):
        click.echo(data, nl=False)
    else:
        assert output is not None
        _save(output, data)


def _format(output: str | None, given: str | None) -> str:
    """Return the format of the picture: the given format, the suffix of the output, or text for stdout."""
    if given is None:
        if output in (None, "-"):
            given = "txt"
        else:
            assert output is not None
            given = os.path.splitext(output)[1].lower().removeprefix(".")
            if given not in _FORMATS:
                raise click.BadParameter(
                    f"{output!r} does not end with .svg, .png or .txt: choose such a name, or give --format",
                    param_hint="'-o' / '--output'",
                )
    if given == "png" and output in (None, "-") and sys.stdout.isatty():
        raise click.BadParameter(
            "a PNG cannot be shown on a terminal: name a file", param_hint="'-o' / '--output'"
        )
    return given


def _check_output(output: str, file: str) -> None:
    """Refuse to replace the recording by its picture. A symbolic link to the recording is replaced, and not followed."""
    try:
        found, recording = os.lstat(output), os.stat(file)
    except OSError:
        return  # opening the files reports the error
    if stat.S_ISREG(found.st_mode) and os.path.samestat(found, recording):
        raise click.BadParameter(
            f"{output!r} is the recording itself, which would be lost: choose another name",
            param_hint="'-o' / '--output'",
        )


@dataclass(slots=True)
class _Drawn:
    """A screen on which a recording was drawn.

    Attributes:
        screen: The screen.
        is_used: Whether the screen shows anything.
        used: The number of events drawn when the screen last showed anything; ``None`` if never.
    """

    screen: StyledEmulator
    is_used: bool = False
    used: int | None = None


def _draw(
    header: Header, events: Iterator[Event], moment: float | None, *, stop_after: int | None = None
) -> _Drawn:
    """Draw a recording up to a moment, up to its end, or up to a number of events."""
    from ....output import StyledEmulator
    from .filter import Filter

    drawn = _Drawn(StyledEmulator(_size(header.columns, header.rows)))
    screen, passing = drawn.screen, Filter()
    for count, event in enumerate(_until_broken(events, moment), 1):
        if moment is not None and event.time > moment:
            break
        if event.code == "r":
            screen.resize(_size(*event.size))
        elif event.code == "o":
            for start in range(0, len(event.data), PIECE):
                # The output of the filter never ends with an unfinished sequence.
                screen.feed(passing.feed(event.data[start : start + PIECE]).encode(), 0, 0)
                screen.scrolled.clear()
        else:
            continue
        drawn.is_used = _is_used(screen)
        if drawn.is_used:
            drawn.used = count
        if count == stop_after:
            break
    return drawn


def _until_broken(events: Iterator[Event], moment: float | None) -> Iterator[Event]:
    """Yield the events. If the recording is broken after an event at exactly `moment`, later events are not needed.

    Raises:
        RecordingError: The recording is broken before `moment`. The message says until when it can be drawn.
    """
    last: float | None = None
    try:
        for event in events:
            last = event.time
            yield event
    except RecordingError as error:
        if last is None:
            raise
        if last != moment:
            from ...._types import exact

            raise RecordingError(f"{error} (what comes before can be drawn: --at {exact(last)})") from error


def _size(columns: int, rows: int) -> Terminal:
    from ...._types import LARGEST_TERMINAL, Terminal

    if max(columns, rows) > LARGEST_TERMINAL:
        raise Failure(
            f"a terminal of {columns:,} columns and {rows:,} rows cannot be drawn: it may have {LARGEST_TERMINAL:,} "
            "of both at most"
        )
    return Terminal(columns=max(2, columns), rows=max(2, rows))


def _is_used(screen: StyledEmulator) -> bool:
    return any(row.cells and not row.cells.isspace() for row in screen.rows) or any(
        style.background is not None or style.reverse for row in screen.rows for style in row.styles or ()
    )


def _begin_again(file: BinaryIO) -> bool:
    """Seek to the beginning of a file; return whether the file allows that, which a pipe does not."""
    try:
        file.seek(0)
    except OSError:
        return False
    return True


def _save(path: str, data: bytes) -> None:
    """Write a file completely or not at all, for the user alone; replace a link to a file. Write a pipe or device directly."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe, or /dev/stdout; for a directory, open() raises
            with open(path, "wb") as file:
                file.write(data)
            return
    directory, name = os.path.split(path)
    try:
        descriptor, made = tempfile.mkstemp(prefix=f".{name[:100]}-", dir=directory or ".")
    except OSError as error:  # replace the temporary name, which the user has not given
        raise OSError(error.errno, error.strerror, path) from error
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
