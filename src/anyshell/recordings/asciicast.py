"""The reader and writer of asciicast, the file format of recorded terminals: a header, then events, each a line of JSON.

The specifications are https://docs.asciinema.org/manual/asciicast/v3/, and ``v2`` and ``v1`` next to it. In v3 the time
of an event is the interval since the previous event; in v2, and here, the time is counted from the beginning. v1 is one JSON
object with the whole output. v3 and v2 are written, and all three versions are read.

A file that is read may come from a stranger: no part of the file is trusted, and an unreadable part is a `RecordingError`
that names the line.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from .._exceptions import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_LINE = 4 * 1024**2
"""Bytes of a line that is read, of the header or of an event; a longer line is an error."""

LARGEST_V1 = 32 * 1024**2
"""Bytes of a file of version 1 that is read: the file is one JSON object, held as a whole; a larger file is an error."""

LARGEST_SIZE = 65_535
"""Columns, and rows, in a file that is read, since asciinema has 16 bits for a number; a larger number is an error."""

LONGEST_TIME = 10 * 366 * 24 * 3600.0
"""Seconds from the beginning of a read recording to its end, ten years; a later event is an error."""

USUAL_SIZE = (80, 24)  # no bound
"""Columns and rows in the place of 0 in the header, as in asciinema's player."""

