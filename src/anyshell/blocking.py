"""The blocking twins of anyshell's classes: the same names and arguments, for programs without an event loop.

The types for type checkers are in ``blocking.pyi``, which ``python -m tests.blocking_stub`` writes.
"""

from __future__ import annotations

from ._twins import TWINS, connect, named

__all__ = ["connect", *sorted(TWINS)]


def __getattr__(name):
    if name in TWINS:
        return named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
