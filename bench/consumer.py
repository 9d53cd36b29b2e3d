"""A consumer: one fresh process that takes one big output and prints the cost as JSON.

``python -m bench.consumer VARIANT COMMAND``. A process has only one peak of memory, so every measurement needs
a new process.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from anyshell.types import Redaction

from . import floors
from .subject import argv, subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyshell import Outcome

_TINY = "echo ready"

_MASKED = Redaction(values=tuple(f"{number:03}-{'secret-value' * 3}" for number in range(10)))


def peak() -> int:
    """Return the peak of this process's memory, in bytes.

    On Linux `ru_maxrss` survives execve(2): a small child of a big process would begin with the peak of the
    parent, and hide growth below that peak. VmHWM (proc(5)) starts again at execve(2), so Linux uses VmHWM.
    """
    if sys.platform == "win32":
        raise RuntimeError("the peak of memory is read from POSIX systems only")
    if sys.platform == "linux":
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def main(variant: str, command: str) -> None:
    """Take the output of a tiny command, then of the given command, and print bytes, seconds and memory growth."""
    with subject(redact=_MASKED if variant == "masked" else False) as (runner, environment):

        async def ours(run: Callable[[str], Awaitable[Outcome]], command: str) -> tuple[int, float]:
            began = time.perf_counter()
            outcome = await run(command)
            seconds = time.perf_counter() - began
            error = outcome.check().output.artifact_error
            if error is not None:
                raise RuntimeError(f"the artifact was not kept, so less was done than is claimed: {error}")
            return outcome.output.total_bytes, seconds

        session = environment.session()

        def floor(command: str) -> tuple[int, float]:
            program = argv(environment, command)
            began = time.perf_counter()
            total = floors.run(program)
            return total, time.perf_counter() - began

        variants: dict[str, Callable[[str], tuple[int, float]]] = {
            "ours": lambda command: runner.run(ours(environment.run, command)),
            "masked": lambda command: runner.run(ours(environment.run, command)),
            "session": lambda command: runner.run(ours(session.run, command)),
            "floor": floor,
        }
        take = variants[variant]
        take(_TINY)
        before = peak()
        total, seconds = take(command)
        growth = peak() - before
    print(json.dumps({"bytes": total, "seconds": seconds, "growth": growth}))


if __name__ == "__main__":
    main(*sys.argv[1:])
