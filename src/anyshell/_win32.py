"""The declaration of functions of a library of Windows, for each module that calls some."""

from __future__ import annotations

from typing import Any


def declare(library: Any, **functions: tuple[Any, ...]) -> Any:
    """Return a library of ctypes after each function is given the type of its result, then those of its arguments."""
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
