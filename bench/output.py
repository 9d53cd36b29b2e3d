"""A big output: the throughput and the memory growth while a command prints the output."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 7

_TOP = Path(__file__).resolve().parent.parent
_PIECE = 10_000_000
_MEMORY = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Taken:
    """The result that a consumer prints: bytes taken, seconds, and bytes of memory growth."""

    bytes: int
    seconds: float
    growth: int


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare the throughput to the floor's throughput, and measure the memory growth, for each kind of output."""
    size = sizes.output
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=in_memory()) as directory:
        lines = printing(Path(directory, "lines"), log(), size)
        long = printing(Path(directory, "long"), log().replace(b"\n", b" "), size)
        for what, command, reach in (
            ("of lines", lines, Reach(">=", 0.85)),
            ("without a newline", long, Reach(">=", 0.85)),
            ("of NUL bytes (beside)", f"head -c {size} /dev/zero", None),
        ):
            found = interleave(
                {name: partial(take, name, command, size) for name in ("floor", "ours")}, rounds
            )
            ours, floor = found["ours"], found["floor"]
            rows += [
                Row(
                    what=f"{size / 1e6:g} MB {what}",
                    unit="MB/s",
                    ours=[taken.bytes / 1e6 / taken.seconds for taken in ours],
                    floor=[taken.bytes / 1e6 / taken.seconds for taken in floor],
                    ratios=ratios([taken.seconds for taken in floor], [taken.seconds for taken in ours]),
                    reach=reach,
                ),
                Row(
                    what="growth of memory meanwhile",
                    unit="MiB",
                    ours=[taken.growth / 2**20 for taken in ours],
                    floor=[taken.growth / 2**20 for taken in floor],
                    reach=reach and Reach("<=", 24),
                ),
            ]
    return Result(
        rows=rows,
        notes=[
            (
                "lines come from `cat` of one file again and again, NUL bytes from `head -c`; the ratio is ours to "
                "the floor's throughput, so more is better. The floor is an os.read loop of 64 KiB over the same "
                "command. Growth is the peak of a fresh process, less its peak after a tiny command. Artifacts are "
                "written, to a temporary directory."
            )
        ],
    )


def in_memory() -> str | None:
    """Return a directory in memory, which no disk slows down; ``None``, for the usual directory, on a system without one."""
    return _MEMORY if os.path.isdir(_MEMORY) else None


def log() -> bytes:
    """Return a piece of a plain log, in lines of about a hundred characters."""
    line = "2025-01-01 12:{:02}:{:02} INFO worker-{} built target {:07} and {}\n"
    pieces, size, number = [], 0, 0
    while size < _PIECE:
        tail = "linked it " * (1 + number % 9)
        piece = line.format(number // 60 % 60, number % 60, number % 8, number, tail).encode()
        pieces.append(piece)
        size += len(piece)
        number += 1
    return b"".join(pieces)[:_PIECE]


def printing(path: Path, content: bytes, size: int) -> str:
    """Write the content to `path`, and return a command that prints the content repeatedly, `size` bytes in all."""
    path.write_bytes(content)
    whole, rest = divmod(size, len(content))
    files = [str(path)] * whole
    if rest:
        last = path.with_name(f"{path.name}.rest")
        last.write_bytes(content[:rest])
        files.append(str(last))
    return f"cat {shlex.join(files)}"


def take(variant: str, command: str, size: int | None) -> Taken:
    """Start a consumer (`bench.consumer`) that takes the output of a command; a known `size` is checked against the bytes taken."""
    with tempfile.TemporaryDirectory() as state:
        done = subprocess.run(
            [sys.executable, "-m", "bench.consumer", variant, command],
            cwd=_TOP,  # where the package "bench" is found
            env={**os.environ, "ANYSHELL_STATE_DIR": state},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise RuntimeError(f"the consumer ({variant}) ended with {done.returncode}: {done.stderr[-2000:]}")
    taken = Taken(**json.loads(done.stdout))
    if size is not None and taken.bytes != size:
        raise RuntimeError(f"{variant} took {taken.bytes} bytes of {size}")
    return taken
