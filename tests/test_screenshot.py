"""``anyshell screenshot``: the screen of a recording as text, SVG and PNG."""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from anyshell.cli.commands.recordings.picture import has_font

from .cli_program import anyshell, within
from .conftest import missing
from .recordings import v2

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def text(file: Path, *options: str) -> str:
    """The screen as text."""
    done = within("screenshot", str(file), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def svg(file: Path, *options: str) -> ET.Element:
    """The screen as SVG, which XML's own parser reads."""
    return ET.fromstring(text(file, "--format", "svg", *options))


def shown(picture: ET.Element) -> list[tuple[float, float, str]]:
    """The texts with their positions: row, column and text. The row of the title is below 0."""
    found = []
    for element in picture.iter(f"{SVG}text"):
        x, y = float(element.get("x", "")), float(element.get("y", ""))
        content = (element.text or "").replace("\xa0", " ")
        title = (element.get("class") or "").endswith("-title")
        if content == "\n":
            continue  # rich marks the end of a row
        found.append((-1.0 if title else round((y - 20) / 24.4, 1), round(x / 12.2, 2), content))
    return found


# # --- the chosen moment ----------------------------------------------------------------------------------------


def test_screenshot_shows_the_end_or_the_moment_of_at(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (1.0, "one "), (2.0, "two "), (3.0, "three"))
    assert text(file) == "one two three\n"
    assert text(file, "--at", "0.5") == "\n"
    assert text(file, "--at", "2") == "one two\n"
    assert text(file, "--at", "2.999") == "one two\n"
    assert text(file, "--at", "99") == "one two three\n"


def test_last_alternate_screen_is_shown_after_the_program_left(tmp_path: Path) -> None:
    """An editor leaves a blank screen."""
    file = v2(
        tmp_path / "f.cast",
        *(
            (0.1, "\x1b[?1049h\x1b[Hfirst"),
            (0.2, "\x1b[2J\x1b[Hlast"),
            (0.3, "\x1b[2J"),
            (0.4, "\x1b[?1049l"),
        ),
    )
    assert text(file) == "last\n"
    assert text(file, "--at", "0.4") == "\n"


def test_main_screen_with_text_is_preferred_to_the_last_alternate_one(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "$ vi\r\n\x1b[?1049h"), (0.2, "editing"), (0.3, "\x1b[?1049l$ "))
    assert text(file) == "$ vi\n$\n"


def test_blank_screen_is_reported(tmp_path: Path) -> None:
    done = within("screenshot", str(v2(tmp_path / "f.cast", (0.1, "\x1b[2J"))))
    assert (done.returncode, done.stdout) == (0, b"\n")
    assert done.stderr.splitlines() == [b"anyshell: the screen is blank"]


@pytest.mark.skipif(sys.platform == "win32", reason="a named pipe of POSIX")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "one"), (0.2, "\x1b[2J"))
    done = subprocess.run(
        ["sh", "-c", 'cat "$2" | "$1" -m anyshell screenshot /dev/stdin', "sh", sys.executable, file],
        capture_output=True,
        timeout=40,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"\n", b"anyshell: the screen is blank\n")


def test_screenshot_follows_a_resize(tmp_path: Path) -> None:
    events = ((0.1, "a" * 30), (0.2, "40x5", "r"), (0.3, "\x1b[2J\x1b[H" + "b" * 50))
    file = v2(tmp_path / "f.cast", *events, width=20, height=4)
    assert text(file, "--at", "0.1") == "a" * 20 + "\n" + "a" * 10 + "\n"
    assert text(file) == "b" * 40 + "\n" + "b" * 10 + "\n"


# # --- the drawing ----------------------------------------------------------------------------------------------


def test_an_svg_has_the_text_in_its_columns(tmp_path: Path) -> None:
    content = "ab \x1b[31m<red> &\x1b[m c\r\n日本|e\u0301|🙂|\r\n\x1b[24;74Hthe end"
    picture = svg(v2(tmp_path / "f.cast", (0.1, content), title="A <title> & more"))
    pieces = shown(picture)
    assert pieces[0] == (-1.0, pieces[0][1], "A <title> & more")
    assert (0.0, 0.0, "ab ") in pieces
    assert (0.0, 3.0, "<red> &") in pieces
    second = [piece for piece in pieces if piece[0] == 1.0]
    assert [(column, content) for _, column, content in second] == [
        *((0.0, "日"), (2.0, "本"), (4.0, "|"), (5.0, "e\u0301"), (6.0, "|"), (7.0, "🙂"), (9.0, "|")),
    ]
    assert (23.0, 0.0, " " * 73 + "the end") in pieces  # to the last column of the last row
    assert float(picture.get("height", "")) > 24 * 24.4


