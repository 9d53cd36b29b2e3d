"""The speed at which a terminal's output becomes the text that a model reads."""

from __future__ import annotations

import importlib
import itertools
import os
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

from anyshell import Terminal
from anyshell.output import TerminalOutput

from .output import in_memory, log
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .sizes import Sizes

ROUNDS = 7

_PIECE = 4096  # the most bytes of one read from a terminal on Linux
_SLOW = 40  # pyte is slow, so the comparison with pyte uses the bytes divided by this number

KINDS: Mapping[str, tuple[Callable[[int], bytes], float]] = {
    "a bar on one line": (lambda at: f"\r{at % 100:3}%|{'█' * (at % 100 // 5):20}| {at}/10000".encode(), 20),
    "a coloured bar that erases": (
        lambda at: f"\r\x1b[2K   \x1b[32m{'━' * (at % 40)}\x1b[0m \x1b[31m{at} MB\x1b[0m".encode(),
        20,
    ),
    "a coloured log": (
        lambda at: b"\x1b[32mINFO\x1b[0m 12:00:00 \x1b[1mworker\x1b[0m built target %d\r\n" % at,
        20,
    ),
    "a bar of two lines": (lambda at: b"\x1b[2A\r\x1b[2Kone: %d\r\n\x1b[2Ktwo: %d\r\n" % (at, at), 5),
    "whole screens": (
        lambda at: (
            b"\x1b[%d;1H\x1b[K\x1b[1m%d\x1b[m some text\x1b[%d;40Hand more" % (at % 24 + 1, at, at % 24 + 1)
        ),
        5,
    ),
}
"""The kinds of output: a function that returns the piece of a number, and the MB/s to reach."""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare the throughput of a terminal, for each kind of output, to a plain read of the output, and to pyte."""
    size = sizes.output // 25
    rows: list[Row] = []
    for what, (make, reach) in {"a plain log": (None, 20.0), **KINDS}.items():
        data = _printed(make, size)
        variants = {"ours": partial(_draw, data), "floor": partial(_read, data)}
        found = interleave(variants, rounds)
        rows.append(
            Row(
                what=f"{size / 1e6:g} MB of {what}; the floor reads it",
                unit="MB/s",
                ours=found["ours"],
                floor=found["floor"],
                reach=Reach(">=", reach),
            )
        )
        beside = _beside_pyte(data[: max(size // _SLOW, 1)], what, rounds)
        if beside is not None:
            rows.append(beside)
    return Result(
        rows=rows,
        notes=[
            (
                "seconds of the processor. Fed to a TerminalOutput of 80 to 24 in pieces of 4 KiB, as a terminal gives "
                "them, with nothing skipped; the floor reads as many from a file in memory. Where pyte is installed it "
                "draws a part of the same."
            )
        ],
    )


def _printed(make: Callable[[int], bytes] | None, size: int) -> bytes:
    data = b"".join(map(make, range(10_000))) if make is not None else log().replace(b"\n", b"\r\n")
    return (data * (size // len(data) + 1))[:size]


def _draw(data: bytes) -> float:
    # The clock advances by a second at each reading: every piece is drawn.
    output = TerminalOutput(Terminal(), clock=partial(next, itertools.count(1.0)))
    began = time.process_time()
    for at in range(0, len(data), _PIECE):
        output.feed(data[at : at + _PIECE])
    made = output.finish()
    seconds = time.process_time() - began
    if made.total_bytes != len(data) or made.skipped_bytes:
        raise RuntimeError(
            f"{made.total_bytes} bytes were taken and {made.skipped_bytes} skipped of {len(data)}"
        )
    return len(data) / 1e6 / seconds


def _read(data: bytes) -> float:
    with tempfile.TemporaryFile(dir=in_memory()) as file:
        file.write(data)
        file.seek(0)
        began = time.process_time()
        while os.read(file.fileno(), _PIECE):
            pass
        return len(data) / 1e6 / max(time.process_time() - began, 1e-6)


def _beside_pyte(data: bytes, what: str, rounds: int) -> Row | None:
    try:
        pyte = importlib.import_module("pyte")
    except ModuleNotFoundError:
        return None

    def draw() -> float:
        stream = pyte.ByteStream(pyte.Screen(80, 24))
        began = time.process_time()
        for at in range(0, len(data), _PIECE):
            stream.feed(data[at : at + _PIECE])
        return len(data) / 1e6 / (time.process_time() - began)

    variants: dict[str, Callable[[], float]] = {"ours": partial(_draw, data), "floor": draw}
    found = interleave(variants, rounds)
    return Row(
        what=f"of {what}; the floor is pyte (beside)",
        unit="MB/s",
        ours=found["ours"],
        floor=found["floor"],
        ratios=ratios(found["ours"], found["floor"]),
    )
