"""What the terminals of a kernel do, for whoever has one: on this machine, or on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Sleep = Literal["read", "poll"]

LONGEST_LINE = 4095
"""Bytes of a line that a terminal in line mode passes on, without its end (termios(3), "Canonical mode")."""

LONGEST_LINE_OF_BSD = 1023
"""The same where it is no Linux (``MAX_CANON``)."""

_LINE_ENDS = bytes.maketrans(b"\r\x03\x04\x15\x1a\x1c", b"\n\n\n\n\n\n")
"""Keys after which a line begins anew: besides its end, ^C, ^D, ^U, ^Z and ^\\."""

_ERASE = b"\x08\x17\x7f"
"""Keys that take something back: ^H, ^W and rub-out. How much is not counted."""

_READS = {"x86_64": {"0", "19"}, "aarch64": {"63", "65"}}
"""The numbers of read and readv (``unistd_64.h``, ``asm-generic/unistd.h``)."""

_POLLS = {
    "x86_64": {"7", "23", "232", "270", "271", "281", "441"},
    "aarch64": {"22", "72", "73", "441"},
}
"""Those of poll, ppoll, select, pselect6, epoll_wait, epoll_pwait and epoll_pwait2."""

_SELECTS = {"x86_64": {"23", "270"}, "aarch64": {"72"}}
"""Of these select and pselect6, which begin with a number of descriptors, three sets of them, and a timeout."""

_RESTART = {"x86_64": "219", "aarch64": "128"}
"""That of restart_syscall, by which a call goes on that a stop has interrupted; what it is does not show then."""

_FUNCTIONS: dict[str, Sleep] = {
    "n_tty_read": "read",
    "wait_woken": "poll",  # a terminal, or a socket: it may be either
    "do_poll": "poll",
    "do_select": "poll",
    "do_sys_poll": "poll",
    "ep_poll": "poll",
    "do_epoll_wait": "poll",
    "poll_schedule_timeout": "poll",
}
"""Functions of the kernel in which a thread sleeps that reads or polls, as ``wchan`` names them."""


class Line:
    """The line that is being typed on a terminal.

    Args:
        longest: Bytes that the terminal passes on in line mode.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._length = 0

    @property
    def begun(self) -> bool:
        """Whether anything of it was typed."""
        return self._length > 0

    def takes(self, keys: bytes) -> bool:
        """Whether keys can be typed in line mode without making a line too long."""
        keys, begin = keys.translate(_LINE_ENDS, _ERASE), -self._length
        while len(keys) - begin > self._longest:
            # From the last end that is near enough: short lines need not be looked at one by one.
            end = keys.rfind(b"\n", max(begin, 0), begin + self._longest + 1)
            if end < 0:
                return False
            begin = end + 1
        return True

    def refuse(self) -> InvalidCommand:
        """Say that they cannot: the kernel would drop what does not fit, and ring a bell."""
        return InvalidCommand(
            f"a terminal in line mode takes no line of more than {self._longest:,} bytes: send shorter lines, or give "
            "the program a file"
        )

    def type(self, keys: bytes) -> None:
        """Note that keys were typed."""
        keys = keys.translate(_LINE_ENDS, _ERASE)
        end = keys.rfind(b"\n")
        self._length = self._length + len(keys) if end < 0 else len(keys) - end - 1

    def forget(self) -> None:
        """Note that there are no lines: keys are passed on one by one."""
        self._length = 0


def sleep_of(machine: str, call: Sequence[str], function: str, terminal: Collection[int]) -> Sleep | None:
    """What a thread of a process that has a terminal open sleeps in, if it may wait for what is typed there.

    Args:
        machine: The architecture, as the host names itself.
        call: The words of its ``/proc/PID/task/TID/syscall``; none where that is not shown, as Yama has it.
        function: Its ``wchan``, which is shown to more people.
        terminal: Descriptors at which the process has the terminal.
    """
    if machine not in _READS or not call or call[0] == _RESTART[machine]:
        return _FUNCTIONS.get(function.partition(".")[0])
    if call[0] in _READS[machine]:
        return "read" if len(call) > 1 and int(call[1], 16) in terminal else None
    if call[0] in _SELECTS[machine] and 0 in terminal and call[1:2] == ["0x1"]:
        # Of one descriptor alone, to be read, for as long as it takes: readline does so in bash and Python.
        _, _, reads, writes, others, timeout, *_ = (int(word, 16) for word in ("0", *call[1:]))
        return "read" if reads and not (writes or others or timeout) else "poll"
    return "poll" if call[0] in _POLLS[machine] else None
