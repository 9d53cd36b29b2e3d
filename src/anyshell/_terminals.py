"""The rules of kernel terminals, on this machine or on another host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Sleep = Literal["read", "poll"]

LONGEST_LINE = 4095
"""Bytes of a line, without its end, that can be typed in line mode on Linux; a longer one is refused, since the kernel would
cut it (termios(3), "Canonical mode").
"""

LONGEST_LINE_OF_BSD = 1023
"""Bytes of a line, without its end, that can be typed in line mode on macOS, and on a host other than Linux (``MAX_CANON``)."""

_READS = {"x86_64": {"0", "19"}, "aarch64": {"63", "65"}}
"""The system call numbers of read and readv (``unistd_64.h``, ``asm-generic/unistd.h``)."""

_POLLS = {
    "x86_64": {"7", "23", "232", "270", "271", "281", "441"},
    "aarch64": {"22", "72", "73", "441"},
}
"""The system call numbers of poll, ppoll, select, pselect6, epoll_wait, epoll_pwait and epoll_pwait2."""

_SELECTS = {"x86_64": {"23", "270"}, "aarch64": {"72"}}
"""The system call numbers of select and pselect6; first arguments: a descriptor count, three descriptor sets and a timeout."""

_NUMBERS = {"x86_64": {"7": 2, "271": 2, "23": 1, "270": 1}, "aarch64": {"73": 2, "72": 1}}
"""The index of the argument of poll, ppoll, select and pselect6 with the number of descriptors."""

_RESTART = {"x86_64": "219", "aarch64": "128"}
"""The number of restart_syscall, which continues a system call after a stop; the original number is not shown then."""

_FUNCTIONS: dict[str, Sleep] = {
    "n_tty_read": "read",
    "wait_woken": "poll",  # a terminal or a socket
    "do_poll": "poll",
    "do_select": "poll",
    "do_sys_poll": "poll",
    "ep_poll": "poll",
    "do_epoll_wait": "poll",
    "poll_schedule_timeout": "poll",
}
"""The kernel functions in which a thread sleeps that reads or polls, as ``wchan`` names them."""


@dataclass(frozen=True, slots=True)
class LineKeys:
    """The meaning of keys for a terminal in line mode.

    Attributes:
        ends: The keys after which a new line begins: line ends, and keys that discard the line.
        erases: The keys that erase typed characters.
        quotes: The keys that make the next key literal.
    """

    ends: bytes = b"\r\n\x03\x04\x15\x1a\x1c"
    erases: bytes = b"\x17\x7f"
    quotes: bytes = b"\x16"

    @classmethod
    def of(cls, flags: Collection[str], keys: Mapping[str, bytes]) -> LineKeys:
        """Derive the meaning of keys from the set flags and the terminal's keys, by the names of stty(1)."""
        ends = [keys.get(name, b"") for name in ("eof", "eol", "eol2", "kill")]
        if "inlcr" not in flags:
            ends.append(b"\n")
        if "icrnl" in flags and "igncr" not in flags:
            ends.append(b"\r")
        if "isig" in flags and "noflsh" not in flags:
            ends += [keys.get(name, b"") for name in ("intr", "quit", "susp")]
        quotes = keys.get("lnext", b"") if "iexten" in flags else b""
        return cls(b"".join(ends), keys.get("erase", b"") + keys.get("werase", b""), quotes)

    def reduce(self, data: bytes) -> bytes:
        """Reduce keys to the resulting lines: the text that counts in each line, and a line feed for its end."""
        if self.quotes and self.quotes in data:
            data = re.sub(re.escape(self.quotes) + rb"[\s\S]", b"xx", data)
        if b"\n" not in self.ends:
            data = data.replace(b"\n", b"x")
        return data.translate(bytes.maketrans(self.ends, b"\n" * len(self.ends)), self.erases)


@dataclass(frozen=True, slots=True)
class TtyModes:
    """The settings of a terminal.

    Attributes:
        echo: Whether the terminal shows typed keys.
        line_mode: Whether the terminal passes on whole lines.
        end_key: The key that sends end-of-file at the start of a line, in line mode; ``None`` means no key.
        keys: The meaning of the other keys in line mode.
    """

    echo: bool
    line_mode: bool
    end_key: bytes | None
    keys: LineKeys = field(default_factory=LineKeys, compare=False)


class TypedLine:
    """The line that is being typed on a terminal.

    Args:
        longest: Bytes that the terminal passes on in line mode.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._length = 0
        self._typed = b""  # keys typed after that, while their meaning is not known

    def begun(self, meaning: LineKeys) -> bool:
        """Return whether any character of the line was typed."""
        return self._reduced(b"", meaning)[-1:] not in (b"", b"\n")

    def fits(self, keys: bytes) -> bool:
        """Return whether keys can be typed in line mode whatever they mean."""
        return self._length + len(self._typed) + len(keys) <= self._longest

    def takes(self, keys: bytes, meaning: LineKeys) -> bool:
        """Return whether keys can be typed in line mode without making a line too long."""
        keys, begin = self._reduced(keys, meaning), 0
        while len(keys) - begin > self._longest:
            # From the last line end that is near enough: short lines need no check one by one.
            end = keys.rfind(b"\n", begin, begin + self._longest + 1)
            if end < 0:
                return False
            begin = end + 1
        return True

    def refuse(self) -> InvalidCommand:
        """Return the error for keys that do not fit: the kernel would drop the excess, and ring a bell."""
        return InvalidCommand(
            f"a terminal in line mode takes no line of more than {self._longest:,} bytes: send shorter lines, or give "
            "the program a file"
        )

    def type(self, keys: bytes, meaning: LineKeys | None = None) -> None:
        """Record typed keys; when the meaning of keys is not known, no more keys than fit."""
        if meaning is None:
            self._typed += keys
            return
        keys = self._reduced(keys, meaning)
        self._length, self._typed = len(keys) - keys.rfind(b"\n") - 1, b""

    def forget(self) -> None:
        """Record that there are no lines: the terminal passes keys on one by one."""
        self._length, self._typed = 0, b""

    def _reduced(self, keys: bytes, meaning: LineKeys) -> bytes:
        return b"x" * self._length + meaning.reduce(self._typed + keys)


def sleep_of(machine: str, call: Sequence[str], function: str, terminal: Collection[int]) -> Sleep | None:
    """Return the kind of system call in which a thread may wait for input from its process's terminal.

    Args:
        machine: The architecture, as the host reports it.
        call: The words of the thread's ``/proc/PID/task/TID/syscall``; none where the file cannot be read, as under Yama.
        function: The thread's ``wchan``, which more users may read.
        terminal: The descriptors at which the process has the terminal.
    """
    if machine not in _READS or not call or call[0] == _RESTART[machine]:
        return _FUNCTIONS.get(function.partition(".")[0])
    if call[0] in _READS[machine]:
        return "read" if len(call) > 1 and int(call[1], 16) in terminal else None
    number = _NUMBERS[machine].get(call[0])
    if number is not None and call[number : number + 1] == ["0x0"]:
        return None  # that is how Perl and others sleep
    if call[0] in _SELECTS[machine] and 0 in terminal and call[1:2] == ["0x1"]:
        # Of one descriptor alone, for reading, without a timeout: readline does so in bash and Python.
        _, _, reads, writes, others, timeout, *_ = (int(word, 16) for word in ("0", *call[1:]))
        return "read" if reads and not (writes or others or timeout) else "poll"
    return "poll" if call[0] in _POLLS[machine] else None
