"""The backend for hosts that are reached by SSH."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...abc import Backend, Launcher
    from .connection.options import SSHOptions

_CACHE = "/etc/ld.so.cache"
"""The file that names every library that Linux loads by name alone, except those of LD_LIBRARY_PATH (ld.so(8))."""


def connect(host: SSHOptions, launcher: Callable[[str], Launcher]) -> Backend:
    """Create the backend for a host."""
    with without_compilers():
        from .backend import SSHBackend  # here, since importing asyncssh takes a tenth of a second

    return SSHBackend(host, launcher)


@contextmanager
def without_compilers() -> Iterator[None]:
    """Keep ``find_library`` of ctypes from starting programs to find libraries of asyncssh that are not installed.

    asyncssh searches for liboqs and nettle when it is imported. Python searches for a library by ldconfig, gcc and ld,
    which are a dozen processes for the two libraries. A library that the loader's cache does not name could not be
    loaded afterwards either.
    """
    if "asyncssh" in sys.modules:
        yield
        return
    import os
    from ctypes import util
    from pathlib import Path

    find = util.find_library
    try:
        cache = b"" if os.environ.get("LD_LIBRARY_PATH") else Path(_CACHE).read_bytes()  # on Linux only
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
