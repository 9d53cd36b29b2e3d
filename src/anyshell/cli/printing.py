"""The formatting of values as text for a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

import click

from .._types import as_duration
from .process.inherited import settle


def to_json(value: object, *, one_line: bool = False) -> bytes:
    """Return a value as JSON in UTF-8, with a line feed at the end."""
    import json  # here, since most commands print none

    text = json.dumps(value, indent=None if one_line else 2, ensure_ascii=False, default=_plain)
    # JSON leaves DEL, C1 controls and bidirectional formats unescaped, but a terminal would obey these characters.
    hidden = {character for character in set(text) if not character.isprintable() and character != "\n"}
    text = text.translate({ord(character): json.dumps(character)[1:-1] for character in hidden - {"\x7f"}})
    text = text.replace("\x7f", r"\u007f")
    # A lone surrogate stands for a byte of a file name that is not UTF-8, and has no encoding. The error handler
    # writes the surrogate as \udcXX, as JSON does.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def print_json(value: object) -> None:
    """Print a value as JSON on stdout."""
    click.echo(to_json(value), nl=False)


def mention(*texts: str) -> None:
    """Print anyshell's own messages on stderr, one line each. A failure to write is ignored."""
    try:
        for text in texts:
            click.echo(f"anyshell: {text}", err=True)
    except OSError:
        settle(sys.stderr)


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; rows without a value are left out."""
    rows = [(name, printable(value)) for name, value in rows if value]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


def printable(text: str) -> str:
    r"""Show control, bidirectional and invisible characters as escapes, so that a name cannot deceive a reader.

    A byte that is not UTF-8, which Python holds as a lone surrogate, is shown as ``\xff``.
    """
    return readable(
        "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in text
        )
    )


_BYTE = re.compile(r"[\udc80-\udcff]|\\udc(?=[89a-f][0-9a-f])")


def printable_lines(text: str) -> str:
    """Escape each line with `printable`. Line feeds are kept, so all line feeds must come from anyshell itself."""
    return "\n".join(map(printable, text.split("\n")))


def readable(text: str) -> str:
    r"""Show bytes that are not UTF-8 as ``\xff``, whether the text has surrogates or escapes of surrogates."""
    return _BYTE.sub(lambda match: rf"\x{ord(match[0]) - 0xDC00:x}" if len(match[0]) == 1 else r"\x", text)


def seconds(value: float) -> str:
    """Return a duration as a person writes it, such as ``2.5 s``."""
    return f"{value:g} s"


def elapsed(value: float) -> str:
    """Return an elapsed time in whole seconds, short enough to read at a glance."""
    return as_duration(int(value))


def stopping(pids: Iterable[int], system: str) -> str:
    """Return the command line with which a person stops processes on a host with this operating system."""
    if system == "windows":
        return "taskkill /F /T " + " ".join(f"/PID {pid}" for pid in pids)
    return "kill " + " ".join(map(str, pids))


def size(count: float) -> str:
    """Return a number of bytes as a person writes it, such as ``1.5 KiB``."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"


def ago(seconds: float) -> str:
    """Return a time that has passed as a person writes it, such as ``5m ago``."""
    for unit, length in (("d", 24 * 3600), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit} ago"
    return f"{max(seconds, 0):.0f}s ago"
