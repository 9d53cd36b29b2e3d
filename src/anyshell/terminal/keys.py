"""Keys, and the bytes that a terminal sends for them: those of xterm, which programs are told that they have.

The names and their codes are xterm's (its control sequences, "PC-Style Function Keys"); modifiers stand before a name,
as in ``Ctrl-Alt-Delete``. What a terminal cannot tell apart has one name alone.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand
from . import kitty

if TYPE_CHECKING:
    from collections.abc import Mapping

NEAREST = 3
"""Names of keys that are told for an unknown one, the nearest."""

LONGEST_KEY = 64
"""Characters of a key's name, with its modifiers."""

_SHIFT, _ALT, _CTRL = 1, 2, 4

_MODIFIERS = {
    "ctrl": _CTRL,
    "control": _CTRL,
    "c": _CTRL,  # C-, M- and S- are how tmux and Emacs write them
    "alt": _ALT,
    "meta": _ALT,
    "m": _ALT,
    "shift": _SHIFT,
    "s": _SHIFT,
}
_MODIFIER = re.compile(rf"({'|'.join(_MODIFIERS)})[-+](?=.)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Key:
    """A key that has a name.

    Attributes:
        sends: The bytes of the key alone.
        application: The bytes of the key while the program has asked for application cursor keys.
        modified: The bytes of the key with modifiers, which it names by their number at ``%d``; empty when it can have
            none but those of `others`.
        others: The bytes of the key with a set of modifiers, by the sum of Shift 1, Alt 2, Ctrl 4.
    """

    sends: bytes
    application: bytes | None = None
    modified: bytes = b""
    others: Mapping[int, bytes] = field(default_factory=dict)


def _cursor(final: bytes) -> Key:
    return Key(b"\x1b[" + final, application=b"\x1bO" + final, modified=b"\x1b[1;%d" + final)


def _function(final: bytes) -> Key:
    return Key(b"\x1bO" + final, modified=b"\x1b[1;%d" + final)


def _editing(number: int) -> Key:
    return Key(b"\x1b[%d~" % number, modified=b"\x1b[%d;%%d~" % number)


def _control(sends: bytes, **others: bytes) -> Key:
    """A key that sends a control character. Alt is an escape before it."""
    table = {_ALT: b"\x1b" + sends}
    for modifier, other in others.items():
        number = _MODIFIERS[modifier]
        table |= {number: other, number | _ALT: b"\x1b" + other}
    return Key(sends, others=MappingProxyType(table))


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "Enter": _control(b"\r"),
        "Tab": _control(b"\t", shift=b"\x1b[Z"),
        "Backspace": _control(b"\x7f", ctrl=b"\b"),
        "Escape": _control(b"\x1b"),
        "Space": _control(b" ", ctrl=b"\0"),
        "Up": _cursor(b"A"),
        "Down": _cursor(b"B"),
        "Right": _cursor(b"C"),
        "Left": _cursor(b"D"),
        "Home": _cursor(b"H"),
        "End": _cursor(b"F"),
        "Insert": _editing(2),
        "Delete": _editing(3),
        "PageUp": _editing(5),
        "PageDown": _editing(6),
        "F1": _function(b"P"),
        "F2": _function(b"Q"),
        "F3": _function(b"R"),
        "F4": _function(b"S"),
        "F5": _editing(15),
        "F6": _editing(17),
        "F7": _editing(18),
        "F8": _editing(19),
        "F9": _editing(20),
        "F10": _editing(21),
        "F11": _editing(23),
        "F12": _editing(24),
    }
)
"""Every key that has a name."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "Return": "Enter",
        "Esc": "Escape",
        "Ins": "Insert",
        "Del": "Delete",
        "PgUp": "PageUp",
        "PgDn": "PageDown",
    }
)
"""Other names of keys."""

CONTROLS = "@[\\]^_?"
"""Characters besides letters that Ctrl makes control characters of."""

_NAMES = {name.lower(): name for name in KEYS}
_NAMES[" "] = "Space"
_NAMES |= {alias.lower(): name for alias, name in ALIASES.items()}


def encode(name: object, *, application_cursor: bool = False, keyboard: int = 0) -> bytes:
    """The bytes that a terminal sends for a key.

    Args:
        name: One character, or a name of `KEYS` or `ALIASES` in any case; with modifiers before it, such as ``Ctrl-C``,
            ``Alt-x``, ``Shift-Tab``, ``Ctrl-Shift-Left``.
        application_cursor: Whether the program has asked for application cursor keys.
        keyboard: The flags of kitty's keyboard protocol that it has set; 0 is the usual way.

    Raises:
        InvalidCommand: There is no such key; the message has the names that are nearest. Or a terminal has no way to
            send it with those modifiers, or one of these stands there twice.
    """
    modifiers, rest = parse(name)
    if keyboard and (sent := kitty.encode(rest, modifiers, keyboard)) is not None:
        return sent
    shown = str(name)
    if len(rest) == 1:
        return _character(shown, rest, modifiers)
    key = KEYS[rest]
    if not modifiers:
        return key.application if application_cursor and key.application is not None else key.sends
    if key.modified:
        return key.modified % (1 + modifiers)
    if modifiers not in key.others:
        raise InvalidCommand(f"a terminal has no way to send {shown!r}: leave out a modifier")
    return key.others[modifiers]


def parse(name: object) -> tuple[int, str]:
    """The modifiers of a key, the sum of Shift 1, Alt 2 and Ctrl 4, and its own name: that of `KEYS`, or one character.

    Raises:
        InvalidCommand: There is no such key, or a modifier stands there twice.
    """
    if not isinstance(name, str):
        raise InvalidCommand(f"a key must be a name such as 'Ctrl-C' or 'Up', not {type(name).__name__}")
    if len(name) > LONGEST_KEY:
        raise InvalidCommand(
            f"the name of a key has at most {LONGEST_KEY} characters, not {len(name):,}: give one key a name"
        )
    modifiers, rest = 0, name
    while (match := _MODIFIER.match(rest)) is not None:
        modifier = _MODIFIERS[match[1].lower()]
        if modifiers & modifier:
            raise InvalidCommand(f"{name!r} is no key: name each of Ctrl-, Alt- and Shift- once")
        modifiers |= modifier
        rest = rest[match.end() :]
    if len(rest) == 1 and rest != " " and rest.isprintable():
        return modifiers, rest
    key = _NAMES.get(rest.lower())
    if key is None:
        raise _unknown(name, rest)
    return modifiers, key


def _character(name: str, character: str, modifiers: int) -> bytes:
    if modifiers & _SHIFT:
        if modifiers & _CTRL or len(character.upper()) != 1 or character.upper() == character.lower():
            raise InvalidCommand(f"a terminal has no way to send {name!r}: name the character itself")
        character = character.upper()
    if modifiers & _CTRL:
        upper = character.upper()
        if not ("A" <= upper <= "Z" or upper in CONTROLS):
            raise InvalidCommand(
                f"a terminal has no way to send {name!r}: Ctrl goes with letters and {CONTROLS}"
            )
        character = chr(ord(upper) ^ 0x40)
    return (b"\x1b" if modifiers & _ALT else b"") + character.encode(errors="surrogateescape")


def _unknown(name: str, rest: str) -> InvalidCommand:
    near = difflib.get_close_matches(rest.lower(), _NAMES, NEAREST, cutoff=0.5)
    proper = {" ": "Space"} | {known.lower(): known for known in (*KEYS, *ALIASES)}
    there = ", ".join(proper[known] for known in near)
    named = [key for key in KEYS if not key[1:].isdigit()]
    hint = f"nearest are {there}" if there else f"there are single characters, {', '.join(named)}, F1 to F12"
    return InvalidCommand(f"{name!r} is no key: {hint}; before them may stand Ctrl-, Alt-, Shift-")
