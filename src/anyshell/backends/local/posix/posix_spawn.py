"""Start a program by the C library's ``posix_spawn``, which copies nothing of this process.

A fork copies the page tables, which takes 30 ms where this process has a gigabyte, and runs Python in a child of a
process with threads. Python's own ``os.posix_spawn`` can neither choose the directory nor close what it does not
know of, and ``subprocess`` leaves ignored and blocked signals as they are, so the function is called directly.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from .starter import Started

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...._types import Terminal
    from .starter import ProgramStart

_SIZE = 1024  # no bound
"""Bytes for each of the library's structures, whose sizes are its own: 336 is the largest of glibc's."""

MOST_ACTIONS = 16
"""Lists of what a child does first that are kept, the ones used last; each has `_SIZE` bytes and a path."""

_FLAGS = 0x04 | 0x08 | 0x80  # no bound
"""POSIX_SPAWN_SETSIGDEF, _SETSIGMASK and _SETSID (``spawn.h``, of glibc and musl alike)."""

_PREPARING = ctypes.PyDLL(None)
"""The C library, called without letting another thread have the interpreter, which takes milliseconds to come back."""

_SPAWNING = ctypes.CDLL(None)
"""The C library, called so that other threads run meanwhile."""

AVAILABLE = all(
    hasattr(_SPAWNING, f"posix_spawn_file_actions_add{name}") for name in ("chdir_np", "closefrom_np")
)
"""Whether this C library has what is needed; glibc has from 2.34 on."""


def start(program: ProgramStart, terminal: Terminal) -> Started:
    """Start a program on a terminal of its own. See `starter.Starter`."""
    from .tty import open_pair  # here, since few programs have a terminal

    master, slave = open_pair(terminal)
    try:
        pid = spawn(program, os.ttyname(slave))
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return Started(pid, master, slave)


def spawn(program: ProgramStart, standard: Sequence[int] | str) -> int:
    """Start a program with every signal at its default and none blocked.

    Args:
        program: The program that is started.
        standard: The sources of its descriptors 0 to 2: three descriptors above 2, or the path of a terminal, which
            becomes the controlling one.

    Returns:
        Its pid.

    Raises:
        OSError: It could not be started, and nothing of it is left.
    """
    path = os.fsencode(program.find())
    actions = _actions(standard, program.cwd, tuple(program.inherited))
    return _spawn(path, [os.fsencode(word) for word in program.argv], program.env, actions.prepared)


def _spawn(
    program: bytes,
    argv: Sequence[bytes],
    env: Mapping[bytes, bytes],
    actions: ctypes.Array[ctypes.c_char],
) -> int:
    pid = ctypes.c_int()
    error = _SPAWNING.posix_spawn(
        ctypes.byref(pid),
        program,
        actions,
        _ATTRIBUTES,
        _words(argv),
        _words([b"%b=%b" % variable for variable in env.items()]),
    )
    if error:
        raise OSError(error, os.strerror(error), os.fsdecode(program))
    return pid.value


def _words(words: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    if b"\0" in b"".join(words):
        raise ValueError("embedded null byte")  # C would end the word there
    return (ctypes.c_char_p * (len(words) + 1))(*words, None)


class _Actions:
    """The actions of the child before it becomes the program, in this order. The library copies its arguments."""

    def __init__(self, standard: Sequence[int] | str, cwd: str, inherited: Sequence[int]) -> None:
        self.prepared = ctypes.create_string_buffer(_SIZE)
        _call("posix_spawn_file_actions_init", self.prepared)
        # Bound now: at the end of the interpreter this module may be empty before the last of these is gone.
        destroy = _PREPARING.posix_spawn_file_actions_destroy
        weakref.finalize(self, destroy, self.prepared).atexit = False
        add = self._add
        if isinstance(standard, str):
            # It leads a session by now, and has no controlling terminal: the first that it opens becomes that.
            add("open", 0, os.fsencode(standard), os.O_RDWR, 0)
            standard = (0, 0, 0)
        for place, number in enumerate(standard):
            if number != place:
                add("dup2", number, place)
        # "Close all but these" is not to be had. So they are moved to where closing begins, and back. In order, no
        # move overwrites one that is still to be moved: the nth of them has the number of the nth place or a higher.
        numbers = sorted(inherited)
        places = range(3, 3 + len(numbers))
        for number, place in zip(numbers, places, strict=True):
            add("dup2", number, place)
        add("closefrom_np", places.stop)
        for number, place in zip(reversed(numbers), reversed(places), strict=True):
            add("dup2", place, number)
        for place in places:
            if place not in numbers:
                add("close", place)
        add("chdir_np", os.fsencode(cwd))

    def _add(self, name: str, *arguments: object) -> None:
        _call(f"posix_spawn_file_actions_add{name}", self.prepared, *arguments)


_actions = lru_cache(maxsize=MOST_ACTIONS)(_Actions)
"""A cache of actions: the same descriptors are free after each command, so most starts equal the one before."""


def _attributes() -> ctypes.Array[ctypes.c_char]:
    """A session of its own, and every signal as it is by nature.

    What this process ignores or blocks its children would: below nohup, a hang-up would do nothing to them.
    """
    attributes = ctypes.create_string_buffer(_SIZE)
    signals = ctypes.create_string_buffer(_SIZE)
    _call("posix_spawnattr_init", attributes)
    _call("sigemptyset", signals)
    _call("posix_spawnattr_setsigmask", attributes, signals)
    # Every bit, for which sigfillset does not do: two signals that glibc keeps for itself would then be ignored.
    ctypes.memset(signals, 0xFF, _SIZE)
    _call("posix_spawnattr_setsigdefault", attributes, signals)
    _call("posix_spawnattr_setflags", attributes, ctypes.c_short(_FLAGS))
    return attributes


def _call(name: str, *arguments: object) -> None:
    error = getattr(_PREPARING, name)(*arguments)
    if error:
        raise OSError(error, os.strerror(error))


_ATTRIBUTES = _attributes() if AVAILABLE else None
"""The same for every program; the library only reads them."""
