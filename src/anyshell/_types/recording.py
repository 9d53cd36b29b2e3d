"""The options of a recording, and its result."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Literal

from .._exceptions import InvalidCommand
from .checks import check_count, check_seconds, check_text

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from .checks import Seconds


LARGEST_RECORDING = 64 * 1024**2
"""Bytes of a recording, unless given; at this size the recording ends, with a note that it does."""

LEAST_RECORDING = 16 * 1024
"""Bytes of the smallest limit for a recording that can be given: a header, and room for the note at its end."""

LONGEST_TITLE = 256
"""Characters of a recording's title; a longer title is refused."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The request to record a run into a file, as asciinema does: the output, with times and terminal sizes.

    Attributes:
        path: The new file, on this machine, readable by this user alone. An existing file is refused, and a link is not
            followed.
        version: The version of the asciicast format: 3 or 2.
        input: Whether the typed input is recorded as well.
        max_bytes: Bytes that the file may have, 16 KiB or more. At this size the recording ends, with a note that it does.
        title: The title of the recording, at most 256 characters.
        idle_time_limit: Seconds that a player should at most wait in a pause of the output.

    Raises:
        InvalidCommand: An argument is of another type, or out of range.
    """

    path: str | PathLike[str]
    _: KW_ONLY
    version: Literal[2, 3] = 3
    input: bool = False
    max_bytes: int = LARGEST_RECORDING
    title: str | None = None
    idle_time_limit: float | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            path: str | PathLike[str],
            *,
            version: Literal[2, 3] = 3,
            input: bool = False,  # noqa: A002 - the name of the field
            max_bytes: int = LARGEST_RECORDING,
            title: str | None = None,
            idle_time_limit: Seconds | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_recording(self.path, self.version)
        check_count("max_bytes", self.max_bytes, least=LEAST_RECORDING)
        if self.title is not None:
            check_text("the title of a recording", self.title)
            if len(self.title) > LONGEST_TITLE:
                raise InvalidCommand(f"the title of a recording must have at most {LONGEST_TITLE} characters")
        limit = check_seconds("idle_time_limit", self.idle_time_limit)
        object.__setattr__(self, "idle_time_limit", limit)


def to_recording(record: object) -> Recording | None:
    """Normalise `record=`, a path or a `Recording`, to a `Recording` with an absolute path; ``None`` stays.

    Raises:
        InvalidCommand: `record` is of another type, or this process's directory has been removed.
    """
    if record is None:
        return None
    if isinstance(record, str | os.PathLike):
        record = Recording(record)
    if not isinstance(record, Recording):
        raise InvalidCommand(f"record must be a path or a Recording(path), not {type(record).__name__}")
    try:
        return replace(record, path=os.path.abspath(os.fspath(record.path)))
    except OSError as error:
        raise InvalidCommand(
            "this process's directory has been removed: give an absolute path to record to"
        ) from error


def _check_recording(path: object, version: object) -> None:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidCommand(f"a recording needs the path of a file, not {path!r}")
    check_text("the path of a recording", name)
    if name.endswith((os.sep, os.altsep or os.sep)):  # os.path.abspath would drop the separator
        raise InvalidCommand(f"a recording needs the path of a file, and {name!r} is that of a directory")
    if isinstance(version, bool) or version not in (2, 3):
        raise InvalidCommand(f"a recording is of version 2 or 3 of asciicast, not {version!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingReport:
    """The state of a recording after its run.

    Attributes:
        path: The file; absolute.
        size: The file's size in bytes.
        complete: Whether the recording has everything that was to be recorded.
        notice: The missing part, and the reason; ``None`` when nothing is missing.
    """

    path: Path
    size: int
    complete: bool = True
    notice: str | None = None
