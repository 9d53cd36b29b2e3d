"""Keys in kitty's keyboard protocol, for programs that have asked for the protocol.

The protocol is described at https://sw.kovidgoyal.net/kitty/keyboard-protocol/. Three flags of the protocol are known:
1, keys that cannot be taken for others; 8, all keys as sequences; 16, together with 8, the text that a key makes.
"""

from __future__ import annotations

DISAMBIGUATE, ALL_KEYS, TEXT = 1, 8, 16

_SHIFT, _ALT, _CTRL = 1, 2, 4

_CODES = {
    "escape": 27,
    "esc": 27,
    "enter": 13,
    "return": 13,
    "tab": 9,
    "backspace": 127,
    "space": 32,
    " ": 32,
}
"""The numbers of keys that the protocol sends as numbers, by their names in small letters."""

_LETTERS = {
    "up": b"A",
    "down": b"B",
    "right": b"C",
    "left": b"D",
    "end": b"F",
    "home": b"H",
    "f1": b"P",
    "f2": b"Q",
    "f4": b"S",
}

_TILDES = {
    "insert": 2,
    "ins": 2,
    "delete": 3,
    "del": 3,
    "pageup": 5,
    "pgup": 5,
    "pagedown": 6,
    "pgdn": 6,
    "f3": 13,
    "f5": 15,
    "f6": 17,
    "f7": 18,
    "f8": 19,
    "f9": 20,
    "f10": 21,
    "f11": 23,
    "f12": 24,
}

_AS_BEFORE = frozenset(("enter", "return", "tab", "backspace"))
"""Keys that without modifiers are sent as without the protocol: a person must be able to type 'reset' after a crash."""


def encode(key: str, modifiers: int, flags: int) -> bytes | None:
    """Return the bytes for a key; ``None`` when the bytes are the same without the protocol.

    Args:
        key: One character, or a key's name in any case.
        modifiers: The sum of Shift 1, Alt 2, Ctrl 4.
        flags: The flags that the program has set.
    """
    name = key if len(key) == 1 else key.lower()
    if name in _LETTERS:
        return b"\x1b[" + (b"1;%d" % (1 + modifiers) if modifiers else b"") + _LETTERS[name]
    if name in _TILDES:
        return b"\x1b[%d" % _TILDES[name] + (b";%d" % (1 + modifiers) if modifiers else b"") + b"~"
    everything = bool(flags & ALL_KEYS)
    text = ""
    if name in _CODES:
        code = _CODES[name]
        if not everything and not modifiers and (name in _AS_BEFORE or code == 32):
            return None
        if code == 32:
            if not everything and modifiers == _SHIFT:
                return b" "
            text = " "
    elif len(key) == 1:
        if not everything and not modifiers & (_ALT | _CTRL):
            return None
        small = key.lower()
        if small != key and len(small) == 1:
            modifiers |= _SHIFT
        code = ord(small if len(small) == 1 else key)
        text = key.upper() if modifiers & _SHIFT and len(key.upper()) == 1 else key
    else:
        return None
    sent = b"\x1b[%d" % code
    shown = bool(text) and everything and bool(flags & TEXT) and not modifiers & (_ALT | _CTRL)
    if modifiers or shown:
        sent += b";%d" % (1 + modifiers) if modifiers else b";"
    if shown:
        sent += b";%d" % ord(text)
    return sent + b"u"
