from __future__ import annotations

import asyncio
import base64
import random
import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from anyshell import ArtifactStore, Environment, Fleet, InvalidCommand, OutputLimits, Terminal
from anyshell._types import MASK
from anyshell.policy.redaction import (
    LIKELY,
    LONGEST_KEY,
    LONGEST_TOKEN,
    MAX_VALUES,
    SHORTEST_VALUE,
    Masker,
    Masks,
)
from anyshell.types import Recording, Redaction

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

posix = pytest.mark.skipif(sys.platform == "win32", reason="the commands are of a POSIX shell")

VALUE = "correct horse+battery"

TOKENS = {
    "aws": "AKIA" + "Z2" * 8,
    "aws session": "ASIA" + "Z2" * 8,
    "github": "ghp_" + "a1" * 18,
    "github oauth": "gho_" + "a1" * 18,
    "github fine": "github_pat_" + "x_" * 41,
    "gitlab": "glpat-" + "y-" * 10,
    "slack": "xoxb-123-456-abcdef",
    "google": "AIza" + "b" * 35,
    "stripe": "sk_live_" + "c" * 24,
    "anthropic": "sk-ant-api03-" + "d_" * 45,
    "openai": "sk-" + "e" * 48,
    "openai project": "sk-proj-" + "e-" * 48,
    "npm": "npm_" + "f" * 36,
    "pypi": "pypi-" + "g" * 80,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_def",
}

KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIabc+/=\nxyz\n-----END RSA PRIVATE KEY-----"
)

M = MASK.decode()


def masks(**variables: str) -> Masks:
    return Redaction().masks(variables)


def in_pieces(masks: Masks, data: bytes, seed: int) -> bytes:
    chance, masker, shown, at = random.Random(seed), Masker(masks), b"", 0
    most = chance.choice([1, 2, 5, 50, 400])
    while at < len(data):
        size = chance.randint(1, most)
        shown += masker.feed(data[at : at + size])
        at += size
    return shown + masker.end()


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_token_is_masked_in_any_position(token: str) -> None:
    text = f'x {token} y\nKEY={token};\n"{token}",\x1b[01;31m{token}\x1b[m\n\x1b[K{token}'
    assert masks().text(text) == f'x {M} y\nKEY={M};\n"{M}",\x1b[01;31m{M}\x1b[m\n\x1b[K{M}'


def test_password_of_a_url_and_value_of_a_header_are_masked() -> None:
    text = "git clone https://me:pa55@host/x; curl -H 'Authorization: Bearer abcdefghijklmnop1234' bearer 0123456789abcdef0=="
    assert masks().text(text) == (
        f"git clone https://me:{M}@host/x; curl -H 'Authorization: Bearer {M}' bearer {M}"
    )


def test_a_private_key_is_masked_whole() -> None:
    assert masks().text(f"a\n{KEY}\nb {KEY.replace('RSA ', '')}") == f"a\n{M}\nb {M}"


@pytest.mark.parametrize(
    "text",
    [
        "disk-usage-of-all-the-directories-there-are and task-0123456789",
        "https://example.com:8080/a@b http://[::1]:80/ time 12:30:00 // a comment: me@example.com",
        "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----\n",
        "the bearer of this is authorized: see Authorization: none",
        "eyJub3QiOiJhIHRva2VuIn0 sk-learn pypi-publish ghp_short AKIASHORT npm_config_yes",
        "0123456789abcdef0123456789abcdef01234567 é 漢字 \udcff",
    ],
)
def test_ordinary_text_stays_unmasked(text: str) -> None:
    assert masks(A_TOKEN=VALUE).text(text) == text


