"""A big output with masked secrets: the throughput, beside the throughput without masks."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .output import Taken, in_memory, log, printing, take
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 7

_TOKEN = b"ghp_" + b"0123456789" * 4
_EVERY = 500_000


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare the throughput with masks to the throughput without masks, for lines and for lines with tokens."""
    size = sizes.output
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=in_memory()) as directory:
        for what, content, reach in (
            ("of lines, masked", log(), Reach(">=", 0.7)),
            ("with 2 tokens a MB, masked (beside)", _with_tokens(log()), None),
        ):
            command = printing(Path(directory, "lines"), content, size)
            found = interleave(
                {"ours": partial(take, "ours", command, size), "masked": partial(take_masked, command)},
                rounds,
            )
            rows.append(
                Row(
                    what=f"{size / 1e6:g} MB {what}",
                    unit="MB/s",
                    ours=[size / 1e6 / taken.seconds for taken in found["masked"]],
                    floor=[size / 1e6 / taken.seconds for taken in found["ours"]],
                    ratios=ratios(
                        [taken.seconds for taken in found["ours"]],
                        [taken.seconds for taken in found["masked"]],
                    ),
                    reach=reach,
                )
            )
    return Result(
        rows=rows,
        notes=[
            (
                "the lines are those of 'output'. The floor is our own throughput without masks; shapes of tokens and ten "
                "values are masked, each as it is and as base64 has it. The artifact is written."
            )
        ],
    )


def take_masked(command: str) -> Taken:
    """Start a consumer in a fresh process that takes the output of a command, masked."""
    return take("masked", command, None)


def _with_tokens(content: bytes) -> bytes:
    pieces = [content[at : at + _EVERY - len(_TOKEN)] for at in range(0, len(content), _EVERY)]
    return b"".join(piece + _TOKEN for piece in pieces)[: len(content)]
