"""The console widget: shows a program's terminal to a person, and sends the person's keys to the program."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .._exceptions import AnyshellError, InvalidCommand
from .._types import LARGEST_TERMINAL, Outcome
from .._waits import note_failure
from ..policy import visible
from ..terminal import mouse
from .keystrokes import StopKeys, Stroke, stroke, typed
from .picture import strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from ..output import InputModes, StyledScreen
    from ..terminal import DrivenTerminal

STOP_KEYS = ("Escape Escape", "Ctrl-]")
"""The default keys that stop the program: Escape twice, or Ctrl-], as in telnet."""

STOP_SECONDS = 0.5
"""Seconds between two keys of a console's stop sequence, such as Escape Escape; a later key starts a new sequence."""

SCROLLBACK = 1_000
"""Rows of scrolled-away output that a console keeps above the screen by default; older rows are dropped."""

FRAME_SECONDS = 0.04
"""Seconds between two drawings of a console, at least; a drawing that takes longer is followed by a pause as long."""

DRAWING_SECONDS = 1.0
"""Seconds for textual to draw the changed rows of a console; after that the console goes on without waiting."""

TYPED_BYTES = 1024 * 1024
"""Bytes of typed and pasted input of a console that wait until the program reads; further input is refused with a notice."""

DISMISS_SECONDS = 0.5
"""Seconds after the program's end in which no key dismisses a console: a key pressed so early was meant for the program."""

WHEEL_ROWS = 3
"""Rows that one wheel step scrolls in a console; on the alternate screen, cursor keys that one step sends."""

LONGEST_COMMAND = 1_000
"""Characters of a command that a console's header uses; the header shows as many of them as fit."""

_ACTION_ENDS = ("Enter", "Escape", "q")
_UP, _DOWN = -1, 1


class TerminalView(Widget, can_focus=True):
    """The program's screen. Keys pressed here go to the program."""

    ALLOW_SELECT: ClassVar[bool] = False

    DEFAULT_CSS = """
    TerminalView {
        width: 1fr;
        height: 1fr;
        background: #000000;
        color: #e5e5e5;
        pointer: text;
    }
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._owner = console
        self._screen: StyledScreen | None = None

    def show(self, screen: StyledScreen) -> None:
        """Show a screen, and redraw only the changed rows."""
        before, self._screen = self._screen, screen
        if before is None or len(before.rows) != len(screen.rows):
            self.refresh()
            return
        changed = {number for number, row in enumerate(screen.rows) if row != before.rows[number]}
        if before.cursor != screen.cursor:
            changed |= {cursor[0] for cursor in (before.cursor, screen.cursor) if cursor is not None}
        regions = [Region(0, number, self.size.width, 1) for number in sorted(changed)]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """Return one row of the screen."""
        base = self.rich_style
        screen = self._screen
        if screen is None or y >= len(screen.rows):
            return Strip.blank(self.size.width, base)
        at = screen.cursor if self.has_focus and self._owner.running else None
        cursor = at[1] if at is not None and at[0] == y else None
        return strip(screen.rows[y], self.size.width, base, cursor)

    def on_resize(self, event: events.Resize) -> None:
        self._owner.fit(event.size)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        pressed = stroke(event)
        if pressed is not None:
            self._owner.press(pressed, event.time)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._owner.paste(event.text)

    def on_focus(self) -> None:
        self.refresh()
        self._owner.tell_focus(True)

    def on_blur(self) -> None:
        self.refresh()
        self._owner.tell_focus(False)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._point("press", event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._point("release", event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point("move", event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._owner.turn_wheel(_UP, event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._owner.turn_wheel(_DOWN, event)

    def _point(self, action: mouse.Action, event: events.MouseEvent) -> None:
        event.stop()
        self._owner.point(action, event.button - 1, event)


class ConsoleBar(Widget):
    """The header or the footer of a console: one line of text."""

    DEFAULT_CSS = """
    ConsoleBar { height: 1; width: 1fr; background: $panel; color: $text; }
    ConsoleBar.-footer { color: $text-muted; }
    """

    def __init__(self, classes: str) -> None:
        super().__init__(classes=classes)
        self._left = self._right = ""

    def write(self, left: str, right: str) -> None:
        """Set the texts at the left and the right end; the left text is truncated if it does not fit."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render(self) -> Text:
        shown, end = Text(self._left), Text(self._right)
        shown.truncate(max(self.size.width - end.cell_len, 0), overflow="ellipsis", pad=True)
        return Text.assemble(shown, end, no_wrap=True, overflow="crop")


