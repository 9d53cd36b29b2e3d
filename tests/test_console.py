"""The console in another app: driven by textual's own Pilot, with real programs on real terminals."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from textual import events
from textual.app import App
from textual.binding import Binding
from textual.widgets import Static

from anyshell import AnyshellError, Environment, InvalidCommand, Outcome
from anyshell.console import STOP_KEYS, Console, ConsoleScreen, widget
from anyshell.console.keystrokes import StopKeys, stroke
from anyshell.console.widget import TYPED_BYTES, ConsoleBar, TerminalView

from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.pilot import Pilot

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the two keys of a pair together, also on a slow machine."""
    monkeypatch.setattr("anyshell.console.widget.STOP_SECONDS", 20.0)


BOUND = 20.0
"""Seconds after which an expected state counts as missing."""

HEARS = "stty raw -echo; printf 'ready\\r\\n'; {}exec cat -vT"
"""A program that shows which bytes it reads."""


class Under(App[None]):
    """Another app, with a constantly changing widget and key bindings, some with priority."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "pressed('x')"),
        Binding("f5", "pressed('f5')", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.counter = Static("under it")
        self.pressed: list[str] = []
        self.ended: list[Console.Ended] = []

    def compose(self) -> ComposeResult:
        yield self.counter

    def on_mount(self) -> None:
        self.set_interval(0.25, self._tick)

    def _tick(self) -> None:
        self.count += 1
        if self.counter.is_attached:
            self.counter.update(f"count {self.count}")

    def action_pressed(self, key: str) -> None:
        self.pressed.append(key)

    def on_console_ended(self, event: Console.Ended) -> None:
        self.ended.append(event)


class Shown:
    """A console on the screen of an app."""

    def __init__(self, pilot: Pilot[None], screen: ConsoleScreen, results: list[Outcome | None]) -> None:
        self.pilot = pilot
        self.app: Any = pilot.app
        self.screen = screen
        self.console = screen.console
        self.terminal = screen.console.terminal
        self.view = self.console.query_one(TerminalView)
        self.results = results

    @property
    def drawn(self) -> str:
        """The text of the widget, which may be older than the screen of the terminal."""
        lines = [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]
        return "\n".join(lines)

    @property
    def header(self) -> str:
        return str(self.console.query(ConsoleBar)[0].render())

    @property
    def footer(self) -> str:
        return str(self.console.query(ConsoleBar)[1].render())

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        give_up = time.monotonic() + BOUND
        while not holds():
            assert time.monotonic() < give_up, f"it never came to {what!r}:\n{self.drawn}\n{self.footer}"
            await self.pilot.pause(0.01)

    async def wait(self, text: str) -> str:
        await self.until(lambda: text in self.drawn, text)
        return self.drawn

    async def end(self) -> Outcome | None:
        """Dismiss the console after the end of the program."""
        await self.until(lambda: not self.console.running, "the end")
        give_up = time.monotonic() + BOUND
        while not self.results:
            assert time.monotonic() < give_up, "it was not dismissed"
            await self.pilot.press("enter")
            await self.pilot.pause(0.05)
        return self.results[0]


@contextlib.asynccontextmanager
async def showing(
    command: str, *, size: tuple[int, int] = (84, 26), stop: tuple[str, ...] = STOP_KEYS, **options: Any
) -> AsyncIterator[Shown]:
    app = Under()
    async with Environment.detect(shell="bash") as env, app.run_test(size=size) as pilot:
        results: list[Outcome | None] = []
        screen = ConsoleScreen(env.terminal(command, **{"scrollback": 100, **options}), stop=stop)
        await app.push_screen(screen, results.append)
        yield Shown(pilot, screen, results)


async def test_console_shows_program_and_exit_until_dismissed() -> None:
    async with showing(r"""printf '\e[31mred\e[m\n'; read -p 'name? ' x; echo "I am $x"; exit 3""") as shown:
        await shown.wait("name?")
        await shown.pilot.press("J", "o")
        assert "exec" not in shown.footer
        await shown.pilot.press("enter")
        await shown.wait("I am Jo")
        await shown.until(lambda: "exit code 3" in shown.footer, "how it ended")
        assert shown.app.screen is shown.screen
        assert shown.results == []
        outcome = await shown.end()
        assert outcome is not None
        assert (outcome.status, outcome.exit_code) == ("exited", 3)
        assert outcome.output.text == "red\nname? Jo\nI am Jo\n"
        assert shown.app.screen is not shown.screen


async def test_app_below_the_console_runs_on() -> None:
    async with showing("echo ready; sleep 300") as shown:
        await shown.wait("ready")
        before = shown.app.count
        await shown.until(lambda: shown.app.count > before + 1, "more counts")

        def seen() -> str:
            return str(shown.app.export_screenshot())

        first = seen()
        assert "Console" in first
        await shown.until(lambda: f"count&#160;{shown.app.count}" in seen(), "the count below, as it is now")
        await shown.pilot.press("escape", "escape")


KEYS = [
    ("x", "x"),  # bound by the app
    ("f5", "^[[15~"),  # bound with priority
    ("ctrl+q", "^Q"),  # ends each app
    ("ctrl+p", "^P"),  # opens the command palette
    ("ctrl+c", "^C"),
    ("ctrl+z", "^Z"),
    ("tab", "^I"),  # moves the focus
    ("shift+tab", "^[[Z"),
    ("enter", "^M"),
    ("backspace", "^?"),
    ("escape", "^["),
    ("é", "M-CM-)"),
    ("A", "A"),
    ("~", "~"),
    ("space", " "),
    ("alt+x", "^[x"),
    ("alt+full_stop", "^[."),
    ("ctrl+@", "^@"),
    ("ctrl+underscore", "^_"),
    ("ctrl+backslash", "^\\"),
    ("up", "^[[A"),
    ("home", "^[[H"),
    ("ctrl+left", "^[[1;5D"),
    ("alt+up", "^[[1;3A"),
    ("shift+f1", "^[[1;2P"),
    ("f12", "^[[24~"),
    ("delete", "^[[3~"),
    ("pageup", "^[[5~"),
    ("shift+enter", "^M"),  # a terminal has no other encoding for this key
    ("ctrl+shift+a", "^A"),
]

ASKED = [
    (r"printf '\e[?1h'; ", [("up", "^[OA"), ("end", "^[OF"), ("ctrl+up", "^[[1;5A")]),
    (
        r"printf '\e[>1u'; ",
        [
            ("escape", "^[[27u"),
            ("ctrl+c", "^[[99;5u"),
            ("shift+enter", "^[[13;2u"),
            ("x", "x"),
            ("up", "^[[A"),
        ],
    ),
    (r"printf '\e[>25u'; ", [("x", "^[[120;;120u"), ("enter", "^[[13u")]),
]


@pytest.mark.parametrize(("asks", "keys"), [("", KEYS), *ASKED], ids=["plain", "cursor", "kitty", "all"])
async def test_keys_are_sent_in_the_mode_of_the_program(asks: str, keys: list[tuple[str, str]]) -> None:
    async with showing(HEARS.format(asks), size=(140, 26), stop=("F9",)) as shown:
        await shown.wait("ready")
        sent = ""
        for key, bytes_shown in keys:
            await shown.pilot.press(key)
            sent += bytes_shown
        await shown.until(lambda: sent in shown.drawn.replace("\n", ""), sent)
        assert shown.app.pressed == []
        await shown.pilot.press("f9")
        await shown.end()


async def test_paste_is_bracketed_on_request() -> None:
    async with showing(HEARS.format(r"printf '\e[?2004h'; "), stop=("F9",)) as shown:
        await shown.wait("ready")
        shown.view.post_message(events.Paste("two\nlines\x1b[201~"))
        await shown.wait("^[[200~two^Mlines^[[201~")
        await shown.pilot.press("f9")
    async with showing(HEARS.format(""), stop=("F9",)) as shown:
        await shown.wait("ready")
        shown.view.post_message(events.Paste("plain"))
        await shown.wait("plain")
        assert "^[" not in shown.drawn


async def test_mouse_and_focus_are_reported_only_on_request() -> None:
    async with showing(HEARS.format(r"printf '\e[?1000;1006;1004h'; "), stop=("F9",)) as shown:
        await shown.wait("ready")
        await shown.until(lambda: shown.terminal.modes.mouse == "click", "its request")
        await shown.pilot.click(TerminalView, offset=(4, 2))
        await shown.wait("^[[<0;5;3M^[[<0;5;3m")
        turned = events.MouseScrollDown(shown.view, 1, 0, 0, 0, 0, False, False, False)
        shown.view.post_message(turned)
        await shown.wait("^[[<65;2;1M")
        shown.screen.set_focus(None)
        await shown.wait("^[[O")
        shown.view.focus()
        await shown.wait("^[[I")
    async with showing(HEARS.format(""), stop=("F9",)) as shown:
        await shown.wait("ready")
        await shown.pilot.click(TerminalView, offset=(4, 2))
        await shown.pilot.press("z")
        assert "ready\nz\n" in await shown.wait("z")


async def test_the_wheel_presses_cursor_keys_on_the_alternate_screen() -> None:
    async with showing(HEARS.format(r"printf '\e[?1049h'; "), stop=("F9",)) as shown:
        await shown.until(lambda: shown.terminal.entered and shown.terminal.screen.alternate, "its screen")
        shown.view.post_message(events.MouseScrollUp(shown.view, 1, 0, 0, 0, 0, False, False, False))
        await shown.wait("^[[A" * widget.WHEEL_ROWS)


async def test_program_has_the_widget_size_and_gets_resizes() -> None:
    async with showing('trap "stty size" WINCH; stty size; while :; do sleep 0.05; done') as shown:
        rows, columns = shown.view.size.height, shown.view.size.width
        assert (rows, columns) != (24, 80)
        await shown.wait(f"{rows} {columns}\n")
        await shown.pilot.resize_terminal(60, 20)
        await shown.until(lambda: shown.view.size.width < columns, "another size")
        await shown.wait(f"{shown.view.size.height} {shown.view.size.width}\n")
        assert shown.terminal.terminal.columns == shown.view.size.width


async def test_keys_and_wheel_show_rows_scrolled_away() -> None:
    command = "for i in {1..60}; do printf '\\e[32mline %d\\e[m\\n' $i; done; cat -v"
    async with showing(command) as shown:
        await shown.wait("line 60")
        assert "line 30\n" not in shown.drawn
        await shown.pilot.press("shift+pageup", "shift+pageup")
        await shown.wait("line 20\n")
        assert "rows back" in shown.footer
        await shown.pilot.press("shift+home")
        assert (await shown.wait("line 1\n")).startswith("line 1\nline 2\n")
        shown.view.post_message(events.MouseScrollDown(shown.view, 1, 0, 0, 0, 0, False, False, False))
        await shown.until(lambda: shown.drawn.startswith(f"line {1 + widget.WHEEL_ROWS}\n"), "three down")
        # The scrolled view stays in place during new output; typing shows the screen again.
        await shown.terminal.send("more\r")
        await shown.until(lambda: "more" in shown.terminal.screen.rows[-2], "more, below")
        assert shown.drawn.startswith(f"line {1 + widget.WHEEL_ROWS}\n")
        await shown.pilot.press("y")
        await shown.wait("more\ny")
        assert "rows back" not in shown.footer


async def test_single_escape_reaches_the_program_and_two_stop_the_tree() -> None:
    seconds = unique_seconds()
    async with showing(f"(setsid sleep {seconds} &) ; {HEARS.format('')}") as shown:
        await shown.wait("ready")
        assert living(f"sleep {seconds}")
        await shown.pilot.press("escape", "x")
        await shown.wait("^[x")
        assert shown.console.running
        await shown.pilot.press("escape")
        await shown.until(lambda: shown.drawn.count("^[") == 2, "the first key of the pair")
        await shown.pilot.press("escape")
        await shown.until(lambda: "stopped" in shown.footer and not shown.console.running, "the stop")
        assert shown.terminal.stopped_by_person
        assert living(seconds) == []
        assert shown.drawn.count("^[") == 2  # the first key of the pair reached the program as well
        outcome = await shown.end()
        assert outcome is not None
        assert outcome.status == "cancelled"


async def test_stop_chord_asks_and_a_second_press_kills() -> None:
    seconds = unique_seconds()
    text = f"trap 'echo asked' HUP TERM; echo ready; while :; do sleep {seconds}; done"
    async with showing(text, grace=300.0) as shown:
        await shown.wait("ready")
        await shown.pilot.press("ctrl+right_square_bracket")
        await shown.wait("asked")
        assert "being stopped" in shown.footer
        await shown.pilot.press("ctrl+right_square_bracket")
        await shown.until(lambda: not shown.console.running, "the kill")
        assert living(seconds) == []


@pytest.mark.parametrize("how", ["dismiss", "remove"])
async def test_dismissed_console_stops_its_program(how: str) -> None:
    seconds = unique_seconds()
    async with showing(f"echo ready; sleep {seconds}") as shown:
        await shown.wait("ready")
        if how == "dismiss":
            shown.screen.dismiss(None)
        else:
            await shown.console.remove()
        give_up = time.monotonic() + BOUND
        while shown.terminal.running:
            assert time.monotonic() < give_up, "it runs on"
            await asyncio.sleep(0.01)
        assert living(seconds) == []
        assert shown.terminal.stopped_by_person


@pytest.mark.parametrize("crashes", [True, False])
async def test_ended_or_crashed_app_leaves_no_process(crashes: bool) -> None:
    seconds = unique_seconds()
    async with Environment.detect(shell="bash") as env:
        terminal = env.terminal(f"echo ready; sleep {seconds}", scrollback=1)

        async def show() -> None:
            app = Under()
            async with app.run_test() as pilot:
                await app.push_screen(ConsoleScreen(terminal))
                give_up = time.monotonic() + BOUND
                while not terminal.entered or "ready" not in terminal.screen.rows:
                    assert time.monotonic() < give_up
                    await pilot.pause(0.01)
                if crashes:
                    app.call_later(lambda: 1 / 0)
                else:
                    app.exit()

        with pytest.raises(ZeroDivisionError) if crashes else contextlib.nullcontext():
            await show()
        assert not terminal.running
        assert living(seconds) == []


async def test_program_with_unread_input_is_stoppable_in_bounded_memory() -> None:
    async with showing("stty raw -echo; echo ready; exec sleep 300") as shown:
        await shown.wait("ready")
        shown.view.post_message(events.Paste("x" * (TYPED_BYTES // 2 + 1)))
        shown.view.post_message(events.Paste("x" * (TYPED_BYTES // 2)))
        await shown.until(lambda: shown.console._pending_bytes > TYPED_BYTES // 2, "the first one")
        await shown.pilot.pause()
        assert shown.console._pending_bytes <= TYPED_BYTES
        await shown.pilot.press("escape", "escape")
        await shown.until(lambda: not shown.console.running, "the stop")


async def test_a_flood_can_be_stopped() -> None:
    flood = r"while :; do printf '\e[H\e[2J\e[31mflood\e[10;10H%s' {1..200}; done"
    async with showing(flood) as shown:
        await shown.wait("flood")
        await shown.pilot.press("ctrl+right_square_bracket")
        await shown.until(lambda: not shown.console.running, "the stop")


async def test_failed_start_is_reported() -> None:
    async with showing("true", cwd="/nowhere") as shown:
        await shown.until(lambda: not shown.console.running, "the failure")
        assert "failed: " in shown.footer
        assert "/nowhere" in shown.footer
        assert isinstance(shown.console.error, InvalidCommand)
        assert await shown.end() is None


async def test_entered_terminal_can_be_shown() -> None:
    app = Under()
    async with Environment.detect(shell="bash") as env, app.run_test() as pilot:
        async with env.terminal("read x; echo got $x; exit 4", scrollback=10) as terminal:
            console = Console(terminal)
            await app.mount(console)
            await pilot.press("y", "enter")
            give_up = time.monotonic() + BOUND
            while not app.ended:
                assert time.monotonic() < give_up
                await pilot.pause(0.01)
            assert app.ended[0].console is console
            assert app.ended[0].error is None
        assert terminal.outcome is not None
        assert terminal.outcome.exit_code == 4


async def test_wrong_console_arguments_are_refused() -> None:
    async with Environment.detect() as env:
        with pytest.raises(AnyshellError, match="scrollback=1000"):
            Console(env.terminal("true"))
        for keys in ((), "Escape", ("",), ("Escape Nokey",)):
            with pytest.raises(InvalidCommand):
                Console(env.terminal("true", scrollback=1), stop=keys)
        for rows in (-1, 10_001, "many"):
            with pytest.raises(InvalidCommand, match="scrollback"):
                env.terminal("true", scrollback=rows)  # type: ignore[arg-type]  # that is what is tried


async def test_header_shows_foreign_text_without_controls() -> None:
    async with showing("printf '%s' '\u202e[red]\x07'; sleep 300") as shown:
        await shown.until(lambda: shown.terminal.running, "its start")
        assert "[red]" in shown.header
        assert "\u202e" not in shown.header
        assert "\x07" not in shown.header


def test_stop_key_pairs_have_a_time_limit() -> None:
    escape, other = (0, "Escape"), (0, "x")
    keys = StopKeys(("Esc esc", "C-]"), 0.5)
    assert keys.shown == "Escape Escape or Ctrl-]"
    assert not keys.press(escape, 1.0)
    assert not keys.press(escape, 1.6)  # too late: counts as a first key
    assert keys.press(escape, 2.0)
    assert not keys.press(escape, 2.1)  # the pair is over
    assert not keys.press(other, 2.2)
    assert not keys.press(escape, 2.3)
    assert keys.press((4, "]"), 9.0)


def test_keys_unknown_to_terminals_are_ignored() -> None:
    assert stroke(events.Key("raise_volume", None)) is None
    assert stroke(events.Key("super+x", None)) is None
    assert stroke(events.Key("+", "+")) == (0, "+")
    assert stroke(events.Key("ctrl+right_square_bracket", "\x1d")) == (4, "]")
    assert stroke(events.Key("alt+shift+x", "X")) == (2, "X")


# Pictures


class Pictured(App[None]):
    """An app under a console, for a picture."""

    CSS = "Static { color: ansi_green; }"

    def __init__(self, command: str, **options: Any) -> None:
        super().__init__()
        self._command = command
        self._options = options
        self.console_screen: ConsoleScreen | None = None

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"the app below, line {number}" for number in range(1, 25)))

    async def on_mount(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        env = await self._stack.enter_async_context(Environment.detect(shell="bash"))
        self.console_screen = ConsoleScreen(env.terminal(self._command, scrollback=100, **self._options))
        await self.push_screen(self.console_screen)

    async def on_unmount(self) -> None:
        await self._stack.aclose()


COLOURS = (
    r"printf '\e[1;31mred\e[m \e[4;32munderlined\e[m \e[7mreverse\e[m \e[38;5;208;48;2;0;0;95mdirect\e[m\r\n"
    r"\e[44;97m blue to the end \e[K\e[m\r\n\e[2mdim\e[m \e[3mitalic\e[m \e[9mstrike\e[m\r\n"
    r"漢字 wide, \e(0lqqk\e(B drawn\r\n\r\n$ '; "
)


async def wait_for(pilot: Pilot[None], holds: Callable[[Console], bool]) -> None:
    give_up = time.monotonic() + BOUND
    app: Any = pilot.app
    while app.console_screen is None or not holds(app.console_screen.console):
        assert time.monotonic() < give_up, "what the picture should show did not come"
        await pilot.pause(0.01)
    await pilot.pause()


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture must not depend on its time."""
    monkeypatch.setattr(widget, "time", SimpleNamespace(monotonic=lambda: 1000.0))


