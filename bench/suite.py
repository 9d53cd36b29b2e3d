"""The suite: every benchmark under its name, in the order of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import concurrency, endings, jobs, output, spawning, ssh, startup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .report import Result
    from .sizes import Sizes


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        measure: Does it, for so many rounds.
        rounds: How many there are when nobody says.
    """

    measure: Callable[[Sizes, int], Result]
    rounds: int


BENCHMARKS: Mapping[str, Benchmark] = {
    "spawn": Benchmark(spawning.measure, spawning.ROUNDS),
    "output": Benchmark(output.measure, output.ROUNDS),
    "concurrency": Benchmark(concurrency.measure, concurrency.ROUNDS),
    "timeout": Benchmark(endings.measure_timeout, endings.TIMEOUT_ROUNDS),
    "background": Benchmark(endings.measure_background, endings.BACKGROUND_ROUNDS),
    "jobs": Benchmark(jobs.measure, jobs.ROUNDS),
    "ssh-spawn": Benchmark(ssh.measure_spawn, ssh.SPAWN_ROUNDS),
    "ssh-output": Benchmark(ssh.measure_output, ssh.OUTPUT_ROUNDS),
    "ssh-concurrency": Benchmark(ssh.measure_concurrency, ssh.CONCURRENCY_ROUNDS),
    "ssh-timeout": Benchmark(ssh.measure_timeout, ssh.TIMEOUT_ROUNDS),
    "startup": Benchmark(startup.measure, startup.ROUNDS),
}
