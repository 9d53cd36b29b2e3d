"""Links that are lost: what the outcome says, what becomes of the tree, and that nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import ConnectionFailed, Environment, SpawnError
from anyshell._engine import run
from anyshell._types import Spawn, Terminal
from anyshell.backends import connect
from anyshell.backends.ssh.channel import Channel
from anyshell.output import OutputBuilder
from anyshell.shells import Login

from .conftest import missing
from .processes import living, unique_seconds, wait_living
from .ssh_server import SSHD, WORKER, Server, account, home, is_root, openssh, own_name, sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from anyshell import Outcome

pytestmark = pytest.mark.anyio

ROOT = is_root()


@pytest.fixture(scope="module")
def user() -> Iterator[str]:
    if not ROOT:
        yield own_name()
        return
    with account(f"anyshell-user{WORKER}", "/bin/bash") as name:
        yield name


@pytest.fixture
def server(user: str) -> Iterator[Server]:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(user) as started:
        yield started


@pytest.fixture
async def env(server: Server) -> AsyncIterator[Environment]:
    async with Environment.detect(server.options()) as environment:
        yield environment


def each_session(server: Server, act: Callable[[psutil.Process], None]) -> None:
    """Do something to the servers of the connections, not to the one that listens."""
    for pid in sessions(server.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            act(psutil.Process(pid))


def kill(server: Server) -> None:
    each_session(server, psutil.Process.kill)
    psutil.Process(server.pid).kill()


def freeze(server: Server) -> None:
    each_session(server, psutil.Process.suspend)
    psutil.Process(server.pid).suspend()


def thaw(server: Server) -> None:
    psutil.Process(server.pid).resume()
    each_session(server, psutil.Process.resume)


async def wait_gone(seconds: str) -> None:
    """Wait until nothing with that time to sleep lives."""
    with anyio.fail_after(30):
        while await asyncio.to_thread(living, seconds):
            await asyncio.sleep(0.05)


async def begun(
    env: Environment, text: str, seconds: str, *, timeout: float | None, grace: float
) -> asyncio.Task[Outcome]:
    """Start a command that prints something and sleeps, and wait until it does."""
    task = asyncio.create_task(env.run(text.replace("{s}", seconds), timeout=timeout, grace=grace))
    await asyncio.to_thread(wait_living, seconds)
    await asyncio.sleep(0.2)
    return task


TEXTS = ["echo so far; sleep {s}", "echo so far; trap '' TERM; (env -i setsid sleep {s} &) ; sleep {s}"]


@pytest.mark.parametrize("text", TEXTS)
async def test_a_connection_that_breaks_loses_the_command_and_stops_its_tree(
    env: Environment, server: Server, text: str
) -> None:
    seconds = unique_seconds()
    task = await begun(env, text, seconds, timeout=None, grace=0.3)
    each_session(server, psutil.Process.kill)
    with anyio.fail_after(20):
        outcome = await task
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("lost", None, None)
    assert outcome.output.text == "so far\n"
    assert {process.name for process in outcome.left_behind} >= {"sleep"}
    assert not any(process.alive for process in outcome.left_behind)
    assert living(seconds) == []
    assert (await env.run("echo again")).output.text == "again\n"


async def test_a_connection_that_breaks_loses_what_runs_on_a_terminal_and_stops_its_tree(
    server: Server,
) -> None:
    seconds = unique_seconds()
    text = f"trap '' HUP; echo so far; (env -i setsid sleep {seconds} &); sleep {seconds}"
    backend = connect(server.options(), launcher=Login)
    spawn = Spawn(argv=("/bin/bash", "-c", text), cwd="/", terminal=Terminal())
    running = asyncio.create_task(run(backend, spawn, output=OutputBuilder(), grace=0.3))
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
    each_session(server, psutil.Process.kill)
    with anyio.fail_after(20):
        outcome = await running
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("lost", None, None)
    assert outcome.output.text == "so far\n"
    assert not any(process.alive for process in outcome.left_behind)
    assert living(seconds) == []
    await backend.aclose()


@pytest.mark.parametrize("grace", [0, 0.5])
async def test_a_connection_that_hangs_is_gone_around(env: Environment, server: Server, grace: float) -> None:
    """Its own server process is frozen; another connection can be made, and the stop confirmed over that."""
    seconds = unique_seconds()
    task = await begun(env, TEXTS[0], seconds, timeout=1.5, grace=grace)
    each_session(server, psutil.Process.suspend)
    try:
        with anyio.fail_after(20):
            outcome = await task
        assert (outcome.status, outcome.output.text, outcome.left_behind) == ("timed_out", "so far\n", ())
        assert living(seconds) == []
        assert (await env.run("echo again")).output.text == "again\n"
    finally:
        each_session(server, psutil.Process.resume)


async def test_a_host_that_hangs_is_lost_and_cleaned_up_when_it_is_back(
    env: Environment, server: Server
) -> None:
    seconds = unique_seconds()
    task = await begun(env, TEXTS[1], seconds, timeout=1, grace=0.3)
    freeze(server)
    try:
        with anyio.fail_after(20):
            outcome = await task
        assert (outcome.status, outcome.output.text) == ("lost", "so far\n")
        assert [process.alive for process in outcome.left_behind] == [True]
        assert outcome.left_behind[0].pid > 0
        waiting = await env.run("echo too early", timeout=0.5)
        assert (waiting.status, waiting.started) == ("timed_out", False)
        assert len(living(seconds)) >= 1
    finally:
        thaw(server)
    assert (await env.run("echo again", timeout=60)).output.text == "again\n"
    await wait_gone(seconds)


async def test_closing_gets_what_was_lost(user: str, server: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(server.options()) as env:
        task = await begun(env, TEXTS[0], seconds, timeout=1, grace=0.3)
        freeze(server)
        assert (await task).status == "lost"
        thaw(server)
    assert living(seconds) == []


async def test_a_server_that_is_gone_is_said_and_closing_does_not_wait_for_it(server: Server) -> None:
    seconds = unique_seconds()
    with anyio.fail_after(30):
        async with Environment.detect(server.options()) as env:
            task = await begun(env, TEXTS[0], seconds, timeout=None, grace=0.3)
            kill(server)
            outcome = await task
            assert (outcome.status, outcome.output.text) == ("lost", "so far\n")
            assert [process.alive for process in outcome.left_behind] == [True]
            with pytest.raises(ConnectionFailed, match="refused"):
                await env.run("echo again")
    for line in living(seconds):
        psutil.Process(int(line.split()[0])).kill()


async def test_a_server_that_restarts_is_found_again(user: str, server: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(server.options()) as env:
        task = await begun(env, TEXTS[1], seconds, timeout=None, grace=0.3)
        kill(server)
        assert (await task).status == "lost"
        assert living(seconds) != []
        server.restart()
        assert (await env.run("echo again")).output.text == "again\n"
        await wait_gone(seconds)


async def test_a_start_that_is_never_heard_of_does_not_run_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is silent while the login shell comes to its command: whether it began is found out, and it is ended."""
    monkeypatch.setattr("anyshell.backends.ssh.backend.START_SECONDS", 1.5)
    seconds = unique_seconds()
    file = home(server.user) / ".bashrc"
    before = file.read_bytes() if file.exists() else b""
    async with Environment.detect(server.options()) as env:
        file.write_text("sleep 0.5\n")
        try:
            task = asyncio.create_task(env.run(f"sleep {seconds}"))
            await asyncio.sleep(0.3)
            freeze(server)
            with pytest.raises(SpawnError, match="did not begin"):
                await task
            await asyncio.to_thread(wait_living, seconds)
        finally:
            thaw(server)
            file.write_bytes(before)
        await wait_gone(seconds)


