"""A reach on a host reached by SSH: the same attempts to escape, and the same endings, as on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import psutil
import pytest

from anyshell import (
    Approved,
    ConnectionFailed,
    Environment,
    Fleet,
    InvalidCommand,
    Reach,
    ShellTool,
    Variables,
)
from anyshell.errors import ReachUnavailable
from anyshell.reach.host_gate import HostProxies

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from . import test_endings, test_in_reach, test_reach, test_reach_network, test_ssh_losing, test_tool_widening
from .conftest import bubblewrap, missing, open_to_all, row
from .processes import wait_asleep
from .ssh_server import SSHD, is_root, openssh, ordinary_user
from .test_reach import (  # noqa: F401 - fixtures among them
    READS,
    SECRET,
    TALKS,
    WRITES,
    World,
    endings,
    listening,
    none_succeeds,
    tmp_path,
    world,
)
from .test_reach_network import origin  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from anyshell._types import Names
    from anyshell.reach import Gate

    from .ssh_server import Server
    from .test_reach_network import Origin

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["root", "ordinary"])
def server(request: pytest.FixtureRequest, world: World) -> Iterator[Server]:
    """OpenSSH's server, for a user whose home is that of the world."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if request.param == "root" and not is_root():
        pytest.skip("only root may log in as root without its password")
    given = f"HOME={world.home} ANYSHELL_TEST_TOKEN={SECRET} SSH_AUTH_SOCK=/tmp/{world.name}"
    with ordinary_user() as user:
        name = "root" if request.param == "root" else user
        if is_root():
            open_to_all(world.top)
            subprocess.run(["chown", "-R", name, world.top], check=True)
            for path in (f"/tmp/{world.name}", world.outside / "socket"):
                Path(path).chmod(0o777)
        with openssh(name, variables=given) as made:
            yield made


@pytest.fixture
async def env(server: Server, world: World, anyio_backend: str) -> AsyncIterator[Environment]:
    reach = Reach.preset("workspace")
    async with Environment.detect(server.options(), cwd=world.workspace, reach=reach) as environment:
        yield environment


async def test_no_escape_succeeds(world: World, env: Environment, server: Server) -> None:
    async with Environment.detect(server.options()) as free:
        job = await free.start("exec sleep 600")
        assert (await free.run(f"tr '\\0' '\\n' </proc/{job.pid}/environ")).output.text.count(SECRET) == 1
        with listening() as outside:
            more = {"port": outside.getsockname()[1], "address": "127.0.0.2", "pid": job.pid}
            await none_succeeds(env, world, WRITES | READS | TALKS, **more)
        assert job.status == "running"
    # The requests in the workspace succeed, so the reach has refused the others.
    own = {"own": "echo x > own && mkdir d && mv own d && cat d/own && rm -r d"}
    assert (await endings(env, own))["own"][0] == 0


async def test_everything_runs_within_a_reach(world: World, env: Environment) -> None:
    await test_reach.test_everything_runs_within_a_reach(world, env)
    await test_reach.test_a_job_of_a_session_outlives_its_shell(env)


async def test_usage_is_reported_apart_from_the_output(world: World, env: Environment) -> None:
    burn = "i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done"
    # Bubblewrap has its own pipes until its child runs; so has a shell while it makes a pipeline.
    held = (
        "for n in $(seq 50); do readlink /proc/$each/fd/3 >held; grep -q pipe held || break; sleep 0.1; done"
    )
    look = f"env | grep -c ANYSHELL_USED; for each in 1 2 $$; do {held}; grep pipe held; done; echo e >&2"
    outcome = await env.run(f"{look}; {burn}; kill -9 $$")
    assert (outcome.output.text, outcome.signal) == ("0\ne\n", "SIGKILL")
    used, idle = outcome.usage, (await env.run("env true; env true; :")).usage
    assert used is not None
    assert idle is not None
    assert used.user + used.system > idle.user + idle.system
    assert (idle.how, idle.processes, idle.memory, idle.written) == ("waited", 3, None, 0)
    assert (await env.run("echo e >&2", split_stderr=True)).usage is None
    assert (await env.run("sleep 300 & true", left_behind="keep")).usage is None
    (world.home / ".bashrc").write_text("echo noise >&2; exec 2>&1; export JOINED=1\n")
    outcome = await env.run("echo x$JOINED")
    # Root's shell may not read the file.
    assert (outcome.output.text, outcome.usage is None) in [("x1\n", True), ("x\n", False)]


async def test_person_may_widen_the_reach_of_a_command(world: World, env: Environment) -> None:
    await test_tool_widening.test_refusal_names_the_parameter_and_once_covers_one_call(world, env)
    (world.outside / "link").symlink_to(world.home)
    more = {"also_write": [f"{world.outside}/link"]}
    result = await ShellTool(env, approver=test_tool_widening.Person(Approved()))({"command": "true", **more})
    assert f"'{world.outside}/link' leads to '{world.home}'" in result.text


