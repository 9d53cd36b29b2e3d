"""Many commands that run at the same time."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import argv, subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from .sizes import Sizes

ROUNDS = 7

_COMMAND = "sleep 0.2; echo ok"
_DESCRIPTORS_EACH = 16


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare many concurrent runs to the same number of concurrent bare subprocesses."""
    count = sizes.at_once
    with _descriptors(count * _DESCRIPTORS_EACH) as note, subject() as (runner, environment):
        program = argv(environment, _COMMAND)

        async def one() -> object:
            return (await environment.run(_COMMAND)).check().output.text

        async def bare() -> object:
            return (await floors.run_asyncio(program)).decode()

        async def all_at_once(make: Callable[[], Awaitable[object]], count: int) -> float:
            began = time.perf_counter()
            texts = await asyncio.gather(*(make() for _ in range(count)))
            seconds = time.perf_counter() - began
            if wrong := [text for text in texts if text != "ok\n"]:
                raise RuntimeError(f"{len(wrong)} of {count} outputs are wrong; the first is {wrong[0]!r}")
            return seconds

        for make in (one, bare):
            runner.run(all_at_once(make, 2))
        found = interleave(
            {
                "floor": lambda: runner.run(all_at_once(bare, count)),
                "ours": lambda: runner.run(all_at_once(one, count)),
            },
            rounds,
        )
    return Result(
        rows=[
            Row(
                what=f"{count} x `{_COMMAND}` at once",
                unit="s",
                ours=found["ours"],
                floor=found["floor"],
                ratios=ratios(found["ours"], found["floor"]),
                reach=Reach("<=", 1.1),
            )
        ],
        notes=[f"the floor is a gather of bare asyncio subprocesses, each with its communicate(). {note}"],
    )


@contextmanager
def _descriptors(enough: int) -> Iterator[str]:
    """Raise the soft limit of open files to `enough`, if the hard limit allows it, and yield a note about the limit."""
    if sys.platform == "win32":
        yield "There is no limit of open files here."
    else:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            yield f"The limit of open files is {soft} and was left as it is."
            return
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        try:
            yield f"The soft limit of open files was raised from {soft} to {wanted} meanwhile."
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
