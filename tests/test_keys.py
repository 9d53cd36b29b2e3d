"""The bytes that a terminal sends for a key."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from anyshell import InvalidCommand
from anyshell.terminal.keys import ALIASES, KEYS, encode

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "keys.md"

WRITTEN = {"ESC": 27, "CR": 13, "TAB": 9, "BS": 8, "DEL": 127, "NUL": 0, "SP": 32}


def written(text: str) -> bytes:
    """The bytes of a notation on the page."""
    return bytes(WRITTEN.get(part) or (0 if part == "NUL" else ord(part)) for part in text.split())


def rows() -> dict[str, list[str]]:
    found = (line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `"))
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in found}


def test_page_has_every_key_with_its_bytes() -> None:
    told = rows()
    assert set(told) == {*KEYS, *ALIASES}
    for alias, name in ALIASES.items():
        assert told[alias][0].strip("` |") == name
    for name, key in KEYS.items():
        sends, application, modified = (cell.strip(" |") for cell in told[name])
        assert written(sends.strip("`")) == encode(name) == key.sends
        assert written(application.strip("`") or sends.strip("`")) == encode(name, application_cursor=True)
        if modified.startswith("`"):
            assert written(modified.strip("`")).replace(b"m", b"6") == encode(f"ctrl-shift-{name}")
        else:
            others = dict(re.findall(r"([\w-]+) `([^`]*)`", modified))
            assert len(others) == len(key.others)
            for modifiers, text in others.items():
                assert written(text) == encode(f"{modifiers}-{name}")


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Up", "kcuu1"),
        ("Down", "kcud1"),
        ("Right", "kcuf1"),
        ("Left", "kcub1"),
        ("Home", "khome"),
        ("End", "kend"),
        ("Insert", "kich1"),
        ("Delete", "kdch1"),
        ("PageUp", "kpp"),
        ("PageDown", "knp"),
        ("Shift-Tab", "kcbt"),
        ("Shift-Left", "kLFT"),
        ("Shift-Delete", "kDC"),
        ("Shift-F5", "kf17"),
        *((f"F{number}", f"kf{number}") for number in range(1, 13)),
    ],
)
def test_bytes_of_a_key_match_terminfo(name: str, capability: str) -> None:
    """terminfo has the keys of the mode that programs request (smkx)."""
    if sys.platform == "win32":
        pytest.skip("there is no terminfo on Windows")
    import curses

    curses.setupterm("xterm-256color")
    assert encode(name, application_cursor=True) == curses.tigetstr(capability)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Ctrl-C", b"\x03"),
        ("ctrl-c", b"\x03"),
        ("C-c", b"\x03"),
        ("CTRL+D", b"\x04"),
        ("Ctrl-[", b"\x1b"),
        ("Ctrl-?", b"\x7f"),
        ("Ctrl-Space", b"\0"),
        ("Ctrl-@", b"\0"),
        ("Alt-x", b"\x1bx"),
        ("M-X", b"\x1bX"),
        ("Alt-é", b"\x1b\xc3\xa9"),
        ("Ctrl-Alt-c", b"\x1b\x03"),
        ("Shift-a", b"A"),
        ("q", b"q"),
        ("Q", b"Q"),
        ("-", b"-"),
        ("Alt--", b"\x1b-"),
        ("+", b"+"),
        (" ", b" "),
        ("c", b"c"),
        ("日", "日".encode()),
        ("esc", b"\x1b"),
        ("ENTER", b"\r"),
        ("pgup", b"\x1b[5~"),
        ("Ctrl-Right", b"\x1b[1;5C"),
        ("Alt-Shift-F3", b"\x1b[1;4R"),
        ("Ctrl-Delete", b"\x1b[3;5~"),
    ],
)
def test_bytes_of_a_key_match_xterm(name: str, data: bytes) -> None:
    assert encode(name) == data


def test_a_key_with_modifiers_is_the_same_in_every_mode() -> None:
    assert encode("Ctrl-Up", application_cursor=True) == encode("Ctrl-Up") == b"\x1b[1;5A"


@pytest.mark.parametrize(
    "name", ["Ctrl-Shift-a", "Ctrl-1", "Ctrl-é", "Shift-1", "Shift-Enter", "Ctrl-Tab", "Shift-ß"]
)
def test_indistinguishable_keys_are_refused(name: str) -> None:
    with pytest.raises(InvalidCommand, match="no way to send"):
        encode(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("PageUpp", "PageUp"),
        ("Entr", "Enter"),
        ("F13", "F1"),
        ("Ctrl-Lef", "Left"),
        ("Escap", "Esc"),
        ("ab", "Tab"),
    ],
)
def test_unknown_key_error_names_the_nearest_key(name: str, near: str) -> None:
    with pytest.raises(InvalidCommand, match=rf"not a key: nearest are .*\b{near}\b"):
        encode(name)


@pytest.mark.parametrize("name", ["", "Ctrl-", "\n", "\0", "x" * 64])
def test_dissimilar_key_error_lists_all_keys(name: str) -> None:
    with pytest.raises(InvalidCommand, match="is not a key: there are ") as caught:
        encode(name)
    message = str(caught.value)
    listed = re.split(": there are |; before them ", message)[1].split(", ")
    assert listed == [
        "single characters",
        *(key for key in KEYS if not re.fullmatch(r"F\d+", key)),
        "F1 to F12",
    ]
    assert len(message) < 600


def test_a_key_must_be_a_name() -> None:
    with pytest.raises(InvalidCommand, match="not int"):
        encode(3)


@pytest.mark.parametrize("name", ["Ctrl-Ctrl-A", "C-Control-a", "Alt-Ctrl-Meta-x", "s-Shift-Tab"])
def test_repeated_modifier_is_refused(name: str) -> None:
    with pytest.raises(InvalidCommand, match=r"name each of Ctrl-, Alt- and Shift- once"):
        encode(name)


@pytest.mark.parametrize("name", ["Ctrl-" * 1_000_000, "Ctrl-" * 1_000_000 + "A", "x" * 65])
def test_overlong_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidCommand, match=r"at most 64 characters, not [0-9,]+: ") as caught:
        encode(name)
    assert len(str(caught.value)) < 200
