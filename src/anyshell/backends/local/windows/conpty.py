"""ConPTY, Windows' own pseudo terminal, through pywinpty."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Protocol

assert sys.platform == "win32"

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...._types import Terminal

EMPTY_READS = 3
"""Empty reads in a row after which a ConPTY counts as ended: after the end, pywinpty's reads return at once, without bytes."""

EMPTY_PAUSE = 0.05
"""Seconds between two empty reads of a ConPTY."""

_CONPTY = 0  # no bound: winpty.Backend.ConPTY


class _PTY(Protocol):
    """The part of ``winpty.PTY`` that is used here. A type checker finds ``winpty`` only on Windows."""

    @property
    def pid(self) -> int | None: ...

    def spawn(self, appname: str, cmdline: str, cwd: str, env: str) -> bool: ...

    def read(self, blocking: bool) -> str: ...

    def write(self, to_write: str) -> int: ...

    def set_size(self, cols: int, rows: int) -> None: ...

    def cancel_io(self) -> bool: ...


class ConPTY:
    """A terminal by ConPTY. All methods may block, and may be called in any thread.

    pywinpty reads all output as soon as the output arrives, even without a call of `read`.

    Raises:
        OSError: This Windows has no ConPTY, or pywinpty cannot be loaded.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._empty = 0
        try:
            from winpty import PTY
        except ImportError as error:
            raise OSError(f"pywinpty cannot be loaded: {error}") from error
        with _errors():
            self._pty: _PTY | None = PTY(terminal.columns, terminal.rows, backend=_CONPTY)
        self.pid = 0
        """The program's pid."""

    def spawn(self, program: str, arguments: str, cwd: str, env: str) -> None:
        r"""Start a program.

        Args:
            program: The program's path. pywinpty puts the path before the arguments, in quotes where needed.
            arguments: The rest of the command line.
            cwd: The working directory.
            env: The environment variables, each with a NUL at its end.

        Raises:
            OSError: The program cannot be started.
        """
        with _errors():
            self._open.spawn(program, arguments, cwd, env)
            self.pid = self._open.pid or 0

    def read(self) -> bytes:
        """Wait for the next output; return no bytes at the end of output, or when `cancel` has interrupted the read."""
        pty = self._open
        while self._empty < EMPTY_READS:
            try:
                with _errors():
                    text = pty.read(blocking=True)
            except OSError:
                break  # pywinpty raises both at the end and for a cancelled read
            if text:
                self._empty = 0
                return text.encode(errors="replace")
            self._empty += 1
            time.sleep(EMPTY_PAUSE)
        return b""

    def write(self, text: str) -> None:
        """Type text.

        Raises:
            OSError: The terminal is gone.
        """
        with _errors():
            self._open.write(text)

    def resize(self, terminal: Terminal) -> None:
        """Resize the terminal.

        Raises:
            OSError: The terminal is gone.
        """
        with _errors():
            self._open.set_size(terminal.columns, terminal.rows)

    def cancel(self) -> None:
        """Cancel the current read. A read that begins later is not cancelled."""
        with contextlib.suppress(OSError), _errors():
            self._open.cancel_io()

    def close(self) -> None:
        """Close the terminal. Windows notifies, and then ends, the programs that still use the terminal. No read may be running.

        pywinpty closes the terminal when the last reference to ``winpty.PTY`` is dropped, and waits for pywinpty's threads.
        """
        self._pty = None

    @property
    def _open(self) -> _PTY:
        if self._pty is None:
            raise OSError("the terminal is closed")
        return self._pty


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Raise `OSError` for pywinpty's errors, also for failed assertions of its Rust code, which are not an `Exception`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ not in ("WinptyError", "PanicException"):
            raise
        # Without the original error, whose traceback refers to the terminal and would keep it open.
        raise OSError(str(error) or "pywinpty gives no reason") from None
