"""Sessions: the cost of a command in a running shell, on this machine and on a distant host, beside a fresh shell."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyshell import Environment

from . import floors, ssh
from .distance import HOST, distant, echo
from .output import in_memory, log, printing, take
from .peers import PEERS
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, argv, subject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import asyncssh

    from anyshell import Outcome
    from tests.ssh_server import Server

    from .peers import Run
    from .sizes import Sizes

    Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LATENCY_ROUNDS = 15
CREATION_ROUNDS = 15
OUTPUT_ROUNDS = 7
SSH_ROUNDS = 7

_COMMAND = "echo hi"
_PRINTED = "hi"


def measure_latency(sizes: Sizes, rounds: int) -> Result:
    """Compare a command in a session to the same command over bare pipes, in a fresh shell, and in sessions of the peers."""
    count, slow = sizes.in_session, sizes.in_slow_session
    with ExitStack() as stack:
        runner, environment = stack.enter_context(subject())
        bare = stack.enter_context(floors.persistent(environment.shell.path))
        peers, absent = _peers(stack)
        session = environment.session()

        def ours(run: Callable[[str], Awaitable[Outcome]], count: int) -> float:
            return runner.run(_awaited_in_a_row(partial(_run, run), count))

        def theirs(run: Run, count: int) -> float:
            return _in_a_row(lambda: _check(run(_COMMAND)), count)

        variants = {
            "pipes": partial(theirs, lambda command: bare(command).decode(), count),
            "session": partial(ours, session.run, count),
            "fresh": partial(ours, environment.run, sizes.spawns),
            **{name: partial(theirs, run, slow) for name, run in peers.items()},
        }
        # The first commands start the shells, so they are not measured.
        ours(session.run, 2)
        ours(environment.run, 2)
        found = interleave(variants, rounds)

    def beside(what: str, name: str, floor: str, reach: Reach | None = None) -> Row:
        return Row(
            what=what,
            unit="ms",
            ours=found[name],
            floor=found[floor],
            ratios=ratios(found[name], found[floor]),
            reach=reach,
        )

    return Result(
        rows=[
            Row(
                what=f"`{_COMMAND}` in a session, {count} in a row",
                unit="ms",
                ours=found["session"],
                reach=Reach("<=", 0.2),
            ),
            beside("the same; the floor is bare pipes", "session", "pipes"),
            beside("the same; the floor is a fresh spawn", "session", "fresh", Reach("<=", 0.2)),
            *(beside(f"the same, {name} (beside)", name, "pipes") for name in peers),
        ],
        notes=[
            (
                f"per command. Bare pipes are a persistent {SHELL} fed by os.write and os.read, with a line of its "
                "output as the end of a command, and the floor of the peers, too. A fresh spawn is "
                f"`Environment.run({_COMMAND!r})`. Each peer runs {slow} in a row, as it comes: "
                "with the pauses that it makes, such as pexpect's of 50 ms before it sends."
            ),
            *absent,
        ],
    )


def measure_creation(sizes: Sizes, rounds: int) -> Result:
    """Compare a new session and its first command to a bare shell that runs the same command."""
    count = sizes.sessions
    with subject() as (runner, environment):
        program = argv(environment, "true")

        async def ours() -> float:
            seconds = 0.0
            for _ in range(count):
                began = time.perf_counter()
                async with environment.session() as session:
                    (await session.run("true")).check()
                    seconds += time.perf_counter() - began
            return seconds / count * 1000

        def floor() -> float:
            return _in_a_row(lambda: floors.run(program), count)

        runner.run(ours())
        floor()
        found = interleave({"floor": floor, "ours": lambda: runner.run(ours())}, rounds)
    return Result(
        rows=[
            Row(
                what=f"a session and `true` in it, {count} one after the other",
                unit="ms",
                ours=found["ours"],
                floor=found["floor"],
                reach=Reach("<=", 5),
            )
        ],
        notes=[
            "until `true` has ended; the end of the session is not in it. The floor is a bare spawn of it."
        ],
    )


def measure_output(sizes: Sizes, rounds: int) -> Result:
    """Compare a big output through a session to the same output through a fresh shell."""
    size = sizes.output
    with tempfile.TemporaryDirectory(dir=in_memory()) as directory:
        command = printing(Path(directory, "lines"), log(), size)
        found = interleave({name: partial(take, name, command, size) for name in ("ours", "session")}, rounds)
    ours, floor = found["session"], found["ours"]
    return Result(
        rows=[
            Row(
                what=f"{size / 1e6:g} MB of lines through a session",
                unit="MB/s",
                ours=[taken.bytes / 1e6 / taken.seconds for taken in ours],
                floor=[taken.bytes / 1e6 / taken.seconds for taken in floor],
                ratios=ratios([taken.seconds for taken in floor], [taken.seconds for taken in ours]),
                reach=Reach(">=", 0.9),
            ),
            Row(
                what="growth of memory meanwhile",
                unit="MiB",
                ours=[taken.growth / 2**20 for taken in ours],
                floor=[taken.growth / 2**20 for taken in floor],
            ),
        ],
        notes=["as output, but the floor is `Environment.run`, so a fresh shell of ours. More is better."],
    )


def measure_ssh(sizes: Sizes, rounds: int) -> Result:
    """Measure the round trips of a command in a session on a distant host."""
    count = sizes.in_slow_session
    with ssh.server() as there, _far(there, sizes.ssh_delay) as (runner, environment, bare, line):
        session = environment.session()

        async def in_asyncssh() -> None:
            _check(str((await bare.run(f"exec {SHELL} --norc -c '{_COMMAND}'", check=True)).stdout))

        async def round_trip() -> None:
            reader, writer = line
            writer.write(b"?")
            await reader.readexactly(1)

        variants: dict[str, Callable[[], Awaitable[None]]] = {
            "round trip": round_trip,
            "session": partial(_run, session.run),
            "fresh": partial(_run, environment.run),
            "asyncssh": in_asyncssh,
        }

        def timed(make: Callable[[], Awaitable[None]], count: int) -> float:
            return runner.run(_awaited_in_a_row(make, count))

        for make in variants.values():
            timed(make, 2)
        found = interleave({name: partial(timed, make, count) for name, make in variants.items()}, rounds)

    def row(name: str, what: str, reach: Reach | None = None) -> Row:
        numbers, floor = found[name], found["round trip"]
        return Row(
            what=what, unit="ms", ours=numbers, floor=floor, ratios=ratios(numbers, floor), reach=reach
        )

    return Result(
        rows=[
            row("session", f"`{_COMMAND}` in a session far away over SSH", Reach("<=", 2)),
            row("fresh", "the same, in a fresh shell (beside)"),
            row("asyncssh", "the same, bare asyncssh (beside)"),
        ],
        notes=[
            (
                f"per command, {count} in a row over an open connection. The way is made {sizes.ssh_delay * 1000:g} "
                "ms long in each direction; the floor is one byte there and back, so the ratio counts round trips."
            )
        ],
    )


@contextmanager
def _far(
    there: Server, seconds: float
) -> Iterator[tuple[asyncio.Runner, Environment, asyncssh.SSHClientConnection, Line]]:
    """Yield the loop, environment and bare connection of a distant server, and a TCP connection with the same delay."""

    async def reach(stack: AsyncExitStack) -> tuple[Environment, asyncssh.SSHClientConnection, Line]:
        port = await stack.enter_async_context(distant(there.port, seconds))
        with there.known_hosts.open("a") as known:
            known.write(f"[{there.address}]:{port} {there.host_key.with_suffix('.pub').read_text()}")
        far = replace(there, port=port)
        environment = await stack.enter_async_context(Environment.detect(far.options(), shell=SHELL))
        bare = await stack.enter_async_context(await ssh.connect(far))
        given_back = await stack.enter_async_context(
            distant(await stack.enter_async_context(echo()), seconds)
        )
        line = await asyncio.open_connection(HOST, given_back)
        stack.callback(line[1].close)
        return environment, bare, line

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner, *runner.run(reach(stack))
        finally:
            runner.run(stack.aclose())


def _peers(stack: ExitStack) -> tuple[dict[str, Run], list[str]]:
    """Return the peers that are installed and work, and a note on each other peer."""
    peers, notes = {}, []
    for name, shell in PEERS.items():
        try:
            run = stack.enter_context(shell())
            _check(run(_COMMAND))
        except ImportError as error:
            notes.append(f"{name} was not measured, since it is not installed ({error}).")
        except Exception as error:  # noqa: BLE001 - what is wrong with a peer is said, and is no fault of ours
            notes.append(f"{name} was not measured, since it failed ({type(error).__name__}: {error}).")
        else:
            peers[name] = run
    return peers, notes


async def _run(run: Callable[[str], Awaitable[Outcome]]) -> None:
    _check((await run(_COMMAND)).check().output.text)


def _check(output: str) -> None:
    if output.strip() != _PRINTED:
        raise RuntimeError(f"the output of `{_COMMAND}` is wrong: {output!r}")


def _in_a_row(make: Callable[[], object], count: int) -> float:
    """Return the milliseconds for one call, averaged over `count` calls in a row."""
    began = time.perf_counter()
    for _ in range(count):
        make()
    return (time.perf_counter() - began) / count * 1000


async def _awaited_in_a_row(make: Callable[[], Awaitable[object]], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        await make()
    return (time.perf_counter() - began) / count * 1000
