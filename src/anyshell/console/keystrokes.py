"""The conversion of textual's key events to the bytes that a terminal sends, and the recognition of stop keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.keys import REPLACED_KEYS, key_to_character

from .._exceptions import InvalidCommand
from ..terminal import keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.events import Key

    from ..output import InputModes

_SHIFT, _ALT, _CTRL = 1, 2, 4

_MODIFIERS = {"shift": _SHIFT, "alt": _ALT, "meta": _ALT, "ctrl": _CTRL}

_NAMES = {name.lower(): name for name in keys.KEYS}

Stroke = tuple[int, str]
"""A pressed key: the sum of the modifiers (Shift 1, Alt 2, Ctrl 4), and the key's name or one character."""


def stroke(event: Key) -> Stroke | None:
    """Return the key of an event; ``None`` for a key that a program's terminal does not have, such as a volume key."""
    *before, base = event.key.split("+") if event.key != "+" else ("+",)
    if not set(before) <= _MODIFIERS.keys():
        return None
    modifiers = 0
    for name in before:
        modifiers |= _MODIFIERS[name]
    if base in _NAMES:
        return modifiers, _NAMES[base]
    character = (
        event.character
        if event.is_printable and not modifiers & _CTRL
        else key_to_character(REPLACED_KEYS.get(base, base))
    )
    if character is None or len(character) != 1 or not character.isprintable():
        return None
    if len(base) == 1 and modifiers & _SHIFT and character.upper() != character.lower():
        return modifiers & ~_SHIFT, base.upper()
    return modifiers & ~_SHIFT if event.is_printable else modifiers, character


def typed(pressed: Stroke, modes: InputModes) -> bytes:
    """Return the bytes for a key. If a terminal cannot send the key, drop modifiers, as xterm does, or return no bytes."""
    modifiers, key = pressed
    for fewer in dict.fromkeys((modifiers, modifiers & ~_SHIFT, modifiers & _ALT)):
        try:
            return keys.encode(
                _name(fewer, key), application_cursor=modes.application_cursor, keyboard=modes.keyboard
            )
        except InvalidCommand:
            continue
    return b""


def _name(modifiers: int, key: str) -> str:
    before = (("Ctrl-", _CTRL), ("Alt-", _ALT), ("Shift-", _SHIFT))
    return "".join(name for name, bit in before if modifiers & bit) + key


class StopKeys:
    """The keys with which a person stops a program.

    Args:
        names: The key sequences. Each is a key's name, such as ``Ctrl-]``, or several names with blanks between them, such as
            ``Escape Escape``. The keys of a sequence are pressed one after the other.
        seconds: The longest time between two keys of a sequence.

    Raises:
        InvalidCommand: A key does not exist, or no key is given.
    """

    def __init__(self, names: Sequence[str], seconds: float) -> None:
        if isinstance(names, str) or not names:
            raise InvalidCommand("name the keys that stop the program, such as ['Escape Escape', 'Ctrl-]']")
        self._sequences = [tuple(map(keys.parse, _words(name))) for name in names]
        self._seconds = seconds
        self._pressed: list[Stroke] = []
        self._last = 0.0
        self.shown = " or ".join(" ".join(_name(*key) for key in sequence) for sequence in self._sequences)

    def press(self, pressed: Stroke, now: float) -> bool:
        """Record a key, and return whether the key completes a stop sequence, and so must not go to the program."""
        if now - self._last > self._seconds:
            self._pressed.clear()
        self._last = now
        longest = max(map(len, self._sequences))
        self._pressed = [*self._pressed, pressed][-longest:]
        if any(tuple(self._pressed[-len(sequence) :]) == sequence for sequence in self._sequences):
            self._pressed.clear()
            return True
        return False


def _words(name: object) -> list[str]:
    words = name.split() if isinstance(name, str) else []
    if not words:
        raise InvalidCommand(
            f"{name!r} is not a key that can stop the program: name one such as 'Escape Escape'"
        )
    return words
