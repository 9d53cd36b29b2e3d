"""One command on many hosts. Fakes serve tests of exact timing; otherwise the hosts are fifty real servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import asyncssh
import psutil
import pytest

from anyshell import (
    AnyshellError,
    CommandFailed,
    ConnectionFailed,
    Fleet,
    HostKeyUntrusted,
    InvalidCommand,
    Outcome,
    OutputLimits,
    SSHOptions,
)
from anyshell._exceptions import SpawnError
from anyshell._types import ExitStatus
from anyshell._wrapped import Wrapped
from anyshell.errors import BackendUnavailable
from anyshell.fleet import MAX_HOSTS, TAIL
from anyshell.testing import FakeBackend, Script
from anyshell.types import HostOutcome, HostProgress

from .conftest import missing
from .fleet_hosts import Hosts, another, each_session, many, silent
from .processes import living, open_descriptors, unique_seconds, wait_living
from .ssh_server import SSHD, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from anyshell._types import Channel, HostInfo, HostQuery, Spawn
    from anyshell.abc import Program

pytestmark = pytest.mark.anyio

WELL = 42
"""Working hosts; with the failing hosts there are more than fifty."""

PORT = "${SSH_CONNECTION##* }"
"""The text by which a host differs from the others."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with many(WELL) as started:
        yield started


def fakes(count: int, **scripts: Script) -> list[FakeBackend]:
    """A number of scripted hosts, each with its own name."""
    made = []
    for number in range(count):
        backend = FakeBackend(scripts)
        backend.name = f"fake-{number}"
        made.append(backend)
    return made


# --- fifty real hosts -----------------------------------------------------------------------------------------


async def test_failing_hosts_of_fifty_do_not_disturb_others(hosts: Hosts) -> None:
    """Healthy and slow hosts; silent, frozen, refusing and unknown hosts; hosts that die or freeze during a command."""
    seconds = unique_seconds()
    changed_key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    with contextlib.ExitStack() as stack:
        asleep, sshd_asleep = stack.enter_context(another(hosts))
        dying, sshd_dying = stack.enter_context(another(hosts))
        freezing, sshd_freezing = stack.enter_context(another(hosts))
        quiet = [stack.enter_context(silent()) for _ in range(2)]
        unknown, _ = stack.enter_context(another(hosts))
        changed, _ = stack.enter_context(another(hosts))
        known = hosts.known_hosts.read_text().splitlines(keepends=True)
        hosts.known_hosts.write_text(
            "".join(line for line in known if f":{unknown} " not in line and f":{changed} " not in line)
        )
        hosts.learn(changed, changed_key)
        stack.callback(hosts.known_hosts.write_text, "".join(known))
        closed = [free_port(), free_port()]
        psutil.Process(sshd_asleep.pid).suspend()

        ports = [
            *hosts.ports[:20], *quiet, *closed, asleep, dying, freezing, unknown, changed, *hosts.ports[20:]
        ]  # fmt: skip
        names = {f"{hosts.server.user}@127.0.0.1:{port}": port for port in ports}
        slow = set(hosts.ports[::7])

        async def hear(host: HostProgress, channel: Channel, data: bytes) -> None:
            assert channel == "stdout"
            if b"begun" in data and names[host.host] == dying:
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
                each_session(sshd_dying, psutil.Process.kill)
            if b"begun" in data and names[host.host] == freezing:
                each_session(sshd_freezing, psutil.Process.suspend)

        command = (
            f"case {PORT} in {dying}|{freezing}) echo begun; sleep {seconds};; "
            f"{'|'.join(map(str, slow))}) sleep 1;; esac; echo on {PORT}"
        )
        targets = [hosts.options(port, keepalive_interval=1) for port in ports]
        async with Fleet(targets, parallelism=20, connect_timeout=10) as fleet:
            assert list(fleet.hosts) == list(names)
            run = fleet.run(command, timeout=20, grace=0.3, listener=hear)
            found = {names[result.host]: result async for result in run}
            assert {host.host: host.state for host in run.hosts} == {
                name: found[port].state for name, port in names.items()
            }

        assert found.keys() == set(ports)
        for port in hosts.ports:
            result = found[port]
            assert result.ok, result
            assert result.check().output.text == f"on {port}\n"
        for port in (*quiet, asleep):
            error = found[port].error
            assert isinstance(error, ConnectionFailed)
            assert "was not reached within 10 s" in str(error)
        for port in closed:
            assert "Connection refused" in str(found[port].error)
        for port, is_changed in ((unknown, False), (changed, True)):
            error = found[port].error
            assert isinstance(error, HostKeyUntrusted)
            assert error.changed is is_changed
        for port in (dying, freezing):
            outcome = found[port].outcome
            assert outcome is not None
            assert (outcome.status, outcome.output.text) == ("lost", "begun\n")
            assert found[port].survivors, "that its stop could not be confirmed is not said"
            with pytest.raises(CommandFailed):
                found[port].check()
        assert [result for port, result in found.items() if result.outcome is None] == [
            found[port] for port in found if port in (*quiet, asleep, *closed, unknown, changed)
        ]
        for line in living(seconds):
            psutil.Process(int(line.split()[0])).kill()


