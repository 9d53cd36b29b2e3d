"""A command within a reach, beside the same one without: what a sandbox costs."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

import anyshell

from .report import Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes import Sizes

ROUNDS = 7

_COMMAND = "true"


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare each reach to a run without one, in fresh shells."""
    count = max(1, sizes.spawns // 4)
    reaches = {
        "workspace": anyshell.Reach.preset("workspace"),
        "read-only": anyshell.Reach.preset("read-only"),
        "with the network": anyshell.Reach(write=(".",), network=True),
        "nothing hidden": anyshell.Reach(write=(".",), hide=(), protect=()),
    }
    with subject() as (runner, bare), tempfile.TemporaryDirectory() as directory:

        async def detect(reach: anyshell.Reach) -> anyshell.Environment:
            return await anyshell.Environment.detect(shell=SHELL, cwd=directory, reach=reach)

        environments = {name: runner.run(detect(reach)) for name, reach in reaches.items()}

        async def run(environment: anyshell.Environment) -> float:
            began = time.perf_counter()
            for _ in range(count):
                (await environment.run(_COMMAND)).check()
            return (time.perf_counter() - began) / count * 1000

        def timed(environment: anyshell.Environment) -> Callable[[], float]:
            return lambda: runner.run(run(environment))

        try:
            found = interleave(
                {name: timed(each) for name, each in {"bare": bare, **environments}.items()}, rounds
            )
        finally:
            for environment in environments.values():
                runner.run(environment.aclose())
    return Result(
        rows=[
            Row(
                what=f"`{_COMMAND}` within a reach: {name}",
                unit="ms",
                ours=found[name],
                floor=found["bare"],
                ratios=ratios(found[name], found["bare"]),
            )
            for name in reaches
        ],
        notes=["the floor is the same command without a reach, in the same run; no aim is set"],
    )
