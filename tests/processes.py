"""Ask the machine which processes live. A zombie does not, though it answers to signal 0."""

from __future__ import annotations

import random
import sys
import time

import psutil


def unique_seconds() -> str:
    """A long time to sleep that no other process sleeps: it is found again in command lines."""
    return f"300.{random.randrange(10**9):09d}"


def living(text: str) -> list[str]:
    """The command lines, of processes that live, in which a text stands."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if text in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {line[:200]}")
        except psutil.Error:
            continue
    return found


def wait_living(text: str, count: int = 1, seconds: float = 20) -> None:
    """Wait until so many processes live in whose command lines a text stands."""
    give_up = time.monotonic() + seconds
    while len(living(text)) < count:
        assert time.monotonic() < give_up, f"{count} processes with {text} never came"
        time.sleep(0.01)


def wait_asleep(seconds: str) -> None:
    """Wait until a program sleeps for that long: what its shell does before has been done by then."""
    give_up = time.monotonic() + 20
    while not any(line.partition(" ")[2] == f"sleep {seconds}" for line in living(seconds)):
        assert time.monotonic() < give_up, f"sleep {seconds} never came"
        time.sleep(0.01)


def open_descriptors() -> int:
    """How many descriptors this process has."""
    if sys.platform == "win32":
        return psutil.Process().num_handles()
    return psutil.Process().num_fds()
