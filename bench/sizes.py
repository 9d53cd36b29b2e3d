"""How much a benchmark does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of everything measured. The reaches are meant for the full ones.

    Attributes:
        name: What the report calls them.
        rounds: The most rounds that a benchmark does by itself.
        spawns: Commands in a row.
        slow_spawns: The same in a shell that takes long to start.
        output: Bytes of one big output.
        files: Files that are looked at.
        at_once: Commands at once.
        in_session: Commands in a row in a session.
        in_slow_session: The same where each takes long: in a session of another user, or far away.
        sessions: Sessions, and jobs, one after the other.
        ssh_spawns, ssh_output, ssh_at_once: The same over SSH.
        hosts: Hosts at once.
        ssh_delay: Seconds that everything needs in each direction where the host is far away.
        timeout: Seconds until a command is stopped.
        grace: Seconds between the request to end and the kill.
        linger: Seconds after which survivors are counted.
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
"""Only shows that a benchmark runs."""
