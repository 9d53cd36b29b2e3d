"""The suite: the benchmarks by name, in the order of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import (
    bounding,
    concurrency,
    confining,
    effects,
    endings,
    fleet,
    frameworks,
    jobs,
    output,
    policies,
    powershell,
    redaction,
    screens,
    sessions,
    spawning,
    ssh,
    startup,
    terminals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .report import Result
    from .sizes import Sizes


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Attributes:
        measure: Runs the benchmark with these sizes and this number of rounds.
        rounds: The default number of rounds.
    """

    measure: Callable[[Sizes, int], Result]
    rounds: int


BENCHMARKS: Mapping[str, Benchmark] = {
    "spawn": Benchmark(spawning.measure, spawning.ROUNDS),
    "reach": Benchmark(confining.measure, confining.ROUNDS),
    "policy": Benchmark(policies.measure, policies.ROUNDS),
    "output": Benchmark(output.measure, output.ROUNDS),
    "bounding": Benchmark(bounding.measure, bounding.ROUNDS),
    "effects": Benchmark(effects.measure, effects.ROUNDS),
    "redaction": Benchmark(redaction.measure, redaction.ROUNDS),
    "terminal-text": Benchmark(screens.measure, screens.ROUNDS),
    "concurrency": Benchmark(concurrency.measure, concurrency.ROUNDS),
    "timeout": Benchmark(endings.measure_timeout, endings.TIMEOUT_ROUNDS),
    "background": Benchmark(endings.measure_background, endings.BACKGROUND_ROUNDS),
    "jobs": Benchmark(jobs.measure, jobs.ROUNDS),
    "job-start": Benchmark(jobs.measure_start, jobs.START_ROUNDS),
    "session-latency": Benchmark(sessions.measure_latency, sessions.LATENCY_ROUNDS),
    "session-create": Benchmark(sessions.measure_creation, sessions.CREATION_ROUNDS),
    "session-output": Benchmark(sessions.measure_output, sessions.OUTPUT_ROUNDS),
    "session-ssh": Benchmark(sessions.measure_ssh, sessions.SSH_ROUNDS),
    "ssh-spawn": Benchmark(ssh.measure_spawn, ssh.SPAWN_ROUNDS),
    "ssh-output": Benchmark(ssh.measure_output, ssh.OUTPUT_ROUNDS),
    "ssh-concurrency": Benchmark(ssh.measure_concurrency, ssh.CONCURRENCY_ROUNDS),
    "ssh-timeout": Benchmark(ssh.measure_timeout, ssh.TIMEOUT_ROUNDS),
    "fleet-ssh": Benchmark(fleet.measure, fleet.ROUNDS),
    "powershell": Benchmark(powershell.measure, powershell.ROUNDS),
    "terminal-start": Benchmark(terminals.measure_start, terminals.START_ROUNDS),
    "frameworks": Benchmark(frameworks.measure, frameworks.ROUNDS),
    "startup": Benchmark(startup.measure, startup.ROUNDS),
    "ssh-startup": Benchmark(startup.measure_ssh, startup.SSH_ROUNDS),
}