async def test_what_is_to_be_kept_is_kept_when_the_host_hangs(env: Environment, server: Server) -> None:
    seconds = unique_seconds()
    task = asyncio.create_task(env.run(f"sleep {seconds} & sleep 0.5", left_behind="keep"))
    await asyncio.to_thread(wait_living, seconds)
    each_session(server, psutil.Process.kill)
    psutil.Process(server.pid).suspend()
    outcome = await task
    psutil.Process(server.pid).resume()
    assert outcome.status == "lost"
    assert (await env.run("echo again", timeout=60)).output.text == "again\n"
    await asyncio.sleep(2)
    kept = living(seconds)
    for line in kept:
        psutil.Process(int(line.split()[0])).kill()
    assert kept != []


async def test_a_silent_link_is_found_without_a_timeout(server: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(server.options(keepalive_interval=0.3, keepalive_count=2)) as env:
        task = await begun(env, TEXTS[0], seconds, timeout=None, grace=0.3)
        freeze(server)
        try:
            with anyio.fail_after(20):
                outcome = await task
            assert (outcome.status, outcome.output.text) == ("lost", "so far\n")
        finally:
            thaw(server)
        await wait_gone(seconds)


async def test_a_command_that_prints_when_the_link_breaks_keeps_what_came(
    env: Environment, server: Server
) -> None:
    seconds = unique_seconds()
    text = f"seq 1000; sleep {seconds}"
    task = await begun(env, text, seconds, timeout=None, grace=0.3)
    each_session(server, psutil.Process.kill)
    outcome = await task
    assert outcome.output.text == "".join(f"{n}\n" for n in range(1, 1001))


async def test_no_command_runs_twice(env: Environment, server: Server) -> None:
    """Connections break at every moment of many starts; each command says that it ran, once at most."""
    trace = home(server.user) / f"trace-{secrets.token_hex(4)}"
    over = False

    async def breaker() -> None:
        while not over:
            await asyncio.sleep(0.05)
            await asyncio.to_thread(each_session, server, psutil.Process.kill)

    async def one(number: int) -> Outcome | None:
        with contextlib.suppress(ConnectionFailed):
            return await env.run(f"echo {number} >>{trace}", timeout=20)
        return None

    breaking = asyncio.create_task(breaker())
    outcomes: list[Outcome | None] = []
    try:
        for start in range(0, 60, 10):
            outcomes += await asyncio.gather(*(one(number) for number in range(start, start + 10)))
    finally:
        over = True
        await breaking
    ran = (await env.run(f"cat {trace}")).output.text.split()
    assert len(ran) == len(set(ran))
    done = [str(n) for n, outcome in enumerate(outcomes) if outcome is not None and outcome.exit_code == 0]
    assert set(done) <= set(ran)
    trace.unlink()


async def test_an_end_whose_beginning_nobody_heard_is_lost(
    env: Environment, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news of an end overtakes what was printed, the word that it began too; then the connection breaks."""
    assert (await env.run("true")).exit_code == 0
    heard = Channel.exit_status_received

    def hear_and_break(self: Channel, status: int) -> None:
        heard(self, status)
        each_session(server, psutil.Process.kill)

    with monkeypatch.context() as late:
        late.setattr(Channel, "data_received", lambda *_: None)
        late.setattr(Channel, "eof_received", lambda _: True)
        late.setattr(Channel, "exit_status_received", hear_and_break)
        outcome = await env.run("sleep 1 & exit 3")  # who still has the channel keeps it from being closed
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("lost", None, "")


# --- Packets that vanish


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network of its own, with an address that packets to can be made to vanish."""
    if not ROOT or sys.platform != "linux":
        pytest.skip("only root can make a network namespace, on Linux")
    ip = shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin")
    if ip is None:
        missing("ip", "install iproute2")
    name = f"anyshell-{secrets.token_hex(3)}"
    link = f"as{secrets.token_hex(3)}"

    def run(*words: str) -> None:
        subprocess.run([ip, *words], check=True, capture_output=True)

    try:
        run("netns", "add", name)
    except subprocess.CalledProcessError as error:
        missing("network namespaces", error.stderr.decode())
    try:
        run("link", "add", f"{link}a", "type", "veth", "peer", "name", f"{link}b", "netns", name)
        run("addr", "add", "10.213.77.1/24", "dev", f"{link}a")
        run("link", "set", f"{link}a", "up")
        run("-n", name, "addr", "add", "10.213.77.2/24", "dev", f"{link}b")
        run("-n", name, "link", "set", f"{link}b", "up")
        run("-n", name, "link", "set", "lo", "up")
        yield f"{ip} {name} {link}b"
    finally:
        subprocess.run([ip, "netns", "delete", name], check=False, capture_output=True)


async def test_packets_that_vanish_are_a_lost_link(namespace: str, user: str) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    ip, name, link = namespace.split()

    def run(*words: str) -> None:
        subprocess.run([ip, "-n", name, *words], check=True)

    seconds = unique_seconds()
    with openssh(user, address="10.213.77.2", through=(ip, "netns", "exec", name)) as server:
        async with Environment.detect(server.options()) as env:
            task = await begun(env, TEXTS[1], seconds, timeout=1.5, grace=0.3)
            run("link", "set", link, "down")
            with anyio.fail_after(20):
                outcome = await task
            assert (outcome.status, outcome.output.text) == ("lost", "so far\n")
            assert living(seconds) != []
            run("link", "set", link, "up")
            assert (await env.run("echo again", timeout=60)).output.text == "again\n"
            await wait_gone(seconds)
