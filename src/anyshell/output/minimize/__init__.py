"""Noise left out of the text of a command's output, by rules that are data."""

from __future__ import annotations

from .minimizer import LARGEST, LEAST_SAVED, LOOKED_AT, SMALLEST, TIME, Rule, find, minimize
from .rules import load, packaged

__all__ = [
    "LARGEST",
    "LEAST_SAVED",
    "LOOKED_AT",
    "SMALLEST",
    "TIME",
    "Rule",
    "find",
    "load",
    "minimize",
    "packaged",
]