async def test_ended_hosts_hold_no_descriptors_or_tasks(hosts: Hosts) -> None:
    """This holds for healthy hosts, for unreachable hosts, and for runs that are left early."""

    async def run(early: bool) -> None:
        with silent() as quiet:
            hosts.learn(quiet)
            ports = [*hosts.ports[:6], quiet, free_port()]
            targets = [hosts.options(port) for port in ports]
            async with Fleet(targets, parallelism=8, connect_timeout=3) as fleet:
                async for _ in fleet.run("echo out; sleep 0.1"):
                    if early:
                        break

    await run(early=False)  # resources made once, such as threads for name lookups, exist now
    before, tasks = open_descriptors(), asyncio.all_tasks()
    for early in (False, True):
        await run(early)
        assert asyncio.all_tasks() == tasks
        assert open_descriptors() <= before


async def test_leaving_early_stops_the_tree_on_every_host(hosts: Hosts) -> None:
    seconds = unique_seconds()
    targets: list[str | SSHOptions] = [hosts.options(port) for port in hosts.ports[:10]]
    async with Fleet([*targets, "local"], parallelism=11) as fleet:
        command = (
            f"[ -n \"$SSH_CONNECTION\" ] || exit 0; (trap '' TERM; setsid sleep {seconds} & sleep {seconds})"
        )
        async for result in fleet.run(command, grace=0.3):
            assert result.host == "local"
            await asyncio.to_thread(wait_living, f"sleep {seconds}", 20)
            break
    assert living(seconds) == []


async def test_cancelling_gives_an_outcome_of_each_host(hosts: Hosts) -> None:
    """Running hosts are stopped, the connection in progress is abandoned, and the other hosts are never started."""
    seconds = unique_seconds()
    with silent() as quiet:
        ports = [*hosts.ports[:5], quiet, *hosts.ports[5:8]]
        hosts.learn(quiet)
        async with Fleet([hosts.options(port) for port in ports], parallelism=6) as fleet:
            heard: list[bytes] = []

            async def hear(host: HostProgress, channel: Channel, data: bytes) -> None:
                heard.append(data)

            run = fleet.run(f"echo begun; setsid sleep {seconds} & sleep {seconds}", grace=0.3, listener=hear)

            async def cancel() -> None:
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 10)
                with anyio.fail_after(20):
                    while len(heard) < 5:
                        await asyncio.sleep(0.01)
                run.cancel()

            cancelling = asyncio.create_task(cancel())
            results = [result async for result in run]
            await cancelling
    assert living(seconds) == []
    by_port = {port: next(r for r in results if r.host.endswith(f":{port}")) for port in ports}
    for port in ports[:5]:
        outcome = by_port[port].outcome
        assert outcome is not None
        assert (outcome.status, outcome.output.text, by_port[port].survivors) == ("cancelled", "begun\n", ())
    given_up = by_port[quiet].outcome
    assert given_up is not None
    assert (given_up.status, given_up.started, by_port[quiet].state) == ("cancelled", False, "failed")
    assert [by_port[port].state for port in ports[6:]] == ["not_started"] * 3
    with pytest.raises(AnyshellError, match="was not started"):
        by_port[ports[6]].check()


