"""The cost of a pool of environments on Ray: ``python -m bench.pool``.

The program starts a cluster on this machine, and prints the rows of ``docs/explanation/what-a-pool-on-ray-costs.md``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from typing import TYPE_CHECKING

import psutil
import ray

from anyshell import Environment
from anyshell.ray import Environments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COMMANDS = 400
"""Commands in each measurement of a rate."""

AT_ONCE = 16
"""Commands that run at the same time in a concurrent measurement."""

MANY = 500
"""Environments in one actor, for the measurement of one environment's cost."""


async def memory(_: Environment) -> tuple[int, int]:
    """Return the bytes of an actor's memory that no other process shares, and the number of the actor's descriptors."""
    return psutil.Process().memory_full_info().uss, len(os.listdir("/proc/self/fd"))


async def rate(run: Callable[[str], Awaitable[object]], at_once: int) -> float:
    """Return the number of commands that run in a second."""
    turns = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with turns:
            await run("true")

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(COMMANDS)))
    return COMMANDS / (time.monotonic() - began)


async def rates(name: str, run: Callable[[str], Awaitable[object]]) -> None:
    """Print the number of commands that run in a second: one after the other, and many at once."""
    await rate(run, AT_ONCE)  # work that is done only once, such as the opening of environments
    one, many = await rate(run, 1), await rate(run, AT_ONCE)
    print(f"| {name} | {one:.0f} | {many:.0f} |", flush=True)


async def sizes(name: str, own: bool) -> None:
    """Print the cost of one more environment in an actor: memory, descriptors and time."""
    make = (lambda _: Environment.detect()) if own else None
    async with Environments(MANY, make=make, per_actor=MANY, in_flight=AT_ONCE) as pool:
        async with pool.environment() as env:
            before = await env.call(memory)
            _ = [result async for result in pool.map(["true"] * 16)]
            began = time.monotonic()
            _ = [result async for result in pool.map(["true"] * (MANY - 1))]
            took = time.monotonic() - began
            after = await env.call(memory)
        print(f"| {name}: memory of an actor with one | {before[0] / 2**20:.0f} MiB |")
        print(f"| {name}: memory of one more | {(after[0] - before[0]) / MANY / 1024:.0f} KiB |")
        print(f"| {name}: descriptors of one more | {(after[1] - before[1]) / MANY:.1f} |")
        print(f"| {name}: opening one and running `true` in it | {took / MANY * 1000:.1f} ms |", flush=True)


async def main() -> None:
    """Print the sizes of environments, the times to start actors, and the rates of commands."""
    await sizes("environments of one host", own=False)
    await sizes("each with a backend of its own", own=True)
    for count in (1, 2, 4):
        began = time.monotonic()
        async with Environments(count, per_actor=1):
            print(f"| start of {count} actors | {time.monotonic() - began:.1f} s |", flush=True)
    async with Environment.detect() as env:
        await rates("an environment of this process", env.run)
    for actors in (1, 2):
        async with Environments(32, per_actor=32 // actors, in_flight=AT_ONCE) as pool:
            await rates(f"a pool of 32 in {actors} actors", pool.run)
            if actors == 1:
                async with pool.environment() as leased:
                    await rates("one environment of it, 8 at most at once", leased.run)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as directory:
        ray.init(
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=80 * 1024 * 1024,
            _node_ip_address="127.0.0.1",
            _temp_dir=directory,
        )
        try:
            asyncio.run(main())
        finally:
            ray.shutdown()
