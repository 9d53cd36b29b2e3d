"""A program on a terminal, driven by another program."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING

import anyio

from .._engine import Control
from .._exceptions import AnyshellError, InvalidCommand
from .._types import Channel, Outcome, ProgramEnded, Terminal, check_seconds, check_text
from .._waits import AsyncOnly, outlast
from . import secrets
from .keys import encode
from .reading import TerminalReader, how_ended
from .search import SETTLE_SECONDS
from .secrets import SecretRequest, SecretSource

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from .._types.checks import Seconds
    from .controller import Controller

Listener = Callable[[Channel, bytes], Awaitable[None]]

ConsoleOpener = Callable[["DrivenTerminal"], Awaitable[bool]]
"""A function that shows a program's terminal to a person, and returns when the terminal is no longer shown. ``True``: the
person has dismissed the terminal, which stops a program that still runs. ``False``: no person was there to see the terminal.
``anyshell.console.opener(app)`` makes such a function."""

SEND_SECONDS = 5.0
"""Seconds for which a program may take no typed bytes, unless given; then typing fails."""

SECRET_SECONDS = 600.0
"""Seconds that the source of a secret has to give the secret; then nothing is typed, which is an error."""

_PASTE_BEGINS, _PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
_EMBEDDED_END = re.compile("(?:\x1b\\[|\x9b)201~")


class DrivenTerminal(AsyncOnly, TerminalReader):
    """A program on a terminal, with methods to type input and to read the screen and the output.

    ``async with`` starts the program. Leaving the block stops a program that still runs; the outcome is then ``cancelled``.

    Typed input arrives in the order of the calls. Typing after the program's end raises an `AnyshellError` that says how the
    program ended. Typing also raises an `AnyshellError` when the program reads nothing for 5 s; the message says how many bytes
    were taken. In line mode, a terminal takes at most 4,095 bytes of a line on Linux, and 1,023 on macOS and other Unix systems.
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
        super().__init__(controller, shows=shows)
        self._run = run
        self._command = command
        self._host = host
        self._terminal = terminal
        self._listener = listener
        self._stopped_by_person = False
        self._control = control or Control()

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
            self._result(task)  # raises the reason why the program did not start
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._started()
        if not task.done():
            self._control.cancel()
        cancelled = await outlast(
            task, self._control.cancel
        )  # a cancellation skips the grace; the outcome is still complete
        if error is None and not task.cancelled() and (failure := task.exception()) is not None:
            raise failure
        if cancelled is not None:
            raise cancelled

    def __repr__(self) -> str:
        state = "not entered" if self._task is None else "running" if self.running else "ended"
        size = f"{self._terminal.columns}x{self._terminal.rows}"
        return f"<DrivenTerminal {size} on {self._host}, {state}>"

    @property
    def command(self) -> str:
        """The text of the command that runs on the terminal."""
        return self._command

    @property
    def host(self) -> str:
        """The host of the program: ``local``, or the host's address."""
        return self._host

    @property
    def entered(self) -> bool:
        """Whether the program was started, or is starting."""
        return self._task is not None

    @property
    def terminal(self) -> Terminal:
        """The size and the kind of the terminal."""
        return self._terminal

    @property
    def stopped_by_person(self) -> bool:
        """Whether a person, not a program, has stopped the running program in a console."""
        return self._stopped_by_person

    async def send(self, data: str | bytes, *, timeout: Seconds | None = SEND_SECONDS) -> None:
        r"""Type text or bytes, without any change. The Enter key is ``\r``.

        Returns when the terminal has taken all bytes; the program may not have read the bytes yet.

        Args:
            data: The typed text or bytes.
            timeout: Seconds for which the program may take no bytes; ``None`` waits for as long as the program runs.

        Raises:
            InvalidCommand: `data` is neither text nor bytes, or is text that cannot be encoded; the timeout is bad; a line
                has more bytes than a terminal passes on in line mode.
            ProgramEnded: The program has ended.
            AnyshellError: The program takes no bytes.
        """
        if isinstance(data, str):
            _check_typed(data)
            data = data.encode(errors="surrogateescape")
        elif not isinstance(data, bytes):
            raise InvalidCommand(f"data must be text or bytes, not {type(data).__name__}")
        timeout = check_seconds("timeout", timeout)
        await self._type(data, timeout)

    async def sendline(self, line: str = "", *, timeout: Seconds | None = SEND_SECONDS) -> None:
        """Type text and the Enter key, under the rules of `send`."""
        _check_typed(line)
        await self.send(line + "\r", timeout=timeout)

    async def send_key(self, *names: str) -> None:
        """Press keys, one after the other, such as ``Ctrl-C``, ``Up``, ``F5``, ``Alt-x``, ``q``.

        The case of a name does not matter. Each key sends the bytes that xterm sends, in the mode that the program has set.

        Raises:
            InvalidCommand: A key is unknown, or no name is given; no key is pressed then.
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
        """Paste text as a terminal does, between the marks of bracketed paste if the program has set that mode.

        Line ends become Enter. Sequences that would end the paste early are removed from the text.

        Args:
            text: The pasted text.
            timeout: As for `send`.

        Raises:
            InvalidCommand: `text` is not text, or the timeout is bad.
            AnyshellError: As for `send`.
        """
        _check_typed(text)
        text = text.replace("\r\n", "\r").replace("\n", "\r")
        while (
            cut := _EMBEDDED_END.sub("", text)
        ) != text:  # the text around a removed sequence may form a new sequence
            text = cut
        data = text.encode(errors="surrogateescape")
        if self._controller.output.modes.bracketed_paste:
            data = _PASTE_BEGINS + data + _PASTE_ENDS
        timeout = check_seconds("timeout", timeout)
        await self._type(data, timeout)

    async def send_secret(self, source: SecretSource) -> bool:
        """Ask a source for a secret, and type the secret and Enter.

        The secret is never shown. From now on, ``[secret]`` replaces the secret in the program's output before any reader gets the
        output: the screen, the text, `expect`, a listener, an artifact. An echoed secret is masked too, also where the terminal
        or a line editor wraps the line.

        The secret cannot be masked where its bytes are not in the output as a whole: a program prints the secret backwards, in
        base64, with other words between, or in part. A line editor does the last when it scrolls sideways, or draws a row or its
        line anew. The beginning of the secret is shown if nothing follows the beginning for 0.3 s; later bytes are then masked
        until a byte differs from the secret. Nothing is hidden from the host.

        Args:
            source: A function, plain or async, that is called with a `SecretRequest` and returns the secret, or ``None`` for
                no secret. The function has 600 s.

        Returns:
            Whether a secret was typed.

        Raises:
            InvalidCommand: `source` is not a function; the secret is not text of one line, or more than 1,024 bytes.
            AnyshellError: As for `send`. Also: the program ends while `source` runs, which is then cancelled; the source gives no
                secret in time; the terminal masks 64 secrets already.
            Exception: The exception of the source.
        """
        if not callable(source):
            # The wrong argument may be the secret: the message does not show the argument.
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
        """Mask a secret from now on, as if the secret was typed here. An empty secret is ignored.

        Raises:
            InvalidCommand: The secret is not text of one line, or more than 1,024 bytes.
            AnyshellError: The terminal masks 64 secrets already.
        """
        secrets.check_secret(secret)
        self._controller.masks.add(secret)

    async def interact(self, *, escape: str | None = "\x1d") -> None:
        """Connect the program to the person at this process's terminal, until the program ends or the person types `escape`.

        Every byte passes through, both ways, and the program has the size of the person's terminal. Not available on Windows:
        there `anyshell.console` shows a program to a person.

        Args:
            escape: The character that ends the interaction, by default Ctrl-]; with ``None`` only the program's end does.

        Raises:
            InvalidCommand: `escape` is not a single character of ASCII.
            AnyshellError: stdin is not a terminal, or another process has that terminal.
            ProgramEnded: The program had ended before.
        """
        if escape is not None:
            check_text("escape", escape)
        if escape is not None and not (len(escape) == 1 and escape.isascii()):
            raise InvalidCommand(f"escape must be one character of ASCII such as '\\x1d', not {escape!r}")
        self._check_running()
        # The code for a person's terminal is in the command line's package, which is loaded only here.
        try:
            person = import_module("anyshell.cli.terminal.interaction").Interaction(self, escape)
        except (AssertionError, ImportError):
            raise AnyshellError(
                "interact() does not work on Windows: show the program by anyshell.console instead"
            ) from None
        listener = self._listener

        async def hear(channel: Channel, data: bytes) -> None:
            await person.show(data)
            if listener is not None:
                await listener(channel, data)

        self._listener, self._controller.answers = hear, False  # the person's terminal answers
        try:
            await person.converse()
        finally:
            self._listener, self._controller.answers = listener, True

    async def resize(self, *, columns: int | None = None, rows: int | None = None) -> None:
        """Resize the terminal. A running program receives SIGWINCH; before the start, this sets the size to start with.

        Args:
            columns: 2 to 1,000; ``None`` keeps the columns.
            rows: 2 to 1,000; ``None`` keeps the rows.

        Raises:
            InvalidCommand: A size is out of range.
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
        """Wait for the program's end, and return the outcome. Cancelling the wait does not stop the program.

        Raises:
            Exception: The error that kept the end from being learnt.
        """
        task = self._started()
        await asyncio.wait([task])
        return self._result(task)

    async def stop(self, *, by_person: bool = False) -> Outcome:
        """Stop the program's whole tree, as a timeout does, and wait for its end. A second call skips the grace.

        Args:
            by_person: Whether a person who watches the program asks for the stop; `stopped_by_person` is then true.

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
        """Wait until the program has started, or its run is over."""
        either: list[asyncio.Future[Any]] = [self._controller.begun, task]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)

    def _check_running(self) -> None:
        if self._started().done():
            outcome = self.outcome
            raise ProgramEnded(
                f"the program on the terminal {how_ended(outcome)}: it reads nothing more", outcome=outcome
            )

    async def _type(self, data: bytes, timeout: float | None = SEND_SECONDS) -> None:
        self._check_running()
        keyboard = self._controller.keyboard
        assert keyboard is not None
        try:
            taken = await keyboard.type(data, seconds=timeout)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The program has closed the terminal. Most programs end then, but a program may go on without a terminal.
            await asyncio.wait([self._started()], timeout=SETTLE_SECONDS)
            self._check_running()
            raise AnyshellError(
                "no program reads from the terminal any more: the typed input was lost"
            ) from None
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
    """Refuse text that cannot be encoded. A NUL is allowed: Ctrl-Space types a NUL."""
    check_text("what is typed", text.replace("\0", "") if isinstance(text, str) else text)