@pytest.mark.parametrize("heard_of", [True, False])
async def test_survivors_on_a_frozen_host_are_reported(hosts: Hosts, heard_of: bool) -> None:
    """The host freezes after the start of the command was confirmed, or possibly before."""
    seconds = unique_seconds()
    with another(hosts) as (port, server):
        async with Fleet([hosts.options(port), hosts.options(hosts.ports[0])]) as fleet:
            heard: list[bytes] = []

            async def hear(host: HostProgress, channel: Channel, data: bytes) -> None:
                heard.append(data)

            run = fleet.run(f"echo begun; sleep {seconds}", grace=0.2, listener=hear)

            async def freeze() -> None:
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
                with anyio.fail_after(20):
                    while heard_of and len(heard) < 2:
                        await asyncio.sleep(0.01)
                each_session(server, psutil.Process.suspend)
                run.cancel()
                run.cancel()

            freezing = asyncio.create_task(freeze())
            results = {result.host: result async for result in run}
            await freezing
        frozen, well = (results[host.host] for host in run.hosts)
        assert frozen.outcome is not None
        assert frozen.outcome.status == "lost"
        assert frozen.outcome.started is (True if heard_of else frozen.outcome.started or None)
        assert [process.alive for process in frozen.survivors] == [True]
        assert run.hosts[0].survivors == frozen.survivors
        assert well.outcome is not None
        assert (well.outcome.status, well.survivors) == ("cancelled", ())
        for line in living(seconds):
            psutil.Process(int(line.split()[0])).kill()


@pytest.mark.parametrize("times", [1, 2])
async def test_cancelled_task_leaves_no_process(hosts: Hosts, times: int) -> None:
    seconds = unique_seconds()

    async def work() -> None:
        async with Fleet([hosts.options(port) for port in hosts.ports[:4]]) as fleet:
            async for _ in fleet.run(f"trap '' TERM; setsid sleep {seconds} & sleep {seconds}", grace=0.5):
                pass

    task = asyncio.create_task(work())
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 8)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


def test_ended_event_loop_leaves_no_process(hosts: Hosts) -> None:
    """asyncio.run() cancels every task after the end of the main task, in whatever state the fleet is."""
    seconds = unique_seconds()

    async def main() -> None:
        fleet = await Fleet([hosts.options(port) for port in hosts.ports[:3]]).__aenter__()
        run = fleet.run(f"setsid sleep {seconds} & sleep {seconds}")
        stepping = asyncio.ensure_future(run.__anext__())
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 6)
        assert not stepping.done()

    def run_and_collect() -> None:
        asyncio.run(main())
        gc.collect()

    # The caller never left the fleet, which is an error of the caller.
    with pytest.warns(ResourceWarning, match="MemoryObject"):
        run_and_collect()
    assert living(seconds) == []


async def test_arguments_of_a_run_reach_each_host(hosts: Hosts) -> None:
    async with Fleet([hosts.options(port) for port in hosts.ports[:3]], cwd="/usr") as fleet:
        command = f"pwd; cat; echo $SECRET {PORT}; echo err >&2"
        run = fleet.run(command, cwd="bin", env={"SECRET": "s3"}, stdin="in\n", split_stderr=True)
        outcomes = [result.check() async for result in run]
    assert {outcome.output.text for outcome in outcomes} == {
        f"/usr/bin\nin\ns3 {port}\n" for port in hosts.ports[:3]
    }
    assert {outcome.stderr.text for outcome in outcomes if outcome.stderr} == {"err\n"}


async def test_timeout_applies_to_the_command_on_each_host(hosts: Hosts) -> None:
    seconds = unique_seconds()
    async with Fleet([hosts.options(hosts.ports[0]), "local"]) as fleet:
        results = [result async for result in fleet.run(f"echo a; sleep {seconds}", timeout=2, grace=0.2)]
    for result in results:
        assert result.outcome is not None
        assert (result.outcome.status, result.outcome.output.text, result.state) == (
            "timed_out", "a\n", "failed"
        )  # fmt: skip
    assert living(seconds) == []


