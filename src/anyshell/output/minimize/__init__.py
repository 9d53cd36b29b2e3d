"""The minimizer: leaves noise out of the text of a command's output, by rules that are data."""

from __future__ import annotations

from .minimizer import (
    INDENT,
    LARGEST,
    LEAST_SAVED,
    LONGEST_BLOCK,
    LOOKED_AT,
    SMALLEST,
    TIME,
    Minimized,
    NoiseRule,
    find,
    minimize,
)
from .rules import load, packaged

__all__ = [
    "INDENT",
    "LARGEST",
    "LEAST_SAVED",
    "LONGEST_BLOCK",
    "LOOKED_AT",
    "SMALLEST",
    "TIME",
    "Minimized",
    "NoiseRule",
    "find",
    "load",
    "minimize",
    "packaged",
]
