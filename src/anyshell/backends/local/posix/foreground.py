"""The foreground of a terminal on macOS, by psutil. macOS does not show what a process waits for."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import psutil

from ...._types import Foreground, ProcessInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...._terminals import TtyModes


def look(group: int, tty: str, device: int, ask: Callable[[], TtyModes | None]) -> Foreground | None:
    """Describe the foreground of a terminal, as `linux.foreground.look` does. Never waits."""
    found = []
    cpu = 0.0
    for pid in psutil.pids() if group > 0 else ():
        with suppress(psutil.Error, OSError):
            if os.getpgid(pid) == group:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(ProcessInfo(pid, process.name(), process.create_time()))
                with suppress(psutil.AccessDenied):
                    times = process.cpu_times()
                    cpu += times.user + times.system
    settings = ask()
    if settings is None:
        return None
    return Foreground(processes=tuple(found), cpu=cpu, echo=settings.echo, line_mode=settings.line_mode)