async def test_output_is_bounded_on_each_host_and_counted(hosts: Hosts) -> None:
    limits = OutputLimits(head=1000, tail=1000)
    async with Fleet([hosts.options(port) for port in hosts.ports[:5]], limits=limits) as fleet:
        run = fleet.run("yes | head -c 3000000; echo; echo end of it")
        outcomes = [result.check() async for result in run]
    for outcome in outcomes:
        assert len(outcome.output.text) < 3000
        assert outcome.output.total_bytes == 3_000_011
        assert outcome.output.artifact is not None
    assert {host.last_line for host in run.hosts} == {"end of it"}
    assert {host.output_bytes for host in run.hosts} == {3_000_011}


async def test_notices_of_a_connection_belong_to_its_host(hosts: Hosts) -> None:
    with another(hosts) as (port, _):
        known = hosts.known_hosts.read_text()
        lines = known.splitlines(keepends=True)
        hosts.known_hosts.write_text("".join(line for line in lines if f":{port} " not in line))
        new = hosts.options(port, host_key_policy="accept-new")
        async with Fleet([new, hosts.options(hosts.ports[0])]) as fleet:
            notices = {result.host: result.notices async for result in fleet.run("true")}
        assert [len(each) for each in (notices[name] for name in fleet.hosts)] == [1, 0]
        assert "was recorded" in notices[fleet.hosts[0]][0]


# --- turns ----------------------------------------------------------------------------------------------------


async def test_parallelism_limits_active_hosts() -> None:
    backends = fakes(9, work=Script(exit=None))
    most = 0

    def observe(_: HostProgress) -> None:
        nonlocal most
        most = max(most, sum(host.state in ("connecting", "running", "closing") for host in run.hosts))

    async with Fleet(backends, parallelism=3) as fleet:
        run = fleet.run("work", observer=observe)
        ending = asyncio.create_task(end_each(backends))
        results = [result async for result in run]
        await ending
    assert {result.host for result in results if result.ok} == {backend.name for backend in backends}
    assert most == 3


async def end_each(backends: Sequence[FakeBackend], code: int = 0) -> None:
    """End the program of each host after its start, in order."""
    for backend in backends:
        await begun(backend)
        backend.processes[0].exit(code)


async def begun(*backends: FakeBackend) -> None:
    with anyio.fail_after(20):
        for backend in backends:
            while not backend.processes:
                await asyncio.sleep(0.001)


async def test_batch_begins_after_the_previous_batch() -> None:
    backends = fakes(5, work=Script(exit=None))
    told: list[tuple[str, str]] = []
    async with Fleet(backends, batch=2) as fleet:
        run = fleet.run("work", observer=lambda host: told.append((host.host, host.state)))
        ending = asyncio.create_task(end_each(backends))
        results = [result async for result in run]
        await ending
    assert [result.ok for result in results] == [True] * 5
    order = [(name, state) for name, state in told if state in ("connecting", "done")]
    for later, earlier in ((2, (0, 1)), (3, (0, 1)), (4, (2, 3))):
        for each in earlier:
            assert order.index((f"fake-{each}", "done")) < order.index((f"fake-{later}", "connecting"))
    assert order.index(("fake-1", "connecting")) < order.index(("fake-0", "done"))


@pytest.mark.parametrize("batch", [None, 2])
async def test_failure_stops_new_hosts_and_keeps_running_hosts(batch: int | None) -> None:
    backends = fakes(6, work=Script(exit=None))
    results: dict[str, HostOutcome] = {}

    async def end() -> None:
        await begun(*backends[:2])
        backends[1].processes[0].exit(7)
        with anyio.fail_after(20):
            while "fake-1" not in results:
                await asyncio.sleep(0.001)
        backends[0].processes[0].exit(0)

    async with Fleet(backends, parallelism=2, batch=batch, stop_on_failure=True) as fleet:
        ending = asyncio.create_task(end())
        async for result in fleet.run("work"):
            results[result.host] = result
        await ending
    assert {name: result.state for name, result in results.items()} == {
        "fake-1": "failed",
        "fake-0": "done",
        **{f"fake-{number}": "not_started" for number in range(2, 6)},
    }
    assert not any(backend.processes for backend in backends[2:])


