"""Spawn, output, concurrency and timeout over SSH, beside bare asyncssh: OpenSSH's server on loopback, with default limits."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import psutil

from anyshell import Environment
from tests.ssh_server import SSHD, Server, account, is_root, openssh, own_name

from .endings import living
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sizes import Sizes

SPAWN_ROUNDS = 15
OUTPUT_ROUNDS = 7
CONCURRENCY_ROUNDS = 5
TIMEOUT_ROUNDS = 5

_TOP = Path(__file__).resolve().parent.parent
_BARE = f"exec {SHELL} --norc -c true"
_USER = "anyshell-bench"


@contextmanager
def server() -> Iterator[Server]:
    """Start a server for an ordinary user: the own user, or for root a new account with the default startup files."""
    if SSHD is None:
        raise RuntimeError("OpenSSH's server is missing; it comes with openssh-server")
    with ExitStack() as stack:
        user = stack.enter_context(account(_USER, "/bin/bash")) if is_root() else own_name()
        yield stack.enter_context(openssh(user))


@contextmanager
def subject(there: Server) -> Iterator[tuple[asyncio.Runner, Environment, asyncssh.SSHClientConnection]]:
    """Open an environment on the server and a bare connection to the server, on a new event loop."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        environment = runner.run(stack.enter_async_context(Environment.detect(there.options(), shell=SHELL)))
        bare = runner.run(connect(there))
        try:
            yield runner, environment, bare
        finally:
            bare.close()
            runner.run(bare.wait_closed())
            runner.run(stack.aclose())


async def connect(there: Server) -> asyncssh.SSHClientConnection:
    """Open a connection of bare asyncssh, without anyshell."""
    return await asyncssh.connect(
        there.address,
        there.port,
        username=there.user,
        client_keys=[str(there.key)],
        known_hosts=str(there.known_hosts),
        config=None,
        agent_path=None,
    )


def measure_spawn(sizes: Sizes, rounds: int) -> Result:
    """Compare commands that do nothing, in a row over an open connection, to bare asyncssh."""
    count = sizes.ssh_spawns
    with server() as there, subject(there) as (runner, environment, bare):

        async def ours(env: dict[str, str] | None) -> float:
            began = time.perf_counter()
            for _ in range(count):
                (await environment.run("true", env=env)).check()
            return (time.perf_counter() - began) / count * 1000

        async def floor() -> float:
            began = time.perf_counter()
            for _ in range(count):
                await bare.run(_BARE, check=True)
            return (time.perf_counter() - began) / count * 1000

        for warm_up in (ours(None), ours({"A": "1"}), floor()):
            runner.run(warm_up)
        found = interleave(
            {
                "floor": lambda: runner.run(floor()),
                "without": lambda: runner.run(ours(None)),
                "with": lambda: runner.run(ours({"STAGE": "live", "TOKEN": "s3cret"})),
            },
            rounds,
        )

    def row(name: str, what: str, bound: float) -> Row:
        numbers, floor = found[name], found["floor"]
        reach = Reach("<=", bound)
        return Row(
            what=what, unit="ms", ours=numbers, floor=floor, ratios=ratios(numbers, floor), reach=reach
        )

    return Result(
        rows=[
            row("without", f"`true` over SSH, {count} in a row", 1.15),
            row("with", "the same, with env=", 1.5),
        ],
        notes=[
            f"the floor is bare asyncssh, `conn.run({_BARE!r})`, on a connection of its own; per command."
        ],
    )


