"""The bytes of kitty's keyboard protocol for keys, and of mouse reports."""

from __future__ import annotations

import pytest

from anyshell import Terminal
from anyshell.output import InputModes, TerminalOutput
from anyshell.output.screen.emulator import DEEPEST_KEYBOARD
from anyshell.terminal import mouse
from anyshell.terminal.keys import KEYS, encode

PLAIN, ALL, ALL_WITH_TEXT = 1, 9, 25


@pytest.mark.parametrize(
    ("key", "flags", "sent"),
    [
        # Examples from the page of the protocol, and from its tables
        ("Escape", PLAIN, b"\x1b[27u"),
        ("Ctrl-c", PLAIN, b"\x1b[99;5u"),
        ("Alt-x", PLAIN, b"\x1b[120;3u"),
        ("Ctrl-Shift-a", PLAIN, b"\x1b[97;6u"),
        ("Alt-A", PLAIN, b"\x1b[97;4u"),
        ("Shift-Enter", PLAIN, b"\x1b[13;2u"),
        ("Ctrl-Enter", PLAIN, b"\x1b[13;5u"),
        ("Shift-Tab", PLAIN, b"\x1b[9;2u"),
        ("Ctrl-Space", PLAIN, b"\x1b[32;5u"),
        ("Ctrl-i", PLAIN, b"\x1b[105;5u"),
        ("Up", PLAIN, b"\x1b[A"),
        ("Ctrl-Up", PLAIN, b"\x1b[1;5A"),
        ("F1", PLAIN, b"\x1b[P"),
        ("F3", PLAIN, b"\x1b[13~"),
        ("Shift-F3", PLAIN, b"\x1b[13;2~"),
        ("F12", PLAIN, b"\x1b[24~"),
        ("Delete", PLAIN, b"\x1b[3~"),
        ("PgUp", PLAIN, b"\x1b[5~"),
        # Without modifiers these keys send their legacy bytes, so that a person can type 'reset' after a crash
        ("Enter", PLAIN, b"\r"),
        ("Tab", PLAIN, b"\t"),
        ("Backspace", PLAIN, b"\x7f"),
        ("a", PLAIN, b"a"),
        ("A", PLAIN, b"A"),
        ("Space", PLAIN, b" "),
        ("Enter", ALL, b"\x1b[13u"),
        ("a", ALL, b"\x1b[97u"),
        ("A", ALL, b"\x1b[97;2u"),
        ("a", ALL_WITH_TEXT, b"\x1b[97;;97u"),
        ("A", ALL_WITH_TEXT, b"\x1b[97;2;65u"),
        ("Ctrl-a", ALL_WITH_TEXT, b"\x1b[97;5u"),
        ("ß", ALL_WITH_TEXT, b"\x1b[223;;223u"),
    ],
)
def test_bytes_of_a_key_match_the_protocol(key: str, flags: int, sent: bytes) -> None:
    assert encode(key, keyboard=flags) == sent


@pytest.mark.parametrize("name", KEYS)
def test_every_key_can_be_encoded_with_every_modifier(name: str) -> None:
    for modifiers in ("", "Shift-", "Alt-", "Ctrl-", "Ctrl-Alt-Shift-"):
        for flags in (PLAIN, ALL, ALL_WITH_TEXT):
            assert encode(modifiers + name, keyboard=flags)


