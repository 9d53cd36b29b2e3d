"""A big output as text in bounded memory: the speed of the cut to a budget, with and without a search for errors."""

from __future__ import annotations

import re
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from anyshell import OutputLimits
from anyshell.output import OutputBuilder

from .logs import load
from .output import log
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .sizes import Sizes

ROUNDS = 7

_PIECE = 64 * 1024
_EVERY = 100
_LONG = 100_000
_SEARCHED = 50_000_000  # an output of more than 64 MiB is not searched as a whole
_BUDGET = OutputLimits()
_ENDS = OutputLimits(head=20 * 1024, tail=30 * 1024)


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare the throughput of an `OutputBuilder` to a bare head and tail, for plain lines and for lines with errors."""
    rows: list[Row] = []
    most = min(sizes.output, _SEARCHED)
    for what, content, reach in (
        ("of lines", log(), Reach(">=", 100)),
        ("of lines, one of a hundred an error", _with_errors(log()), Reach(">=", 100)),
    ):
        data = (content * (most // len(content) + 1))[:most]
        pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        found = interleave(
            {
                "floor": partial(_seconds, head_and_tail, pieces),
                "ends": partial(_seconds, partial(_built, _ENDS), pieces),
                "budget": partial(_seconds, partial(_built, _BUDGET), pieces),
            },
            rounds,
        )
        speeds = {name: [len(data) / 1e6 / each for each in seconds] for name, seconds in found.items()}
        rows += [
            Row(
                what=f"{most / 1e6:g} MB {what}, head and tail",
                unit="MB/s",
                ours=speeds["ends"],
                floor=speeds["floor"],
                ratios=ratios(found["floor"], found["ends"]),
                reach=Reach(">=", 0.7),
            ),
            Row(what="the same, searched for errors", unit="MB/s", ours=speeds["budget"], reach=reach),
            Row(
                what="the same, beside head and tail",
                unit="MB/s",
                ours=speeds["budget"],
                floor=speeds["ends"],
                ratios=ratios(found["ends"], found["budget"]),
            ),
        ]
    # Join long logs of the corpus until the logs have the size of the output above.
    size, logs = 0, []
    for each in load():
        if len(each.data) > _LONG and size < most:
            logs.append(each.data)
            size += len(each.data)
    alone: tuple[tuple[str, list[bytes], Reach | None], ...] = (
        (f"{len(logs)} long logs of the corpus as one output", [b"".join(logs)], Reach(">=", 100)),
        ("the same, each alone (beside)", logs, None),
    )
    for what, contents, least in alone:
        whole = [[data[at : at + _PIECE] for at in range(0, len(data), _PIECE)] for data in contents]
        seconds = [sum(_seconds(partial(_built, _BUDGET), each) for each in whole) for _ in range(rounds)]
        rows.append(Row(what=what, unit="MB/s", ours=[size / 1e6 / each for each in seconds], reach=least))
    return Result(
        rows=rows,
        notes=[
            (
                "in this process, in its time of the CPU, from memory, in pieces of 64 KiB, and no artifact is written. The floor keeps the first 20 "
                "and the last 30 KiB as they are and counts line feeds; ours cleans them as well. The lines are those of 'output'. Many lines of the long logs of `tests/data/logs` are "
                "errors and warnings, which are looked at closely until more of the worst were found than can be shown. Alone such a log has some 380 kB, of "
                "which the last 128 are held and made text in the end."
            )
        ],
    )


def head_and_tail(pieces: Sequence[bytes]) -> None:
    """Keep both ends of an output, and count bytes and lines, with the least work."""
    head, total, lines = bytearray(), 0, 0
    tail: deque[bytes] = deque(maxlen=2)
    for piece in pieces:
        if len(head) < 20 * 1024:
            head += piece[: 20 * 1024 - len(head)]
        tail.append(piece)
        total += len(piece)
        lines += piece.count(b"\n")
    assert (head + b"".join(tail)[-30 * 1024 :]).decode(errors="replace")
    assert total >= lines


def _built(limits: OutputLimits, pieces: Sequence[bytes]) -> None:
    builder = OutputBuilder(**limits.parts._asdict())
    for piece in pieces:
        builder.feed(piece)
    assert builder.finish().text


def _seconds(take: Callable[[Sequence[bytes]], None], pieces: Sequence[bytes]) -> float:
    began = time.process_time()
    take(pieces)
    return time.process_time() - began


def _with_errors(content: bytes) -> bytes:
    lines = content.split(b"\n")
    for at in range(0, len(lines), _EVERY):
        name = re.sub(rb"\W+", b"_", lines[at][-12:])
        lines[at] = b"src/module_%d.c:%d:3: error: no member named '%s'" % (at, at, name)
    return b"\n".join(lines)
