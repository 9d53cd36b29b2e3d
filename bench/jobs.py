"""A job that does nothing, many in a row, beside the same command that is waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, subject

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 15

_COMMAND = "true"


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare a job from its start to its end to `run`, and say how soon its start is back."""
    count = sizes.spawns
    back: list[float] = []
    with subject() as (runner, environment):

        async def awaited() -> float:
            began = time.perf_counter()
            for _ in range(count):
                (await environment.run(_COMMAND)).check()
            return (time.perf_counter() - began) / count * 1000

        async def as_jobs() -> float:
            starting = 0.0
            began = time.perf_counter()
            for _ in range(count):
                before = time.perf_counter()
                job = await environment.start(_COMMAND, stdin=b"")
                starting += time.perf_counter() - before
                outcome = await job.wait()
                if outcome is None or outcome.exit_code != 0:
                    raise RuntimeError(f"the job failed: {outcome}")
            back.append(starting / count * 1000)
            return (time.perf_counter() - began) / count * 1000

        found = interleave(
            {"run": lambda: runner.run(awaited()), "job": lambda: runner.run(as_jobs())}, rounds
        )
    return Result(
        rows=[
            Row(
                what=f"`{_COMMAND}` as a job, from its start to its end, {count} in a row",
                unit="ms",
                ours=found["job"],
                floor=found["run"],
                ratios=ratios(found["job"], found["run"]),
                reach=Reach("<=", 1.25),
            ),
            Row(what="of it until `start()` is back", unit="ms", ours=back),
        ],
        notes=[f"the floor is `run` of the same command in a fresh {SHELL}, in the same rounds."],
    )