def keyboard(data: bytes, *, scrollback: int | None = 0) -> tuple[int, bytes]:
    answers: list[bytes] = []
    output = TerminalOutput(Terminal(), answer=answers.append, scrollback=scrollback)
    output.feed(data)
    return output.modes.keyboard, b"".join(answers)


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        (b"\x1b[>1u", 1),
        (b"\x1b[>31u", 25),  # releases and other layouts are unknown, and so not announced
        (b"\x1b[>1u\x1b[>9u", 9),
        (b"\x1b[>1u\x1b[>9u\x1b[<u", 1),
        (b"\x1b[>1u\x1b[>9u\x1b[<9u", 0),
        (b"\x1b[<u", 0),
        (b"\x1b[=9u", 9),
        (b"\x1b[=1u\x1b[=8;2u", 9),
        (b"\x1b[=9u\x1b[=8;3u", 1),
        (b"\x1b[>1u\x1b[?1049h", 0),
        (b"\x1b[>1u\x1b[?1049h\x1b[>9u\x1b[?1049l", 1),
        (b"\x1b[>1u\x1bc", 0),
        (b"\x1b[>1u" + b"\x1b[>9u" * 1000 + b"\x1b[<%du" % (DEEPEST_KEYBOARD - 1), 9),
        (b"\x1b[>1u" + b"\x1b[>9u" * 1000 + b"\x1b[<%du" % DEEPEST_KEYBOARD, 0),
    ],
)
def test_keyboard_flags_of_a_program_are_tracked(data: bytes, flags: int) -> None:
    assert keyboard(data) == (flags, b"")
    assert keyboard(data + b"\x1b[?u") == (flags, b"\x1b[?%du" % flags)


def test_keyboard_protocol_is_answered_without_scrollback() -> None:
    """A program waits for the answer to its query, whether or not colours are kept."""
    assert keyboard(b"\x1b[?u", scrollback=None) == (0, b"\x1b[?0u")
    assert keyboard(b"\x1b[>1u\x1b[?u", scrollback=None) == (1, b"\x1b[?1u")


def test_keyboard_protocol_is_answered_at_once_in_a_flood() -> None:
    answers: list[bytes] = []
    output = TerminalOutput(Terminal(), answer=answers.append, clock=lambda: 0.0)
    output.feed(b"\x1b[Hx" * 400_000)  # more than is drawn in a second: drawing is deferred
    output.feed(b"\x1b[?u")
    assert answers == [b"\x1b[?0u"]


SGR = InputModes(mouse="click", mouse_sgr=True)


@pytest.mark.parametrize(
    ("modes", "action", "button", "sent"),
    [
        (InputModes(), "press", 0, b""),
        (SGR, "press", 0, b"\x1b[<0;5;3M"),
        (SGR, "release", 0, b"\x1b[<0;5;3m"),
        (SGR, "press", 2, b"\x1b[<2;5;3M"),
        (SGR, "press", mouse.WHEEL_UP, b"\x1b[<64;5;3M"),
        (SGR, "press", mouse.WHEEL_DOWN, b"\x1b[<65;5;3M"),
        (SGR, "move", 0, b""),
        (InputModes(mouse="drag", mouse_sgr=True), "move", 0, b"\x1b[<32;5;3M"),
        (InputModes(mouse="drag", mouse_sgr=True), "move", -1, b""),
        (InputModes(mouse="move", mouse_sgr=True), "move", -1, b"\x1b[<35;5;3M"),
        (InputModes(mouse="click"), "press", 0, b"\x1b[M %#"),
        (InputModes(mouse="click"), "release", 0, b"\x1b[M#%#"),
        (InputModes(mouse="press"), "press", 0, b"\x1b[M %#"),
        (InputModes(mouse="press"), "release", 0, b""),
    ],
)
def test_mouse_report_has_the_requested_form(
    modes: InputModes, action: mouse.Action, button: int, sent: bytes
) -> None:
    assert mouse.report(modes, action, button, 4, 2) == sent


def test_mouse_report_includes_held_modifiers() -> None:
    assert mouse.report(SGR, "press", 0, 0, 0, shift=True, alt=True, ctrl=True) == b"\x1b[<28;1;1M"


def test_plain_mouse_form_omits_positions_out_of_range() -> None:
    modes = InputModes(mouse="click")
    assert mouse.report(modes, "press", 0, mouse.LARGEST_PLAIN - 1, 0) == b"\x1b[M \xff!"
    assert mouse.report(modes, "press", 0, mouse.LARGEST_PLAIN, 0) == b""
