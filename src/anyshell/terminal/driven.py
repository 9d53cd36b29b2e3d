"""A program on a terminal, driven by a program."""

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
"""Shows a program on its terminal to a person, and returns when it is not shown any more: ``True`` when the person has
dismissed it, which stops the program if it still runs, ``False`` when no person was there to see it.
``anyshell.console.opener(app)`` is one."""

SEND_SECONDS = 5.0
"""Seconds for which a program may take nothing of what is typed, unless given; then typing has failed."""

SECRET_SECONDS = 600.0
"""Seconds for a secret to be given that is asked for."""

_PASTE_BEGINS, _PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"
_EMBEDDED_END = re.compile("(?:\x1b\\[|\x9b)201~")


class DrivenTerminal(AsyncOnly, TerminalReader):
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

    def __repr__(self) -> str:
        state = "not entered" if self._task is None else "running" if self.running else "ended"
        size = f"{self._terminal.columns}x{self._terminal.rows}"
        return f"<DrivenTerminal {size} on {self._host}, {state}>"

    @property
    def command(self) -> str:
        """The text of the command that runs on it."""
        return self._command

    @property
    def host(self) -> str:
        """The host of the program: ``local``, or the host's address."""
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
    def stopped_by_person(self) -> bool:
        """Whether a person has stopped it in a console while it ran, rather than a program."""
        return self._stopped_by_person

    async def send(self, data: str | bytes, *, timeout: Seconds | None = SEND_SECONDS) -> None:
        r"""Type text or bytes, exactly these. The Enter key is ``\r``.

        Returns when all of it was taken, which does not mean that the program has read it.

        Args:
            data: The typed bytes.
            timeout: Seconds for which the program may take nothing of it; ``None`` waits for as long as it runs.

        Raises:
            InvalidCommand: Neither text nor bytes, or text that cannot be encoded; a bad timeout; a line of more bytes
                than a terminal passes on in line mode.
            ProgramEnded: The program has ended.
            AnyshellError: It takes nothing.
        """
        if isinstance(data, str):
            _check_typed(data)
            data = data.encode(errors="surrogateescape")
        elif not isinstance(data, bytes):
            raise InvalidCommand(f"data must be text or bytes, not {type(data).__name__}")
        timeout = check_seconds("timeout", timeout)
        await self._type(data, timeout)

    async def sendline(self, line: str = "", *, timeout: Seconds | None = SEND_SECONDS) -> None:
        """Type text and the Enter key, as a person ends a line; as for `send`."""
        _check_typed(line)
        await self.send(line + "\r", timeout=timeout)

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
            text: The pasted text.
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
            # The wrong argument may be the secret.
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

    async def interact(self, *, escape: str | None = "\x1d") -> None:
        """Give the program to the person at this process's terminal, until it ends or the person types `escape`.

        Every byte goes through, both ways, and the program has the size of the person's terminal. Not on Windows: there
        `anyshell.console` shows a program to a person.

        Args:
            escape: The character that ends it, by default Ctrl-]; ``None`` has the program's end alone end it.

        Raises:
            InvalidCommand: `escape` is no single character of ASCII.
            AnyshellError: stdin and stdout are no terminal, or it is not ours.
            ProgramEnded: The program had ended before.
        """
        if escape is not None:
            check_text("escape", escape)
        if escape is not None and not (len(escape) == 1 and escape.isascii()):
            raise InvalidCommand(f"escape must be one character of ASCII such as '\\x1d', not {escape!r}")
        self._check_running()
        # The person's terminal belongs to the command line, which is loaded when a person is asked for.
        try:
            person = import_module("anyshell.cli.terminal.interaction").Interaction(self, escape)
        except (AssertionError, ImportError):
            raise AnyshellError(
                "interact() is not there on Windows: show the program by anyshell.console instead"
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