def test_the_value_of_a_variable_is_masked_also_encoded() -> None:
    value = 'a "b" c/ü?' * 2
    found = masks(MY_TOKEN=value, my_password="hunter2", HOME="/home/somebody")
    assert found.text(f"{value} hunter2 /home/somebody") == f"{M} {M} /home/somebody"
    assert found.text(quote(value)) == M
    assert found.text(quote(value, safe="")) == M
    assert found.text('{"x": "' + value.replace('"', r"\"") + '"}') == '{"x": "' + M + '"}'
    for before in ("", "u", "me", "me:", "user:"):
        coded = base64.b64encode((before + value + "!").encode()).decode()
        shown = found.text(coded)
        assert M in shown
        assert len(shown.replace(M, "")) <= 4 + len(before) * 4 // 3 + 3


def test_a_short_value_stays_unless_asked_for() -> None:
    short = "x" * (SHORTEST_VALUE - 1)
    assert masks(MY_TOKEN=short).text(short) == short
    assert Redaction(shortest=2).masks({"MY_TOKEN": short}).text(short) == M


def test_a_value_of_several_lines_is_masked_line_by_line() -> None:
    """A terminal would print other line ends."""
    value = "a first line of it\nshort\na second line of it\n"
    assert masks(MY_KEY=value).text(value.replace("\n", "\r\n")) == f"{M}\r\nshort\r\n{M}\r\n"


def test_custom_values_and_names_are_masked() -> None:
    found = Redaction(names=("*_SALT",), values=("my own value",), shapes=False).masks(
        {"A_SALT": "salt-and-pepper", "A_TOKEN": "stays as it is", "X_CERT": "also masked"}, names=("x_*",)
    )
    text = f"my own value salt-and-pepper stays as it is also masked {TOKENS['github']}"
    assert found.text(text) == f"{M} {M} stays as it is {M} {TOKENS['github']}"


def test_more_values_than_are_masked_do_not_fail() -> None:
    values = tuple(f"value-{number:05}-of-many" for number in range(MAX_VALUES + 10))
    found = Redaction(values=values).masks({})
    assert found.text(values[0]) == found.text(values[MAX_VALUES - 1]) == M
    assert found.text(values[MAX_VALUES]) == values[MAX_VALUES]


def test_long_values_with_a_common_prefix_are_masked_to_their_ends() -> None:
    beginning = "0123456789abcdef" * 4
    values = (f"{beginning}-one-and-more", f"{beginning}-one", f"{beginning}-two", beginning[:40] + "?")
    found = Redaction(values=values).masks({})
    text = "".join(f"{value};" for value in values)
    assert found.text(text) == f"{M};" * 4
    assert found.text(f"{beginning}-on;{beginning}{values[2]};") == f"{beginning}-on;{beginning}{M};"
    assert found.text(f"{beginning[:-4]}{TOKENS['github']}") == f"{beginning[:-4]}{M}"


def test_pattern_has_only_the_beginnings_of_long_values() -> None:
    """Regression test: 256 values of 3,000 bytes took seconds."""
    values = [bytes([65 + number % 26]) * number + b"x" * 3000 for number in range(MAX_VALUES)]
    assert len(Masks(values)._pattern.pattern) < MAX_VALUES * 1000


def test_a_bad_redaction_is_refused_without_its_values() -> None:
    for bad in (
        {"names": "*TOKEN*"},
        {"values": "hunter2hunter2"},
        {"shortest": 0},
        {"values": ("hunter2\0",)},
    ):
        with pytest.raises(InvalidCommand) as failure:
            Redaction(**bad)
        assert "hunter2" not in str(failure.value)
    assert "hunter2" not in repr(Redaction(values=("hunter2",)))


EVERYTHING = (
    "".join(
        f'x {token} y\nk={token};\n\x1b[01;31m{token}\x1b[m\n"{token}",'
        for token in (*TOKENS.values(), VALUE, KEY)
    )
    + "https://u:pa55@host/x Authorization: Bearer abcdefghijklmnopqrst\nhttp://h/ sk-learn eyJ. AKIA\n"
)


