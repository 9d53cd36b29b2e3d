"""The environment variables of local programs: this process's variables, without the changes of its own packaging."""

from __future__ import annotations

import os
import sys

assert sys.platform != "win32"

# PyInstaller's bootloader puts the bundle's directory in front of these variables. So every program started from a
# bundle would load the bundle's libraries instead of the program's own (PyInstaller's manual, "LD_LIBRARY_PATH / LIBPATH
# considerations"). On macOS the bootloader changes no variable.
_LIBRARY_PATHS = ((b"LD_LIBRARY_PATH", b"LD_LIBRARY_PATH_ORIG"), (b"LIBPATH", b"LIBPATH_ORIG"))


def host_variables() -> dict[bytes, bytes]:
    """Return a copy of this process's current environment variables, with the library paths from before a bundle's start."""
    # Copy the mapping that os.environb wraps, if there is still one: a copy through the interface of os.environb takes 40 µs,
    # a twentieth of the start of a shell.
    wrapped = getattr(os.environb, "_data", None)
    variables: dict[bytes, bytes] = dict(wrapped if isinstance(wrapped, dict) else os.environb)
    restore_library_paths(variables, frozen=hasattr(sys, "_MEIPASS"))
    return variables


def restore_library_paths(variables: dict[bytes, bytes], *, frozen: bool) -> None:
    """Restore the library paths from before the start of a frozen application.

    Args:
        variables: The variables, changed in place by one or two look-ups for each path.
        frozen: Whether this process is itself a bundle. Only then a path without a saved original is the bundle's own,
            and is removed.
    """
    for name, saved in _LIBRARY_PATHS:
        original = variables.pop(saved, None)
        if original is not None:
            variables[name] = original
        elif frozen:
            variables.pop(name, None)
