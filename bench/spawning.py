"""A fresh shell that does nothing, many in a row: what a command costs that costs nothing."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import anyshell

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, argv, subject

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 15

_COMMAND = "true"
_REACH = Reach("<=", 1.15)


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare both fronts of anyshell, and bare asyncio, to the floor."""
    with subject() as (runner, environment):
        program = argv(environment, _COMMAND)
        count = sizes.spawns

        async def in_a_loop(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                (await environment.run(_COMMAND)).check()
            return time.perf_counter() - began

        async def in_asyncio(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                await floors.run_asyncio(program)
            return time.perf_counter() - began

        def blocking(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                anyshell.run(_COMMAND, shell=SHELL).check()
            return time.perf_counter() - began

        def floor(count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                floors.run(program)
            return time.perf_counter() - began

        def milliseconds(seconds: float) -> float:
            return seconds / count * 1000

        for warm in (blocking, floor):
            warm(2)
        for warm_up in (in_a_loop, in_asyncio):
            runner.run(warm_up(2))
        found = interleave(
            {
                "floor": lambda: milliseconds(floor(count)),
                "async": lambda: milliseconds(runner.run(in_a_loop(count))),
                "blocking": lambda: milliseconds(blocking(count)),
                "asyncio": lambda: milliseconds(runner.run(in_asyncio(count))),
            },
            rounds,
        )

    def row(name: str, what: str, reach: Reach | None = None) -> Row:
        numbers, floor = found[name], found["floor"]
        return Row(
            what=what, unit="ms", ours=numbers, floor=floor, ratios=ratios(numbers, floor), reach=reach
        )

    return Result(
        rows=[
            row("async", f"`{_COMMAND}` in a fresh {SHELL}, {count} in a row, async", _REACH),
            row("blocking", "the same, blocking", _REACH),
            row("asyncio", "the same, bare asyncio (beside)"),
        ],
        notes=[
            (
                f"all start `{shlex.join(program)}`, exactly what anyshell starts; per command. The floor is "
                "os.posix_spawn, a blocking os.read of one pipe for both channels, and waitpid, with the variables "
                "of this process alone."
            )
        ],
    )
