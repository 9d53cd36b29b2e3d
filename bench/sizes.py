"""The sizes of the benchmarks: full, quick and tiny."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of all measurements. The aims of the rows (`Reach`) are meant for the full sizes.

    Attributes:
        name: The name of the sizes in the report.
        rounds: The upper limit for a benchmark's default number of rounds.
        spawns: Commands in a row.
        slow_spawns: Commands in a row in a shell that starts slowly, such as PowerShell.
        output: Bytes of one big output.
        files: Numbers of files in the directories that are looked at; one number for each row.
        at_once: Commands that run at the same time.
        in_session: Commands in a row in a session.
        in_slow_session: Commands in a row in a slow session: of another library, of PowerShell, or on a distant host.
        sessions: Sessions that are opened, and jobs that are started, one after the other.
        ssh_spawns, ssh_output, ssh_at_once: The values of `spawns`, `output` and `at_once` over SSH.
        hosts: Hosts that run a command at the same time.
        ssh_delay: Seconds of delay in each direction to a distant host.
        timeout: Seconds until a command is stopped.
        grace: Seconds of the grace period between the request to end and the kill.
        linger: Seconds from the end of a command until the surviving processes are counted.
        nap: Seconds that a process in the background sleeps.
    """

    name: str
    rounds: int
    spawns: int
    slow_spawns: int
    output: int
    files: tuple[int, ...]
    at_once: int
    in_session: int
    in_slow_session: int
    sessions: int
    ssh_spawns: int
    ssh_output: int
    ssh_at_once: int
    hosts: int
    ssh_delay: float
    timeout: float
    grace: float
    linger: float
    nap: int


FULL = Sizes(
    name="full",
    rounds=1_000,
    spawns=200,
    slow_spawns=10,
    output=500_000_000,
    files=(2_000, 20_000, 100_000),
    at_once=500,
    in_session=1_000,
    in_slow_session=20,
    sessions=50,
    ssh_spawns=100,
    ssh_output=200_000_000,
    ssh_at_once=100,
    hosts=50,
    ssh_delay=0.025,
    timeout=1.0,
    grace=0.3,
    linger=1.0,
    nap=8,
)
QUICK = Sizes(
    name="quick",
    rounds=3,
    spawns=50,
    slow_spawns=3,
    output=50_000_000,
    files=(2_000,),
    at_once=100,
    in_session=200,
    in_slow_session=5,
    sessions=10,
    ssh_spawns=30,
    ssh_output=50_000_000,
    ssh_at_once=100,
    hosts=50,
    ssh_delay=0.025,
    timeout=0.5,
    grace=0.3,
    linger=1.0,
    nap=8,
)
TINY = Sizes(
    name="tiny",
    rounds=1,
    spawns=2,
    slow_spawns=1,
    output=300_000,
    files=(50,),
    at_once=3,
    in_session=2,
    in_slow_session=1,
    sessions=2,
    ssh_spawns=2,
    ssh_output=300_000,
    ssh_at_once=3,
    hosts=3,
    ssh_delay=0.005,
    timeout=0.3,
    grace=0.1,
    linger=0.1,
    nap=1,
)
"""Sizes that only show that a benchmark runs."""