@pytest.mark.parametrize(
    "script",
    [
        Script(exit=ExitStatus(code=1)),
        Script(exit=ExitStatus(signal="SIGKILL")),
        Script(exit=None),  # until the timeout
        Script(error="it is not there"),
    ],
)
async def test_each_kind_of_failure_stops_the_run(script: Script) -> None:
    backends = fakes(2, work=script)
    async with Fleet(backends, parallelism=1, stop_on_failure=True) as fleet:
        results = [result async for result in fleet.run("work", timeout=0.2, grace=0)]
    assert [result.state for result in results] == ["failed", "not_started"]


async def test_unreached_host_has_no_file_of_an_earlier_run(tmp_path: Path) -> None:
    for name in ("fake-0", "fake-1", "other"):
        (tmp_path / name).write_text("earlier")
    async with Fleet(
        fakes(2, work=Script(stdout=[b"now"], exit=ExitStatus(code=1))), parallelism=1, stop_on_failure=True
    ) as fleet:
        assert [result.state async for result in fleet.run("work", stdout=tmp_path)] == [
            "failed",
            "not_started",
        ]
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "fake-0": "now",
        "other": "earlier",
    }


async def test_slow_reader_of_outcomes_holds_back_other_hosts() -> None:
    backends = fakes(10, work=Script(stdout=[b"out\n"]))
    async with Fleet(backends, parallelism=2) as fleet:
        run = fleet.run("work")
        await run.__anext__()
        for _ in range(200):
            await asyncio.sleep(0)
        # One outcome was taken, two hosts have ended and wait; the task of the taken outcome may have started another host.
        assert sum(bool(backend.processes) for backend in backends) <= 4
        assert len([result async for result in run]) == 9
    assert [result async for result in run] == []


async def test_failing_host_does_not_affect_other_hosts() -> None:
    class Broken(FakeBackend):
        async def info(self, query: HostQuery) -> HostInfo:
            raise RuntimeError("a bug of the backend's")

    class Hanging(FakeBackend):
        async def info(self, query: HostQuery) -> HostInfo:
            await asyncio.Event().wait()
            raise AssertionError

    broken, hanging, well = Broken({}), Hanging({}), FakeBackend({"work": Script()})
    broken.name, hanging.name, well.name = "broken", "hanging", "well"
    async with Fleet([broken, hanging, well], connect_timeout=0.2) as fleet:
        results = {result.host: result async for result in fleet.run("work")}
    assert str(results["broken"].error) == "a bug of the backend's"
    with pytest.raises(RuntimeError):
        results["broken"].check()
    assert isinstance(results["hanging"].error, ConnectionFailed)
    assert results["well"].ok


async def test_unrequested_cancellation_fails_only_its_host() -> None:
    """The cancellation does not end the run: every host has an outcome."""

    class Cancelled(FakeBackend):
        async def spawn(self, spawn: Spawn) -> Program:
            raise asyncio.CancelledError

    class Unreached(FakeBackend):
        async def info(self, query: HostQuery) -> HostInfo:
            raise asyncio.CancelledError

    bad, unreached, *well = Cancelled({"work": Script()}), Unreached({}), *fakes(2, work=Script())
    bad.name, unreached.name = "bad", "unreached"
    async with Fleet([bad, unreached, *well], parallelism=1) as fleet:
        results = [result async for result in fleet.run("work")]
        assert [result.ok for result in results] == [False, False, True, True]
        for result in results[:2]:
            with pytest.raises(AnyshellError, match="cancelled from within"):
                result.check()

        def observe(host: HostProgress) -> None:
            raise asyncio.CancelledError

        with pytest.raises(AnyshellError, match="the observer was cancelled"):
            _ = [result async for result in fleet.run("work", observer=observe)]


