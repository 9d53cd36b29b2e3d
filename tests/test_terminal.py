"""A driven program on a terminal: typed input, screen contents, and waiting for input.

The contract of terminals themselves is tested with the backends, in ``test_terminals.py``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
import pytest

import anyshell
from anyshell import AnyshellError, Environment, InvalidCommand, Terminal
from anyshell._environment import MAX_TERMINALS
from anyshell.abc import Foreground, ProcessInfo
from anyshell.errors import TerminalUnavailable
from anyshell.output.text.search import WINDOW
from anyshell.testing import FakeBackend, FakeProcess, Script
from anyshell.types import SecretRequest, Waiting

from .conftest import missing
from .processes import wait_in_front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

PYTHON = f"{sys.executable} -q -i"
WITHOUT_READLINE = f"TERM=dumb PYTHON_BASIC_REPL=1 {sys.executable} -I -q -i -c 'import sys; sys.modules[\"readline\"] = None'"

POLLS = f"""{sys.executable} -c '
import select, sys
print("key? ", end="", flush=True)
poll = select.poll()
poll.register(0, select.POLLIN)
poll.poll()
print("got", sys.stdin.readline())
'"""

RAW = f"""{sys.executable} -c '
import os, sys, tty
tty.setraw(0)
os.write(1, b"ready ")
while (data := os.read(0, 100)) != b"q":
    os.write(1, data.hex().encode() + b" ")
'"""
"""Prints typed bytes as numbers, until a ``q``."""


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Environment]:
    """This machine alone."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


@pytest.fixture(params=["local", "openssh as a user"])
async def anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, ssh_host: Callable[[str], Server]
) -> AsyncIterator[Environment]:
    """This machine, and a host reached by SSH."""
    if request.param == "local":
        async with Environment.detect(cwd=tmp_path) as environment:
            yield environment
        return
    server = ssh_host(request.param)
    async with Environment.detect(server.options()) as environment:
        yield environment


# # --- input and output -----------------------------------------------------------------------------------------


async def test_interactive_interpreter_is_driven(anywhere: Environment) -> None:
    async with anywhere.terminal("python3 -q -i", columns=100, rows=30) as t:
        await t.expect(">>> ")
        await t.send("6*7\r")
        answer = await t.expect(r"^(\d+)$")
        assert answer is not None
        assert answer[1] == "42"
        await t.expect(">>> ")
        assert [row for row in t.screen.rows if row] == [">>> 6*7", "42", ">>>"]
        assert t.screen.cursor == (2, 4)
        assert t.running
        assert t.pid is not None
        await t.send_key("Ctrl-D")
        outcome = await t.wait()
    assert (outcome.status, outcome.exit_code) == ("exited", 0)
    assert outcome.output.text.splitlines()[:2] == [">>> 6*7", "42"]
    assert t.outcome is outcome
    assert not t.running


async def test_a_line_is_read_and_the_end_of_input_is_typed(here: Environment) -> None:
    async with here.terminal("cat; echo end") as t:
        await t.send("one\r")
        await t.expect("one\none\n")
        await t.send_key("Ctrl-D")
        await t.expect("^end$")
        assert (await t.wait()).exit_code == 0


async def test_match_has_the_text_before_and_keeps_the_text_after(here: Environment) -> None:
    async with here.terminal("echo one two three; read x") as t:
        match = await t.expect("two")
        assert match is not None
        assert match.string[: match.start()] == "one "
        assert await t.find("one", timeout=0) is None
        await t.expect("three")


async def test_a_match_at_the_end_may_grow(here: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.terminal.search.SETTLE_SECONDS", 3.0)
    async with here.terminal("printf 12; sleep 0.01; printf 34; read x") as t:
        match = await t.expect(r"\d+")
        assert match is not None
        assert match[0] == "1234"


async def test_wrapped_line_is_matched_as_one_line(here: Environment) -> None:
    async with here.terminal("echo aaaaaaaaaabbbbbbbbbb; read x", columns=10) as t:
        await t.expect("^a{10}b{10}$")
        assert t.screen.rows[:2] == ("a" * 10, "b" * 10)


async def test_on_the_alternate_screen_its_rows_are_searched(here: Environment) -> None:
    program = r"printf 'before\033[?1049h\033[5;10Hhello \033[5;16Hworld'; read x; printf '\033[?1049lafter'; read x"
    async with here.terminal(program) as t:
        await t.expect(r"^ {9}hello world$")
        assert t.screen.alternate
        await t.send("\r")
        await t.expect("^after$")
        assert not t.screen.alternate
        assert t.screen.rows[0] == "beforeafter"


async def test_missing_match_is_an_error_with_the_screen(here: Environment) -> None:
    async with here.terminal("echo hello; read x; exit 3") as t:
        with anyio.fail_after(20):
            while not any(t.screen.rows):
                await asyncio.sleep(0.02)
        with pytest.raises(
            anyshell.ExpectTimeout, match=r"'goodbye' did not come within 0\.5 s.*\nhello"
        ) as late:
            await t.expect("goodbye", timeout=0.5)
        assert (late.value.before, t.before, t.match) == ("hello\n", "hello\n", None)
        assert t.outcome is None
        await t.send("\r")
        with pytest.raises(anyshell.ProgramEnded, match=r"has ended with exit code 3.*\nhello") as ended:
            await t.expect("goodbye", timeout=None)
        assert ended.value.outcome is t.outcome is not None
        assert t.outcome.exit_code == 3
        await t.expect("hello")  # the text was printed before, and not requested before
        with pytest.raises(anyshell.ProgramEnded, match="exit code 3"):
            await t.sendline("more")


async def test_find_returns_nothing_without_a_match(here: Environment) -> None:
    async with here.terminal("echo hello; read x") as t:
        assert await t.find("goodbye", timeout=0.1) is None
        await t.sendline()
        assert await t.find("goodbye", timeout=None) is None
        assert await t.find("hello")


async def test_expect_reports_the_matching_pattern_of_a_list(here: Environment) -> None:
    async with here.terminal("echo one two three; read x; read x; exit 3") as t:
        assert (
            await t.expect(["three", re.compile("TWO", re.IGNORECASE), "two"]) == 1
        )  # the earliest match in the text, not in the list
        assert (t.before, t.match and t.match[0]) == ("one ", "two")
        assert await t.expect(["never", "three"]) == 1
        assert await t.expect(("never", anyshell.ExpectTimeout), timeout=0.1) == 1
        with pytest.raises(anyshell.ExpectTimeout, match="'never' or 'no more' did not come"):
            await t.expect(["never", "no more", anyshell.ProgramEnded], timeout=0.1)
        await t.sendline()
        await t.sendline()
        assert await t.expect([anyshell.ExpectTimeout, anyshell.ProgramEnded]) == 1


@pytest.mark.parametrize("patterns", [[], ["idle"], ["x", "("], [3], anyshell.ProgramEnded])
async def test_malformed_list_of_patterns_is_refused(here: Environment, patterns: Any) -> None:
    async with here.terminal("read x") as t:
        with pytest.raises(InvalidCommand):
            await t.expect(patterns)


async def test_the_error_of_expect_is_bounded_and_shows_no_secret(here: Environment) -> None:
    printing = "read -s x; echo; for i in $(seq 100); do echo line $i $x; done; printf '%0300d\\n' 7; read y"
    async with here.terminal(printing, columns=400) as t:
        await t.send_secret(lambda _: "correct horse")
        await t.expect("idle")
        with pytest.raises(anyshell.ExpectTimeout) as caught:
            await t.expect("correct horse" + "x" * 500, timeout=0)
    said = str(caught.value)
    assert "correct horse" not in said + caught.value.before
    assert "line 100 [secret]" in said
    assert len(said.splitlines()) == 11
    assert max(map(len, said.splitlines())) < 300


async def test_idle_matches_a_waiting_or_silent_program_with_its_output(here: Environment) -> None:
    async with here.terminal("echo first; read x; echo second; sleep 100") as t:
        match = await t.expect("idle")
        assert match is not None
        assert match[0] == "first\n"
        await t.send("\r")
        match = await t.expect("idle")  # the program does not wait for input, and is silent
        assert match is not None
        assert match[0].strip() == "second"


async def test_idle_does_not_match_after_the_end(here: Environment) -> None:
    async with here.terminal("echo done") as t:
        await t.wait()
        assert await t.find("idle") is None


async def test_each_state_of_a_redrawn_line_is_a_line(here: Environment) -> None:
    async with here.terminal(r"printf '10%%\r20%%\r\r\n\rdone\r\033[Kagain'; read x") as t:
        await t.expect("again")
        assert t.screen.rows[:2] == ("20%", "again")
    async with here.terminal(r"printf '10%%\r20%%\r\r\n\rdone\r\033[Kagain'; read x") as t:
        match = await t.expect("^10%\n20%\ndone\nagain$")
        assert match is not None
        assert match.start() == 0


async def test_text_drawn_on_the_ordinary_screen_is_found_in_place(here: Environment) -> None:
    draws = r"printf '\033[2J\033[5;5H[ ] milk'; read -s x; printf '\033[5;6H*'; read -s x; echo; echo bye; read x"
    async with here.terminal(draws) as t:
        await t.expect(r"\[ \] milk")
        await t.send("\r")
        await t.expect(r"\[\*\] milk")
        assert await t.find(r"\[\*\]", timeout=0) is None  # the rows were drawn before that
        await t.send("\r")
        await t.expect("^bye$")


async def test_found_text_is_not_found_again(here: Environment) -> None:
    asks = r"printf '\033[5;1HPassword: '; read -s x; printf ' once\n'; read -s x; printf 'Password: '; read -s x"
    async with here.terminal(asks) as t:
        await t.expect("Password: ")
        await t.send("\r")
        await t.expect("once")
        assert await t.find("Password: ", timeout=0) is None
        await t.send("\r")
        await t.expect("Password: ")


async def test_text_found_on_the_alternate_screen_is_not_found_afterwards(here: Environment) -> None:
    asks = r"printf '\033[?1049h\033[HGo on? '; read -s x; printf '\033[?1049lleft\n'; read -s x; printf 'Go on? '; read -s x"
    async with here.terminal(asks) as t:
        await t.expect(r"Go on\?")
        await t.send("\r")
        await t.expect("^left$")
        assert await t.find(r"Go on\?", timeout=0) is None
        await t.send("\r")
        await t.expect(r"Go on\?")


async def test_moves_are_known_by_their_c1_forms_too(here: Environment) -> None:
    async with here.terminal(r"printf '\302\233?1049h\302\2333;3HHELLO'; read x") as t:
        await t.expect("^  HELLO$")


@pytest.mark.parametrize("secret", ["two\nlines", "\ud800x", 5, "x" * 2_000])
async def test_unmaskable_secret_is_refused(here: Environment, secret: Any) -> None:
    async with here.terminal("read x") as t:
        with pytest.raises(InvalidCommand):
            t.hide(secret)


async def test_program_that_read_before_the_timeout_is_not_waiting(here: Environment) -> None:
    outcome = await here.run("timeout --foreground 0.3 cat; sleep 100", terminal=Terminal(), timeout=4)
    assert (outcome.status, outcome.waiting) == ("timed_out", None)


async def test_text_kept_for_expect_is_bounded(here: Environment) -> None:
    async with here.terminal("yes | head -c 100000; echo; echo finis; read x") as t:
        await t.expect("finis")
        match = await t.expect("idle")
        assert match is not None
        assert len(match.string) < WINDOW


@pytest.mark.parametrize("pattern", ["(", 3, re.compile(b"x")])
async def test_malformed_pattern_is_refused(here: Environment, pattern: Any) -> None:
    async with here.terminal("read x") as t:
        with pytest.raises(InvalidCommand):
            await t.expect(pattern)


async def test_keys_are_sent_in_the_mode_that_the_program_asks_for(here: Environment) -> None:
    async with here.terminal(RAW) as t:
        await t.expect("ready ")
        await t.send_key("Up", "Ctrl-C", "Alt-x", "F5", "é")
        await t.expect("1b5b41031b781b5b31357ec3a9")
        await t.send_key("q")
        await t.wait()
    async with here.terminal(RAW.replace("ready ", r"\033[?1hready ")) as t:
        await t.expect("ready ")
        await t.send_key("Up", "Ctrl-Up")
        await t.expect("1b4f411b5b313b3541")


async def test_unknown_key_sends_none_of_the_keys(here: Environment) -> None:
    async with here.terminal(RAW) as t:
        await t.expect("ready ")
        with pytest.raises(InvalidCommand, match="Enter"):
            await t.send_key("a", "Entr")
        with pytest.raises(InvalidCommand, match="needs the name"):
            await t.send_key()
        await t.send_key("b")
        await t.expect("idle")
        assert t.screen.rows[0] == "ready 62"


async def test_paste_is_bracketed_on_request_and_cannot_end_itself(here: Environment) -> None:
    evil = "one\n\x1b[20\x1b[201~1~\x9b201~two"
    async with here.terminal(RAW) as t:
        await t.expect("ready ")
        await t.paste("one\r\ntwo\n")
        await t.expect(b"one\rtwo\r".hex())
    async with here.terminal(RAW.replace("ready ", r"\033[?2004hready ")) as t:
        await t.expect("ready ")
        await t.paste(evil)
        await t.expect(b"\x1b[200~one\rtwo\x1b[201~".hex())


async def test_concurrent_sends_arrive_in_order(here: Environment) -> None:
    async with here.terminal("cat >copy; echo done") as t:
        await asyncio.gather(*(t.send(f"line {number}\r") for number in range(200)))
        await t.send_key("Ctrl-D")
        await t.expect("^done$")
        await t.wait()
    expected = "".join(f"line {number}\n" for number in range(200))
    assert await here.files.read_text("copy") == expected


async def test_queries_are_answered_unless_disabled(here: Environment) -> None:
    asks = RAW.replace("ready ", r"abc\033[6n\033[5nready ")
    async with here.terminal(asks) as t:
        await t.expect((b"\x1b[1;4R\x1b[0n").hex())
    async with here.terminal(asks, answers=False) as t:
        await t.expect("ready ")
        await t.send("x")
        await t.expect("^78 $")


async def test_unread_answers_to_queries_do_no_harm(here: Environment) -> None:
    """In line mode the answers are one long line; the terminal takes only a limited part of it."""
    asks = "for i in $(seq 3000); do printf '\\033[6n'; done; stty -echo; echo done; read -r x; echo end"
    async with here.terminal(asks) as t:
        await t.expect("done")
        await t.send_key("Ctrl-U", "Enter")
        await t.expect("^end$")
        assert (await t.wait()).exit_code == 0


async def test_typing_for_a_program_that_does_not_read_is_an_error(here: Environment) -> None:
    async with here.terminal("stty raw -echo; echo ready; sleep 100", grace=0) as t:
        await t.expect("ready")
        with pytest.raises(
            AnyshellError, match=r"does not read: .* [\d,]+ of 1,000,000 bytes were taken.* stop\(\) ends it"
        ):
            await t.send(b"x" * 1_000_000, timeout=0.3)


async def test_overlong_line_is_refused_with_the_number_of_typed_bytes(
    here: Environment,
) -> None:
    async with here.terminal("cat >/dev/null") as t:
        assert await t.wait_for_input()
        with pytest.raises(InvalidCommand, match="4,095"):
            await t.send("x" * 5000 + "\r")
        with pytest.raises(AnyshellError, match=r"after [\d,]+ bytes that were typed: .*4,095"):
            await t.send("short\r" * 1000 + "x" * 5000 + "\r")


@pytest.mark.parametrize(
    ("settings", "between"),
    [
        ("-icrnl", "\r"),
        ("inlcr", "\n"),
        ("-isig", "\x03"),
        ("noflsh", "\x1c"),
        ("eof ^A", "\x04"),
        ("kill ^A", "\x15"),
        ("sane", "\x16\r"),
    ],
)
async def test_limit_of_a_line_heeds_the_settings_of_the_terminal(
    anywhere: Environment, settings: str, between: str
) -> None:
    """The kernel would cut such a line silently."""
    async with anywhere.terminal(f"trap '' QUIT; stty {settings} -echo; echo ready; sleep 100", grace=0) as t:
        await t.expect("ready")
        await t.send("x" * 3000 + between)
        with pytest.raises(InvalidCommand, match="4,095"):
            await t.send("y" * 3000)


async def test_end_of_a_line_heeds_the_settings_of_the_terminal(anywhere: Environment) -> None:
    program = "stty -icrnl eol ';' kill '!' -echo; echo ready; head -c 7002 | wc -c"
    async with anywhere.terminal(program, grace=0) as t:
        await t.expect("ready")
        await t.send("x" * 3000 + "!" + "x" * 3500 + ";" + "y" * 3500 + "\n")
        await t.expect(r"^7002$")


async def test_typing_after_the_end_reports_how_the_program_ended(here: Environment) -> None:
    async with here.terminal("exit 3") as t:
        await t.wait()
        with pytest.raises(AnyshellError, match="has ended with exit code 3"):
            await t.send("x")
    async with here.terminal("kill -9 $$") as t:
        await t.wait()
        with pytest.raises(AnyshellError, match="was ended by SIGKILL"):
            await t.send_key("Enter")


async def test_values_other_than_text_are_not_typed(here: Environment) -> None:
    not_text: Any = 3
    async with here.terminal("read x") as t:
        for call in (t.send, t.paste):
            with pytest.raises(InvalidCommand):
                await call(not_text)
        with pytest.raises(InvalidCommand, match="surrogate"):
            await t.send("\ud800")


async def test_resize_waits_for_the_entry_of_the_terminal(here: Environment) -> None:
    t = here.terminal("read x; stty size")
    entering = asyncio.ensure_future(t.__aenter__())
    await asyncio.sleep(0)
    await t.resize(columns=100, rows=50)
    await entering
    try:
        await t.send("\r")
        await t.expect("50 100")
    finally:
        await t.__aexit__(None, None, None)


async def test_resize_before_the_entry_sets_the_first_size(here: Environment) -> None:
    t = here.terminal("stty size")
    await t.resize(columns=100, rows=50)
    assert (t.terminal.columns, t.entered) == (100, False)
    async with t:
        await t.expect("50 100")
        assert len(t.screen.rows) == 50


async def test_a_view_has_colours_and_changes_are_waited_for(here: Environment) -> None:
    async with here.terminal("read x; printf '\\033[31mred\\033[m'; read x", scrollback=5) as t:
        seen = t.changes
        assert not await t.changed(seen, timeout=0)
        await t.send("\r")
        while "red" not in "".join(t.screen.rows):
            assert await t.changed(seen, timeout=20)
            seen = t.changes
        assert t.view().rows[1][0].style.foreground == 1
        assert (t.host, t.entered, t.shows) == ("local", True, True)
        for back in (-1, "x", None):
            with pytest.raises(InvalidCommand, match="back"):
                t.view(back)  # type: ignore[arg-type]  # that is what is tried
    async with here.terminal("true") as t:
        with pytest.raises(AnyshellError, match="scrollback=1000"):
            t.view()


@pytest.mark.parametrize("since", [-1, "x", None, True, 1.0])
async def test_wrong_line_number_is_refused(here: Environment, since: Any) -> None:
    async with here.terminal("cat") as t:
        with pytest.raises(InvalidCommand, match="since must be"):
            t.lines(since=since)


async def test_a_listener_that_cannot_be_called_is_refused(here: Environment) -> None:
    with pytest.raises(InvalidCommand, match="listener must be"):
        here.terminal("cat", listener=5)  # type: ignore[arg-type]  # as who has no types may


async def test_a_resize_reaches_the_program_and_the_screen(anywhere: Environment) -> None:
    program = "bash -c 'trap \"stty size\" WINCH; echo ready; while :; do read -t 1 x; done'"
    async with anywhere.terminal(program, columns=80, rows=24) as t:
        await t.expect("ready")
        await t.resize(columns=100)
        await t.expect("24 100")
        await t.resize(columns=50, rows=30)
        await t.expect("30 50")
        assert len(t.screen.rows) == 30
        assert t.terminal == Terminal(columns=50, rows=30)
        with pytest.raises(InvalidCommand, match="columns"):
            await t.resize(columns=1)


async def test_job_control_works_in_a_shell(here: Environment) -> None:
    async with here.terminal("bash --norc -i") as t:
        await t.expect("[$#] $")
        await t.send("sleep 100\r")
        await t.expect("sleep 100\n")
        await wait_in_front(t, "sleep")
        await t.send_key("Ctrl-Z")
        await t.expect(r"Stopped +sleep 100")
        await t.expect("[$#] $")
        await t.send("fg\r")
        await t.expect("^sleep 100$")
        await wait_in_front(t, "sleep")
        await t.send_key("Ctrl-C")
        await t.expect("[$#] $")
        await t.send("exit 7\r")
        assert (await t.wait()).exit_code == 7


# # --- start and end --------------------------------------------------------------------------------------------


async def test_leaving_the_terminal_stops_the_program(here: Environment) -> None:
    async with here.terminal("echo hello; sleep 100") as t:
        await t.expect("hello")
    assert t.outcome is not None
    assert (t.outcome.status, t.outcome.output.text) == ("cancelled", "hello\n")
    assert t.outcome.left_behind == ()


async def test_timeout_and_stop_end_a_terminal(here: Environment) -> None:
    async with here.terminal("sleep 100", timeout=0.2) as t:
        assert (await t.wait()).status == "timed_out"
    async with here.terminal("sleep 100") as t:
        assert (await t.stop()).status == "cancelled"


async def test_closing_the_environment_ends_its_terminals() -> None:
    async with Environment.detect() as environment:
        t = environment.terminal("sleep 100")
        await t.__aenter__()
        await environment.aclose()
        assert t.outcome is not None
        assert t.outcome.status == "cancelled"
        await t.__aexit__(None, None, None)


async def test_failed_start_of_a_terminal_is_raised_at_its_entry(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = here.terminal("true", cwd="missing")
    with pytest.raises(InvalidCommand, match="cwd"):
        await nowhere.__aenter__()

    def openpty() -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "openpty", openpty)
    unavailable = here.terminal("true")
    with pytest.raises(TerminalUnavailable, match="no terminal to give"):
        await unavailable.__aenter__()


async def test_wrong_use_of_a_terminal_is_refused(here: Environment) -> None:
    with pytest.raises(InvalidCommand, match="columns"):
        here.terminal("true", columns=0)
    with pytest.raises(AnyshellError, match="async with"):
        await here.terminal("true").wait()
    async with here.terminal("true") as t:
        with pytest.raises(AnyshellError, match="entered once"):
            await t.__aenter__()


async def test_a_terminal_needs_an_owner() -> None:
    environment = await Environment.detect()
    with pytest.raises(AnyshellError, match="async with"):
        environment.terminal("true")
    await environment.aclose()


async def test_terminals_are_bounded_in_number() -> None:
    backend = FakeBackend({"fake": Script(exit=None)})
    async with Environment.detect(backend) as environment:
        terminals = [environment.terminal("fake") for _ in range(MAX_TERMINALS)]
        for t in terminals:
            await t.__aenter__()
        with pytest.raises(AnyshellError, match="run already, 16"):
            async with environment.terminal("fake"):
                pass
        await terminals[0].__aexit__(None, None, None)
        async with environment.terminal("fake"):
            pass
        for t in terminals[1:]:
            await t.__aexit__(None, None, None)
    async with Environment.detect(backend, max_terminals=1) as environment, environment.terminal("fake"):
        with pytest.raises(AnyshellError, match="run already, 1:"):
            async with environment.terminal("fake"):
                pass
    with pytest.raises(InvalidCommand, match="max_terminals"):
        Environment.detect(max_terminals=0)


async def test_a_cancelled_task_leaves_no_program(here: Environment) -> None:
    entered = asyncio.Event()
    held: list[anyshell.DrivenTerminal] = []

    async def drive() -> None:
        async with here.terminal("sleep 100", grace=0) as t:
            held.append(t)
            entered.set()
            await t.expect("never", timeout=None)

    task = asyncio.ensure_future(drive())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held[0].outcome is not None
    assert held[0].outcome.status == "cancelled"


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_cancelled_holder_of_a_terminal_cancels_no_other_task(
    here: Environment, cancellations: int
) -> None:
    t = here.terminal("trap '' HUP TERM; echo on; sleep 100", grace=0.2)
    entered = asyncio.Event()

    async def hold() -> None:
        async with t:
            await t.expect("on")
            entered.set()
            await asyncio.Event().wait()

    holder = asyncio.ensure_future(hold())
    await entered.wait()
    other = asyncio.ensure_future(t.wait())
    for _ in range(cancellations):
        holder.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert (await other).status == "cancelled"
    assert t.outcome is not None
    assert t.outcome.output.text == "on\n"
    with pytest.raises(AnyshellError, match="cancelled"):
        await t.send("x")


async def test_terminal_cancelled_before_its_start_has_an_outcome(here: Environment) -> None:
    t = here.terminal("sleep 100")
    entering = asyncio.ensure_future(t.__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert (await t.wait()).status == (await t.stop()).status == "cancelled"


# --- waiting for input ----------------------------------------------------------------------------------------


async def waiting_of(environment: Environment, command: str, timeout: float = 20) -> Waiting | None:
    async with environment.terminal(command, grace=0) as t:
        return await t.wait_for_input(timeout=timeout)


async def test_a_question_is_certain_with_its_prompt(anywhere: Environment) -> None:
    async with anywhere.terminal(
        "read -p 'Name? ' name; echo hi $name; read -s -p 'Password: ' word; echo"
    ) as t:
        waiting = await t.wait_for_input()
        assert waiting is not None
        assert (waiting.certainty, waiting.prompt, waiting.echo) == ("certain", "Name? ", True)
        assert "bash" in {process.name for process in waiting.processes}
        await t.send("bob\r")
        await t.expect("hi bob")
        waiting = await t.wait_for_input()
        assert waiting is not None
        assert (waiting.certainty, waiting.prompt, waiting.echo) == ("certain", "Password: ", False)
        assert waiting.password
        await t.send("secret\r")
        assert (await t.wait()).exit_code == 0
        assert await t.wait_for_input() is None


@pytest.mark.parametrize("command", ["cat", WITHOUT_READLINE, "dash", "sh -c 'cat'", "read x"])
async def test_a_read_of_the_terminal_is_certain(here: Environment, command: str) -> None:
    waiting = await waiting_of(here, command)
    assert waiting is not None
    assert waiting.certainty == "certain"


@pytest.mark.parametrize("command", [POLLS, PYTHON, "bash --norc -i"])
async def test_polling_program_likely_waits(here: Environment, command: str) -> None:
    waiting = await waiting_of(here, command)
    assert waiting is not None
    if command == POLLS:
        assert (waiting.certainty, waiting.prompt) == ("likely", "key? ")


@pytest.mark.parametrize(
    "command",
    [
        "sleep 100",
        "while :; do :; done",
        "while sleep 0.05; do echo still here; done",
        f"{sys.executable} -c 'import time; time.sleep(100)'",
    ],
)
async def test_busy_or_sleeping_program_does_not_wait(here: Environment, command: str) -> None:
    async with here.terminal(command, grace=0) as t:
        assert await t.wait_for_input(timeout=0.8) is None


async def test_a_background_job_does_not_count(here: Environment) -> None:
    async with here.terminal("set -m; cat & sleep 100", grace=0) as t:
        assert await t.wait_for_input(timeout=0.8) is None


async def test_late_prompt_is_awaited(here: Environment) -> None:
    waiting = await waiting_of(here, "echo starting; sleep 0.7; read -p 'now: ' x")
    assert waiting is not None
    assert waiting.prompt == "now: "


async def test_timeout_of_a_waiting_program_reports_its_prompt(anywhere: Environment) -> None:
    for seconds in (1.2, 4, 12):  # the last look at the terminal must be recent
        outcome = await anywhere.run("read -p 'Really? ' x", terminal=Terminal(), timeout=seconds)
        assert outcome.status == "timed_out"
        if outcome.waiting is not None:
            break
    assert outcome.waiting is not None
    assert (outcome.waiting.certainty, outcome.waiting.prompt) == ("certain", "Really? ")
    outcome = await anywhere.run("echo Working; sleep 100", terminal=Terminal(), timeout=0.7)
    assert (outcome.status, outcome.waiting) == ("timed_out", None)


def seat(asleep_in: Any, *, cpu: float | None = 1.0, **more: Any) -> Foreground:
    return Foreground(processes=(ProcessInfo(7, "fake", 7.0),), asleep_in=asleep_in, cpu=cpu, **more)


def on_fake(os: Any = "linux") -> FakeBackend:
    from dataclasses import replace

    from anyshell.testing import FAKE_HOST

    return FakeBackend({"fake": Script(stdout=[b"prompt> "], exit=None)}, info=replace(FAKE_HOST, os=os))


async def fake(backend: FakeBackend, t: anyshell.DrivenTerminal) -> FakeProcess:
    await t.expect("> ")
    return backend.processes[-1]


async def test_fake_backend_has_a_terminal() -> None:
    backend = on_fake()
    async with Environment.detect(backend) as environment, environment.terminal("fake", rows=30) as t:
        process = await fake(backend, t)
        assert process.spawn.terminal == process.terminal == Terminal(rows=30)
        await t.resize(columns=100)
        assert process.terminal == Terminal(columns=100, rows=30)
        await t.send_key("Up")
        assert process.stdin is not None
        assert process.stdin.received == b"\x1b[A"


async def test_redrawing_program_seems_to_wait_only_after_a_delay() -> None:
    """A program that draws a clock does this."""
    backend = on_fake()
    async with Environment.detect(backend) as environment, environment.terminal("fake") as t:
        process = await fake(backend, t)
        process.seat = seat("poll")
        waiting = await t.waiting()
        assert waiting is not None
        assert (waiting.certainty, waiting.prompt) == ("likely", "prompt> ")
        for _ in range(3):
            process.print(b"again")
            await t.expect("again")
            assert await t.wait_for_input(timeout=0.6) is None
        assert await t.wait_for_input()
        process.print(b"again")
        await t.expect("again")
        await t.send("x")
        assert await t.wait_for_input()


async def test_program_that_uses_the_processor_does_not_wait() -> None:
    backend = on_fake()
    async with Environment.detect(backend) as environment, environment.terminal("fake") as t:
        process = await fake(backend, t)
        times = iter(range(1000))

        async def busy() -> Foreground:
            return seat("poll", cpu=float(next(times)))

        process.foreground = busy  # type: ignore[method-assign]  # its times are scripted
        assert await t.wait_for_input(timeout=1) is None


async def test_a_prompt_of_a_shell_asks_for_no_password(here: Environment) -> None:
    async with here.terminal("bash --norc -i") as t:
        waiting = await t.wait_for_input()
        assert waiting is not None
        assert (waiting.echo, waiting.line_mode, waiting.password) == (False, False, False)


@pytest.mark.parametrize(
    ("echo", "line_mode", "password"),
    [
        (False, True, True),
        (True, True, False),
        (False, False, False),
        (None, True, None),
        (False, None, None),
    ],
)
def test_password_is_a_line_without_echo(
    echo: bool | None, line_mode: bool | None, password: bool | None
) -> None:
    assert Waiting(certainty="certain", echo=echo, line_mode=line_mode).password is password


async def test_question_for_a_password_is_likely_without_the_system_call() -> None:
    backend = on_fake()
    async with Environment.detect(backend) as environment, environment.terminal("fake") as t:
        process = await fake(backend, t)
        process.seat = seat(None, echo=True, line_mode=True)
        assert await t.waiting() is None
        process.seat = seat(None, echo=False, line_mode=True)
        waiting = await t.waiting()
        assert waiting is not None
        assert (waiting.certainty, waiting.echo) == ("likely", False)


async def test_host_without_system_calls_reports_likely_at_most() -> None:
    backend = on_fake("macos")
    async with Environment.detect(backend) as environment, environment.terminal("fake") as t:
        process = await fake(backend, t)
        assert await t.waiting() is None
        process.seat = seat(None)
        waiting = await t.waiting()
        assert waiting is not None
        assert waiting.certainty == "likely"


# --- secrets --------------------------------------------------------------------------------------------------

SECRET = "correct-horse-battery"


async def test_a_secret_is_typed_and_not_shown(anywhere: Environment, tmp_path: Path) -> None:
    heard: list[bytes] = []
    asked: list[SecretRequest] = []

    async def hear(channel: str, data: bytes) -> None:
        heard.append(data)

    async def give(request: SecretRequest) -> str:
        asked.append(request)
        return SECRET

    command = "read -s -p 'Password: ' word; echo; echo it is $word; echo ${#word}; read x"
    async with anywhere.terminal(command, listener=hear) as t:
        await t.expect("Password: ")
        assert await t.wait_for_input()
        assert await t.send_secret(give)
        match = await t.expect(r"it is (.*)\n(\d+)")
        assert match is not None
        assert match.groups() == ("[secret]", str(len(SECRET)))
        assert "it is [secret]" in t.screen.rows
        await t.send("\r")
        outcome = await t.wait()
    assert asked == [SecretRequest(prompt="Password: ", program="bash", host=anywhere.host)]
    everything = repr((outcome, t, t.screen, match, heard))
    assert SECRET not in everything
    assert SECRET not in b"".join(heard).decode()


async def test_echoed_or_wrapped_secret_is_masked_in_the_artifact(tmp_path: Path) -> None:
    store = anyshell.ArtifactStore(tmp_path / "kept")
    limits = anyshell.OutputLimits(head=20, tail=20)
    command = "cat; for i in 1 2 3; do echo some more lines of output; done"
    async with (
        Environment.detect(artifacts=store, limits=limits) as environment,
        environment.terminal(command, columns=10) as t,
    ):
        assert await t.wait_for_input()
        assert await t.send_secret(lambda _: SECRET)
        await t.expect(r"\[secret\]\n\[secret\]\n")
        await t.send_key("Ctrl-D")
        outcome = await t.wait()
    assert outcome.output.artifact is not None
    kept = outcome.output.artifact.path.read_bytes()
    assert kept.count(b"[secret]") == 2
    assert SECRET.encode() not in kept


async def test_secret_given_as_text_is_refused_and_not_shown(here: Environment) -> None:
    async with here.terminal("read -s x") as t:
        with pytest.raises(InvalidCommand, match="needs a function") as caught:
            await t.send_secret(SECRET)  # type: ignore[arg-type]  # as who has no types may
        assert SECRET not in str(caught.value)


LONG_SECRET = "Kq7vB2xZtt9LmW4rN8 sYd"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("columns", [10, 20])
async def test_a_secret_is_masked_where_readline_wraps_it(
    here: Environment, locale: str, columns: int
) -> None:
    command = "bash --norc -c 'read -e -p \"> \" x; echo $x'"
    async with here.terminal(command, columns=columns, env={"LC_ALL": locale}) as t:
        await t.expect("> ")
        await t.send_secret(lambda _: LONG_SECRET)
        outcome = await t.wait()
    assert outcome.output.text == "> [secret]\n[secret]\n"


@pytest.mark.parametrize("columns", [10, 13, 16])
async def test_a_secret_is_masked_where_zsh_wraps_it(here: Environment, columns: int) -> None:
    if shutil.which("zsh") is None:
        missing("zsh", "install zsh")
    async with here.terminal("PS1='> ' zsh -f -i", columns=columns) as t:
        await t.wait_for_input()
        await t.send_secret(lambda _: LONG_SECRET)
        await t.expect("not found")
        await t.wait_for_input()
        assert t.lines().texts[0] == "> [secret]"  # zsh removes the second word of its error message


async def test_rest_of_a_slowly_printed_secret_is_masked(
    here: Environment,
) -> None:
    command = (
        'read -s x; for ((i = 0; i < ${#x}; i++)); do printf %s "${x:i:1}"; sleep 0.4; done; echo; echo "$x"'
    )
    async with here.terminal(f"bash -c '{command}'") as t:
        await t.wait_for_input()
        await t.send_secret(lambda _: "secret")
        outcome = await t.wait()
    assert outcome.output.text == "s[secret]\n[secret]\n"


async def test_absent_secret_types_nothing(here: Environment) -> None:
    async with here.terminal("read -s x; echo got $x") as t:
        assert not await t.send_secret(lambda _: None)
        await t.send("other\r")
        await t.expect("got other")


@pytest.mark.parametrize("secret", ["two\nlines", "\x03", 5, "x" * 1025, b"bytes"])
async def test_secret_that_is_not_one_line_is_refused_and_not_shown(here: Environment, secret: Any) -> None:
    async with here.terminal("read -s x") as t:
        with pytest.raises(InvalidCommand) as caught:
            await t.send_secret(lambda _: secret)
        assert str(secret) not in str(caught.value)


async def test_exception_of_a_secret_source_propagates(here: Environment) -> None:
    async def fail(request: SecretRequest) -> str:
        raise LookupError("no keyring")

    async with here.terminal("read -s x") as t:
        with pytest.raises(LookupError, match="no keyring"):
            await t.send_secret(fail)


# # --- run, stream and start on a terminal ----------------------------------------------------------------------


async def test_a_command_runs_on_a_terminal(anywhere: Environment) -> None:
    outcome = await anywhere.run(
        "stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo $TERM", terminal=Terminal(columns=90, rows=33)
    )
    assert outcome.output.text == "33 90\nall\nxterm-256color\n"
    assert outcome.exit_code == 0


async def test_stdin_is_typed_on_a_terminal_and_ended(here: Environment) -> None:
    outcome = await here.run("stty -echo; cat; echo end", terminal=Terminal(), stdin="one\ntwo\n", timeout=5)
    assert outcome.output.text.endswith("one\ntwo\nend\n")


async def test_variables_on_a_terminal_exclude_those_of_another_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"PAGER": "mine", "TMUX": "x", "COLUMNS": "7", "GPG_TTY": "/dev/pts/99"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("CI", raising=False)
    async with Environment.detect() as environment:
        text = (await environment.run("env", terminal=Terminal(term="vt100"))).output.text
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        assert (found["PAGER"], found["TERM"], found["COLORTERM"]) == ("mine", "vt100", "truecolor")
        assert not found.keys() & {"TMUX", "COLUMNS", "GPG_TTY", "CI", "NO_COLOR", "EDITOR"} - os_has(
            "EDITOR"
        )
        text = (await environment.run("echo $PAGER", terminal=Terminal(), env={"PAGER": "less"})).output.text
        assert text == "less\n"
        text = (await environment.run("echo $PAGER $TERM")).output.text
        assert text == "cat dumb\n"


def os_has(*names: str) -> set[str]:
    import os

    return {name for name in names if name in os.environ}


async def test_terminal_and_split_stderr_exclude_each_other(here: Environment) -> None:
    with pytest.raises(InvalidCommand, match="split_stderr"):
        await here.run("true", terminal=Terminal(), split_stderr=True)
    with pytest.raises(InvalidCommand, match="split_stderr"):
        here.stream("true", terminal=Terminal(), split_stderr=True)
    wrong: Any = (80, 24)
    with pytest.raises(InvalidCommand, match="must be a Terminal"):
        await here.run("true", terminal=wrong)
    with pytest.raises(InvalidCommand, match="detached"):
        await here.start("true", terminal=Terminal(), detach=True)  # type: ignore[call-overload]  # as who has no types may


async def test_stream_of_a_terminal_yields_lines_as_printed(here: Environment) -> None:
    async with here.stream("echo one; echo two", terminal=Terminal()) as events:
        lines = [event.text async for event in events]
    assert lines == ["one", "two"]
    assert events.outcome.output.text == "one\ntwo\n"


async def test_a_job_on_a_terminal_is_typed_on(here: Environment) -> None:
    job = await here.start("read -p 'Name? ' name; echo hi $name; cat", terminal=Terminal())
    assert await job.wait_for(r"Name\? ")
    await job.send("bob\r")
    assert await job.wait_for("hi bob")
    await job.send("\x04")
    outcome = await job.wait(timeout=5)
    assert outcome is not None
    assert outcome.output.text == "Name? bob\nhi bob\n"


async def test_process_left_behind_on_a_terminal_delays_no_end(here: Environment) -> None:
    """Unread answers wait in the terminal, and so would the end of input."""
    command = """
        stty raw -echo
        (trap '' HUP; exec sleep 100) &
        for number in $(seq 15000); do printf '\\033[6n'; done
        exit 3
    """
    outcome = await here.run(command, terminal=Terminal(), timeout=15)
    assert (outcome.status, outcome.exit_code) == ("exited", 3)
    assert outcome.job is not None
    stopped = await here.jobs.get(outcome.job).stop()
    assert stopped.status == "cancelled"


async def test_a_command_on_a_terminal_goes_on_as_a_job(here: Environment) -> None:
    outcome = await here.run("echo one; read x; echo two", terminal=Terminal(), background_after=2)
    assert (outcome.status, outcome.output.text) == ("running", "one\n")
    assert outcome.job is not None
    await here.jobs.get(outcome.job).stop(grace=0)
