"""Checks of a caller's arguments, and the display of values in a message."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from .._exceptions import InvalidCommand

if TYPE_CHECKING:
    Seconds: TypeAlias = float | timedelta
    """A duration: a number of seconds, or a `timedelta`."""

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

LONGEST_NAME = 80
"""Characters of an unknown name in a message; the rest is left out, and text after a ``=`` is never shown."""

_LONGEST_NUMBER = 24
"""Characters of a number in a message; a longer number is shortened to its first digits and their count."""


def check_text(what: str, text: object) -> None:
    """Refuse a text that no host can be given: anything but a string, a NUL byte, half of a surrogate pair.

    Raises:
        InvalidCommand: The text is refused; the message has the fault and its position, never the text.
    """
    if not isinstance(text, str):
        raise InvalidCommand(f"{what} must be a string, not {type(text).__name__}")
    if (at := text.find("\0")) >= 0:
        raise InvalidCommand(f"{what} holds a NUL byte at character {at}; take it out")
    if text.isascii():
        return
    try:
        text.encode(errors="surrogateescape")  # Python's own error handler for bytes that are not UTF-8
    except UnicodeEncodeError as error:
        raise InvalidCommand(
            f"{what} holds half of a surrogate pair at character {error.start}; take it out"
        ) from None


def check_variable(name: object, value: object) -> None:
    """Refuse a variable that no environment can hold.

    Raises:
        InvalidCommand: The name or the value is invalid. The message has the name, never the value, which may be a secret.
    """
    if not isinstance(name, str) or not _VARIABLE_NAME.match(name):
        shown = repr(cut_name(name)) if isinstance(name, str) else f"a key of type {type(name).__name__}"
        raise InvalidCommand(f"{shown} is not a variable name: use [A-Za-z_][A-Za-z0-9_]*")
    check_text(f"the value of {name}", value)


def cut_name(name: str) -> str:
    """Shorten a name for a message, and leave out any text after ``=``, which may be a variable's value and so a secret."""
    before, equals, _ = name.partition("=")
    return f"{before[:LONGEST_NAME]}…" if len(before) > LONGEST_NAME else before + equals


def exact(number: float) -> str:
    """Format a finite number as a person writes it: never rounded, and without an exponent for a large integer.

    Only a number too long to read is shortened, and then followed by its count of digits.
    """
    if number != int(number):
        return repr(number)
    text = str(int(number))
    if len(text) <= _LONGEST_NUMBER:
        return text
    return f"{text[:8]}… ({len(text.lstrip('-'))} digits)"


def as_duration(seconds: int) -> str:
    """Format a duration in hours, minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min {rest:02} s"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def one_line(text: str) -> str:
    r"""Put a host's words on one line, with control characters as escapes: a name may hold instructions to a terminal.

    A byte that is not UTF-8, which Python holds as a lone surrogate, becomes an escape such as ``\xff``.
    """
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return rf"\x{ord(char) - 0xDC00:x}"
    return char.encode("unicode_escape").decode()


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not among the allowed words.

    Raises:
        InvalidCommand: The word is not allowed; the message has the allowed words.
    """
    if value not in choices:
        raise InvalidCommand(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")


def as_seconds(value: Any) -> Any:
    """Convert a `timedelta` to seconds; return any other value unchanged."""
    return value.total_seconds() if isinstance(value, timedelta) else value


@overload
def check_seconds(name: str, value: Seconds, *, zero: bool = False, none: bool = True) -> float: ...


@overload
def check_seconds(name: str, value: object, *, zero: bool = False, none: bool = True) -> float | None: ...


def check_seconds(name: str, value: object, *, zero: bool = False, none: bool = True) -> float | None:
    """Convert a number of seconds or a `timedelta` to seconds; refuse a duration that no clock can wait for.

    Raises:
        InvalidCommand: Not a number, not finite, negative, zero where `zero` is false, ``None`` where `none` is false.
    """
    if value is None and none:
        return None
    value = as_seconds(value)
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InvalidCommand(f"{name} must be a finite number of seconds, not {value!r}")
    except OverflowError as error:  # a whole number that is too large for a clock, and for a message
        raise InvalidCommand(f"{name} must be a number of seconds that a clock can count") from error
    if value < 0 or (value == 0 and not zero):
        raise InvalidCommand(
            f"{name} must be {'zero or more' if zero else 'more than 0'} seconds, not {value!r}"
        )
    return value


def check_count(name: str, value: object, *, least: int = 1, most: float = math.inf) -> None:
    """Refuse a value that is not a count between `least` and `most`.

    Raises:
        InvalidCommand: Not a whole number, less than `least`, or more than `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f", {least} or more" if most == math.inf else f" from {least} to {most:,}"
        raise InvalidCommand(f"{name} must be a whole number{bounds}, not {value!r}")


def check_port(port: object) -> None:
    """Refuse a value that is not a TCP port.

    Raises:
        InvalidCommand: Not a whole number from 1 to 65535.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidCommand(f"a port must be 1 to 65535, not {port!r}")
