"""The person at the terminal, who answers the questions that come while a host is being reached.

A question goes to the terminal itself, never to stdin or stdout, which may belong to the command. Nothing of the
answer is shown unless the server says that it may be, and nothing is written down: it is held in memory until the
program ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...policy.approval._terminal import PATH, NoTerminal, one_terminal, open_terminal
from ..printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from ...policy.approval._terminal import ControllingTerminal

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]+")


def can_be_asked() -> bool:
    """Whether there is a terminal, and this program is in its foreground."""
    try:
        os.close(open_terminal())
    except NoTerminal:
        return False
    return True


async def confirm(prompt: str) -> bool:
    """Ask for a yes or a no; without a terminal, or when it is closed, the answer is no."""
    with contextlib.suppress(NoTerminal):
        async with one_terminal() as terminal:
            answer: str | None = ""
            while answer not in (None, "y", "yes", "n", "no"):
                await terminal.write(prompt)
                answer = await terminal.read_line()
                answer = None if answer is None else answer.strip().lower()
                prompt = "Please type 'yes' or 'no': "
            return answer in ("y", "yes")
    return False


class Person:
    """The person at the terminal; the four functions are those that `SSHOptions` has a place for.

    Attributes:
        was_asked_by_server: Whether a server had questions of its own. The answers are good for one login.
        is_away: Whether no question can be asked now, since a program has the terminal.
        room: Entered for the time of a question: makes room for it on the terminal.
    """

    def __init__(self) -> None:
        self.was_asked_by_server = False
        self.is_away = False
        self.room: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        self._given: dict[str, str] = {}
        self._settled: dict[str, str] = {}

    def settle(self) -> None:
        """The login has succeeded, so the last answers were right, and are good for another backend as well."""
        self._settled.update(self._given)
        self._given.clear()

    async def trust(self, text: str) -> bool:
        """Ask whether an unknown host key is to be trusted, as ssh does."""
        if self.is_away:
            return False
        fingerprints = _FINGERPRINT.findall(text)
        prompt = f"{_harmless(text)} (yes/no/[fingerprint]) "
        with contextlib.suppress(NoTerminal):
            async with one_terminal() as terminal, self.room():
                while True:
                    await terminal.write(prompt)
                    line = await terminal.read_line()
                    answer = "no" if line is None else line.strip()
                    if answer.lower() in ("yes", "no"):
                        return answer.lower() == "yes"
                    if answer in fingerprints[-1:]:
                        return True
                    prompt = "Please type 'yes', 'no' or the fingerprint: "
        return False

    async def password(self, text: str) -> str | None:
        """Ask for a password."""
        return await self._secret(text)

    async def passphrase(self, path: str) -> str | None:
        """Ask for what opens a key file."""
        return await self._secret(f"Passphrase of the key {path}: ")

    async def answer(self, instructions: str, prompts: Sequence[tuple[str, bool]]) -> Sequence[str] | None:
        """Ask what a server wants to know; each prompt says whether the answer may be shown."""
        if self.is_away:
            return None
        answers: list[str] = []
        self.was_asked_by_server = True
        try:
            async with one_terminal() as terminal, self.room():
                if instructions.strip():
                    await terminal.write(_harmless(instructions.rstrip()) + "\n")
                for text, shown in prompts:
                    line = await _ask(terminal, _harmless(text), shown=shown)
                    if line is None:
                        return None
                    answers.append(line)
        except NoTerminal:
            return None
        return answers

    async def _secret(self, text: str) -> str | None:
        if text in self._settled:
            return self._settled[text]
        if self.is_away:
            return None
        try:
            async with one_terminal() as terminal, self.room():
                line = await _ask(terminal, _harmless(text), shown=False)
        except NoTerminal:
            return None
        if line is not None:
            self._given[text] = line
        return line


async def _ask(terminal: ControllingTerminal, prompt: str, *, shown: bool) -> str | None:
    def again() -> None:
        terminal.mention(prompt)

    with nullcontext() if shown else _hidden(again):
        await terminal.write(prompt)
        line = await terminal.read_line()
    if line is None or not shown:
        await terminal.write("\n")  # what was typed has not moved the cursor
    return line


@contextmanager
def _hidden(again: Callable[[], None]) -> Iterator[None]:
    """Show nothing of what is typed, also when the program is stopped meanwhile (Ctrl-Z) and goes on."""
    termios = import_module("termios")  # it exists where /dev/tty does
    loop = asyncio.get_running_loop()
    stop: int = getattr(signal, "SIGTSTP", 0)  # it exists there too
    stoppable = signal.getsignal(stop) is not signal.SIG_IGN
    with contextlib.ExitStack() as stack:
        try:
            # The mode is that of the terminal, whichever descriptor it is set by.
            fd = os.open(PATH, os.O_RDWR | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0))
            stack.callback(os.close, fd)
            before = termios.tcgetattr(fd)
            hidden = [*before]
            hidden[3] &= ~termios.ECHO
            termios.tcsetattr(fd, termios.TCSANOW, hidden)
        except (OSError, termios.error) as error:
            raise NoTerminal("the terminal is gone") from error

        def set_mode(mode: list[Any]) -> None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(fd, termios.TCSANOW, mode)

        def pause() -> None:
            set_mode(before)
            loop.remove_signal_handler(stop)
            os.kill(os.getpid(), stop)  # returns when the program goes on
            loop.add_signal_handler(stop, pause)
            set_mode(hidden)
            again()

        stack.callback(set_mode, before)
        if stoppable:
            loop.add_signal_handler(stop, pause)
            stack.callback(loop.remove_signal_handler, stop)
        yield


def _harmless(text: str) -> str:
    """A text from outside, such as a server's, in which only the ends of lines move the cursor."""
    return "\n".join(printable(line) for line in text.splitlines())