def test_an_svg_has_the_colours(tmp_path: Path) -> None:
    content = "\x1b[38;2;1;2;3mown\x1b[m\x1b[48;5;46mbehind\x1b[m\x1b[1;3;4;9mall\x1b[m\x1b[7mreverse\x1b[m\x1b[8mhidden\x1b[m"
    drawn = text(v2(tmp_path / "f.cast", (0.1, content)), "--format", "svg")
    classes = dict(re.findall(r"\.terminal-\d+-(r\d+) \{ (.*?) \}", drawn))
    of = {
        found[1]: classes[found[0]]
        for found in re.findall(r'<text class="terminal-\d+-(r\d+)"[^>]*>(.*?)</text>', drawn)
    }
    assert of["own"] == "fill: #010203"
    assert 'fill="#00ff00"' in drawn
    assert {"font-weight: bold", "text-decoration: line-through"} <= {
        rule.strip() for rule in of["all"].split(";")
    }
    assert of["reverse"] == "fill: #292929"
    assert "hidden" not in drawn
    file = v2(tmp_path / "g.cast", (0.1, "a\x1b[8mhidden\x1b[mb"))
    assert text(file) == "a      b\n"


def test_the_colours_of_the_recordings_own_terminal_are_taken(tmp_path: Path) -> None:
    palette = ":".join(f"#0000{number:02x}" for number in range(16))
    theme = {"fg": "#abcdef", "bg": "#123456", "palette": palette}
    file = v2(tmp_path / "f.cast", (0.1, "plain \x1b[31mred \x1b[92mbright"), theme=theme)
    drawn = text(file, "--format", "svg")
    assert all(colour in drawn for colour in ("#abcdef", "#123456", "#000001", "#00000a"))


def test_an_svg_fetches_nothing_and_runs_nothing(tmp_path: Path) -> None:
    content = "</text><script>alert(1)</script> &lt; \" ' ]]> {0} {unique_id} %s [b]x[/b] :smile:"
    title = '</text><image href="http://example.com/x"/>\x1b]0;x\x07\n\u202e'
    file = v2(tmp_path / "f.cast", (0.1, content), title=title)
    picture = svg(file)
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= {
        *("svg", "style", "defs", "clipPath", "rect", "g", "circle", "text"),
    }
    assert content in "".join(piece for row, _, piece in shown(picture) if row >= 0)
    drawn = text(file, "--format", "svg").replace("http://www.w3.org/2000/svg", "")
    assert "url(http" not in drawn
    assert "@font-face" not in drawn
    assert "@import" not in drawn
    assert " href" not in re.sub(r">[^<]*<", "><", drawn)


@pytest.mark.parametrize(
    "code", [0x0, 0x7F, 0x9B, 0xFFFE, 0xFFFF, 0x10FFFF, 0xD800, 0x200D, 0xFE0F, 0x1F468, 0xAD]
)
def test_no_character_breaks_an_svg_or_shifts_later_text(tmp_path: Path, code: int) -> None:
    file = tmp_path / "f.cast"
    events = [[0.1, "o", f"{chr(code)}a{chr(code)}\x1b[1;5Hend"]]
    lines: list[object] = [{"version": 2, "width": 80, "height": 24, "title": chr(code)}, *events]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (0.0, 4.0, "end") in [
        (row, column + piece.index("end"), "end") for row, column, piece in shown(svg(file)) if "end" in piece
    ]


def test_the_same_screen_gives_the_same_svg(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "\x1b[31mred"))
    assert text(file, "--format", "svg") == text(file, "--format", "svg")


# --- PNG ------------------------------------------------------------------------------------------------------


@pytest.fixture
def rasteriser() -> None:
    try:
        import resvg_py  # noqa: F401 - whether it is there
    except ImportError as error:
        missing("resvg", f"pip install resvg-py ({error})")
    if not has_font():
        missing("a monospaced font", "install fonts-dejavu-core")


