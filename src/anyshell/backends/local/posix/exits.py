"""Watches for the end of a child, without reaping the child and without a signal handler.

asyncio's own ``Process.wait()`` returns only after every pipe is closed, which a surviving descendant can delay for any
time. A SIGCHLD handler belongs to the program that uses anyshell, not to a library.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ...._types import ExitStatus
from ...._waits import threads_as_os_errors

if TYPE_CHECKING:
    from collections.abc import Callable


class _Watch:
    """Watch of one child of this process. The child is not reaped.

    Args:
        pid: The child's pid.
        on_ended: Called as soon as the child's end is known, before any waiting task is woken.
    """

    def __init__(self, pid: int, on_ended: Callable[[], object]) -> None:
        self.status: ExitStatus | None = None
        self._on_ended = on_ended
        self._pid = pid
        self._fd = -1
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    async def wait(self) -> ExitStatus:
        """Wait for the child's end. Several tasks may wait."""
        if self.status is None:
            await self._ended.wait()
        assert self.status is not None
        return self.status

    def poll(self) -> ExitStatus | None:
        """Return the child's exit status without waiting for the event loop; ``None`` while the child runs."""
        if self.status is None and (status := _peek(self._pid)) is not None:
            self._set(status)
        return self.status

    def holds_number(self) -> bool:
        """Whether the pid still belongs to the child: the child runs, or no code of this program has reaped it."""
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: only a wait that reaps would tell
            return True
        try:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def close(self) -> None:
        """Stop watching; a task that still waits gets an empty exit status."""
        if self.poll() is None:
            self._set(ExitStatus())
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _set(self, status: ExitStatus) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
        self.status = status
        self._on_ended()
        self._ended.set()


if sys.platform == "linux":
    from .linux.proc import read_fields

    class ExitWatch(_Watch):
        """Watch of one child by a pidfd (pidfd_open(2)), which becomes readable when the child ends.

        Where the system gives no pidfd (gVisor, a seccomp profile from before 2020), a thread waits for the child.

        Raises:
            OSError: Out of descriptors, or no thread can be started.
        """

        def __init__(self, pid: int, on_ended: Callable[[], object]) -> None:
            super().__init__(pid, on_ended)
            try:
                self._fd = os.pidfd_open(pid)
            except ProcessLookupError:
                # The child has ended, and the kernel has reaped it, because SIGCHLD is ignored.
                self._set(ExitStatus())
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                with threads_as_os_errors():
                    threading.Thread(target=self._wait_in_thread, name="anyshell-wait", daemon=True).start()
            else:
                self._loop.add_reader(self._fd, self._on_exit)

        def _on_exit(self) -> None:
            # Until a debugger that traces the child has read the exit status, the kernel does not give it to the parent.
            if self.poll() is None:
                self._set(_read_end(self._pid))

        def holds_number(self) -> bool:
            """Whether the pid still belongs to the child. A pidfd also detects a later child with the same pid."""
            if self._fd < 0:
                return super().holds_number()
            try:
                signal.pidfd_send_signal(self._fd, 0)
            except OSError as error:
                # Another error means that the process exists, but is another user's.
                return error.errno != errno.ESRCH
            return True

        def _wait_in_thread(self) -> None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(RuntimeError):  # the event loop has been closed meanwhile
                self._loop.call_soon_threadsafe(self.poll)

    def _read_end(pid: int) -> ExitStatus:
        """Return a zombie's exit status from /proc (proc(5), field 52 of stat); empty for another user's, where /proc shows 0."""
        fields = read_fields(pid) or []
        with contextlib.suppress(IndexError, OSError):
            status = int(fields[49])
            if status or os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                return _decode(status)
        return ExitStatus()

else:

    class ExitWatch(_Watch):
        """Watch of one child by kqueue(2).

        On macOS, NOTE_EXITSTATUS puts the wait status into the event. Python defines only NOTE_EXIT.
        """

        def __init__(self, pid: int, on_ended: Callable[[], object]) -> None:
            super().__init__(pid, on_ended)
            self._kqueue = select.kqueue()
            self._fd = os.dup(self._kqueue.fileno())
            event = select.kevent(
                pid,
                filter=select.KQ_FILTER_PROC,
                flags=select.KQ_EV_ADD | select.KQ_EV_ONESHOT,
                fflags=select.KQ_NOTE_EXIT | 0x04000000,
            )
            try:
                self._kqueue.control([event], 0)
            except ProcessLookupError:  # the child is a zombie already, which macOS does not watch
                self._set(_peek(pid) or ExitStatus())
                return
            self._loop.add_reader(self._fd, self._on_exit)

        def _on_exit(self) -> None:
            for event in self._kqueue.control([], 1, 0):
                self._set(_decode(event.data))

        def close(self) -> None:
            """Stop watching; a task that still waits gets an empty exit status."""
            super().close()
            self._kqueue.close()


def _peek(pid: int) -> ExitStatus | None:
    """Return a child's exit status, and leave the child a zombie where the system allows; ``None`` while the child runs."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return _reap(pid)
    try:
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return ExitStatus()  # other code reaped the child, by a wait for any child, or SIGCHLD is ignored
    if result is None:
        return None
    if result.si_code == os.CLD_EXITED:
        return ExitStatus(code=result.si_status)
    return ExitStatus(signal=_signal_name(result.si_status))


def _reap(pid: int) -> ExitStatus | None:
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return ExitStatus()
    return _decode(status) if reaped else None


def _decode(status: int) -> ExitStatus:
    if os.WIFSIGNALED(status):
        return ExitStatus(signal=_signal_name(os.WTERMSIG(status)))
    return ExitStatus(code=os.WEXITSTATUS(status))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal: Python names only the first and the last
        return f"SIG{number}"
