"""Whole processes: what the package costs a program that imports it, and a person who types its name."""

from __future__ import annotations

import os
import shlex
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 25


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare an import and the shortest command to an interpreter that does nothing."""
    script = os.path.join(os.path.dirname(sys.executable), "anyshell")
    command = (script,) if os.access(script, os.X_OK) else (sys.executable, "-m", "anyshell")
    variants = {
        "floor": (sys.executable, "-c", "pass"),
        "import": (sys.executable, "-c", "import anyshell"),
        "version": (*command, "--version"),
    }
    for argv in variants.values():
        floors.run(argv)  # compiles what is not compiled yet
    found = interleave({name: partial(milliseconds, argv) for name, argv in variants.items()}, rounds)

    def row(name: str, what: str, bound: float) -> Row:
        numbers, floor = found[name], found["floor"]
        return Row(
            what=what,
            unit="ms",
            ours=numbers,
            floor=floor,
            ratios=ratios(numbers, floor),
            reach=Reach("<=", bound),
        )

    shown = shlex.join(os.path.basename(word) for word in variants["version"])
    return Result(
        rows=[row("import", "`import anyshell`", 3), row("version", "`anyshell --version`", 8)],
        notes=[f"whole processes of one interpreter: `python -c ...` and `{shown}`; the floor does `pass`."],
    )


def milliseconds(argv: tuple[str, ...]) -> float:
    """How long a whole process takes."""
    began = time.perf_counter()
    floors.run(argv)
    return (time.perf_counter() - began) * 1000
