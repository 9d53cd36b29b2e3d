"""A consumer over SSH: one fresh process that takes one big output and prints the cost as JSON.

``python -m bench.ssh_consumer VARIANT COMMAND``, with the server on stdin.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.ssh_server import Server

from .consumer import peak
from .ssh import subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def main(variant: str, command: str) -> None:
    """Take the output of a tiny command, then of the given command, and print bytes, seconds and memory growth."""
    given = json.load(sys.stdin)
    there = Server(Path(given["directory"]), given["port"], given["user"])
    with subject(there) as (runner, environment, bare):

        async def ours(command: str) -> int:
            outcome = await environment.run(command)
            error = outcome.check().output.artifact_error
            if error is not None:
                raise RuntimeError(f"the artifact was not kept, so less was done than is claimed: {error}")
            return outcome.output.total_bytes

        async def floor(command: str) -> int:
            done = await bare.run(command, encoding=None, check=True)
            return len(done.stdout or b"")

        take: Callable[[str], Awaitable[int]] = {"ours": ours, "floor": floor}[variant]

        async def timed(command: str) -> tuple[int, float]:
            began = time.perf_counter()
            total = await take(command)
            return total, time.perf_counter() - began

        runner.run(timed("echo ready"))
        before = peak()
        total, seconds = runner.run(timed(command))
        growth = peak() - before
    print(json.dumps({"bytes": total, "seconds": seconds, "growth": growth}))


if __name__ == "__main__":
    main(*sys.argv[1:])
