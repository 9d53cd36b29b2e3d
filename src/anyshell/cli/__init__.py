"""The command line: the program ``anyshell``, whose entry point is `main`.

This package imports nothing until `main` is accessed, so that `process` can be imported before everything else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see anyshell/__init__.py

if TYPE_CHECKING:
    from .program import main as main


def __getattr__(name: str) -> object:
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .program import main

    globals()["main"] = main
    return main
