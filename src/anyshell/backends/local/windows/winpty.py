"""WinPTY: a hidden console, and an agent process that reads the console and passes on the console's content.

This module calls the library that pywinpty contains, through the library's own interface (``winpty.h``). pywinpty's own
reads take the program's end for the end of output, and lose the output that the agent has not yet passed on: in one command
of thirty, as measured. pywinpty also decodes each chunk by itself, and breaks characters that are split between two chunks.
"""

from __future__ import annotations

import ctypes
import ntpath
import sys
from contextlib import ExitStack
from ctypes import wintypes
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

assert sys.platform == "win32"

from ...._win32 import declare
from . import win32

if TYPE_CHECKING:
    from ...._types import Terminal

AGENT_SECONDS = 10.0
"""Seconds for WinPTY's agent to start, and to answer a request; then the call fails."""

READ_SIZE = 64 * 1024
"""Bytes that are read from WinPTY at once."""

_COLOR_ESCAPES = 0x4  # no bound: winpty_constants.h: WINPTY_FLAG_COLOR_ESCAPES

# WINPTY_SPAWN_FLAG_…: after the program's end, the agent passes on the rest of the output and ends.
_AUTO_SHUTDOWN = 0x1  # no bound: arguments of calls
_EXIT_AFTER_SHUTDOWN = 0x2  # no bound: arguments of calls

_ENDS = (win32.ERROR_BROKEN_PIPE, win32.ERROR_PIPE_NOT_CONNECTED, win32.ERROR_OPERATION_ABORTED)
"""Errors of a read after the agent's end, or of a cancelled read."""


class WinPTY:
    """A terminal by WinPTY. All methods may block, and may be called in any thread.

    Raises:
        OSError: The library is missing, or the agent does not start.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._library = _load()
        self.pid = 0
        """The program's pid."""
        with ExitStack() as undo:
            failure = _Failure(self._library)
            config = self._library.winpty_config_new(_COLOR_ESCAPES, failure.place)
            failure.check(config)
            undo.callback(self._library.winpty_config_free, config)
            self._library.winpty_config_set_initial_size(config, terminal.columns, terminal.rows)
            self._library.winpty_config_set_agent_timeout(config, int(AGENT_SECONDS * 1000))
            self._winpty = self._library.winpty_open(config, failure.place)
            failure.check(self._winpty)
        self._undo = ExitStack()
        self._undo.callback(self._library.winpty_free, self._winpty)
        try:
            self._input = self._open(self._library.winpty_conin_name(self._winpty), win32.GENERIC_WRITE)
            self._output = self._open(self._library.winpty_conout_name(self._winpty), win32.GENERIC_READ)
        except BaseException:
            self._undo.close()
            raise

    def _open(self, name: str, access: int) -> int:
        handle = win32.kernel32.CreateFileW(name, access, 0, None, win32.OPEN_EXISTING, 0, None)
        if handle is None or handle == win32.INVALID_HANDLE_VALUE:
            raise win32.last_error()
        self._undo.callback(win32.kernel32.CloseHandle, handle)
        return int(handle)

    def spawn(self, program: str, command_line: str, cwd: str, env: str) -> None:
        r"""Start a program.

        Args:
            program: The program's path.
            command_line: The whole command line, including the program.
            cwd: The working directory.
            env: The environment variables, each with a NUL at its end.

        Raises:
            OSError: The program cannot be started.
        """
        flags = _AUTO_SHUTDOWN | _EXIT_AFTER_SHUTDOWN
        failure = _Failure(self._library)
        block = ctypes.create_unicode_buffer(env, len(env) + 2)  # the block ends with one more NUL
        config = self._library.winpty_spawn_config_new(
            flags, program, command_line, cwd, ctypes.cast(block, ctypes.c_void_p), failure.place
        )
        failure.check(config)
        process, error = wintypes.HANDLE(), wintypes.DWORD()
        try:
            done = self._library.winpty_spawn(
                self._winpty, config, ctypes.byref(process), None, ctypes.byref(error), failure.place
            )
        finally:
            self._library.winpty_spawn_config_free(config)
        if not done and error.value:
            raise ctypes.WinError(error.value)
        failure.check(done)
        # The open handle keeps the pid from reuse.
        self._undo.callback(win32.kernel32.CloseHandle, process.value)
        self.pid = win32.kernel32.GetProcessId(process)

    def read(self) -> bytes:
        """Wait for the next output; return no bytes at the end of output, or when `cancel` has interrupted the read.

        Raises:
            OSError: The terminal cannot be read.
        """
        buffer = ctypes.create_string_buffer(READ_SIZE)
        count = wintypes.DWORD()
        while not count.value:
            if not win32.kernel32.ReadFile(self._output, buffer, READ_SIZE, ctypes.byref(count), None):
                error = win32.last_error()
                if error.winerror in _ENDS:
                    return b""
                raise error
        return buffer.raw[: count.value]

    def write(self, text: str) -> None:
        """Type text.

        Raises:
            OSError: The agent has ended.
        """
        data = text.encode(errors="replace")
        count = wintypes.DWORD()
        while data:
            if not win32.kernel32.WriteFile(self._input, data, len(data), ctypes.byref(count), None):
                raise win32.last_error()
            data = data[count.value :]

    def resize(self, terminal: Terminal) -> None:
        """Resize the terminal.

        Raises:
            OSError: The agent has ended, or does not answer.
        """
        failure = _Failure(self._library)
        failure.check(
            self._library.winpty_set_size(self._winpty, terminal.columns, terminal.rows, failure.place)
        )

    def cancel(self) -> None:
        """Cancel the current read. A read that begins later is not cancelled."""
        win32.kernel32.CancelIoEx(self._output, None)

    def close(self) -> None:
        """Close the terminal. The agent ends, and with it the programs that still use the console. No read may be running."""
        self._undo.close()


