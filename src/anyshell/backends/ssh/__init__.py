"""Hosts that are reached by SSH."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...abc import Backend, Launcher
    from .connection.options import SSHOptions

_CACHE = "/etc/ld.so.cache"
"""Names every library that Linux loads by its name alone, but for those of LD_LIBRARY_PATH (ld.so(8))."""


def connect(host: SSHOptions, launcher: Callable[[str], Launcher]) -> Backend:
    """Make the backend for a host."""
    with without_compilers():
        from .backend import SSHBackend  # asyncssh takes a tenth of a second to import

    return SSHBackend(host, launcher)


@contextmanager
def without_compilers() -> Iterator[None]:
    """Have ``find_library`` of ctypes start no program for a library of asyncssh's that is not there.

    asyncssh looks for liboqs and nettle when it is imported. Python looks for a library by ldconfig, gcc and ld, which are a
    dozen processes for the two. What the cache of the loader does not name is not loaded afterwards either.
    """
    if "asyncssh" in sys.modules:
        yield
        return
    import os
    from ctypes import util
    from pathlib import Path

    find = util.find_library
    try:
        cache = b"" if os.environ.get("LD_LIBRARY_PATH") else Path(_CACHE).read_bytes()  # of Linux alone
    except OSError:
        cache = b""

    def quick(name: str) -> str | None:
        sought = "oqs" in name or "nettle" in name
        return None if sought and cache and f"lib{name}.".encode() not in cache else find(name)

    util.find_library = quick
    try:
        yield
    finally:
        util.find_library = find
