"""Fresh shells in a row that do nothing: the cost that anyshell adds to a command."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyshell

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, argv, subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes import Sizes

ROUNDS = 15

_COMMAND = "true"
_REACH = Reach("<=", 1.15)


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare anyshell, asynchronous and blocking, bare asyncio and the installed blocking libraries to the floor."""
    absent = []
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

        def plain(run: Callable[[tuple[str, ...]], object], count: int) -> float:
            began = time.perf_counter()
            for _ in range(count):
                run(program)
            return time.perf_counter() - began

        def milliseconds(seconds: float) -> float:
            return seconds / count * 1000

        def timed(run: Callable[[int], float]) -> Callable[[], float]:
            return lambda: milliseconds(run(count))

        others: dict[str, Callable[[int], float]] = {"subprocess": partial(plain, _subprocess)}
        for name, run in (("plumbum", _plumbum), ("sh", _sh)):
            try:
                others[name] = partial(plain, partial(run, importlib.import_module(name)))
            except ImportError as error:
                absent.append(f"{name} was not measured, since it is not installed ({error}).")
        floor = partial(plain, floors.run)
        plain_ones: list[Callable[[int], float]] = [blocking, floor, *others.values()]
        # The first calls load modules and fill caches, so they are not measured.
        for warm in plain_ones:
            warm(2)
        for warm_up in (in_a_loop, in_asyncio):
            runner.run(warm_up(2))
        found = interleave(
            {
                "floor": timed(floor),
                "async": lambda: milliseconds(runner.run(in_a_loop(count))),
                "blocking": timed(blocking),
                "asyncio": lambda: milliseconds(runner.run(in_asyncio(count))),
                **{name: timed(each) for name, each in others.items()},
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
            *(row(name, f"the same, {name} (beside)") for name in found if name in ("asyncio", *others)),
        ],
        notes=[
            (
                f"all start `{shlex.join(program)}`, exactly what anyshell starts; per command. The floor is "
                "os.posix_spawn, a blocking os.read of one pipe for both channels, and waitpid, with the variables "
                "of this process alone."
            ),
            *absent,
        ],
    )


def _subprocess(program: tuple[str, ...]) -> None:
    subprocess.run(
        program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )


def _plumbum(plumbum: Any, program: tuple[str, ...]) -> None:
    plumbum.local[program[0]](*program[1:])


def _sh(sh: Any, program: tuple[str, ...]) -> None:
    sh.Command(program[0])(*program[1:])
