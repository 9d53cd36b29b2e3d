"""The file format of recorded terminals: writing, reading, and refusing invalid files."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell.errors import RecordingError
from anyshell.recordings import asciicast
from anyshell.recordings.asciicast import AsciicastWriter, Event, Header, Theme, read

THEME = Theme(foreground="#d0d0d0", background="#212121", palette=tuple(f"#0000{n:02x}" for n in range(8)))


def opened(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(text.encode() if isinstance(text, str) else text)


def events(text: str | bytes) -> list[Event]:
    return list(read(opened(text))[1])


def written(header: Header, *happened: Event) -> bytes:
    file = io.BytesIO()
    writer = AsciicastWriter(file, header)
    for event in happened:
        writer.write(event)
    return file.getvalue()


def test_a_recording_of_version_3_is_written_as_specified() -> None:
    header = Header(
        columns=90,
        rows=30,
        term="xterm-256color",
        term_version="VTE(7802)",
        theme=THEME,
        timestamp=1504467315,
        idle_time_limit=2.5,
        command="make",
        title="Demo",
        env={"SHELL": "/bin/zsh"},
        tags=("a", "b"),
    )
    data = written(header, Event(0.248, "o", "\x1b[1mä\n"), Event(1.25, "r", "80x24"), Event(1.25, "x", "0"))
    first, *rest = data.decode().splitlines()
    assert json.loads(first) == {
        "version": 3,
        "term": {
            "cols": 90,
            "rows": 30,
            "type": "xterm-256color",
            "version": "VTE(7802)",
            "theme": {"fg": "#d0d0d0", "bg": "#212121", "palette": ":".join(THEME.palette)},
        },
        "timestamp": 1504467315,
        "idle_time_limit": 2.5,
        "command": "make",
        "title": "Demo",
        "env": {"SHELL": "/bin/zsh"},
        "tags": ["a", "b"],
    }
    assert rest == [
        r'[0.248000, "o", "\u001b[1m\u00e4\n"]',
        '[1.002000, "r", "80x24"]',
        '[0.000000, "x", "0"]',
    ]
    assert data.endswith(b"\n")


def test_a_recording_of_version_2_is_written_as_specified() -> None:
    header = Header(version=2, term="vt100", timestamp=7, duration=1.5, theme=THEME, env={"SHELL": "/bin/sh"})
    first, *rest = written(header, Event(0.25, "o", "a"), Event(1.5, "i", "\x03")).decode().splitlines()
    assert json.loads(first) == {
        "version": 2,
        "width": 80,
        "height": 24,
        "timestamp": 7,
        "duration": 1.5,
        "env": {"SHELL": "/bin/sh", "TERM": "vt100"},
        "theme": {"fg": "#d0d0d0", "bg": "#212121", "palette": ":".join(THEME.palette)},
    }
    assert rest == ['[0.250000, "o", "a"]', r'[1.500000, "i", "\u0003"]']


def test_writer_refuses_other_versions_than_2_and_3() -> None:
    with pytest.raises(ValueError, match="version 2 or 3"):
        AsciicastWriter(io.BytesIO(), Header(version=1))


@pytest.mark.parametrize("version", [2, 3])
def test_written_header_is_read_back(version: int) -> None:
    header = Header(
        version=version,
        columns=2,
        rows=1000,
        term="xterm",
        theme=THEME,
        timestamp=1,
        idle_time_limit=0.5,
        command="ls\x07ü",
        title="",
        env={"SHELL": "/bin/sh", "TERM": "xterm"},
    )
    assert read(opened(written(header)))[0] == header


def test_unset_fields_are_left_out_of_the_header() -> None:
    assert json.loads(written(Header())) == {"version": 3, "term": {"cols": 80, "rows": 24}}
    assert json.loads(written(Header(version=2))) == {"version": 2, "width": 80, "height": 24}


@given(
    st.sampled_from([2, 3]),
    st.lists(st.tuples(st.floats(0, 1e5), st.sampled_from("oimq"), st.text()), max_size=30),
)
def test_written_events_are_read_back(version: int, happened: list[tuple[float, str, str]]) -> None:
    """Times are exact to the microsecond, for any number of added intervals."""
    happened.sort(key=lambda event: event[0])
    expected = [Event(*event) for event in happened]
    data = written(Header(version=version), *expected)
    assert data.isascii()
    found = events(data)
    assert [(event.code, event.data) for event in found] == [(event.code, event.data) for event in expected]
    assert [event.time for event in found] == pytest.approx([event.time for event in expected], abs=1e-6)


@given(st.text(st.characters(), min_size=1))
def test_every_text_can_be_written(text: str) -> None:
    """Text includes halves of surrogate pairs, which UTF-8 cannot encode."""
    found = events(written(Header(), Event(0, "o", text)))[0].data
    assert len(found) == len(text)
    assert all(
        a == b or (b == "\ufffd" and "\ud800" <= a <= "\udfff") for a, b in zip(text, found, strict=True)
    )


@given(st.binary())
def test_invalid_recording_raises_only_recording_error(data: bytes) -> None:
    with pytest.raises(RecordingError, match=r"line \d"):
        events(data)


@given(st.binary(), st.sampled_from([2, 3]))
def test_invalid_event_raises_only_recording_error(data: bytes, version: int) -> None:
    try:
        found = events(written(Header(version=version)) + data)
    except RecordingError as caught:
        error = caught
    else:
        assert all(isinstance(event.data, str) for event in found)
        return
    assert str(error).startswith("line ")


def test_backward_clock_gives_monotonic_times() -> None:
    data = written(Header(), Event(2, "o", "a"), Event(1, "o", "b"), Event(3, "o", "c"))
    assert [event.time for event in events(data)] == [2, 2, 3]
    assert [
        event.time for event in events('{"version": 2, "width": 1, "height": 1}\n[2,"o",""]\n[1,"o",""]')
    ] == [2, 2]


def test_comments_are_skipped_and_unknown_codes_kept() -> None:
    text = (
        '{"version": 3, "term": {"cols": 80, "rows": 24}}\n'
        '# a comment\n[1, "z", "new"]\n\n[1, "z", {"of": "no text"}]\n[1.5, "o", "a"]'
    )
    assert events(text) == [Event(1, "z", "new"), Event(3.5, "o", "a")]


def test_comments_are_written_only_in_version_3() -> None:
    file = io.BytesIO()
    writer = AsciicastWriter(file, Header())
    assert writer.comment("two\nlines") == len(b"# two lines\n")
    assert file.getvalue().endswith(b"}\n# two lines\n")
    assert events(file.getvalue()) == []
    assert AsciicastWriter(io.BytesIO(), Header(version=2)).comment("none") == 0


@pytest.mark.parametrize("indent", [None, 2])
def test_version_1_is_read(indent: int | None) -> None:
    found = {
        "version": 1,
        "width": 100,
        "height": 30,
        "duration": 1.5,
        "command": None,
        "title": "t",
        "env": {"TERM": "vt100", "SHELL": None},
        "stdout": [[0.25, "a"], [1, "b"]],
    }
    header, happened = read(opened(json.dumps(found, indent=indent)))
    assert header == Header(
        version=1, columns=100, rows=30, term="vt100", duration=1.5, title="t", env={"TERM": "vt100"}
    )
    assert list(happened) == [Event(0.25, "o", "a"), Event(1.25, "o", "b")]


def test_size_of_zero_becomes_the_default() -> None:
    """asciinema writes 0 where its terminal does not know its size."""
    header, _ = read(opened('{"version": 2, "width": 0, "height": 0}'))
    assert (header.columns, header.rows) == (80, 24)


def test_resize_event_has_a_size() -> None:
    assert Event(0, "r", "100x50").size == (100, 50)
    with pytest.raises(ValueError, match="COLUMNSxROWS"):
        _ = Event(0, "o", "100x50").size


V3 = '{"version": 3, "term": {"cols": 80, "rows": 24}}\n'
V2 = '{"version": 2, "width": 80, "height": 24}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file is empty"),
        ("no JSON", "line 1: this is not JSON"),
        ("[1, 2]", "line 1: this is not an asciicast"),
        ('"text"\nmore', "line 1: this is not an asciicast"),
        ('{"version": 4}', "line 1: the version of the format must be 1, 2 or 3, not 4"),
        ('{"version": true}', "not True"),
        ("{}", "not None"),
        ('{"version": 3}', "line 1: 'term' must be an object"),
        ('{"version": 3, "term": {"cols": 80}}', "line 1: 'rows' must be a whole number"),
        ('{"version": 2, "width": "80", "height": 24}', "line 1: 'width' must be a whole number"),
        ('{"version": 2, "width": 80, "height": -1}', "line 1: 'height' must be"),
        ('{"version": 2, "width": 80, "height": 24, "env": []}', "line 1: 'env' must be"),
        (
            '{"version": 2, "width": 80, "height": 24, "timestamp": "now"}',
            "line 1: 'timestamp' must be a number",
        ),
        (
            '{"version": 2, "width": 80, "height": 24, "idle_time_limit": 1e999}',
            "line 1: 'idle_time_limit' must",
        ),
        ('{"version": 2, "width": 80, "height": 24, "title": 5}', "line 1: 'title' must be a text"),
        ('{"version": 1, "width": 80, "height": 24}', "'stdout' must be a list"),
        ('{"version": 1, "width": 80, "height": 24, "stdout": [[1, "a"], [1]]}', "frame 2 of 'stdout'"),
        ('{\n"version": 1,\n"width" 80}', "line 3: this is not JSON"),
        (V3 + "# fine\nno JSON\n", "line 3: this is not JSON"),
        (V3 + "# fine\n[\n", "line 3: this is not JSON"),
        (V3 + "{}\n", "line 2: an event must be a JSON array"),
        (V3 + '[1, "o"]\n', "line 2: an event must be a JSON array"),
        (V3 + '[-1, "o", ""]\n', "line 2: the time must be seconds"),
        (V3 + '[NaN, "o", ""]\n', "line 2: this is not JSON that can be read: NaN is not a number"),
        (V3 + '[1e999, "o", ""]\n', "line 2: the time must be seconds"),
        (V3 + '[true, "o", ""]\n', "line 2: the time must be seconds"),
        (V3 + '[300000000, "o", ""]\n[300000000, "o", ""]\n', "line 3 is more than"),
        (V3 + '[1, 5, ""]\n', "line 2: the code of an event must be a text"),
        (V3 + '[1, "o", null]\n', "line 2: the data of an event 'o' must be a text"),
        (V3 + '[1, "r", "big"]\n', "line 2: a size must be as '80x24'"),
        (V2 + '[1, "r", "0x24"]\n', "line 2: a size must be as '80x24'"),
        (V3 + '[1, "x", "well"]\n', "line 2: an exit status must be a number"),
        (V3 + "[" * 200_000 + "\n", "line 2: this is not JSON that can be read"),
        (V3 + f'[{"9" * 5000}, "o", ""]\n', "line 2: this is not JSON that can be read"),
        (V3 + '[1, "o", "a"]\n[1, "o", "cut', "line 3 is cut off"),
    ],
)
def test_faults_are_named_by_line(text: str, message: str) -> None:
    with pytest.raises(RecordingError) as caught:
        events(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_events_before_a_broken_line_are_read() -> None:
    _, happened = read(opened(V3 + '[1, "o", "a"]\n[1, "o", "cut'))
    assert next(happened) == Event(1, "o", "a")
    with pytest.raises(RecordingError, match="line 3"):
        next(happened)


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(RecordingError, match="line 2: this is not JSON that can be read"):
        events(V3.encode() + b'[1, "o", "\xff"]\n')


def test_line_length_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asciicast, "LONGEST_LINE", 100)
    monkeypatch.setattr(asciicast, "LARGEST_V1", 200)
    assert len(events(V3 + f'[1, "o", "{"a" * 85}"]\n')) == 1
    with pytest.raises(RecordingError, match="line 2 is longer than 100 bytes"):
        events(V3 + f'[1, "o", "{"a" * 100}"]\n')
    with pytest.raises(RecordingError, match="line 1: this is not a header"):
        events(f'{{"version": 1, "title": "{"a" * 200}"}}')