async def test_call_may_narrow_but_not_widen_its_reach(world: World, env: Environment) -> None:
    narrower = Reach.preset("read-only")
    fewer = replace(narrower, environment=Variables(inherit="core"))
    outcome = await env.run("echo x > new; echo x$SSH_AUTH_SOCK", reach=fewer)
    assert outcome.output.text.endswith("Read-only file system\nx\n")
    with pytest.raises(InvalidCommand, match="than the reach of the environment"):
        await env.run("true", reach=replace(narrower, network=True))
    with pytest.raises(InvalidCommand, match="not within the reach"):
        await env.run("true", cwd=world.home / ".ssh")
    # Only the host knows its links.
    outcome = await env.run("echo x > link/kept", reach=Reach(write=("link",)))
    assert (outcome.exit_code, (world.outside / "kept").read_text()) == (125, "kept")
    assert "is more than the reach of the environment allows" in outcome.output.text
    outcome = await env.run("true", reach=Reach(write=("none",)))
    assert outcome.exit_code == 125
    assert "'" + str(world.workspace / "none") + "' is not there" in outcome.output.text


@pytest.mark.parametrize(
    ("part", "said"), [("bwrap", "bubblewrap: there is no program"), ("python3", "Python 3: no program")]
)
async def test_reach_needs_the_parts_on_the_host(tmp_path: Path, part: str, said: str) -> None:
    """This machine has all parts of a sandbox, the host all but one."""
    bubblewrap()
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    open_to_all(tmp_path)
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith(part):
            (tmp_path / program.name).symlink_to(program)
    with ordinary_user() as user, openssh(user, variables=f"PATH={tmp_path}") as made:
        with pytest.raises(ReachUnavailable, match=said) as raised:
            await Environment.detect(made.options(), reach=Reach.preset("workspace"))
        assert "apt-get install" in str(raised.value)
        async with Fleet(["local", made.options()], cwd="/usr", reach=Reach.preset("read-only")) as fleet:
            results = {result.host: result async for result in fleet.run("echo x > new || echo refused")}
        here = results.pop("local").outcome
        assert here is not None
        assert here.output.text.endswith("Read-only file system\nrefused\n")
        (far,) = results.values()
        assert far.state == "failed"
        assert isinstance(far.error, ReachUnavailable)
        async with Environment.detect(made.options(), reach=Reach.preset("none")) as env:
            assert (await env.run("true")).exit_code == 0


@pytest.fixture
async def named(
    server: Server,
    world: World,
    origin: Origin,
    anyio_backend: str,
) -> AsyncIterator[Environment]:
    reach = Reach(write=(".",), network=(origin.place, "known.test"))
    async with Environment.detect(server.options(), cwd=world.workspace, reach=reach) as environment:
        yield environment