def shows(console: Console, text: str) -> bool:
    view = console.query_one(TerminalView)
    return text in "\n".join(view.render_line(y).text for y in range(view.size.height))


@pytest.mark.usefixtures("stopped_clock")
def test_a_picture_of_a_running_program(snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda console: console.is_mounted and shows(console, "$ "))

    assert snap_compare(Pictured(COLOURS + "read x"), terminal_size=(80, 24), run_before=before)


@pytest.mark.usefixtures("stopped_clock")
def test_a_picture_of_one_that_has_ended(snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda console: not console.running)

    app = Pictured("seq 40; echo failed; exit 3")
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


@pytest.mark.usefixtures("stopped_clock")
def test_a_picture_of_what_was_scrolled_away(snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda console: console.is_mounted and shows(console, "40"))
        await pilot.press("shift+pageup")
        await wait_for(pilot, lambda console: shows(console, "20"))

    app = Pictured("printf '\\e[33m'; seq 40; read x")
    assert snap_compare(app, terminal_size=(60, 20), run_before=before)


# Imports


def test_textual_is_imported_only_for_a_console() -> None:
    program = (
        "import anyshell, anyshell.tool, anyshell.cli.program, anyshell.cli.commands.run.command, sys; "
        "print([name for name in ('textual', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_missing_textual_names_the_extra() -> None:
    program = "import sys; sys.modules['textual'] = None; import anyshell.console"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'anyshell[console]'" in done.stderr
