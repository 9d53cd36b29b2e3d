"""Questions to the person at the terminal while anyshell connects to a host.

A question goes to the terminal itself, never to stdin or stdout, which may belong to the command. A password or a
passphrase is never shown, and another answer to a server only if the server allows that. None of these answers is written
to disk. A password or a passphrase stays in memory until the program ends.
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
    """Ask for yes or no; without a terminal, or when the terminal is closed, the answer is no."""
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
    """The person at the terminal. `trust`, `password`, `passphrase` and `answer` are callbacks for `SSHOptions`.

    Attributes:
        was_asked_by_server: Whether a server asked questions of its own, whose answers are valid for one login only.
        is_away: Whether no question can be asked now, since a program has the terminal.
        room: Returns the context manager that makes room for a question on the terminal, entered during each question.
    """

    def __init__(self) -> None:
        self.was_asked_by_server = False
        self.is_away = False
        self.room: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
        self._given: dict[str, str] = {}
        self._settled: dict[str, str] = {}

    def settle(self) -> None:
        """Keep the last answers for other connections: the login has succeeded, so the answers were right."""
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
        """Ask for the passphrase of a key file."""
        return await self._secret(f"Passphrase of the key {path}: ")

    async def answer(self, instructions: str, prompts: Sequence[tuple[str, bool]]) -> Sequence[str] | None:
        """Ask a server's own questions; each prompt says whether the answer may be shown."""
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
        await terminal.write("\n")  # no line end was echoed
    return line


@contextmanager
def _hidden(again: Callable[[], None]) -> Iterator[None]:
    """Switch off the echo of typed text, even if the program is stopped meanwhile (Ctrl-Z) and continues."""
    termios = import_module("termios")  # the module exists where /dev/tty does
    loop = asyncio.get_running_loop()
    stop: int = getattr(signal, "SIGTSTP", 0)  # the signal exists there too
    stoppable = signal.getsignal(stop) is not signal.SIG_IGN
    with contextlib.ExitStack() as stack:
        try:
            # The mode belongs to the terminal, so any descriptor can set the mode.
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
    """Return a text from outside, such as a server's, escaped so that only line ends move the cursor."""
    return "\n".join(printable(line) for line in text.splitlines())
