"""The mouse, as xterm reports it to a program that has asked for it (its control sequences, "Mouse Tracking")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..output import InputModes

Action = Literal["press", "release", "move"]

LARGEST_PLAIN = 223
"""Last column, and row, in which the old form can report the mouse."""

WHEEL_UP, WHEEL_DOWN = 64, 65

_RELEASED, _MOVES = 3, 32


def report(
    modes: InputModes,
    action: Action,
    button: int,
    column: int,
    row: int,
    *,
    shift: bool = False,
    alt: bool = False,
    ctrl: bool = False,
) -> bytes:
    """The bytes for an event of the mouse; empty when the program has not asked for it.

    Args:
        modes: The modes that it has asked for.
        action: The action.
        button: 0 to 2, the left, the middle and the right one, `WHEEL_UP` or `WHEEL_DOWN`; -1 is no button, of a move.
        column: Where, from 0.
        row: Where, from 0.
        shift: Whether that key is held; so the others.
        alt: See above.
        ctrl: See above.
    """
    wanted = {None: (), "press": ("press",)}.get(modes.mouse, ("press", "release", "move"))
    if action not in wanted or (button > 2 and action == "release"):
        return b""
    if action == "move" and (modes.mouse == "click" or (modes.mouse == "drag" and button < 0)):
        return b""
    code = _RELEASED if button < 0 else button
    if modes.mouse != "press":
        code += 4 * shift + 8 * alt + 16 * ctrl
    if action == "move":
        code += _MOVES
    if modes.mouse_sgr:
        return b"\x1b[<%d;%d;%d" % (code, column + 1, row + 1) + (b"m" if action == "release" else b"M")
    if max(column, row) >= LARGEST_PLAIN:
        return b""
    if action == "release":
        code = code & ~3 | _RELEASED
    return b"\x1b[M" + bytes((32 + code, 33 + column, 33 + row))
