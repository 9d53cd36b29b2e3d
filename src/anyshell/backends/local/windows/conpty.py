"""ConPTY, which is Windows' own, by pywinpty."""

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
"""Reads of nothing in a row that mean the end of a ConPTY: pywinpty gives nothing, at once, behind the end."""

EMPTY_PAUSE = 0.05
"""Seconds between two of these reads."""

_CONPTY = 0  # no bound: winpty.Backend.ConPTY


class _PTY(Protocol):
    """The part of ``winpty.PTY`` in use, which a type checker finds on Windows alone."""

    @property
    def pid(self) -> int | None: ...

    def spawn(self, appname: str, cmdline: str, cwd: str, env: str) -> bool: ...

    def read(self, blocking: bool) -> str: ...

    def write(self, to_write: str) -> int: ...

    def set_size(self, cols: int, rows: int) -> None: ...

    def cancel_io(self) -> bool: ...


class ConPTY:
    """A terminal by ConPTY. Its calls may block, and may be made in any thread.

    pywinpty reads all that comes, as soon as it comes, whether it was asked for or not.

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
        """The program's."""

    def spawn(self, program: str, arguments: str, cwd: str, env: str) -> None:
        r"""Start a program.

        Args:
            program: Its path. pywinpty puts it before the arguments, in quotes where it needs them.
            arguments: The rest of the command line.
            cwd: Its directory.
            env: Its variables, each ended by a NUL.

        Raises:
            OSError: It cannot be started.
        """
        with _errors():
            self._open.spawn(program, arguments, cwd, env)
            self.pid = self._open.pid or 0

    def read(self) -> bytes:
        """Wait for what is shown next; nothing at the end, and when that was cancelled."""
        pty = self._open
        while self._empty < EMPTY_READS:
            try:
                with _errors():
                    text = pty.read(blocking=True)
            except OSError:
                break  # which is how pywinpty tells both
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
        """Give it another size.

        Raises:
            OSError: The terminal is gone.
        """
        with _errors():
            self._open.set_size(terminal.columns, terminal.rows)

    def cancel(self) -> None:
        """Wake the reader. A read that has not begun yet is not cancelled."""
        with contextlib.suppress(OSError), _errors():
            self._open.cancel_io()

    def close(self) -> None:
        """Close it, which ends the programs that still have it: Windows tells and then ends them. No read may be under way.

        pywinpty closes it when the last reference to its own object is dropped, and waits for its threads.
        """
        self._pty = None

    @property
    def _open(self) -> _PTY:
        if self._pty is None:
            raise OSError("the terminal is closed")
        return self._pty


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Make pywinpty's errors, and failed assertions of its Rust code, which are no `Exception`, what others are."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ not in ("WinptyError", "PanicException"):
            raise
        # Without the original, whose traceback has a reference to the terminal.
        raise OSError(str(error) or "pywinpty gives no reason") from None
