"""The living processes of the machine. A zombie does not live, although signal 0 finds it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shlex
import sys
import time
from typing import TYPE_CHECKING

import anyio
import psutil

from .systems import SYSTEM

if TYPE_CHECKING:
    from pathlib import Path

    from anyshell.terminal import DrivenTerminal


STARTED = "until ps -o comm= -p $! | grep -q sleep; do sleep 0.01; done"
"""A text that waits until the last background process is a sleep, and no longer the shell that starts the sleep."""


def unique_seconds() -> str:
    """A long, unique number of seconds to sleep, by which command lines can be found."""
    return f"300.{random.randrange(10**9):09d}"


def living(text: str) -> list[str]:
    """The command lines of living processes that contain a text."""
    found = []
    # psutil takes three times as long for all command lines, and tests ask every few milliseconds.
    for pid in _named(text) if sys.platform == "linux" else psutil.pids():
        try:
            process = psutil.Process(pid)
            line = " ".join(process.cmdline())
            if text in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{pid} {line[:200]}")
        except (psutil.Error, OSError):  # under Wine, for a process that starts or ends
            continue
    return found


def _named(text: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if text in " ".join(os.fsdecode(file.read()).split("\0")):
                found.append(int(name))
    return found


def kill_with_its_net(pid: int) -> None:
    """Kill a program, and before that the net that would stop its commands (`linux.net`)."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "anyshell-net" in words and words[words.index("anyshell-net") + 1] == str(pid):
            # Not `process`, which psutil may have kept from an earlier process of that number.
            psutil.Process(process.pid).kill()
    psutil.Process(pid).kill()
    wait_dead(pid)


def wait_dead(pid: int) -> None:
    """Wait until no thread of a killed process is left: until then the process is alive, even if its first thread is a zombie."""
    give_up = time.monotonic() + 20
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1:
            assert time.monotonic() < give_up, f"{pid} never ended"
            time.sleep(0.03)


COMES_WITHIN = 90 if sys.platform == "win32" else 20
"""Seconds in which a program must have started. Under Wine, on a busy machine, PowerShell takes a large part of them."""


def wait_living(text: str, count: int = 1, seconds: float = COMES_WITHIN) -> None:
    """Wait until a number of processes live whose command lines contain a text."""
    give_up = time.monotonic() + seconds
    while len(living(text)) < count:
        assert time.monotonic() < give_up, f"{count} processes with {text} never came"
        time.sleep(0.03)


async def wait_none(text: str) -> None:
    """Wait until no process lives whose command line contains a text."""
    with anyio.fail_after(30):
        while await asyncio.to_thread(living, text):
            await asyncio.sleep(0.05)


async def wait_in_front(terminal: DrivenTerminal, name: str) -> None:
    """Wait until a program alone has the foreground of a terminal: its shell prints the command before that."""
    async with asyncio.timeout(COMES_WITHIN):
        names: list[str] = []
        while names != [name]:
            await asyncio.sleep(0.02)
            front = await terminal.foreground()
            names = [] if front is None else [each.name for each in front.processes]


def wait_asleep(seconds: str, count: int = 1) -> None:
    """Wait until as many programs sleep for that time: by then their shell has finished its earlier steps."""
    give_up = time.monotonic() + 20
    while sum(line.partition(" ")[2] == f"sleep {seconds}" for line in living(seconds)) < count:
        assert time.monotonic() < give_up, f"sleep {seconds} never came"
        time.sleep(0.03)


def open_descriptors() -> int:
    """The number of descriptors of this process."""
    if sys.platform != "win32":
        return psutil.Process().num_fds()
    if SYSTEM != "wine":
        return psutil.Process().num_handles()
    # Wine 8 reports no handles for any process: this counts the handles of this process among all handles.
    import ctypes
    from ctypes import wintypes

    class Entry(ctypes.Structure):
        """SYSTEM_HANDLE_TABLE_ENTRY_INFO_EX."""

        _fields_ = (
            ("object", ctypes.c_void_p),
            ("process", ctypes.c_size_t),
            ("handle", ctypes.c_size_t),
            ("access", wintypes.ULONG),
            ("others", wintypes.ULONG * 3),
        )

    query = ctypes.WinDLL("ntdll").NtQuerySystemInformation
    size = 1 << 20
    while True:
        table = ctypes.create_string_buffer(size)
        if query(0x40, table, size, None) == 0:  # SystemExtendedHandleInformation
            break
        size *= 2
    count = ctypes.c_size_t.from_buffer(table).value
    entries = (Entry * count).from_buffer(table, 2 * ctypes.sizeof(ctypes.c_size_t))
    return sum(entry.process == os.getpid() for entry in entries)


def failing_awk(place: Path, times: int) -> None:
    """Make an awk that prints one line and fails so many times, as mawk does when a process ends while its file is read."""
    place.mkdir()
    awk = place / "awk"
    awk.write_text(
        f"#!/bin/sh\nreal=$(PATH={shlex.quote(os.environ['PATH'])} command -v awk)\n"
        f"count=$(cat {shlex.quote(str(place))}/count 2>/dev/null)\n"
        f'[ "${{count:-0}}" -lt {times} ] || exec "$real" "$@"\n'
        f"echo $((${{count:-0}} + 1)) >{shlex.quote(str(place))}/count\n"
        '"$real" "$@" | head -n 2\nexit 2\n'
    )
    awk.chmod(0o755)
