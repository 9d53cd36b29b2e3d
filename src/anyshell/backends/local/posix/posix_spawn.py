"""Start of a program by the C library's ``posix_spawn``, which copies nothing of this process.

A fork copies the page tables, which takes 30 ms if this process has a gigabyte of memory, and runs Python in a child of a
process with threads. Python's own ``os.posix_spawn`` can neither set the working directory nor close unknown descriptors,
and ``subprocess`` leaves signals ignored and blocked. So this module calls the C function directly.
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
"""Bytes for each opaque structure of the C library; glibc's largest has 336."""

MOST_ACTIONS = 16
"""Lists of file actions of a child that are cached, each of `_SIZE` bytes and a path; the least recently used are dropped."""

_FLAGS = 0x04 | 0x08 | 0x80  # no bound
"""POSIX_SPAWN_SETSIGDEF, _SETSIGMASK and _SETSID (``spawn.h``, of glibc and musl alike)."""

_PREPARING = ctypes.PyDLL(None)
"""The C library, called without releasing the interpreter's lock: to get the lock back from another thread takes milliseconds."""

_SPAWNING = ctypes.CDLL(None)
"""The C library, called with the interpreter's lock released, so that other threads run meanwhile."""

AVAILABLE = all(
    hasattr(_SPAWNING, f"posix_spawn_file_actions_add{name}") for name in ("chdir_np", "closefrom_np")
)
"""Whether this C library has the needed functions; glibc has them since 2.34."""


def start(program: ProgramStart, terminal: Terminal) -> Started:
    """Start a program on a terminal of its own. See `starter.Starter`."""
    from .tty import open_pair  # imported here, since few programs have a terminal

    master, slave = open_pair(terminal)
    try:
        pid = spawn(program, os.ttyname(slave))
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return Started(pid, master, slave)


def spawn(program: ProgramStart, standard: Sequence[int] | str) -> int:
    """Start a program with every signal at its default and no signal blocked.

    Args:
        program: The program to start.
        standard: The sources of the program's descriptors 0 to 2: three descriptors above 2, or the path of a terminal,
            which becomes the controlling terminal.

    Returns:
        The program's pid.

    Raises:
        OSError: The program could not be started, and no process remains.
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
        raise ValueError("embedded null byte")  # in C, the word would end at the NUL
    return (ctypes.c_char_p * (len(words) + 1))(*words, None)


class _Actions:
    """The file actions of the child before it executes the program, in order. The C library copies each action's arguments."""

    def __init__(self, standard: Sequence[int] | str, cwd: str, inherited: Sequence[int]) -> None:
        self.prepared = ctypes.create_string_buffer(_SIZE)
        _call("posix_spawn_file_actions_init", self.prepared)
        # Looked up now: when the interpreter ends, this module may be cleared before the last `_Actions` object is gone.
        destroy = _PREPARING.posix_spawn_file_actions_destroy
        weakref.finalize(self, destroy, self.prepared).atexit = False
        add = self._add
        if isinstance(standard, str):
            # The child already leads a session, and has no controlling terminal: the first terminal that it opens becomes that.
            add("open", 0, os.fsencode(standard), os.O_RDWR, 0)
            standard = (0, 0, 0)
        for place, number in enumerate(standard):
            if number != place:
                add("dup2", number, place)
        # There is no action "close all but these". So the inherited descriptors are moved to the places from 3 on, all
        # descriptors above are closed, and the inherited ones are moved back. In ascending order, no move overwrites a
        # descriptor that is still to be moved: the nth descriptor's number is never below the nth place.
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
"""A cache of actions. After each command the same descriptors are free, so that most starts have the same actions."""


def _attributes() -> ctypes.Array[ctypes.c_char]:
    """Return attributes for a child: a session of its own, default signal actions, and no blocked signal.

    Otherwise children would inherit the signals that this process ignores or blocks: below nohup, SIGHUP would not end them.
    """
    attributes = ctypes.create_string_buffer(_SIZE)
    signals = ctypes.create_string_buffer(_SIZE)
    _call("posix_spawnattr_init", attributes)
    _call("sigemptyset", signals)
    _call("posix_spawnattr_setsigmask", attributes, signals)
    # Set every bit. sigfillset omits two signals that glibc keeps for itself, which would then be ignored.
    ctypes.memset(signals, 0xFF, _SIZE)
    _call("posix_spawnattr_setsigdefault", attributes, signals)
    _call("posix_spawnattr_setflags", attributes, ctypes.c_short(_FLAGS))
    return attributes


def _call(name: str, *arguments: object) -> None:
    error = getattr(_PREPARING, name)(*arguments)
    if error:
        raise OSError(error, os.strerror(error))


_ATTRIBUTES = _attributes() if AVAILABLE else None
"""The attributes that all starts share; the C library only reads them."""