class _Failure:
    """An error pointer that the library fills when a call fails."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._error = ctypes.c_void_p()
        self.place = ctypes.byref(self._error)

    def check(self, result: object) -> None:
        """Check the result of a library call; a false result means failure.

        Raises:
            OSError: The call failed; the message is the library's.
        """
        if not result:
            message = self._library.winpty_error_msg(self._error)
            self._library.winpty_error_free(self._error)
            raise OSError(message)


@cache
def _load() -> Any:
    """Load the library and declare its functions.

    Raises:
        OSError: The library is missing.
    """
    package = find_spec("winpty")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("pywinpty is not installed")
    pointer, text, error = ctypes.c_void_p, wintypes.LPCWSTR, ctypes.POINTER(ctypes.c_void_p)
    number = ctypes.c_int
    started = (wintypes.LPHANDLE, wintypes.LPHANDLE, wintypes.LPDWORD)
    return declare(
        # By the absolute path, so that no other library of the same name is loaded.
        ctypes.CDLL(ntpath.join(package.submodule_search_locations[0], "winpty.dll")),
        winpty_error_msg=(text, pointer),
        winpty_error_free=(None, pointer),
        winpty_config_new=(pointer, ctypes.c_uint64, error),
        winpty_config_free=(None, pointer),
        winpty_config_set_initial_size=(None, pointer, number, number),
        winpty_config_set_agent_timeout=(None, pointer, wintypes.DWORD),
        winpty_open=(pointer, pointer, error),
        winpty_conin_name=(text, pointer),
        winpty_conout_name=(text, pointer),
        winpty_spawn_config_new=(pointer, ctypes.c_uint64, text, text, text, pointer, error),
        winpty_spawn_config_free=(None, pointer),
        winpty_spawn=(wintypes.BOOL, pointer, pointer, *started, error),
        winpty_set_size=(wintypes.BOOL, pointer, number, number, error),
        winpty_free=(None, pointer),
    )
