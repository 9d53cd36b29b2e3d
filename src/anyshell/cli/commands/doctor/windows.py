"""Checks of ``anyshell doctor`` on Windows alone."""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import asyncio
import ctypes
import winreg
from typing import TYPE_CHECKING

from .report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_SYSTEM = r"SYSTEM\CurrentControlSet\Control\FileSystem"


def look_at_windows() -> Iterator[Finding]:
    """Check the settings of this machine that change how commands run, or how output is decoded."""
    yield _look_at_loop()
    yield _look_at_pages()
    yield _look_at_long_paths()


def _look_at_loop() -> Finding:
    if isinstance(asyncio.get_running_loop(), asyncio.ProactorEventLoop):
        return Finding("system", "event loop", "ok", "it can wait for programs (Proactor)")
    detail = "not asyncio's Proactor, without which no program can be started"
    advice = "leave asyncio's policy as it is: something sets another, such as a sitecustomize.py"
    return Finding("system", "event loop", "problem", detail, advice)


def _look_at_pages() -> Finding:
    kernel32 = ctypes.WinDLL("kernel32")
    oem, ansi = kernel32.GetOEMCP(), kernel32.GetACP()
    if oem == ansi == 65001:
        return Finding("system", "code page", "ok", "UTF-8 for every program")
    detail = f"{oem} on consoles, {ansi} elsewhere: output that is not UTF-8 is read as {oem}"
    return Finding("system", "code page", "ok", detail)


def _look_at_long_paths() -> Finding:
    # https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _FILE_SYSTEM) as key:
            enabled = winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1
    except OSError:
        enabled = False
    if enabled:
        return Finding("system", "long paths", "ok", "programs that know of them may use them")
    advice = rf"as an administrator: Set-ItemProperty HKLM:\{_FILE_SYSTEM} LongPathsEnabled 1"
    return Finding("system", "long paths", "missing", "most programs stop at 260 characters", advice)