def test_masking_does_not_depend_on_the_pieces() -> None:
    found = masks(MY_TOKEN=VALUE)
    whole = found.data(EVERYTHING.encode())
    assert whole.count(MASK) == 4 * (len(TOKENS) + 2) + 2
    assert [seed for seed in range(150) if in_pieces(found, EVERYTHING.encode(), seed) != whole] == []


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        (b"https://me:", b"pa$$word!" * 12, b"@host/"),
        (b"http://" + b"u" * 60 + b":", b"$" + b"p" * 200, b"@host/"),
        (b"BEARER ", b"0123456789abcdef0123", b"\n"),
        (b"bEaRer ", b"0123456789abcdef0123", b"\n"),
        (b"aUTHORization: tOKEN ", b"0123456789abcdef0123", b"\n"),
        (b"AUTHORIZATION: Token ", b"0123456789abcdef0123", b"\n"),
    ],
)
def test_secret_after_its_lead_is_masked_across_any_cut(before: bytes, secret: bytes, after: bytes) -> None:
    found, text = masks(), b"x " + before + secret + after
    for at in range(1, len(text)):
        masker = Masker(found)
        shown = masker.feed(text[:at]) + masker.feed(text[at:]) + masker.end()
        assert shown == b"x " + before + MASK + after


@pytest.mark.parametrize("size", [6, 16, 17, 70, 900])
def test_similar_values_are_all_masked_across_any_cut(size: int) -> None:
    """The pattern for several values searches their common part."""
    common = "".join(random.Random(size).choices("abcXYZ0189-_", k=size))
    values = tuple(f"{number}{common}{number}" for number in range(40))
    found = Redaction(values=values, shapes=False).masks({})
    flood = b"a line of many lines\n" * 3000
    for value in values:
        for form in (value, base64.b64encode(value.encode()).decode().rstrip("="), f"é{value}漢"):
            whole = found.data(form.encode())
            assert MASK in whole
            assert common.encode() not in whole
            for start in (b"x\n", flood):
                cut = len(start) + random.Random(value).randrange(1, len(form))
                data = start + form.encode() + b"\n"
                masker = Masker(found)
                shown = masker.feed(data[:cut]) + masker.feed(data[cut:]) + masker.end()
                assert common.encode() not in shown
                assert shown.count(MASK) == 1


def test_large_output_is_masked_in_each_of_its_lines() -> None:
    found = masks()
    lines = [b"line %d of many, none of which is short\n" % number for number in range(30_000)]
    for at in (3, 1000, 1001, 29_999):
        lines[at] = b"token: " + TOKENS["github"].encode() + b"\n"
    data = b"".join(lines)
    assert found.data(data).count(MASK) == 4
    shown = found.data(data.replace(b"\n", b" "))
    assert shown.count(MASK) == 4
    assert TOKENS["github"].encode() not in shown


def test_possible_beginning_of_a_secret_is_held_until_released() -> None:
    masker = Masker(masks(MY_TOKEN=VALUE))
    assert masker.feed(b"now: corr") == b"now: "
    assert masker.holds
    assert masker.release() == b"corr"
    assert not masker.holds
    assert masker.feed(b"ect horse+battery.") == MASK + b"."  # the beginning was shown, the rest is not
    assert masker.feed(b"corr") == b""
    assert masker.release() == b"corr"
    assert masker.feed(b"idor\n") == b"idor\n"


def test_flood_holds_little_back_and_masks_the_rest_of_a_secret() -> None:
    flood = b"line\n" * 20_000
    for size, held in ((1, False), (2, False), (3, True)):
        masker, token = Masker(masks()), TOKENS["github"].encode()
        shown = masker.feed(flood + token[:size])
        assert masker.holds is held
        assert (
            shown + masker.feed(token[size:] + b" ") == flood + (b"" if held else token[:size]) + MASK + b" "
        )