async def test_possibly_started_command_is_not_reported_as_not_started() -> None:
    class Away(FakeBackend):
        """Loses the connection during the start of a program, which may exist."""

        async def spawn(self, spawn: Spawn) -> Program:
            process = await super().spawn(spawn)

            class Unheard(Wrapped):
                started = None

            assert spawn.on_asked is not None
            spawn.on_asked(Unheard(process))
            await asyncio.Event().wait()
            raise AssertionError

    async with Fleet([Away({"work": Script(exit=None)})]) as fleet:
        (result,) = [result async for result in fleet.run("work", timeout=0.1)]
    assert result.outcome is not None
    assert (result.outcome.status, result.outcome.started) == ("lost", None)
    with pytest.raises(AnyshellError, match="may have run"):
        result.outcome.check()


async def test_hosts_can_have_different_commands() -> None:
    first, second = fakes(2, a=Script(stdout=[b"A"]), b=Script(stdout=[b"B"]))
    texts = {first.name: "a", second.name: "b"}
    async with Fleet([first, second]) as fleet:
        run = fleet.run(lambda env: texts[env.host])
        assert {result.host: result.check().output.text async for result in run} == {
            first.name: "A",
            second.name: "B",
        }
        bad = [result.error async for result in fleet.run(lambda env: "\0")]
        assert [type(error) for error in bad] == [InvalidCommand, InvalidCommand]


async def test_failing_listener_fails_its_host_and_failing_observer_the_run() -> None:
    async def hear(host: HostProgress, channel: Channel, data: bytes) -> None:
        if host.host == "fake-0":
            raise ValueError("no more")

    backends = fakes(2, work=Script(stdout=[b"out\n"]), long=Script(exit=None))
    async with Fleet(backends) as fleet:
        results = {result.host: result async for result in fleet.run("work", listener=hear)}
        assert str(results["fake-0"].error) == "no more"
        assert results["fake-1"].ok

        def observe(host: HostProgress) -> None:
            if host.state == "running":
                raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            _ = [result async for result in fleet.run("long", observer=observe)]
    assert all(process.closed for backend in backends for process in backend.processes)


async def test_fleet_runs_one_command_at_a_time_inside_async_with() -> None:
    fleet = Fleet(fakes(1, work=Script(), long=Script(exit=None)))
    with pytest.raises(AnyshellError, match="async with"):
        fleet.run("work")
    async with fleet:
        for _ in range(2):
            assert [result.ok async for result in fleet.run("work")] == [True]
        run = fleet.run("long")
        stepping = asyncio.ensure_future(run.__anext__())
        await asyncio.sleep(0)
        with pytest.raises(AnyshellError, match="runs a command already"):
            fleet.run("work")
    with pytest.raises(StopAsyncIteration):
        await stepping
    with pytest.raises(AnyshellError, match="async with"):
        fleet.run("work")
    assert [result async for result in run] == []


async def test_run_without_iteration_starts_no_command() -> None:
    backend = FakeBackend({"work": Script()})
    async with Fleet([backend]) as fleet:
        run = fleet.run("work")
        assert [(host.state, host.elapsed, host.last_line) for host in run.hosts] == [("waiting", 0.0, "")]
    with pytest.raises(AnyshellError, match="nothing was run"):  # an empty result would look like success
        _ = [result async for result in run]
    assert backend.processes == []
    gc.collect()