def pixels(png: bytes) -> tuple[int, int, list[bytes]]:
    """The width and height of a PNG of 8-bit RGBA, and its rows (https://www.w3.org/TR/png-3/, 9)."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, width, height = 8, b"", 0, 0
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack_from(">IIBB", data)
            assert (depth, colours) == (8, 6)
        elif kind == b"IDAT":
            packed += data
        at += 12 + size
    raw, line = zlib.decompress(packed), 4 * width
    rows: list[bytes] = []
    above = bytearray(line)
    for start in range(0, len(raw), line + 1):
        how, row = raw[start], bytearray(raw[start + 1 : start + 1 + line])
        for i in range(line):
            a, b, c = (row[i - 4], above[i], above[i - 4]) if i >= 4 else (0, above[i], 0)
            nearest = min((a, b, c), key=lambda value, p=a + b - c: abs(p - value))  # type: ignore[misc]  # mypy knows no default of a lambda's
            row[i] = (row[i] + (0, a, b, (a + b) // 2, nearest)[how]) & 0xFF
        rows.append(bytes(row))
        above = row
    return width, height, rows


@pytest.mark.usefixtures("rasteriser")
def test_a_png_has_the_letters_and_the_colours(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "MM\r\n\x1b[48;2;1;200;3m   \x1b[m"), width=12, height=3)
    done = within("screenshot", str(file), "-o", str(tmp_path / "f.png"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    width, height, rows = pixels((tmp_path / "f.png").read_bytes())
    assert (width, height) == (2 * 165, 2 * 123)  # two pixels for each of the SVG
    # The text begins at 9, 41; a column is 12.2 wide and a row 24.4 high.
    first = b"".join(row[4 * 18 : 4 * 66] for row in rows[2 * 42 : 2 * 62])
    assert len({first[at : at + 4] for at in range(0, len(first), 4)}) > 4  # letters, with soft edges
    second = rows[int(2 * (41 + 24.4 + 12))]
    assert second[4 * 2 * 20 : 4 * 2 * 20 + 4] == bytes((1, 200, 3, 255))


@pytest.mark.usefixtures("rasteriser")
@pytest.mark.parametrize("drawn", ["____", "gjpqy", "\x1b[4mgy\x1b[m", "\x1b[44mgy_\x1b[m"])
def test_the_last_row_is_drawn_as_the_first(tmp_path: Path, drawn: str) -> None:
    """The last row keeps its descenders, underscores and underlines. Five rows of 24.4 are whole pixels, so the two rows are the same."""
    file = v2(tmp_path / "f.cast", (0.1, drawn + "\r\n" * 5 + drawn), width=8, height=6)
    within("screenshot", str(file), "-o", str(tmp_path / "f.png"))
    _, _, rows = pixels((tmp_path / "f.png").read_bytes())
    top, bottom, down = 2 * 41, 2 * (41 + 30), 2 * 122
    first = [row[4 * 18 : -4 * 18] for row in rows[top:bottom]]
    assert first == [row[4 * 18 : -4 * 18] for row in rows[top + down : bottom + down]]
    nothing = first[-1]
    tail = max(number for number, row in enumerate(first) if row != nothing)
    assert tail > 2 * 23  # below the place where rich cuts the row


def test_missing_png_renderer_error_has_an_install_hint(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "text"))
    (tmp_path / "resvg_py.py").write_text("raise ModuleNotFoundError('not here')\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))}
    done = anyshell("screenshot", str(file), "-o", str(tmp_path / "f.png"), env=env)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"pip install 'anyshell[png]'" in done.stderr
    assert not (tmp_path / "f.png").exists()


@pytest.mark.usefixtures("rasteriser")
def test_a_png_that_would_take_all_memory_is_refused(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "text"), width=1000, height=1000)
    done = within("screenshot", str(file), "-o", str(tmp_path / "f.png"))
    assert done.returncode == 125
    assert b"too large: write an .svg" in done.stderr
    assert text(file, "--format", "txt") == "text\n"


# # --- the target -----------------------------------------------------------------------------------------------


def test_suffix_of_the_name_chooses_the_format(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "text"))
    for name, begin in (("a.svg", b"<svg "), ("b.TXT", b"text\n"), ("c.d.svg", b"<svg ")):
        assert within("screenshot", str(file), "-o", str(tmp_path / name)).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert within("screenshot", str(file), "-o", str(tmp_path / "x"), "--format", "txt").returncode == 0
    assert (tmp_path / "x").read_bytes() == b"text\n"
    assert text(file, "-o", "-") == "text\n"


def test_name_without_a_known_suffix_is_wrong_usage(tmp_path: Path) -> None:
    done = within("screenshot", "f.cast", "-o", "picture.jpg")
    assert done.returncode == 2
    assert b"'picture.jpg' does not end with .svg, .png or .txt" in done.stderr


def test_existing_file_is_replaced_by_a_private_file(tmp_path: Path) -> None:
    file, target, other = v2(tmp_path / "f.cast", (0.1, "new")), tmp_path / "a.txt", tmp_path / "other"
    other.write_text("other")
    target.write_text("old and longer")
    assert within("screenshot", str(file), "-o", str(target)).returncode == 0
    assert target.read_bytes() == b"new\n"
    if sys.platform != "win32":
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        target.unlink()
        target.symlink_to(other)
        assert within("screenshot", str(file), "-o", str(target)).returncode == 0
        assert (target.is_symlink(), target.read_bytes()) == (False, b"new\n")
    assert other.read_text() == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "f.cast", "other"]


@pytest.mark.skipif(sys.platform == "win32", reason="what is not a file is not a path there")
def test_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "text"))
    done = anyshell("screenshot", str(file), "-o", "/dev/stdout", "--format", "txt")
    assert (done.returncode, done.stdout) == (0, b"text\n")
    assert within("screenshot", str(file), "-o", os.devnull, "--format", "txt").returncode == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_unwritable_target_is_named(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "text"))
    for target in (tmp_path / "none" / "a.txt", tmp_path):
        done = within("screenshot", str(file), "-o", str(target), "--format", "txt")
        assert done.returncode == 125
        assert done.stderr.startswith(b"anyshell: ")
        assert tmp_path.name.encode() in done.stderr
    # The error has the given name, and not the name of a temporary file beside it.
    done = within("screenshot", str(file), "-o", str(tmp_path / "none" / "a.txt"))
    assert done.stderr.decode().rstrip().endswith(str(tmp_path / "none" / "a.txt"))


def test_screenshot_does_not_replace_its_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = v2(tmp_path / "f.txt", (0.1, "text"))
    before = file.read_bytes()
    monkeypatch.chdir(tmp_path)
    for target in (str(file), "f.txt", os.path.join(".", "f.txt")):
        done = within("screenshot", "f.txt", "-o", target)
        assert done.returncode == 2
        assert b"is the recording itself" in done.stderr
    assert file.read_bytes() == before
    if sys.platform != "win32":
        link = tmp_path / "link.txt"
        link.symlink_to(file)
        assert within("screenshot", str(link), "-o", str(file)).returncode == 2
        assert within("screenshot", str(file), "-o", str(link)).returncode == 0
        assert (link.is_symlink(), link.read_text()) == (False, "text\n")
    assert file.read_bytes() == before


# # --- broken recordings ----------------------------------------------------------------------------------------


def test_broken_line_is_named_and_earlier_events_can_be_drawn(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (1.0, "before"), (2.0, "more"))
    with file.open("a") as opened:
        opened.write("broken\n")
    done = within("screenshot", str(file), "-o", str(tmp_path / "f.txt"))
    assert done.returncode == 125
    assert done.stderr.decode().startswith(f"anyshell: {file}: line 4: ")
    assert done.stderr.rstrip().endswith(b"(what comes before can be drawn: --at 2)")
    assert not (tmp_path / "f.txt").exists()
    assert text(file, "--at", "1") == "before\n"
    assert text(file, "--at", "2") == "beforemore\n"
    assert within("screenshot", str(file), "--at", "2.5").returncode == 125


def test_message_names_the_moment_of_a_killed_programs_last_screen(tmp_path: Path) -> None:
    file = tmp_path / "f.cast"
    file.write_text(
        '{"version": 3, "term": {"cols": 80, "rows": 24}}\n[0.004345, "o", "one "]\n[0.1, "o", "two"]\n[0.2, "o", "thr'
    )
    done = within("screenshot", str(file))
    assert done.returncode == 125
    assert b"line 4 is cut off" in done.stderr
    found = re.search(rb"--at ([0-9.]+)\)", done.stderr)
    assert found is not None
    assert text(file, "--at", found[1].decode()) == "one two\n"


@pytest.mark.parametrize(
    "content", ["", "no header\n", '{"version": 2, "width": 80, "height": 24}\nbroken\n']
)
def test_broken_file_without_events_gets_no_advice(tmp_path: Path, content: str) -> None:
    file = tmp_path / "f.cast"
    file.write_text(content)
    done = within("screenshot", str(file))
    assert done.returncode == 125
    assert b"--at" not in done.stderr


def test_a_terminal_that_is_too_large_is_refused(tmp_path: Path) -> None:
    done = within("screenshot", str(v2(tmp_path / "f.cast", (0.1, "text"), width=5000)))
    assert done.returncode == 125
    assert b"a terminal of 5,000 columns and 24 rows cannot be drawn" in done.stderr


def test_terminal_of_one_column_is_drawn_with_two(tmp_path: Path) -> None:
    assert text(v2(tmp_path / "f.cast", (0.1, "ab"), width=1, height=1)) == "ab\n"


def test_pictures_inside_of_a_recording_are_left_out(tmp_path: Path) -> None:
    content = "before\x1bPq" + "#0~~\r\n" * 5000 + "\x1b\\\x1b]1337;File=:" + "A" * 20_000 + "\x07after"
    assert text(v2(tmp_path / "f.cast", (0.1, content))) == "beforeafter\n"