_VERSIONS = (1, 2, 3)  # no bound: versions of a format
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\Z")
_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})\Z")
_EXIT = re.compile(r"-?[0-9]{1,10}\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 40  # no bound: characters of a stranger's text in a message


class _Readable(Protocol):
    """A binary file from which lines are read."""

    def readline(self, size: int, /) -> bytes: ...
    def read(self, size: int, /) -> bytes: ...


class _Writable(Protocol):
    """A binary file to which lines are written."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """The colours of the terminal, each as ``#rrggbb``.

    Attributes:
        foreground: The colour of text.
        background: The colour behind text.
        palette: The 8 or 16 colours that programs choose by number.
    """

    foreground: str
    background: str
    palette: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a recording.

    Attributes:
        version: The version of the format: 1, 2 or 3.
        columns: Columns of the terminal at the beginning, 1 to 65,535.
        rows: Rows of the terminal at the beginning, 1 to 65,535.
        term: The terminal's type, such as ``xterm-256color``; ``None`` if the header has none.
        term_version: The terminal's own name and version (XTVERSION). In v3 alone.
        theme: The colours of the terminal. In v2 and v3.
        timestamp: The start of the recording, in whole seconds since the epoch.
        duration: Seconds of the whole recording. In v1 and v2; ``None`` if the recorder did not know the duration beforehand.
        idle_time_limit: Seconds that a player should at most wait between two events.
        command: The recorded command.
        title: The title of the recording.
        env: Variables of the recorded program's environment.
        tags: Words by which the recording can be found. In v3 alone.
    """

    version: int = 3
    columns: int = 80
    rows: int = 24
    term: str | None = None
    term_version: str | None = None
    theme: Theme | None = None
    timestamp: int | None = None
    duration: float | None = None
    idle_time_limit: float | None = None
    command: str | None = None
    title: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a recorded terminal.

    Attributes:
        time: Seconds from the beginning of the recording.
        code: ``o`` output, ``i`` input, ``m`` a marker, ``r`` a new size, ``x`` the exit. A file may have other codes.
        data: The output or the input; a marker's label; ``COLUMNSxROWS``; the exit status.
    """

    time: float
    code: str
    data: str

    @property
    def size(self) -> tuple[int, int]:
        """The new columns and rows of the terminal.

        Raises:
            ValueError: The event has no new size.
        """
        match = _SIZE.match(self.data) if self.code == "r" else None
        if match is None:
            raise ValueError("an event of code r says 'COLUMNSxROWS'")
        return int(match[1]), int(match[2])


def read(file: _Readable) -> tuple[Header, Iterator[Event]]:
    """Read a recording of any version: the header at once, and the events lazily, by an iterator.

    Events come in their order; a time before the last event's counts as the last event's time. An event of an unknown code is
    passed on if its data is text, and left out otherwise. Comments and empty lines are left out. At most 4 MiB of a file of
    version 2 or 3 are held, and 32 MiB of a file of version 1.

    Args:
        file: A file opened as bytes, at its beginning. The file is not closed here, and must stay open while events are
            read.

    Raises:
        RecordingError: The file is not a recording, or is broken; also raised by the iterator. The message names the line.
        OSError: The file cannot be read.
    """
    first = file.readline(LONGEST_LINE + 1)
    if not first:
        raise RecordingError("line 1: the file is empty: a recording begins with its header")
    found = _first(first)
    if found is None or _version(found) == 1:  # v1 may be one line, or many
        return _read_v1(first + file.read(LARGEST_V1 + 1 - min(len(first), LARGEST_V1)))
    header = _header(found)
    return header, _events(file, header.version)


def _first(line: bytes) -> dict[str, Any] | None:
    """Parse the first line as an object; ``None`` if the line alone is not JSON."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        found = _parse(line, 1)
    except RecordingError:
        return None
    if not isinstance(found, dict):
        raise RecordingError("line 1: this is not an asciicast: the header must be a JSON object")
    return found


def _parse(line: bytes, number: int) -> Any:
    try:
        # Strip the line's end: otherwise an error at the end of a broken line would have the next line's number.
        return json.loads(line.rstrip().decode(), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        at, cure = number + error.lineno - 1, "; 'run --record' and asciinema write recordings"
        raise RecordingError(f"line {at}: this is not JSON: {error.msg}{cure if at == 1 else ''}") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # not UTF-8, a number with too many digits, too many brackets
        raise RecordingError(
            f"line {number}: this is not JSON that can be read: {_short(str(error))}"
        ) from error


def _no_constant(name: str) -> object:
    raise ValueError(
        f"{name} is not a number"
    )  # Python's parser takes NaN and Infinity, which JSON does not have


def _version(found: Mapping[str, Any]) -> int:
    version = found.get("version")
    if isinstance(version, bool) or version not in _VERSIONS:
        raise RecordingError(
            f"line 1: the version of the format must be 1, 2 or 3, not {_short(repr(version))}"
        )
    return int(version)


def _header(found: Mapping[str, Any]) -> Header:
    """Parse the header of a file of any version."""
    version = _version(found)
    term: Any = found
    if version == 3:
        term = found.get("term")
        if not isinstance(term, dict):
            raise RecordingError("line 1: 'term' must be an object with 'cols' and 'rows'")
    columns, rows = ("cols", "rows") if version == 3 else ("width", "height")
    env = _env(found.get("env"))
    tags = found.get("tags") or ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise RecordingError("line 1: 'tags' must be a list of texts")
    timestamp = _number(found, "timestamp")
    return Header(
        version=version,
        columns=_cells(term, columns) or USUAL_SIZE[0],
        rows=_cells(term, rows) or USUAL_SIZE[1],
        term=_text(term, "type") if version == 3 else env.get("TERM"),
        term_version=_text(term, "version") if version == 3 else None,
        theme=_theme(term.get("theme")),
        timestamp=None if timestamp is None else int(timestamp),
        duration=_number(found, "duration"),
        idle_time_limit=_number(found, "idle_time_limit"),
        command=_text(found, "command"),
        title=_text(found, "title"),
        env=MappingProxyType(env),
        tags=tuple(map(_whole, tags)),
    )


def _cells(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_SIZE:
        raise RecordingError(
            f"line 1: {name!r} must be a whole number up to {LARGEST_SIZE:,}, not {_short(repr(value))}"
        )
    return value


def _number(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise RecordingError(f"line 1: {name!r} must be a number, 0 or more, not {_short(repr(value))}")
    return value


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordingError(f"line 1: {name!r} must be a text, not {_short(repr(value))}")
    return None if value is None else _whole(value)


def _env(found: object) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RecordingError("line 1: 'env' must be an object of texts")
    # asciinema 1 and 2 write null for a variable that is not set.
    return {_whole(name): _whole(value) for name, value in found.items() if isinstance(value, str)}


def _theme(found: object) -> Theme | None:
    """Parse the colours; ``None`` if the colours are malformed, which is not an error: text is readable without colours."""
    if not isinstance(found, dict):
        return None
    palette = found.get("palette")
    colours = [found.get("fg"), found.get("bg"), *(palette.split(":") if isinstance(palette, str) else ())]
    if len(colours) not in (10, 18) or not all(isinstance(c, str) and _COLOUR.match(c) for c in colours):
        return None
    return Theme(foreground=colours[0], background=colours[1], palette=tuple(colours[2:]))


def _events(file: _Readable, version: int) -> Iterator[Event]:
    number, time = 1, 0.0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise RecordingError(f"line {number} is longer than {LONGEST_LINE:,} bytes")
        if not line.strip() or (version == 3 and line.startswith(b"#")):
            continue
        try:
            found = _parse(line, number)
        except RecordingError as error:
            if line.endswith(b"\n"):
                raise
            raise RecordingError(
                f"line {number} is cut off: the program that wrote the file was stopped there"
            ) from error
        if not isinstance(found, list) or len(found) != 3:
            raise RecordingError(f"line {number}: an event must be a JSON array of time, code and data")
        time, event = _event(found, f"line {number}", time, relative=version == 3)
        if event is not None:
            yield event


def _event(found: list[Any], where: str, before: float, *, relative: bool) -> tuple[float, Event | None]:
    """Return the time of an event and the event; ``None`` in place of an event of an unknown code without text."""
    seconds, code, data = found
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_TIME:
        raise RecordingError(f"{where}: the time must be seconds, 0 or more, not {_short(repr(seconds))}")
    # A nanosecond is finer than the times of recorders, so the rounding removes only the error of summing floats.
    time = round(before + seconds, 9) if relative else max(before, float(seconds))
    if time > LONGEST_TIME:
        raise RecordingError(f"{where} is more than {LONGEST_TIME:,.0f} s after the beginning")
    if not isinstance(code, str) or not code:
        raise RecordingError(f"{where}: the code of an event must be a text, not {_short(repr(code))}")
    if not isinstance(data, str):
        if code in "oimrx":
            raise RecordingError(
                f"{where}: the data of an event {code!r} must be a text, not {_short(repr(data))}"
            )
        return time, None
    event = Event(time, _whole(code), _whole(data))
    if code == "r":
        match = _SIZE.match(data)
        if match is None or not all(1 <= int(cells) <= LARGEST_SIZE for cells in match.groups()):
            raise RecordingError(f"{where}: a size must be as '80x24', not {_short(repr(data))}")
    if code == "x" and relative and _EXIT.match(data) is None:
        raise RecordingError(f"{where}: an exit status must be a number, not {_short(repr(data))}")
    return time, event


def _read_v1(data: bytes) -> tuple[Header, Iterator[Event]]:
    if len(data) > LARGEST_V1:
        raise RecordingError(
            f"line 1: this is not a header, nor a recording of version 1 of at most {LARGEST_V1:,} bytes"
        )
    found = _parse(data, 1)
    if not isinstance(found, dict) or _version(found) != 1:
        raise RecordingError(
            "line 1: this is not an asciicast: the header must be a JSON object on a line of its own"
        )
    frames = found.get("stdout")
    if not isinstance(frames, list):
        raise RecordingError("line 1: 'stdout' must be a list of frames")
    return _header(found), _frames(frames)


def _frames(frames: list[Any]) -> Iterator[Event]:
    time = 0.0
    for number, frame in enumerate(frames, 1):
        where = f"frame {number} of 'stdout'"
        if not isinstance(frame, list) or len(frame) != 2:
            raise RecordingError(f"{where}: a frame must be a JSON array of delay and data")
        time, event = _event([frame[0], "o", frame[1]], where, time, relative=True)
        assert event is not None
        yield event


def _whole(text: str) -> str:
    """Make a text encodable: replace lone surrogates, which JSON can spell out."""
    return _SURROGATE.sub("\ufffd", text)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


class AsciicastWriter:
    """A writer of recordings, line by line. Each line is one call of the file's `write`, so that no line is written in parts.

    Args:
        file: The file to which the recording is written.
        header: The header, of version 3 or 2, which is written at once.

    Attributes:
        version: The version of the format.

    Raises:
        ValueError: The header has another version.
        OSError: The file raises an error; every method can raise it.
    """

    def __init__(self, file: _Writable, header: Header) -> None:
        if header.version not in (2, 3):
            raise ValueError(f"asciicast is written in version 2 or 3, not {header.version!r}")
        self.version = header.version
        self._file = file
        self._last = 0  # microseconds
        file.write(_line(_to_json(header)))

    def encode(self, event: Event) -> bytes:
        """Return the line of an event, for the case that this event is written next."""
        now = max(
            self._last, round(event.time * 1e6)
        )  # a clock that goes back must not make the interval negative
        since = now - self._last if self.version == 3 else now
        # Everything but printable ASCII is escaped, which is more than the specification asks for. Intervals are differences
        # of whole microseconds, so no digit of a time is lost, and the intervals add up exactly.
        return (
            f"[{since // 1_000_000}.{since % 1_000_000:06}, "
            f"{json.dumps(event.code)}, {json.dumps(_whole(event.data))}]\n"
        ).encode()

    def write(self, event: Event) -> int:
        """Write an event. An event before the last event's time gets the last event's time.

        Returns:
            The number of written bytes.
        """
        line = self.encode(event)
        self._file.write(line)
        self._last = max(self._last, round(event.time * 1e6))
        return len(line)

    def comment(self, text: str) -> int:
        """Write a comment in version 3; version 2 has no comments, so nothing is written.

        Returns:
            The number of written bytes.
        """
        if self.version != 3:
            return 0
        line = f"# {' '.join(_whole(text).split())}\n".encode()
        self._file.write(line)
        return len(line)


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _to_json(header: Header) -> dict[str, object]:
    """Convert a header to the JSON object of its version, without unknown fields."""
    theme = None
    if header.theme is not None:
        palette = ":".join(header.theme.palette)
        theme = {"fg": header.theme.foreground, "bg": header.theme.background, "palette": palette}
    env = {_whole(name): _whole(value) for name, value in header.env.items()}
    found: dict[str, object] = {"version": header.version}
    if header.version == 3:
        found["term"] = _without_none(
            {
                "cols": header.columns,
                "rows": header.rows,
                "type": header.term,
                "version": header.term_version,
                "theme": theme,
            }
        )
    else:
        found |= {"width": header.columns, "height": header.rows}
        if header.term is not None:
            env["TERM"] = header.term  # version 2 has the terminal's type here
    found |= {
        "timestamp": header.timestamp,
        "duration": header.duration if header.version == 2 else None,
        "idle_time_limit": header.idle_time_limit,
        "command": None if header.command is None else _whole(header.command),
        "title": None if header.title is None else _whole(header.title),
        "env": env or None,
        "theme": theme if header.version == 2 else None,
        "tags": [_whole(tag) for tag in header.tags] or None if header.version == 3 else None,
    }
    return _without_none(found)


def _without_none(found: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in found.items() if value is not None}