async def test_slow_name_lookups_do_not_block_other_hosts(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more slow lookups than asyncio has threads, so asyncio would have no thread left for the last host."""
    released = threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, *arguments: Any, **more: Any) -> object:
        if host.startswith("slow-"):
            released.wait(30)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    names = [SSHOptions(host=f"slow-{number}", config="") for number in range(40)]
    async with Fleet([*names, hosts.options(hosts.ports[0])], parallelism=41) as fleet:
        run = fleet.run("echo in time")
        first = await run.__anext__()
        assert first.check().output.text == "in time\n"
        released.set()
        rest = [result async for result in run]
    assert len(rest) == 40
    assert all(isinstance(result.error, ConnectionFailed) for result in rest)


# --- bad input ------------------------------------------------------------------------------------------------


def test_invalid_hosts_are_refused_with_advice() -> None:
    one = FakeBackend({})
    refused = partial(pytest.raises, InvalidCommand)
    with refused(match="give one or more"):
        Fleet([])
    with refused(match="put it into a list"):
        Fleet("web-1")
    with refused(match=r"host 2: the host '-x' begins with -"):
        Fleet(["web-1", "-x"])
    with refused(match=r"host 1: the address holds a password") as caught:
        Fleet(["ssh://me:s3cret@web-1"])
    assert "s3cret" not in str(caught.value)
    with refused(match="host 1 must be an address"):
        Fleet([3])  # type: ignore[list-item]  # it is refused
    with refused(match="this machine is 'local'"):
        Fleet([None])  # type: ignore[list-item]  # it is refused
    with refused(match=f"more than {MAX_HOSTS}"):
        Fleet(f"web-{number}" for number in range(MAX_HOSTS + 1))
    with pytest.raises(BackendUnavailable, match="host 1: no backend knows 'docker' addresses"):
        Fleet(["docker://web"])
    for twice in (["web-1", "web-1"], ["local", "local"], ["web-1", "ssh://web-1"], [one, one]):
        with refused(match="host 2, .*, is in the list twice"):
            Fleet(twice)


def test_different_routes_to_one_name_are_different_hosts() -> None:
    direct = SSHOptions(host="web-1")
    fleet = Fleet([direct, SSHOptions(host="web-1", jump="gate"), "web-2", "me@web-1", "ssh://web-1:2222"])
    assert fleet.hosts == ("web-1", "web-1 (2)", "web-2", "me@web-1", "ssh://web-1:2222")


@pytest.mark.parametrize(
    "wrong",
    [
        {"parallelism": 0},
        {"parallelism": True},
        {"batch": 0},
        {"connect_timeout": 0},
        {"connect_timeout": float("nan")},
        {"prefix": "a; b"},
        {"shell": ""},
        {"cwd": ""},
    ],
)
def test_invalid_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidCommand, match=next(iter(wrong))):
        Fleet(["local"], **wrong)  # type: ignore[arg-type]  # they are refused


async def test_invalid_command_is_refused_before_any_connection() -> None:
    async def pieces() -> object:
        yield b""

    async with Fleet(["local"]) as fleet:
        for wrong in (
            {"command": "a\0"},
            {"command": 3},
            {"env": {"A=": "x"}},
            {"stdin": pieces()},
            {"timeout": 0},
            {"grace": -1},
            {"left_behind": "adopt"},
        ):
            with pytest.raises(InvalidCommand):
                fleet.run(**{"command": "true", **wrong})  # type: ignore[arg-type]  # they are refused


# --- what is shown --------------------------------------------------------------------------------------------


def test_last_line_is_cleaned_and_bounded() -> None:
    host = HostProgress("web-1")
    host._hear(b"a\n\x1b[31mred\x1b[0m\n\n")
    assert host.last_line == "red"
    host._hear(b" 10%\r 20%")
    assert host.last_line == " 20%"
    host._hear(b"\n" + b"x" * 3 * TAIL)
    assert host.last_line == "x" * TAIL
    host._hear(b"y\n" + b" " * TAIL)
    assert host.last_line == ""  # earlier text was dropped
    host._hear(b"\nlast\n  \n")
    assert host.last_line == "last"
    assert len(host._tail) == TAIL


def test_check_raises_the_failure_of_an_outcome() -> None:
    failed = HostOutcome(host="a", state="failed", outcome=Outcome(status="exited", exit_code=3))
    assert not failed.ok
    with pytest.raises(CommandFailed, match="exit code 3"):
        failed.check()
    unreached = HostOutcome(host="a", state="failed", error=SpawnError("no"))
    assert unreached.survivors == ()
    with pytest.raises(SpawnError, match="no"):
        unreached.check()
