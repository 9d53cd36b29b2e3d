"""Jobs: a job that does nothing, beside `run` of the same command, and a lasting job, beside a bare process."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, argv, subject

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 15
START_ROUNDS = 15

_COMMAND = "true"
_LASTING = "sleep 60"


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare a job, from the start to the end, to `run`, and measure the time until `start` returns."""
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


def measure_start(sizes: Sizes, rounds: int) -> Result:
    """Compare the start of a job to the start of a bare process, without a wait for the end."""
    count = sizes.sessions
    with subject() as (runner, environment):
        program = argv(environment, _LASTING)

        async def ours() -> float:
            seconds = 0.0
            for _ in range(count):
                began = time.perf_counter()
                job = await environment.start(_LASTING)
                seconds += time.perf_counter() - began
                if job.status != "running":
                    raise RuntimeError(f"the job does not run: {job.status}")
                await job.stop()
            return seconds / count * 1000

        def floor() -> float:
            seconds = 0.0
            for _ in range(count):
                began = time.perf_counter()
                process = subprocess.Popen(
                    program,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                seconds += time.perf_counter() - began
                with process:
                    process.kill()
            return seconds / count * 1000

        runner.run(ours())
        floor()
        found = interleave({"floor": floor, "ours": lambda: runner.run(ours())}, rounds)
    return Result(
        rows=[
            Row(
                what=f"start of the job `{_LASTING}`, {count} one after the other",
                unit="ms",
                ours=found["ours"],
                floor=found["floor"],
                ratios=ratios(found["ours"], found["floor"]),
            )
        ],
        notes=[
            "until start() has returned; the stop is not in it. The floor is subprocess.Popen with pipes and a session of its own."
        ],
    )
