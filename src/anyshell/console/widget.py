"""The widget: a program on a terminal as a person sees it, and types on it."""

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
"""The default keys that stop the program: Escape twice, or telnet's chord for leaving."""

STOP_SECONDS = 0.5
"""Seconds between two keys that stop a console's program together, such as Escape and Escape."""

SCROLLBACK = 1_000
"""Rows above the screen that a console keeps of what scrolls away, unless given."""

FRAME_SECONDS = 0.04
"""Seconds between two drawings of a console, at least; one that took longer is followed by as long a pause."""

DRAWING_SECONDS = 1.0
"""Seconds for textual to draw what has changed; then the console goes on."""

TYPED_BYTES = 1024 * 1024
"""Bytes typed and pasted in a console that wait until the program reads; more are refused, and that is said."""

DISMISS_SECONDS = 0.5
"""Seconds after the end for which no key dismisses a console: it was meant for the program."""

WHEEL_ROWS = 3
"""Rows that a step of the wheel scrolls in a console, or cursor keys that it presses on the alternate screen."""

LONGEST_COMMAND = 1_000
"""Characters of a command of which a console's header shows as many as there is room for."""

_ACTION_ENDS = ("Enter", "Escape", "q")
_UP, _DOWN = -1, 1


class TerminalView(Widget, can_focus=True):
    """The screen itself. What is typed here goes to the program."""

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
        """Draw what has changed."""
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
        """One row of it."""
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
    """A line of words: the header, or the footer."""

    DEFAULT_CSS = """
    ConsoleBar { height: 1; width: 1fr; background: $panel; color: $text; }
    ConsoleBar.-footer { color: $text-muted; }
    """

    def __init__(self, classes: str) -> None:
        super().__init__(classes=classes)
        self._left = self._right = ""

    def write(self, left: str, right: str) -> None:
        """Have something stand at both ends; there may be too much of the left one."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    def render(self) -> Text:
        shown, end = Text(self._left), Text(self._right)
        shown.truncate(max(self.size.width - end.cell_len, 0), overflow="ellipsis", pad=True)
        return Text.assemble(shown, end, no_wrap=True, overflow="crop")


class Console(Vertical):
    """A program on a terminal, for a person: a header, its screen with its colours, and a footer with the keys.

    What is typed goes to the program, whatever bindings the app has, but for those that it has with ``priority=True``;
    in `ConsoleScreen` for those as well. Mouse and focus are told to the program when it asks for them. The terminal has
    the size of the widget.

    A terminal that was not entered is entered by the widget, with the widget's size, and left with it. When the widget is
    removed, or the app ends, a program that still runs is stopped with all that it started.

    Args:
        terminal: The terminal that is shown: ``env.terminal(command, scrollback=1000)``.
        stop: The keys that stop the program; each a key's name, or names with blanks between them, to be pressed within
            0.5 s each. All but the last of these reach the program. Pressed again, they skip the grace.
        name: The name of the widget.
        id: Its id.
        classes: Its CSS classes.
        disabled: Whether it takes no input.

    Raises:
        InvalidCommand: There is no such key.
        AnyshellError: The terminal was made without a scrollback, and keeps no colours.
    """

    DEFAULT_CSS = """
    Console { width: 1fr; height: 1fr; }
    """

    class Ended(Message):
        """The program has ended, or could not be started.

        Attributes:
            console: Where.
            outcome: Its outcome; ``None`` when that is not known.
            error: The error of its start, or of the wait for its end.
        """

        def __init__(self, console: Console, outcome: Outcome | None, error: BaseException | None) -> None:
            super().__init__()
            self.console = console
            self.outcome = outcome
            self.error = error

    class Dismissed(Message):
        """The user has seen how the program ended and dismisses the console.

        Attributes:
            console: Which.
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
        self._anchor: int | None = (
            None  # the row at the top that is looked at, counted from the first there ever was
        )
        self._notice = ""

    # --- what there is to know -------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the program runs, or will; it is over when it was seen to end."""
        return self._over is None

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the program; ``None`` while it runs, and when it is not known."""
        try:
            return self.terminal.outcome
        except Exception:  # noqa: BLE001 - whatever it was, `error` has it
            return None

    @property
    def error(self) -> BaseException | None:
        """The error that prevented the start of the program, or the knowledge of its end."""
        return self._error

    # --- its life --------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._view
        yield self._footer

    def on_mount(self) -> None:
        self._view.focus()
        self.set_interval(1.0, self._tell)
        self._tell()

    async def on_unmount(self) -> None:
        """Stop the program if it still runs: it is not shown any more."""
        attending = self._attending
        if attending is None or attending.done():
            return
        self._stop()
        await asyncio.wait([attending])

    def fit(self, size: Size) -> None:
        """Give the terminal the size of the view. The first one starts the program."""
        self._wanted = size
        if self._fitting is None or self._fitting.done():
            self._fitting = asyncio.create_task(self._fit())
            self._keep(self._fitting)

    def stop(self) -> None:
        """Stop the program, with all that it started, as the person's keys do. A second call skips the grace."""
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
        """See to the program until it has ended."""
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
        if self._stopping:  # before it was there
            self._keep(asyncio.create_task(self._stopped()))
        typist = asyncio.create_task(self._type())
        try:
            while self.terminal.running:
                began, changes = time.monotonic(), self.terminal.changes
                self._draw()
                await self._drawn()
                # The app has half of the time at least, whatever the program draws.
                await asyncio.sleep(max(FRAME_SECONDS, time.monotonic() - began))
                if self.terminal.running:
                    await self.terminal.changed(changes)
            await self.terminal.wait()
        finally:
            typist.cancel()

    async def _drawn(self) -> None:
        """Wait until it stands on the person's terminal."""
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
        """Have a task live as long as it takes. What goes wrong in it is told by the program's own end."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(note_failure)

    # --- what the person does ----------------------------------------------------------------------------------

    def press(self, pressed: Stroke, now: float) -> None:
        """Take a key: for scrolling, for stopping, or for the program.

        Args:
            pressed: The key.
            now: When it was pressed, by textual's clock: it may have had to wait.
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
        """Paste text, as one piece where the program has asked for that."""
        if self.running and text:
            self._follow()
            self._put(text)

    def tell_focus(self, has: bool) -> None:
        """Tell the program that it has the focus, or has lost it, if it wants to know."""
        if self.running and self.terminal.entered and self._modes.focus:
            self._put(b"\x1b[I" if has else b"\x1b[O")

    def point(self, action: mouse.Action, button: int, event: events.MouseEvent) -> None:
        """Tell the program what the mouse does, if it wants to know."""
        if self.running and self._anchor is None:
            modifiers = {"shift": event.shift, "alt": event.meta, "ctrl": event.ctrl}
            self._put(mouse.report(self._modes, action, button, event.x, event.y, **modifiers))

    def turn_wheel(self, way: int, event: events.MouseEvent) -> None:
        """Tell the program of the wheel if it wants the mouse; press cursor keys on the alternate screen; or scroll."""
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
        """Have something typed when its turn comes."""
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
        """Type what waits, in its order, for as long as the program takes to read it."""
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
                except InvalidCommand as error:  # more than a terminal holds of a line
                    self._say(str(error))
                    self.app.bell()
                except AnyshellError:
                    return  # it has ended, which is shown
                finally:
                    size = len(what.encode(errors="replace")) if isinstance(what, str) else len(what)
                    self._pending_bytes -= size

    # --- what was scrolled away --------------------------------------------------------------------------------

    def _scroll_key(self, pressed: Stroke) -> bool:
        """Scroll, if that is what a key is for; of the keys that are, only those with Shift are never the program's."""
        page = max(self._view.size.height - 1, 1)
        ways = {"PageUp": page, "PageDown": -page, "Home": SCROLLBACK * 1_000, "End": -SCROLLBACK * 1_000}
        modifiers, key = pressed
        if key not in ways or (modifiers != 1 and (modifiers or self.running)):
            return False
        return self._scroll(ways[key]) or modifiers == 1

    def _scroll(self, rows: int) -> bool:
        """Go up by so many rows, or down; whether there is anything to scroll."""
        if not self.terminal.entered:
            return False
        now = self.terminal.view(self._back)
        back = min(max(now.back + rows, 0), now.above)
        self._anchor = now.scrolled - back if back else None
        self._draw()
        self._tell()
        return now.above > 0

    def _follow(self) -> None:
        """Show the screen itself again."""
        if self._anchor is not None:
            self._anchor = None
            self._draw()
            self._tell()

    @property
    def _back(self) -> int:
        if self._anchor is None:
            return 0
        return max(self.terminal.view().scrolled - self._anchor, 0)

    # --- what is drawn -----------------------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.is_attached or not self.terminal.entered:
            return
        screen = self.terminal.view(self._back)
        if self._anchor is not None and not screen.back:
            self._anchor = None
        self._view.show(screen)

    def _say(self, notice: str) -> None:
        """Say something until the next second."""
        self._notice = notice
        self._tell()
        self._notice = ""

    def _tell(self) -> None:
        """Write header and footer anew."""
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
