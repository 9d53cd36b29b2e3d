"""Reports of the mouse to programs that ask for mouse events, as xterm sends the reports (ctlseqs, "Mouse Tracking")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..output import InputModes

Action = Literal["press", "release", "move"]

LARGEST_PLAIN = 223
"""Columns, and rows, in which the old form can report the mouse; events beyond are not reported."""

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
    """Return the bytes for a mouse event; empty if the program has not asked for the event, or the form cannot report it.

    Args:
        modes: The modes that the program has set.
        action: The action.
        button: 0 to 2 for the left, the middle and the right button; `WHEEL_UP` or `WHEEL_DOWN`; -1 for a move without a button.
        column: The column of the event, from 0.
        row: The row of the event, from 0.
        shift: Whether the Shift key is held.
        alt: Whether the Alt key is held.
        ctrl: Whether the Ctrl key is held.
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