def test_likely_secret_is_masked_at_once_with_its_continuation() -> None:
    masker = Masker(masks())
    begun = TOKENS["github"].encode()[:LIKELY]
    assert masker.feed(b"a " + begun) == b"a "
    assert masker.release() == MASK
    assert masker.feed(TOKENS["github"].encode()[LIKELY:]) == b""
    assert masker.feed(b"0123 next") == b" next"
    assert masker.count == 1


@pytest.mark.parametrize("begun", [b"https://example.com/a/long/path", b"Authorization: Basic"])
def test_unfinished_url_or_header_is_released(begun: bytes) -> None:
    masker = Masker(masks())
    assert masker.feed(begun) + masker.release() == begun


@pytest.mark.parametrize(
    ("begin", "goes_on", "bound"),
    [(b"sk-ant-", b"x", LONGEST_TOKEN), (b"-----BEGIN PRIVATE KEY-----\n", b"x" * 63 + b"\n", LONGEST_KEY)],
)
def test_held_bytes_are_bounded(begin: bytes, goes_on: bytes, bound: int) -> None:
    masker = Masker(masks())
    shown = masker.feed(begin)
    for _ in range(3 * bound // len(goes_on)):
        shown += masker.feed(goes_on)
        assert len(masker._held) <= bound
    assert MASK in shown + masker.end()


@pytest.mark.parametrize(
    "data",
    [
        b"eyJ" * 20_000,
        b"eyJ" + b"a.eyJ" * 12_000,
        b"://a:" * 12_000,
        b"://" + b"a" * 60_000,
        b"sk-" * 20_000,
        b"-----BEGIN PRIVATE KEY-----" * 2000,
        b"Bearer " * 9000,
        b"Authorization: a " * 4000,
        b"\0" * 65536,
    ],
)
def test_hostile_output_is_taken_in_time(data: bytes) -> None:
    """The bound is the timeout of the suite: a quadratic masker takes minutes here."""
    masker = Masker(masks(MY_TOKEN="s" * 300))
    for _ in range(4):
        masker.feed(data)
    masker.end()


@posix
async def test_output_is_masked_and_its_masks_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", VALUE)
    async with Environment.detect(redact=True) as env:
        outcome = await env.run(
            'echo "1 $MY_TOKEN 2 $X_KEY"; echo "$MY_TOKEN" >&2', env={"X_KEY": "another one"}
        )
        assert outcome.output.text == f"1 {M} 2 {M}\n{M}\n"
        assert outcome.output.masked == 3
        assert outcome.output.total_bytes == len(outcome.output.text)
        split = await env.run('echo 1; echo "$MY_TOKEN" >&2', split_stderr=True)
        assert split.stderr is not None
        assert (split.output.text, split.output.masked) == ("1\n", 0)
        assert (split.stderr.text, split.stderr.masked) == (f"{M}\n", 1)
        nothing = await env.run('echo "$X_KEY another one"')
        assert (nothing.output.text, nothing.output.masked) == (" another one\n", 0)


@posix
async def test_nothing_is_masked_by_default() -> None:
    async with Environment.detect() as env:
        assert (await env.run(f"echo {TOKENS['github']}")).output.text == f"{TOKENS['github']}\n"
    with pytest.raises(InvalidCommand, match="redact"):
        Environment.detect(redact="yes")  # type: ignore[arg-type]  # bad input is the point


@posix
async def test_no_artifact_event_log_or_recording_has_a_secret(tmp_path: Path) -> None:
    limits, store = OutputLimits(head=40, tail=40), ArtifactStore(tmp_path / "artifacts")
    prints = f"for i in 1 2 3 4 5 6 7 8 9; do echo $i {TOKENS['github']}; done"
    heard = b""

    async def hear(_: str, data: bytes) -> None:
        nonlocal heard
        heard += data

    async with Environment.detect(redact=True, limits=limits, artifacts=store) as env:
        recording = Recording(str(tmp_path / "recording.cast"))
        outcome = await env.run(prints, listener=hear, record=recording)
        assert outcome.output.artifact is not None
        assert outcome.output.artifact.path.read_bytes() == heard
        job = await env.start(prints)
        await job.wait()
        log = (await job.output()).data
        async with env.stream(prints) as stream:
            events = [event.data async for event in stream]
        on_terminal = await env.run(prints, terminal=Terminal())
        assert on_terminal.output.masked == 9
        assert TOKENS["github"] not in on_terminal.output.text
    for data in (heard, log, b"".join(events)):
        assert data.count(MASK) == 9
    for path in (outcome.output.artifact.path, tmp_path / "recording.cast"):
        assert TOKENS["github"].encode() not in path.read_bytes()


@posix
async def test_session_and_fleet_mask_secrets() -> None:
    async with Environment.detect(redact=True) as env, env.session() as session:
        assert (await session.run(f"echo {TOKENS['npm']}")).output.text == f"{M}\n"
    async with Fleet(["local"], redact=True) as fleet:
        async for result in fleet.run(f"echo {TOKENS['npm']}"):
            assert result.outcome is not None
            assert result.outcome.output.text == f"{M}\n"


@posix
async def test_output_of_a_detached_job_is_masked_on_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    token = TOKENS["github"]
    async with Environment.detect(redact=True) as env:
        job = await env.start(f"echo a {token}; echo b", detach=True)
        await job.wait(timeout=20)
        shown = await job.output()
        assert (shown.text, shown.offset) == (f"a {M}\nb\n", len(f"a {token}\nb\n"))
        first = await job.output(limit=10)  # the limit is within the token
        assert (first.text, first.offset) == ("a ", 2)


@posix
async def test_a_secret_on_a_terminal_leaves_its_sequences_whole() -> None:
    async with Environment.detect(redact=True) as env:
        command = rf"printf '\033[31m{TOKENS['openai']}\033[0m and \033]0;{TOKENS['npm']}\007'; sleep 30"
        async with env.terminal(command, scrollback=0) as terminal:
            await terminal.expect(re.escape(f"{M} and"), timeout=10)
            assert terminal.screen.rows[0].startswith(f"{M} and")
            assert terminal.screen.title == M


@posix
async def test_a_prompt_that_may_begin_a_secret_is_shown_without_more_output() -> None:
    async with (
        Environment.detect(redact=True) as env,
        env.terminal("printf 'go on? s'; sleep 30") as terminal,
    ):
        await terminal.expect(r"go on\? s", timeout=10)


@posix
@pytest.mark.parametrize("size", [SHORTEST_VALUE, 15, 19])
async def test_pause_within_a_secret_shows_no_part_of_the_secret(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("MY_TOKEN", VALUE)
    command = f'printf "a: %s" "${{MY_TOKEN:0:{size}}}"; sleep 0.3; printf "%s\n" "${{MY_TOKEN:{size}}}"'
    async with (
        Environment.detect(shell="bash", redact=True) as env,
        env.stream(command, by="chunks") as events,
    ):
        shown = "".join([event.text async for event in events])
    assert events.outcome is not None
    assert (shown, events.outcome.output.masked) == (f"a: {M}\n", 1)


@posix
@pytest.mark.parametrize("end", ["s", VALUE[:12]])
async def test_last_output_is_complete_despite_a_process_left_behind(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", VALUE)
    async with Environment.detect(redact=True) as env:
        outcome = await env.run(f"sleep 30 & printf 'the end: {end}'", left_behind="keep")
        assert outcome.output.text == f"the end: {end}"
        for info in outcome.left_behind:
            await env.run(f"kill {info.pid}")


async def test_redaction_is_imported_on_demand() -> None:
    program = "import sys, anyshell; anyshell.Environment; print('anyshell.policy.redaction' in sys.modules)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert (await process.communicate())[0].strip() == b"False"