class Served:
    """The programs and directories of a host for the networks of commands."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        self._gates: list[Gate] = []
        make = HostProxies.gate

        def kept(proxies: HostProxies, names: Names) -> Gate:
            self._gates.append(make(proxies, names))
            return self._gates[-1]

        monkeypatch.setattr(HostProxies, "gate", kept)

    def programs(self) -> list[psutil.Process]:
        """The programs that serve the networks."""
        found = []
        for each in psutil.Process(self._server.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "host_proxy import main" in "".join(each.cmdline()[-1:]):
                    found.append(each)
        return found

    def now(self) -> list[object]:
        """The programs, and the directories of their sockets."""
        gates = [gate.path for gate in self._gates if Path(gate.path).parent.exists()]
        return [*gates, *self.programs()]

    async def over(self) -> None:
        """Wait until no program and no directory is left."""
        assert self._gates
        with anyio.fail_after(20):
            while self.now():
                await asyncio.sleep(0.05)


NETWORKS: list[Callable[..., Awaitable[None]]] = [
    test_reach_network.test_every_way_to_run_has_the_network,
    test_reach_network.test_session_tells_the_network_of_each_command,
    test_reach_network.test_call_may_narrow_the_host_names,
    test_reach_network.test_question_about_a_connection_names_its_call,
    test_reach_network.test_a_question_ends_with_its_command,
    test_reach_network.test_detached_job_with_host_names_is_refused,
]
"""The tests of a network with host names on this machine."""


async def test_named_hosts_are_reached_from_the_host(
    named: Environment,
    origin: Origin,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(server, monkeypatch)
    async with named.session() as session:  # one program serves all commands of the session
        await test_reach_network.test_no_connection_goes_around_the_proxy(
            cast("Environment", session), origin
        )
        clients = test_reach_network.test_real_clients_reach_named_hosts_alone
        await clients(cast("Environment", session), origin)
    given = {"env": named, "origin": origin}
    for case in NETWORKS:
        with row(case):
            await case(**{name: given[name] for name in inspect.signature(case).parameters})
            await served.over()


async def test_host_is_clean_after_any_end_of_a_command(
    world: World,
    origin: Origin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server forwards nothing."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    reach = Reach(write=(".",), network=(origin.place, f"{socket.gethostname()}:*"))
    fetch = f"{test_reach_network.curl()} -sS http://{origin.place}"
    hang = f"{fetch}/large --limit-rate 1k >/dev/null"
    own = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    with openssh(own, "DisableForwarding yes") as server:
        async with Environment.detect(server.options(), cwd=world.workspace, reach=reach) as env:
            served = Served(server, monkeypatch)
            # A name of the host itself.
            itself = f"{test_reach_network.curl()} -sS http://{socket.gethostname()}:1"
            outcome = await env.run(f"{itself}; {fetch}/x", timeout=60)
            assert [each[2] for each in test_reach_network.verdicts(outcome)] == ["refused", "allowed"]
            await served.over()
            together = await asyncio.gather(*(env.run(f"{fetch}/{n}; sleep 1") for n in range(3)))
            assert [each.output.text for each in together] == [f"hello /{n}\n" for n in range(3)]
            await served.over()
            ends: dict[str, Callable[[], Awaitable[object]]] = {
                "timeout": lambda: env.run(hang, timeout=1.5, grace=0.1),
                "an exit with a connection open": lambda: env.run(
                    f"{hang} & sleep 0.3; kill -9 $$", left_behind="stop"
                ),
            }
            for name, end in ends.items():
                with row(name):
                    await end()
                    await served.over()
            for moment in (0.0, 0.02, 0.1, 0.2, 0.3):
                with row(moment), anyio.move_on_after(moment):
                    await env.run("sleep 5")
            await served.over()
            with pytest.raises(InvalidCommand):
                await env.run("true", cwd="/none")
            # The serving program is killed: that network is lost, and the next command has its own.
            go = world.workspace / "go"
            job = await env.start(
                f"echo begun; until [ -e {go.name} ]; do sleep 0.05; done; {fetch}; {fetch} --noproxy '*'"
            )
            await job.wait_for("begun", timeout=20)
            (found,) = served.programs()
            found.kill()
            go.touch()
            ended = await job.wait()
            assert ended is not None
            assert (ended.exit_code, ended.output.text.count("Failed to connect to")) == (7, 2)
            assert (await env.run(f"{fetch}/again")).output.text == "hello /again\n"
            await served.over()
            # The connection is lost.
            begun = asyncio.Event()

            async def hear(*_: object) -> None:
                begun.set()

            running = asyncio.create_task(env.run(f"echo begun; {hang}", listener=hear))
            await begun.wait()
            programs = served.programs()
            await asyncio.sleep(0.5)
            test_ssh_losing.each_session(server, psutil.Process.kill)
            assert (await running).status == "lost"
            await asyncio.to_thread(psutil.wait_procs, programs, 20)
            assert not any(each.is_running() for each in programs)
            await served.over()
            assert (await env.run(f"{fetch}/back")).output.text == "hello /back\n"
        await served.over()
    with openssh(own, "MaxSessions 3") as server:
        options = server.options(max_connections=1)
        async with Environment.detect(options, cwd=world.workspace, reach=reach) as env:
            with pytest.raises(ConnectionFailed, match="MaxSessions"):
                await env.run("true", timeout=60)


ENDINGS: list[Callable[..., Awaitable[None]]] = [
    test_endings.test_a_timeout_stops_the_whole_tree_and_keeps_the_output,
    partial(test_endings.test_processes_left_behind_are_named_and_stopped_or_kept, left_behind="stop"),
    partial(test_endings.test_cancelling_raises_after_the_tree_is_gone, cancels=2),
    partial(
        test_endings.test_endless_chain_of_forks_is_stopped,
        wrapped="trap '' TERM; {breeder} & sleep 300",
    ),
    test_endings.test_process_without_marks_is_stopped_while_its_parent_lives,
    test_endings.test_exit_by_signal_is_distinguished_from_an_exit_code,
    test_endings.test_kept_process_can_go_on_printing,
    test_in_reach.test_unmarked_daemon_becomes_a_job,
    *(
        partial(test_ssh_losing.test_broken_connection_loses_the_command_and_stops_its_tree, text=text)
        for text in test_ssh_losing.TEXTS
    ),
    partial(test_ssh_losing.test_hanging_connection_is_bypassed, grace=0.5),
]
"""The endings of a plain command, and of a command within a reach on this machine: one of each kind."""


async def test_endings_hold(
    world: World,
    env: Environment,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        test_ssh_losing, "wait_living", wait_asleep
    )  # the command line of the sandbox has the text as well
    monkeypatch.setitem(
        test_endings.ENDLESS, "another user's, by su", "sleep {s}"
    )  # the reach allows no su, so the test waits for it
    given = {"env": env, "tmp_path": world.workspace, "server": server}
    for ending in ENDINGS:
        with row(ending):
            await ending(
                **{name: given[name] for name in inspect.signature(ending).parameters if name in given}
            )