class Console(Vertical):
    """A program on a terminal, for a person: a header, the program's screen in colour, and a footer with the keys.

    Keys go to the program, even keys that the app has bound, except bindings with ``priority=True``. In `ConsoleScreen`,
    keys of such bindings go to the program too. The mouse and the focus are reported to the program on its request. The
    terminal has the size of the widget.

    If the terminal was not entered, the widget enters the terminal with the widget's size, and leaves it after the program's
    end. When the widget is removed, or the app ends, a program that still runs is stopped with all that it started.

    Args:
        terminal: The terminal that is shown: ``env.terminal(command, scrollback=1000)``.
        stop: The keys that stop the program. Each entry is a key's name, or several names with blanks between them, each
            pressed within 0.5 s of the last. All keys but the last reach the program. A second press skips the grace.
        name: The name of the widget.
        id: The id of the widget.
        classes: The CSS classes of the widget.
        disabled: Whether the widget takes no input.

    Raises:
        InvalidCommand: A stop key does not exist.
        AnyshellError: The terminal was made without a scrollback, and keeps no colours.
    """

    DEFAULT_CSS = """
    Console { width: 1fr; height: 1fr; }
    """

    class Ended(Message):
        """The message that the program has ended, or could not be started.

        Attributes:
            console: The console that showed the program.
            outcome: The outcome of the program; ``None`` when the outcome is not known.
            error: The error of the program's start, or of the wait for the program's end; ``None`` without an error.
        """

        def __init__(self, console: Console, outcome: Outcome | None, error: BaseException | None) -> None:
            super().__init__()
            self.console = console
            self.outcome = outcome
            self.error = error

    class Dismissed(Message):
        """The message that the user has seen how the program ended and dismisses the console.

        Attributes:
            console: The dismissed console.
        """

        def __init__(self, console: Console) -> None:
            super().__init__()
            self.console = console

    def __init__(
        self,
        terminal: DrivenTerminal,
        *,
        stop: Sequence[str] = STOP_KEYS,
        name: str | None = None,
        id: str | None = None,  # noqa: A002 - textual's own name for it
        classes: str | None = None,
        disabled: bool = False,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes, disabled=disabled)
        if not terminal.shows:
            raise AnyshellError(
                "a console shows colours and what was scrolled away: make the terminal with "
                "env.terminal(..., scrollback=1000)"
            )
        self.terminal = terminal
        self.border_title = "Console"
        self._stop_keys = StopKeys(stop, STOP_SECONDS)
        self._view = TerminalView(self)
        self._header = ConsoleBar("-header")
        self._footer = ConsoleBar("-footer")
        self._pending: deque[bytes | str] = deque()  # keys as bytes, pastes as text
        self._pending_bytes = 0
        self._typing = asyncio.Event()
        self._wanted: Size | None = None
        self._fitting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._attending: asyncio.Task[None] | None = None
        self._began: float | None = None
        self._over: float | None = None
        self._error: BaseException | None = None
        self._stopping = False
        # The row at the top of a scrolled-back view, counted from the first row that ever scrolled away.
        self._anchor: int | None = None
        self._notice = ""

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the program runs or is still to start; false once the console has seen the program's end."""
        return self._over is None

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the program; ``None`` while the program runs, and when the outcome is not known."""
        try:
            return self.terminal.outcome
        except Exception:  # noqa: BLE001 - whatever it was, `error` has it
            return None

    @property
    def error(self) -> BaseException | None:
        """The error of the program's start, or of the wait for the program's end; ``None`` without an error."""
        return self._error

    # --- lifecycle -------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._view
        yield self._footer

    def on_mount(self) -> None:
        self._view.focus()
        self.set_interval(1.0, self._tell)
        self._tell()

    async def on_unmount(self) -> None:
        """Stop the program if it still runs, since the console no longer shows the program."""
        attending = self._attending
        if attending is None or attending.done():
            return
        self._stop()
        await asyncio.wait([attending])

    def fit(self, size: Size) -> None:
        """Resize the terminal to the size of the view. The first call starts the program."""
        self._wanted = size
        if self._fitting is None or self._fitting.done():
            self._fitting = asyncio.create_task(self._fit())
            self._keep(self._fitting)

    def stop(self) -> None:
        """Stop the program and all that it started, as the stop keys do. A second call skips the grace."""
        self._stop()

    async def _fit(self) -> None:
        while (size := self._wanted) is not None:
            self._wanted = None
            columns, rows = (min(max(cells, 2), LARGEST_TERMINAL) for cells in (size.width, size.height))
            now = self.terminal.terminal
            if self.running and (columns, rows) != (now.columns, now.rows):
                try:
                    await self.terminal.resize(columns=columns, rows=rows)
                except AnyshellError as error:
                    self._say(str(error))
            if self._attending is None:
                self._attending = asyncio.create_task(self._attend())
                self._keep(self._attending)
            else:
                self._draw()

    async def _attend(self) -> None:
        """Enter the terminal unless it was entered, watch the program until its end, and post ``Ended``."""
        self._began = time.monotonic()
        try:
            if self.terminal.entered:
                await self._watch()
            else:
                async with self.terminal:
                    await self._watch()
        except Exception as error:  # noqa: BLE001 - it is shown, and told to the listeners
            self._error = error
        finally:
            self._over = time.monotonic()
            self._typing.set()
            self._draw()
            self._view.refresh()  # without a cursor
            self._tell()
            self.post_message(self.Ended(self, self.outcome, self._error))

    async def _watch(self) -> None:
        if self._stopping:  # the stop was requested before the terminal was entered
            self._keep(asyncio.create_task(self._stopped()))
        typist = asyncio.create_task(self._type())
        try:
            while self.terminal.running:
                began, changes = time.monotonic(), self.terminal.changes
                self._draw()
                await self._drawn()
                # Leave at least half of the time to the app, however much the program draws.
                await asyncio.sleep(max(FRAME_SECONDS, time.monotonic() - began))
                if self.terminal.running:
                    await self.terminal.changed(changes)
            await self.terminal.wait()
        finally:
            typist.cancel()

    async def _drawn(self) -> None:
        """Wait until textual has drawn the screen, `DRAWING_SECONDS` at most."""
        drawn = asyncio.Event()
        if self._view.call_after_refresh(drawn.set):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAWING_SECONDS):
                    await drawn.wait()

    def _stop(self) -> None:
        self._stopping = True
        self._tell()
        if self.terminal.entered and self.running:
            self._keep(asyncio.create_task(self._stopped()))

    async def _stopped(self) -> None:
        await self.terminal.stop(by_person=True)

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to a task until the task ends. The program's own end reports a failure in the task."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(note_failure)

    # --- input from the person ---------------------------------------------------------------------------------

    def press(self, pressed: Stroke, now: float) -> None:
        """Handle a key: scroll, stop the program, dismiss the console, or pass the key to the program.

        Args:
            pressed: The key.
            now: The time of the key press by textual's clock, since the event may have waited in a queue.
        """
        if self._scroll_key(pressed):
            return
        if not self.running:
            ends = pressed[1] in _ACTION_ENDS or self._stop_keys.press(pressed, now)
            if ends and time.monotonic() - (self._over or 0.0) >= DISMISS_SECONDS:
                self.post_message(self.Dismissed(self))
            return
        if self._stop_keys.press(pressed, now):
            self._stop()
            return
        self._follow()
        self._put(typed(pressed, self._modes))

    def paste(self, text: str) -> None:
        """Paste text, as a bracketed paste if the program has set that mode."""
        if self.running and text:
            self._follow()
            self._put(text)

    def tell_focus(self, has: bool) -> None:
        """Report to the program that the terminal has gained or lost the focus, if the program has asked for reports."""
        if self.running and self.terminal.entered and self._modes.focus:
            self._put(b"\x1b[I" if has else b"\x1b[O")

    def point(self, action: mouse.Action, button: int, event: events.MouseEvent) -> None:
        """Report an action of the mouse to the program, if the program has asked for reports."""
        if self.running and self._anchor is None:
            modifiers = {"shift": event.shift, "alt": event.meta, "ctrl": event.ctrl}
            self._put(mouse.report(self._modes, action, button, event.x, event.y, **modifiers))

    def turn_wheel(self, way: int, event: events.MouseEvent) -> None:
        """Report the wheel to a program that uses the mouse, send cursor keys on the alternate screen, or scroll."""
        modes = self._modes
        if self.running and self._anchor is None and modes.mouse not in (None, "press"):
            self.point("press", mouse.WHEEL_UP if way == _UP else mouse.WHEEL_DOWN, event)
        elif self.running and self._anchor is None and self.terminal.screen.alternate:
            self._put(typed((0, "Up" if way == _UP else "Down"), modes) * WHEEL_ROWS)
        else:
            self._scroll(-way * WHEEL_ROWS)

    @property
    def _modes(self) -> InputModes:
        return self.terminal.modes

    def _put(self, what: bytes | str) -> None:
        """Queue keys or pasted text for the program; refuse input beyond `TYPED_BYTES` with a notice and a bell."""
        if not what:
            return
        size = len(what.encode(errors="replace")) if isinstance(what, str) else len(what)
        if self._pending_bytes + size > TYPED_BYTES:
            self._say(f"not typed: the program reads too slowly, or this is more than {TYPED_BYTES:,} bytes")
            self.app.bell()
            return
        self._pending.append(what)
        self._pending_bytes += size
        self._typing.set()

    async def _type(self) -> None:
        """Send the queued input to the program in order, for as long as the program takes to read the input."""
        while True:
            await self._typing.wait()
            self._typing.clear()
            while self._pending:
                what = self._pending.popleft()
                try:
                    if isinstance(what, str):
                        await self.terminal.paste(what, timeout=None)
                    else:
                        await self.terminal.send(what, timeout=None)
                except InvalidCommand as error:  # the line is longer than a terminal can hold
                    self._say(str(error))
                    self.app.bell()
                except AnyshellError:
                    return  # the program has ended, which the console shows
                finally:
                    size = len(what.encode(errors="replace")) if isinstance(what, str) else len(what)
                    self._pending_bytes -= size

    # --- scrollback --------------------------------------------------------------------------------------------

    def _scroll_key(self, pressed: Stroke) -> bool:
        """Scroll if a key is a scroll key, and return whether the key is used up. Without Shift, only after the end."""
        page = max(self._view.size.height - 1, 1)
        ways = {"PageUp": page, "PageDown": -page, "Home": SCROLLBACK * 1_000, "End": -SCROLLBACK * 1_000}
        modifiers, key = pressed
        if key not in ways or (modifiers != 1 and (modifiers or self.running)):
            return False
        return self._scroll(ways[key]) or modifiers == 1

    def _scroll(self, rows: int) -> bool:
        """Scroll up by a number of rows, or down if negative; return whether any rows are above the screen."""
        if not self.terminal.entered:
            return False
        now = self.terminal.view(self._back)
        back = min(max(now.back + rows, 0), now.above)
        self._anchor = now.scrolled - back if back else None
        self._draw()
        self._tell()
        return now.above > 0

    def _follow(self) -> None:
        """Leave the scrollback, and show the current screen."""
        if self._anchor is not None:
            self._anchor = None
            self._draw()
            self._tell()

    @property
    def _back(self) -> int:
        if self._anchor is None:
            return 0
        return max(self.terminal.view().scrolled - self._anchor, 0)

    # --- drawing -----------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.is_attached or not self.terminal.entered:
            return
        screen = self.terminal.view(self._back)
        if self._anchor is not None and not screen.back:
            self._anchor = None
        self._view.show(screen)

    def _say(self, notice: str) -> None:
        """Show a notice in the footer until the next update, a second later at most."""
        self._notice = notice
        self._tell()
        self._notice = ""

    def _tell(self) -> None:
        """Update the header and the footer."""
        if not self.is_attached:
            return
        command = visible(" ".join(self.terminal.command[:LONGEST_COMMAND].split()))
        self._header.write(f" {command}", f" {visible(self.terminal.host)}  {self._elapsed()} ")
        self._footer.write(f" {self._state()}", f" {self._position()} ")

    def _elapsed(self) -> str:
        if self._began is None:
            return "0:00"
        until = time.monotonic() if self._over is None else self._over
        minutes, seconds = divmod(int(until - self._began), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

    def _state(self) -> str:
        if self._notice:
            return visible(self._notice)
        if not self.running:
            return f"{self._ending()}  Enter closes  Shift-PageUp scrolls"
        if self._stopping:
            return f"is being stopped  {self._stop_keys.shown} kills it"
        return f"{self._stop_keys.shown} stops  Shift-PageUp scrolls"

    def _ending(self) -> str:
        if self._error is not None:
            return f"failed: {visible(str(self._error))}"
        outcome = self.outcome
        if outcome is None:
            return "how it ended is not known"
        if outcome.status == "exited":
            return f"ended by {outcome.signal}" if outcome.signal else f"exit code {outcome.exit_code}"
        if outcome.status == "cancelled":
            return "stopped"
        if outcome.silence is not None:
            return f"silent for {outcome.silence:g} s, and was stopped"
        return "timed out, and was stopped" if outcome.status == "timed_out" else "lost: it may still run"

    def _position(self) -> str:
        return f"{self._back} rows back" if self._anchor is not None else ""
