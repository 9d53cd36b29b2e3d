"""Keys, and the bytes that xterm sends for keys; programs are told that their terminal is an xterm.

The names and the codes are xterm's (ctlseqs, "PC-Style Function Keys"). Modifiers stand before a name, as in
``Ctrl-Alt-Delete``. Keys that a terminal cannot tell apart have one name alone.
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
"""Names of keys that the message about an unknown key suggests: the nearest names."""

LONGEST_KEY = 64
"""Characters of a key's name, with its modifiers; a longer name is an error."""

_SHIFT, _ALT, _CTRL = 1, 2, 4

_MODIFIERS = {
    "ctrl": _CTRL,
    "control": _CTRL,
    "c": _CTRL,  # tmux and Emacs write C-, M- and S-
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
        modified: The bytes of the key with modifiers, with ``%d`` for the number of the modifiers; empty when the key
            can have only the modifiers of `others`.
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
    """Return a key that sends a control character. With Alt, an escape precedes the character."""
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
"""Characters, other than letters, that Ctrl turns into control characters."""

_NAMES = {name.lower(): name for name in KEYS}
_NAMES[" "] = "Space"
_NAMES |= {alias.lower(): name for alias, name in ALIASES.items()}


def encode(name: object, *, application_cursor: bool = False, keyboard: int = 0) -> bytes:
    """Return the bytes that a terminal sends for a key.

    Args:
        name: One character, or a name of `KEYS` or `ALIASES` in any case. Modifiers may stand before the name, such as
            ``Ctrl-C``, ``Alt-x``, ``Shift-Tab``, ``Ctrl-Shift-Left``.
        application_cursor: Whether the program has asked for application cursor keys.
        keyboard: The flags of kitty's keyboard protocol that the program has set; 0 is the usual way.

    Raises:
        InvalidCommand: The key is unknown; the message has the nearest names. Or a terminal cannot send the key with the
            modifiers. Or a modifier is given twice.
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
    """Split a key into the sum of its modifiers (Shift 1, Alt 2, Ctrl 4) and its own name: a name of `KEYS`, or one character.

    Raises:
        InvalidCommand: The key is unknown, or a modifier is given twice.
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
            raise InvalidCommand(f"{name!r} is not a key: name each of Ctrl-, Alt- and Shift- once")
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
    return InvalidCommand(f"{name!r} is not a key: {hint}; before them may stand Ctrl-, Alt-, Shift-")