def measure_output(sizes: Sizes, rounds: int) -> Result:
    """Compare the throughput and the memory growth of a big output to bare asyncssh."""
    size = sizes.ssh_output
    command = f"yes 'a line of a log, as long as many are, and then a few words more' | head -c {size}"
    with server() as there:

        def take(variant: str) -> dict[str, float]:
            with tempfile.TemporaryDirectory() as state:
                done = subprocess.run(
                    [sys.executable, "-m", "bench.ssh_consumer", variant, command],
                    input=json.dumps(
                        {"directory": str(there.directory), "port": there.port, "user": there.user}
                    ),
                    cwd=_TOP,
                    env={**os.environ, "ANYSHELL_STATE_DIR": state},
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode != 0:
                raise RuntimeError(f"the consumer ({variant}) ended badly: {done.stderr[-2000:]}")
            taken: dict[str, float] = json.loads(done.stdout)
            if taken["bytes"] != size:
                raise RuntimeError(f"{variant} took {taken['bytes']} bytes of {size}")
            return taken

        found = interleave({"floor": lambda: take("floor"), "ours": lambda: take("ours")}, rounds)
    ours, floor = found["ours"], found["floor"]
    return Result(
        rows=[
            Row(
                what=f"{size / 1e6:g} MB over SSH",
                unit="MB/s",
                ours=[taken["bytes"] / 1e6 / taken["seconds"] for taken in ours],
                floor=[taken["bytes"] / 1e6 / taken["seconds"] for taken in floor],
                ratios=ratios([taken["seconds"] for taken in floor], [taken["seconds"] for taken in ours]),
                reach=Reach(">=", 0.9),
            ),
            Row(
                what="growth of memory meanwhile",
                unit="MiB",
                ours=[taken["growth"] / 2**20 for taken in ours],
                floor=[taken["growth"] / 2**20 for taken in floor],
                reach=Reach("<=", 48),
            ),
        ],
        notes=[
            (
                "the floor is bare asyncssh, `conn.run(..., encoding=None)`, which holds all of it. Growth is the peak "
                "of a fresh process, less its peak after a tiny command."
            )
        ],
    )


def measure_concurrency(sizes: Sizes, rounds: int) -> Result:
    """Count the failures of many concurrent commands on a server with default limits."""
    count = sizes.ssh_at_once
    with server() as there, subject(there) as (runner, environment, bare):

        async def ours() -> float:
            outcomes = await asyncio.gather(
                *(environment.run("sleep 0.2; echo ok") for _ in range(count)), return_exceptions=True
            )
            good = [each for each in outcomes if not isinstance(each, BaseException) and each.exit_code == 0]
            return float(count - len(good))

        async def floor() -> float:
            results = await asyncio.gather(
                *(bare.run("sleep 0.2; echo ok", check=True) for _ in range(count)), return_exceptions=True
            )
            return float(sum(isinstance(each, BaseException) for each in results))

        found = interleave({"floor": lambda: runner.run(floor()), "ours": lambda: runner.run(ours())}, rounds)
    return Result(
        rows=[
            Row(
                what=f"{count} at once over SSH: failed",
                unit="processes",
                ours=found["ours"],
                floor=found["floor"],
                reach=Reach("<=", 0),
            )
        ],
        notes=["the floor is bare asyncssh on one connection, which a default server gives ten sessions."],
    )


def measure_timeout(sizes: Sizes, rounds: int) -> Result:
    """Measure the delay of a timeout on a remote tree that resists, and count the processes alive some time later."""
    rows: list[Row] = []
    with ExitStack() as stack:
        users = ["root", stack.enter_context(account(_USER, "/bin/bash"))] if is_root() else [own_name()]
        for user in users:
            late: list[float] = []
            alive: list[float] = []
            with openssh(user) as there, subject(there) as (runner, environment, _):
                for _ in range(rounds):
                    nap = f"60.{random.randrange(10**9):09d}"
                    late.append(runner.run(_stopped(environment, nap, sizes)))
                    time.sleep(sizes.linger)
                    survivors = living(nap)
                    alive.append(len(survivors))
                    for process in survivors:
                        with suppress(psutil.Error):
                            process.kill()
            rows += [
                Row(
                    what=f"timeout {sizes.timeout:g} s over SSH as {user}: late beyond the grace",
                    unit="s",
                    ours=late,
                    reach=Reach("<=", 0.5),
                ),
                Row(
                    what=f"of it alive {sizes.linger:g} s later",
                    unit="processes",
                    ours=alive,
                    reach=Reach("<=", 0),
                ),
            ]
    return Result(
        rows=rows,
        notes=[
            f"`(trap '' TERM; sleep 60) & setsid sleep 60 & sleep 60`, with a grace of {sizes.grace:g} s."
        ],
    )


async def _stopped(environment: Environment, nap: str, sizes: Sizes) -> float:
    began = time.perf_counter()
    outcome = await environment.run(
        f"(trap '' TERM; sleep {nap}) & setsid sleep {nap} & sleep {nap}",
        timeout=sizes.timeout,
        grace=sizes.grace,
    )
    if outcome.status not in ("timed_out", "lost"):
        raise RuntimeError(f"the command was not stopped: {outcome}")
    return time.perf_counter() - began - sizes.timeout - sizes.grace
