"""The variables of this machine's programs: those of this process, less what its own packaging changed."""

from __future__ import annotations

import os
import sys

assert sys.platform != "win32"

# PyInstaller's bootloader puts the bundle's directory in front of these, so that every program started from a
# bundle would load the bundle's libraries instead of its own (its manual, "LD_LIBRARY_PATH / LIBPATH
# considerations"). On macOS it needs no such variable.
_LIBRARY_PATHS = ((b"LD_LIBRARY_PATH", b"LD_LIBRARY_PATH_ORIG"), (b"LIBPATH", b"LIBPATH_ORIG"))


def host_variables() -> dict[bytes, bytes]:
    """A copy of this process's variables at this moment, with its library paths as they were before a bundle."""
    # The mapping that os.environb wraps, where it still does: copying through its interface takes 40 µs, a twentieth of
    # starting a shell.
    wrapped = getattr(os.environb, "_data", None)
    variables: dict[bytes, bytes] = dict(wrapped if isinstance(wrapped, dict) else os.environb)
    restore_library_paths(variables, frozen=hasattr(sys, "_MEIPASS"))
    return variables


def restore_library_paths(variables: dict[bytes, bytes], *, frozen: bool) -> None:
    """Give programs back the library paths that they had before an application was frozen.

    Args:
        variables: Changed in place. A look-up or two for each path.
        frozen: Whether this process is itself such a bundle: only then is a path without a saved original the
            bundle's own, and removed.
    """
    for name, saved in _LIBRARY_PATHS:
        original = variables.pop(saved, None)
        if original is not None:
            variables[name] = original
        elif frozen:
            variables.pop(name, None)
