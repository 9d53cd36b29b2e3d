"""The type declarations of a Windows library's functions, for each module that calls such functions."""

from __future__ import annotations

from typing import Any


def declare(library: Any, **functions: tuple[Any, ...]) -> Any:
    """Declare functions of a ctypes library: the type of each result, then the types of the arguments; return the library."""
    for name, (result, *arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
