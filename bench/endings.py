"""Ends that anyshell causes: a timeout, and the stop of a process that a command leaves in the background."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from .report import Reach, Result, Row
from .subject import subject

if TYPE_CHECKING:
    from .sizes import Sizes

TIMEOUT_ROUNDS = 5
BACKGROUND_ROUNDS = 7


def measure_timeout(sizes: Sizes, rounds: int) -> Result:
    """Measure the delay of a timeout on a tree that resists, and count the processes alive some time later."""
    if shutil.which("setsid") is None:
        raise RuntimeError("the program setsid is missing; it comes with util-linux")
    late: list[float] = []
    alive: list[float] = []
    with subject() as (runner, environment):

        async def stopped(command: str) -> float:
            began = time.perf_counter()
            outcome = await environment.run(command, timeout=sizes.timeout, grace=sizes.grace)
            seconds = time.perf_counter() - began
            if outcome.status not in ("timed_out", "lost"):
                raise RuntimeError(f"the command was not stopped: {outcome}")
            return seconds

        for _ in range(rounds):
            nap = f"60.{random.randrange(10**9):09d}"  # a unique duration identifies the sleeping processes of this round
            command = f"(trap '' TERM; sleep {nap}) & setsid sleep {nap} & sleep {nap}"
            late.append(runner.run(stopped(command)) - sizes.timeout - sizes.grace)
            time.sleep(sizes.linger)
            survivors = living(nap)
            alive.append(len(survivors))
            for process in survivors:
                _kill(process)
    return Result(
        rows=[
            Row(
                what=f"timeout {sizes.timeout:g} s on a tree that resists: late beyond the grace",
                unit="s",
                ours=late,
                reach=Reach("<=", 0.2),
            ),
            Row(
                what=f"of it alive {sizes.linger:g} s later",
                unit="processes",
                ours=alive,
                reach=Reach("<=", 0),
            ),
        ],
        notes=[
            f"`(trap '' TERM; sleep 60) & setsid sleep 60 & sleep 60`, with a grace of {sizes.grace:g} s."
        ],
    )


def measure_background(sizes: Sizes, rounds: int) -> Result:
    """Measure the time until `run` returns for a command that leaves a process behind; the process is stopped."""
    command = "sleep 5 & echo started"
    with subject() as (runner, environment):

        async def back() -> float:
            began = time.perf_counter()
            outcome = await environment.run(command, left_behind="stop")
            seconds = time.perf_counter() - began
            if outcome.check().output.text != "started\n":
                raise RuntimeError(f"the output is wrong: {outcome.output.text!r}")
            return seconds

        seconds = [runner.run(back()) for _ in range(rounds)]
    return Result(
        rows=[Row(what=f"`{command}`: back after", unit="s", ours=seconds, reach=Reach("<=", 0.3))],
        notes=["what is left behind is stopped."],
    )


def living(text: str) -> list[psutil.Process]:
    """Return the processes with a text in the command line. A zombie does not count, although signal 0 reaches a zombie."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(text in argument for argument in process.cmdline()) and _runs(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _runs(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):  # the process may have ended meanwhile
        process.kill()
