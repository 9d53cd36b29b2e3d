"""PowerShell, which starts slowly: the cost of a command in a fresh process and in a session, beside a bare start."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import argv, subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from anyshell import Outcome

    from .sizes import Sizes

ROUNDS = 7

_FRESH = "exit 0"
_IN_SESSION = "$null"
"""The shortest command in a session, where `exit 0` would end the session."""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare a command in a fresh PowerShell, and in a session of PowerShell, to a bare spawn."""
    count = sizes.slow_spawns
    with _program() as path, subject(path) as (runner, environment):
        program = argv(environment, _FRESH)
        session = environment.session()

        def ours(run: Callable[[str], Awaitable[Outcome]], command: str, count: int) -> float:
            return runner.run(_in_a_row(partial(run, command), count))

        def floor() -> float:
            began = time.perf_counter()
            for _ in range(count):
                floors.run_unheard(program)
            return (time.perf_counter() - began) / count * 1000

        variants: dict[str, Callable[[], float]] = {
            "floor": floor,
            "fresh": partial(ours, environment.run, _FRESH, count),
        }
        notes = []
        try:
            ours(session.run, _IN_SESSION, 1)
            variants["session"] = partial(ours, session.run, _IN_SESSION, sizes.in_slow_session)
        except InvalidCommand as error:
            notes.append(f"a session was not measured: {error}.")
        for warm in variants.values():
            warm()
        found = interleave(variants, rounds)

    def row(name: str, what: str, reach: Reach) -> Row:
        numbers, floor = found[name], found["floor"]
        return Row(
            what=what, unit="ms", ours=numbers, floor=floor, ratios=ratios(numbers, floor), reach=reach
        )

    rows = [row("fresh", f"`{_FRESH}` in a fresh PowerShell, {count} in a row", Reach("<=", 1.15))]
    if "session" in found:
        rows.append(row("session", f"`{_IN_SESSION}` in a session of it", Reach("<=", 0.2)))
    how = f"per command. The floor starts the same {len(program)} words and waits; it reads nothing."
    return Result(rows=rows, notes=[how, *notes])


@contextmanager
def _program() -> Iterator[str]:
    """Yield the path of this machine's PowerShell 7; else of the tests' PowerShell under Wine, with Wine kept running."""
    if found := shutil.which("pwsh"):
        yield found
        return
    from tests.wine import windows

    made = windows.find()
    with made.awake():
        yield str(made.pwsh)


async def _in_a_row(make: Callable[[], Awaitable[Outcome]], count: int) -> float:
    """Return the milliseconds for one command, averaged over `count` commands in a row."""
    began = time.perf_counter()
    for _ in range(count):
        (await make()).check()
    return (time.perf_counter() - began) / count * 1000
