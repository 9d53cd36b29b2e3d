"""A program on a terminal, driven by a program."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from .._engine import Control
from .._exceptions import AnyshellError, InvalidCommand
from .._types import Channel, Outcome, Terminal, TerminalLines, check_count, check_seconds, check_text
from .._waits import outlast
from ..output import expression
from . import secrets
from .keys import encode
from .search import SETTLE_SECONDS, TerminalSearch
from .secrets import SecretRequest, SecretSource

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from .._types import Foreground, Screen, Waiting
    from .._types.checks import Seconds
    from ..output import InputModes, StyledScreen
    from .controller import Controller

Listener = Callable[[Channel, bytes], Awaitable[None]]

ConsoleOpener = Callable[["DrivenTerminal"], Awaitable[bool]]
"""Shows a program on its terminal to a person, and returns when it is not shown any more: ``True`` when the person has
dismissed it, which stops the program if it still runs, ``False`` when no person was there to see it.
``anyshell.console.opener(app)`` is one."""

EXPECT_SECONDS = 30.0
"""Seconds for something to be expected, or for input to be waited for, unless given."""

SEND_SECONDS = 5.0
"""Seconds for which a program may take nothing of what is typed, unless given; then typing has failed."""

SECRET_SECONDS = 600.0
"""Seconds for a secret to be given that is asked for."""

_PASTE_BEGINS, _PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
_EMBEDDED_END = re.compile("(?:\x1b\\[|\x9b)201~")


class DrivenTerminal:
    """A program on a terminal: it is typed on here, and what it shows is read here.

    Used with ``async with``, which starts the program. Leaving it stops the program, if it still runs; its outcome is
    then ``cancelled``.

    Whatever is typed arrives in the order in which it was sent. Typing on the terminal of a program that has ended is an
    `AnyshellError` that says how it ended. A program that takes nothing for 5 s, since it does not read, is one as well:
    it says how many bytes were taken. A terminal that passes on whole lines takes 4,095 bytes of a line, as everywhere.
    """

    def __init__(
        self,
        run: Callable[[Listener, Control, Terminal], Awaitable[Outcome]],
        controller: Controller,
        *,
        command: str,
        host: str,
        terminal: Terminal,
        listener: Listener | None,
        shows: bool = False,
        control: Control | None = None,
    ) -> None:
        self._run = run
        self._controller = controller
        self._command = command
        self._host = host
        self._terminal = terminal
        self._listener = listener
        self._shows = shows
        self._stopped_by_person = False
        self._control = control or Control()
        self._search = TerminalSearch(controller)
        self._task: asyncio.Task[Outcome] | None = None
        self._duration = 0.0

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise AnyshellError("a terminal is entered once: ask the environment for another one")
        controller = self._controller
        task = self._task = asyncio.ensure_future(self._run(self._hear, self._control, self._terminal))
        began = time.monotonic()
        task.add_done_callback(lambda _: self._end(began))
        try:
            await self._begun_or_over(task)
        except asyncio.CancelledError:
            task.cancel()
            await outlast(task, task.cancel)
            raise
        if not controller.begun.done():
            self._result(task)  # raises why it could not be started
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._started()
        if not task.done():
            self._control.cancel()
        cancelled = await outlast(
            task, self._control.cancel
        )  # which skips the grace, and the outcome is whole
        if error is None and not task.cancelled() and (failure := task.exception()) is not None:
            raise failure
        if cancelled is not None:
            raise cancelled

    @property
    def command(self) -> str:
        """The text of the command that runs on it."""
        return self._command

    @property
    def host(self) -> str:
        """Where it runs: ``local``, or the host's address."""
        return self._host

    @property
    def entered(self) -> bool:
        """Whether the program was started, or is being."""
        return self._task is not None

    @property
    def terminal(self) -> Terminal:
        """Its size and kind."""
        return self._terminal

    @property
    def modes(self) -> InputModes:
        """What the program has told the terminal about the keys, the mouse and the pastes that it wants."""
        return self._controller.output.modes

    @property
    def pid(self) -> int | None:
        """The number of its program on the host, where the host tells."""
        process = self._controller.process
        return None if process is None else process.pid

    @property
    def running(self) -> bool:
        """Whether the program runs, or is being stopped."""
        return self._task is not None and not self._task.done()

    @property
    def stopped_by_person(self) -> bool:
        """Whether a person has stopped it in a console while it ran, rather than a program."""
        return self._stopped_by_person

    @property
    def outcome(self) -> Outcome | None:
        """What became of it; ``None`` while it runs.

        Raises:
            Exception: What kept it from being learnt.
        """
        return None if self._task is None or not self._task.done() else self._result(self._task)

    @property
    def screen(self) -> Screen:
        """What stands on the terminal now."""
        return self._controller.output.screen

    @property
    def shows(self) -> bool:
        """Whether there is a `view`: whether it was made with a scrollback."""
        return self._shows

    def view(self, back: int = 0) -> StyledScreen:
        """What stands on the terminal now, with its colours, or so many rows above it, as far as these are kept.

        Args:
            back: Rows to go up; more than there are goes up to the first.

        Raises:
            InvalidCommand: No such number.
            AnyshellError: The terminal was made without a scrollback, and keeps no colours.
        """
        check_count("back", back, least=0)
        if not self._shows:
            raise AnyshellError(
                "this terminal keeps no colours: make it with env.terminal(..., scrollback=1000)"
            )
        return self._controller.output.view(back)

    @property
    def changes(self) -> int:
        """How often the program has printed something, or ended: so it is known whether what was seen is still so."""
        return self._controller.changes

    async def changed(self, since: int, *, timeout: Seconds | None = None) -> bool:
        """Wait until the program has printed something, or has ended.

        Args:
            since: What `changes` was when it was looked at; if it is another now, there is no wait.
            timeout: Seconds; ``None`` is no bound.

        Returns:
            Whether it has; ``False`` when the time is over, or it had ended before.

        Raises:
            InvalidCommand: A bad timeout, or no such number.
        """
        check_count("since", since, least=0)
        timeout = check_seconds("timeout", timeout, zero=True)
        return since != self.changes or await self._controller.changed(timeout)

    def lines(self, since: int = 0) -> TerminalLines:
        """What stands on the main screen and what has scrolled off it, by lines.

        ``t.lines(since=before.final)`` is what may have changed since `before`.

        Args:
            since: The number of the first line that is wanted; 0 or more.

        Raises:
            InvalidCommand: No such number.
        """
        check_count("since", since, least=0)
        return self._controller.output.lines(since)

    async def foreground(self) -> Foreground | None:
        """The processes that have the terminal now; ``None`` when the host cannot tell, or none has it any more."""
        return await self._controller.foreground()

    async def send(self, data: str | bytes, *, timeout: Seconds | None = SEND_SECONDS) -> None:
        r"""Type text or bytes, exactly these. The Enter key is ``\r``.

        Returns when all of it was taken, which does not mean that the program has read it.

        Args:
            data: What is typed.
            timeout: Seconds for which the program may take nothing of it; ``None`` waits for as long as it runs.

        Raises:
            InvalidCommand: Neither text nor bytes, or text that cannot be encoded; a bad timeout; a line of more bytes
                than a terminal passes on in line mode.
            AnyshellError: The program has ended, or takes nothing.
        """
        if isinstance(data, str):
            _check_typed(data)
            data = data.encode(errors="surrogateescape")
        elif not isinstance(data, bytes):
            raise InvalidCommand(f"what is sent must be text or bytes, not {type(data).__name__}")
        timeout = check_seconds("timeout", timeout)
        await self._type(data, timeout)

    async def send_key(self, *names: str) -> None:
        """Press keys, one after the other, such as ``Ctrl-C``, ``Up``, ``F5``, ``Alt-x``, ``q``.

        Names are understood in any case. What is sent for a key is what xterm sends, in the mode that the program has
        asked for.

        Raises:
            InvalidCommand: There is no such key, or no name at all; nothing is pressed then.
            AnyshellError: As for `send`.
        """
        if not names:
            raise InvalidCommand("send_key needs the name of a key, such as 'Enter'")
        modes = self.modes
        await self._type(
            b"".join(
                encode(name, application_cursor=modes.application_cursor, keyboard=modes.keyboard)
                for name in names
            )
        )

    async def paste(self, text: str, *, timeout: Seconds | None = SEND_SECONDS) -> None:
        """Paste text, as a terminal does: as one piece, if the program has asked to be told of that.

        Ends of lines become Enter. What would end the paste early is taken out of it.

        Args:
            text: What is pasted.
            timeout: As for `send`.

        Raises:
            InvalidCommand: It is no text, or a bad timeout.
            AnyshellError: As for `send`.
        """
        _check_typed(text)
        text = text.replace("\r\n", "\r").replace("\n", "\r")
        while (
            cut := _EMBEDDED_END.sub("", text)
        ) != text:  # taking one out may make one of what stood around it
            text = cut
        data = text.encode(errors="surrogateescape")
        if self._controller.output.modes.bracketed_paste:
            data = _PASTE_BEGINS + data + _PASTE_ENDS
        timeout = check_seconds("timeout", timeout)
        await self._type(data, timeout)

    async def send_secret(self, source: SecretSource) -> bool:
        """Ask a source for a secret, and type it, with Enter.

        It is never shown: from now on it is replaced by ``[secret]`` in all that the program prints, before anything is
        made of that: the screen, the text, what is expected, a listener, an artifact. Also when the program echoes it,
        and wraps it, as line editors do too. What cannot be masked is what does not stand in the bytes: a program that prints
        it backwards, in base64, with its own words between, or in part, such as a line editor that scrolls sideways or draws a row or
        its line anew. A beginning of it that nothing follows for 0.3 s is shown, and what goes on with
        that then is masked until it differs. Nor does it hide anything from the host.

        Args:
            source: A function, plain or async, that is given a `SecretRequest` and returns the secret, or ``None`` to give
                none. It has 600 s.

        Returns:
            Whether it was typed.

        Raises:
            InvalidCommand: `source` is no function; the secret is no text of one line, or more than 1,024 bytes.
            AnyshellError: As for `send`, also when the program ends while `source` runs, which is then cancelled;
                no secret was given in time; 64 of them were typed here before.
            Exception: What the source raises.
        """
        if not callable(source):
            # What was given instead may be the secret.
            raise InvalidCommand(
                "send_secret needs a function that gives the secret, such as lambda request: getpass.getpass()"
            )
        self._check_running()
        request = SecretRequest(
            prompt=self._controller.prompt(), program=await self._program(), host=self._host
        )
        asking = asyncio.ensure_future(secrets.ask(source, request))
        over = self._started()
        try:
            await asyncio.wait([asking, over], timeout=SECRET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered = asking.done()
            asking.cancel()
            asking.add_done_callback(lambda asking: asking.cancelled() or asking.exception())
        if not answered:
            self._check_running()
            raise AnyshellError(f"no secret was given in {SECRET_SECONDS:g} s: nothing was typed")
        secret = None if asking.cancelled() else asking.result()
        if secret is None:
            return False
        self._controller.masks.add(secret)
        await self._type(secret.encode(errors="surrogateescape") + b"\r")
        return True

    def hide(self, secret: str) -> None:
        """Mask what is a secret elsewhere from now on, as one that was typed here. An empty one is ignored.

        Raises:
            InvalidCommand: It is no text of one line, or more than 1,024 bytes.
            AnyshellError: 64 of them are masked here already.
        """
        secrets.check_secret(secret)
        self._controller.masks.add(secret)

    async def expect(
        self, pattern: str | re.Pattern[str], *, timeout: Seconds | None = EXPECT_SECONDS
    ) -> re.Match[str] | None:
        """Wait until the program has printed something, or is idle.

        What is searched is what it has printed since the last match, decoded and without escape sequences, so that a line
        that the terminal wraps is one line, and each state of a line that is drawn anew is a line. What was typed and
        echoed is in it. While the program uses the alternate screen, as an editor or a pager does, it is the rows of
        that which are searched, as they stand there now; and so are those of the ordinary one when the program has drawn
        on it since the last match, as a dialog does.

        It is searched where everything else happens as well: a pattern that backtracks exponentially, as ``(a+)+b`` may,
        blocks the event loop for that time, over the timeout too.

        Args:
            pattern: A regular expression; in a text, ``^`` and ``$`` are the ends of lines. A match of more than 8,192
                characters may not be found. Or ``"idle"``: until it waits for input (see `waiting`) or was silent
                for 1 s; whatever was printed since the last match is the match then.
            timeout: Seconds, 0 or more; ``None`` is no bound.

        Returns:
            The match; ``match.string[:match.start()]`` is what stands before it. ``None`` when it did not come in time, or
            when the program ended before: `outcome` then says how.

        Raises:
            InvalidCommand: A pattern that does not compile, or a bad timeout.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        if pattern == "idle":
            return await self._search.wait_idle(timeout)
        return await self._search.wait_match(expression(pattern), timeout)

    async def waiting(self) -> Waiting | None:
        """Whether the program waits for input now; ``None`` when not, or when that cannot be known.

        Asks the host, and takes half a second where it is not certain; at most one while the program prints.
        """
        self._started()
        return await self._controller.watch.look()

    async def wait_for_input(self, *, timeout: Seconds | None = EXPECT_SECONDS) -> Waiting | None:
        """Wait until the program waits for input, which is noticed within a second.

        Args:
            timeout: Seconds, 0 or more; ``None`` is no bound.

        Returns:
            What it waits for; ``None`` when it did not in time, or has ended.

        Raises:
            InvalidCommand: A bad timeout.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        return await self._controller.watch.wait(timeout)

    async def resize(self, *, columns: int | None = None, rows: int | None = None) -> None:
        """Give the terminal another size, of which the program hears by SIGWINCH; or the one that it starts with.

        Args:
            columns: 2 to 1,000; ``None`` leaves them.
            rows: 2 to 1,000; ``None`` leaves them.

        Raises:
            InvalidCommand: A size that is out of range.
        """
        if self._task is not None:
            await self._begun_or_over(self._task)
        old = self._terminal
        terminal = Terminal(
            columns=old.columns if columns is None else columns,
            rows=old.rows if rows is None else rows,
            term=old.term,
        )
        self._terminal = terminal
        await self._controller.resize(terminal)

    async def wait(self) -> Outcome:
        """Wait for the program's end. To be cancelled here does not stop it.

        Raises:
            Exception: What kept the end from being learnt.
        """
        task = self._started()
        await asyncio.wait([task])
        return self._result(task)

    async def stop(self, *, by_person: bool = False) -> Outcome:
        """Stop the program's whole tree, as a timeout does, and wait for that. A second call skips the grace.

        Args:
            by_person: Whether a person who sees it wants that: `stopped_by_person` then says so.

        Raises:
            Exception: As for `wait`.
        """
        if not self._started().done():
            self._stopped_by_person |= by_person
        self._control.cancel()
        return await self.wait()

    def _end(self, began: float) -> None:
        self._duration = time.monotonic() - began
        self._controller.end()

    async def _begun_or_over(self, task: asyncio.Task[Outcome]) -> None:
        """Wait until the program was started, or will not be."""
        either: list[asyncio.Future[Any]] = [self._controller.begun, task]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    def _started(self) -> asyncio.Task[Outcome]:
        if self._task is None:
            raise AnyshellError("the terminal was not entered: use 'async with env.terminal(...) as t'")
        return self._task

    def _result(self, task: asyncio.Task[Outcome]) -> Outcome:
        """What became of a run that is over. Of one that was cancelled itself the program is stopped all the same."""
        if task.cancelled():
            return Outcome(status="cancelled", duration=self._duration)
        return task.result()

    def _check_running(self) -> None:
        if self._started().done():
            raise AnyshellError(f"the program on the terminal {_how(self.outcome)}: it reads nothing more")

    async def _type(self, data: bytes, timeout: float | None = SEND_SECONDS) -> None:
        self._check_running()
        keyboard = self._controller.keyboard
        assert keyboard is not None
        try:
            taken = await keyboard.type(data, seconds=timeout)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # It has closed the terminal, and so it ends, unless it goes on without.
            await asyncio.wait([self._started()], timeout=SETTLE_SECONDS)
            self._check_running()
            raise AnyshellError("the terminal has no reader any more: what was typed went nowhere") from None
        if taken < len(data):
            raise AnyshellError(
                f"the program on the terminal does not read: after {timeout:g} s without progress, {taken:,} of "
                f"{len(data):,} bytes were taken, and perhaps some of the next; see what it does. No "
                "key can be typed until it reads, not even Ctrl-C: stop() ends it"
            )

    async def _program(self) -> str:
        foreground = await self.foreground()
        return foreground.processes[0].name if foreground is not None and foreground.processes else ""

    async def _hear(self, channel: Channel, data: bytes) -> None:
        self._search.feed(data)
        self._controller.wake()
        if self._listener is not None:
            await self._listener(channel, data)


def _check_typed(text: object) -> None:
    """Refuse what cannot be encoded. A NUL can be typed: it is Ctrl-Space."""
    check_text("what is typed", text.replace("\0", "") if isinstance(text, str) else text)


def _how(outcome: Outcome | None) -> str:
    """How a program ended, for a message."""
    if outcome is None or outcome.status == "lost":
        return "has ended, how is unknown"
    if outcome.status != "exited":
        return f"has ended ({outcome.status})"
    if outcome.signal is not None:
        return f"was ended by {outcome.signal}"
    return f"has ended with exit code {outcome.exit_code}"
