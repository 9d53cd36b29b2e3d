"""Lost links: the outcome, the fate of the process tree, and that nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import AnyshellError, ConnectionFailed, Environment
from anyshell._engine import run
from anyshell._types import Spawn, Terminal
from anyshell.backends import connect
from anyshell.backends.ssh.channel import Channel
from anyshell.backends.ssh.posix.pipe_directory import _RELAY, Relay
from anyshell.errors import SpawnError
from anyshell.output import OutputBuilder
from anyshell.shells import Login

from .conftest import missing, open_to_all
from .processes import living, unique_seconds, wait_asleep, wait_living, wait_none
from .ssh_server import (
    SSHD,
    Link,
    Server,
    directories,
    home,
    is_root,
    openssh,
    sessions,
    startup_file,
    wait_removed,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from anyshell import Outcome

pytestmark = pytest.mark.anyio

ROOT = is_root()


@pytest.fixture
def server(user: str) -> Iterator[Server]:
    with openssh(user) as started:
        yield started


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    """A directory in which every user may read and write."""
    open_to_all(tmp_path)
    return tmp_path


@pytest.fixture
async def env(server: Server) -> AsyncIterator[Environment]:
    async with Environment.detect(server.options()) as environment:
        yield environment


def each_session(server: Server, act: Callable[[psutil.Process], None]) -> None:
    """Act on the server processes of the connections, not on the listening one."""
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


async def begun(
    env: Environment, text: str, seconds: str, *, timeout: float | None, grace: float
) -> asyncio.Task[Outcome]:
    """Start a command that prints something and sleeps, and wait until its output has come and it sleeps."""
    printed = asyncio.Event()

    async def listen(channel: object, data: bytes) -> None:
        printed.set()

    text = text.replace("{s}", seconds)
    task = asyncio.create_task(env.run(text, timeout=timeout, grace=grace, listener=listen))
    await asyncio.to_thread(wait_asleep, seconds)
    async with asyncio.timeout(20):
        await printed.wait()
    return task


TEXTS = ["echo so far; sleep {s}", "echo so far; trap '' TERM; (env -i setsid sleep {s} &) ; sleep {s}"]


@pytest.mark.parametrize("text", TEXTS)
async def test_broken_connection_loses_the_command_and_stops_its_tree(
    env: Environment, server: Server, text: str
) -> None:
    for _ in range(5):
        seconds = unique_seconds()
        task = await begun(env, text, seconds, timeout=None, grace=0.3)
        each_session(server, psutil.Process.kill)
        with anyio.fail_after(20):
            outcome = await task
        assert (outcome.status, outcome.exit_code, outcome.signal) == ("lost", None, None)
        assert outcome.output.text == "so far\n"
        assert not any(process.alive for process in outcome.left_behind)
        assert living(seconds) == []
        assert (await env.run("echo again")).output.text == "again\n"
        if outcome.left_behind:
            break
        # On a busy machine, the host may have stopped the tree before the new connection could look.
    assert {process.name for process in outcome.left_behind} >= {"sleep"}


async def test_broken_connection_loses_a_terminal_program_and_stops_its_tree(
    server: Server,
) -> None:
    seconds = unique_seconds()
    text = f"trap '' HUP; echo so far; (env -i setsid sleep {seconds} &); sleep {seconds}"
    backend = connect(server.options(), launcher=Login)
    spawn = Spawn(argv=("/bin/bash", "-c", text), cwd="/", terminal=Terminal())
    printed = asyncio.Event()

    async def listen(channel: object, data: bytes) -> None:
        printed.set()

    running = asyncio.create_task(run(backend, spawn, output=OutputBuilder(), grace=0.3, listener=listen))
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
    with anyio.fail_after(20):
        await printed.wait()
        each_session(server, psutil.Process.kill)
        outcome = await running
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("lost", None, None)
    assert outcome.output.text == "so far\n"
    assert not any(process.alive for process in outcome.left_behind)
    assert living(seconds) == []
    await backend.aclose()


@pytest.mark.parametrize("grace", [0, 0.5])
async def test_hanging_connection_is_bypassed(env: Environment, server: Server, grace: float) -> None:
    """The server process of the connection is frozen; another connection can be made, and confirms the stop."""
    seconds = unique_seconds()
    task = await begun(env, TEXTS[0], seconds, timeout=3, grace=grace)
    each_session(server, psutil.Process.suspend)
    try:
        with anyio.fail_after(20):
            outcome = await task
        assert (outcome.status, outcome.output.text, outcome.left_behind) == ("timed_out", "so far\n", ())
        assert living(seconds) == []
        assert (await env.run("echo again")).output.text == "again\n"
    finally:
        each_session(server, psutil.Process.resume)


async def test_hanging_host_loses_its_command_and_is_cleaned_up_later(
    env: Environment, server: Server
) -> None:
    seconds = unique_seconds()
    task = await begun(env, TEXTS[1], seconds, timeout=3, grace=0.3)
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
    await wait_none(seconds)


async def test_closing_stops_lost_commands(user: str, server: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(server.options()) as env:
        task = await begun(env, TEXTS[0], seconds, timeout=3, grace=0.3)
        freeze(server)
        assert (await task).status == "lost"
        thaw(server)
    assert living(seconds) == []


async def test_gone_server_is_reported_and_does_not_delay_closing(server: Server) -> None:
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
        await wait_none(seconds)


async def test_unconfirmed_start_is_lost_and_stopped(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is silent while the login shell starts its command: a later check finds whether the command began, and ends it."""
    monkeypatch.setattr("anyshell.backends.ssh.posix.start.START_SECONDS", 1.5)
    seconds = unique_seconds()
    async with Environment.detect(server.options()) as env:
        begun = home(server.user) / f"begun-{secrets.token_hex(4)}"
        with startup_file(server, ".bashrc", f"touch {begun}; sleep 1\n"):
            task = asyncio.create_task(env.run(f"sleep {seconds}", grace=0.3))
            with anyio.fail_after(20):
                while not begun.exists():
                    await asyncio.sleep(0.02)
            freeze(server)
            try:
                outcome = await task
                assert (outcome.status, outcome.started, outcome.exit_code) == ("lost", None, None)
                await asyncio.to_thread(wait_living, seconds)
            finally:
                thaw(server)
                begun.unlink()
        await wait_none(seconds)


async def test_lost_start_is_reported_as_not_started_only_if_nothing_ran(server: Server) -> None:
    """The link needs 0.2 s each way, so that many starts are known to the host alone at their timeout."""
    trace = home(server.user) / f"trace-{secrets.token_hex(4)}"
    timeouts = [0.05, 0.2, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 1.0, 1.2]
    async with Link(server, delay=0.2) as link, Environment.detect(link.options()) as env:
        await env.run("true")
        outcomes = [
            await env.run(f"echo {number} >>{trace}", timeout=timeout, grace=0.5)
            for number, timeout in enumerate(timeouts)
        ]
    ran = set(trace.read_text().split()) if trace.exists() else set()
    trace.unlink(missing_ok=True)
    for number, outcome in enumerate(outcomes):
        assert (outcome.started is None) <= (outcome.status == "lost")
        assert (outcome.started is False) <= (outcome.status == "timed_out")
        assert not (outcome.started is False and str(number) in ran), outcome
        assert outcome.started is None or outcome.started == (str(number) in ran), outcome


@pytest.mark.parametrize("timeout", [0.5, None], ids=["timeout", "no timeout"])
async def test_unconfirmed_command_may_have_run(
    server: Server, monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    """Nothing arrives from the host after the request: the command runs, and the client cannot know that."""
    monkeypatch.setattr("anyshell.backends.ssh.posix.start.START_SECONDS", 0.5)
    monkeypatch.setattr("anyshell.backends.ssh.sessions.OPEN_SECONDS", 0.5)
    trace = home(server.user) / f"trace-{secrets.token_hex(4)}"
    opened = Channel.connection_made
    async with Link(server) as link, Environment.detect(link.options()) as env:

        def open_and_fall_silent(self: Channel, chan: Any) -> None:
            link.deaf = True
            opened(self, chan)

        with monkeypatch.context() as late:
            late.setattr(Channel, "connection_made", open_and_fall_silent)
            outcome = await env.run(f"echo ran >>{trace}", timeout=timeout, grace=0.3)
    assert (outcome.status, outcome.started, outcome.exit_code) == ("lost", None, None)
    assert [process.alive for process in outcome.left_behind] == [True]
    with anyio.fail_after(20):
        while not trace.exists():
            await asyncio.sleep(0.05)
    trace.unlink()


async def test_kept_process_survives_a_hang_of_the_host(env: Environment, server: Server) -> None:
    seconds = unique_seconds()
    end = home(server.user) / f"end-{secrets.token_hex(4)}"
    subprocess.run(["mkfifo", end], check=True)
    end.chmod(0o666)
    task = asyncio.create_task(env.run(f"sleep {seconds} & cat {end}", left_behind="keep"))
    await asyncio.to_thread(wait_asleep, seconds)
    each_session(server, psutil.Process.kill)
    psutil.Process(server.pid).suspend()
    # The command ends while its end cannot be reported, before the host stops it for the lost connection.
    await asyncio.to_thread(end.write_text, "")
    end.unlink()
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
        await wait_none(seconds)


async def test_output_before_a_broken_link_is_kept(env: Environment, server: Server) -> None:
    seconds = unique_seconds()
    text = f"seq 1000; sleep {seconds}"
    task = await begun(env, text, seconds, timeout=None, grace=0.3)
    each_session(server, psutil.Process.kill)
    outcome = await task
    assert outcome.output.text == "".join(f"{n}\n" for n in range(1, 1001))


async def test_no_command_runs_twice(env: Environment, server: Server) -> None:
    """Connections break at every moment of many starts; each command runs once at most."""
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
    ran = trace.read_text().split()  # read here: the last connection may still break
    assert len(ran) == len(set(ran))
    done = [str(n) for n, outcome in enumerate(outcomes) if outcome is not None and outcome.exit_code == 0]
    assert set(done) <= set(ran)
    trace.unlink()


async def test_an_end_without_a_known_beginning_is_lost(
    env: Environment, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status overtakes the output and the report of the start; then the connection breaks."""
    assert (await env.run("true")).exit_code == 0
    heard = Channel.exit_status_received

    def hear_and_break(self: Channel, status: int) -> None:
        heard(self, status)
        each_session(server, psutil.Process.kill)

    with monkeypatch.context() as late:
        late.setattr(Channel, "data_received", lambda *_: None)
        late.setattr(Channel, "eof_received", lambda _: True)
        late.setattr(Channel, "exit_status_received", hear_and_break)
        outcome = await env.run("sleep 1 & exit 3")  # the background process keeps the channel open
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("lost", None, "")


# # --- Lost packets


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network of its own, with an address whose packets can be dropped."""
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


async def test_the_directory_of_a_session_is_removed_when_its_link_falls_silent(
    env: Environment, server: Server, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = directories(user)
    begin = Relay.begin

    async def begin_and_hear_no_more(relay: Relay) -> None:
        await begin(relay)
        assert directories(user) - before
        each_session(server, psutil.Process.suspend)
        raise TimeoutError

    monkeypatch.setattr(Relay, "begin", begin_and_hear_no_more)
    with anyio.fail_after(60), pytest.raises(SpawnError):
        async with env.session() as session:
            await session.run("true")
    monkeypatch.undo()
    each_session(server, psutil.Process.resume)
    assert (await env.run("echo again")).output.text == "again\n"
    await wait_removed(user, before)


async def test_sessions_cut_off_at_any_moment_leave_no_directory(
    env: Environment, server: Server, user: str
) -> None:
    before = directories(user)

    async def use() -> None:
        async with env.session() as session:
            await session.run("echo a text of its own; sleep 1")

    for turn in range(10):
        task = asyncio.create_task(use())
        await asyncio.sleep(turn * 0.02)
        each_session(server, psutil.Process.kill)
        with anyio.fail_after(60), contextlib.suppress(AnyshellError):
            await task
    assert (await env.run("echo again")).output.text == "again\n"
    await wait_removed(user, before)


def relay_here(shell: str, directory: Path, out: int) -> subprocess.Popen[bytes]:
    """A relay on this machine, with its directory below another."""
    path = shutil.which(shell)
    if path is None:
        missing(shell, f"install {shell}")
    as_sh = {"busybox": ["sh"], "zsh": ["--emulate", "sh"]}.get(shell, [])
    return subprocess.Popen(
        [path, *as_sh, "-c", _RELAY, "sh", "", "pipe1", "0123abcd"],
        env={"TMPDIR": str(directory), "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_relay_without_its_client_leaves_nothing(tmp_path: Path, shell: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # the reader of its first word
    with relay_here(shell, tmp_path, writer) as relay:
        os.close(writer)
        assert relay.stdin is not None
        relay.stdin.close()
        relay.wait(30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox", "zsh"])
@pytest.mark.parametrize("what", ["link", "directory", "nothing"])
def test_relay_removes_nothing_from_what_has_the_name_of_its_directory(
    tmp_path: Path, shell: str, what: str
) -> None:
    tmp, other = tmp_path / "tmp", tmp_path / "other"
    for each in (tmp, other):
        each.mkdir()
    (other / "precious").touch()
    with relay_here(shell, tmp, subprocess.PIPE) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        assert relay.stdout.readline().endswith(b"/anyshell-0123abcd\n")
        made = tmp / "anyshell-0123abcd"
        if what == "nothing":
            shutil.rmtree(made)
        else:
            made.rename(tmp / "moved")
        if what == "link":
            made.symlink_to(other)
        elif what == "directory":
            other.rename(made)
            other = made
        relay.stdin.close()
        relay.stdout.read()  # all of its programs have ended
        assert relay.wait(30) == -signal.SIGTERM
    assert (other / "precious").exists()


@pytest.mark.parametrize(("kept", "code"), [("", 9), (".hidden", 15)])  # SIGKILL, SIGTERM
def test_relay_tells_whether_it_has_removed_its_directory(tmp_path: Path, kept: str, code: int) -> None:
    with relay_here("sh", tmp_path, subprocess.PIPE) as relay:
        assert relay.stdin is not None
        assert relay.stdout is not None
        relay.stdout.readline()
        if kept:
            (tmp_path / "anyshell-0123abcd" / kept).touch()
        relay.stdin.close()
        assert relay.wait(30) == -code
    assert [each.name for each in tmp_path.rglob("*") if not each.is_dir()] == [kept] * bool(kept)


async def test_directory_of_a_killed_relay_is_removed(server: Server) -> None:
    before = directories(server.user)
    async with Environment.detect(server.options()) as env:
        made = await env.runner.backend.pipe_directory()
        assert made.directory is not None
        token = made.directory.rpartition("-")[2]
        found = relays(token)
        (relay,) = (each for each in found if each.parent() not in found)
        relay.kill()  # its own process alone: the others still hold its output
        await asyncio.sleep(0.5)  # the news has usually arrived
        await made.aclose()
        await wait_removed(server.user, before)
        with anyio.fail_after(30):
            while relays(token):
                await asyncio.sleep(0.1)


def relays(token: str) -> list[psutil.Process]:
    """The processes of the relays of a directory on this machine."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if {token, _RELAY} <= set(each.cmdline()):
                found.append(each)
    return found


async def test_packets_that_vanish_are_a_lost_link(namespace: str, user: str) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    ip, name, link = namespace.split()

    def run(*words: str) -> None:
        subprocess.run([ip, "-n", name, *words], check=True)

    seconds = unique_seconds()
    with openssh(user, address="10.213.77.2", through=(ip, "netns", "exec", name)) as server:
        async with Environment.detect(server.options()) as env:
            task = await begun(env, TEXTS[1], seconds, timeout=3, grace=0.3)
            run("link", "set", link, "down")
            with anyio.fail_after(20):
                outcome = await task
            assert (outcome.status, outcome.output.text) == ("lost", "so far\n")
            assert living(seconds) != []
            run("link", "set", link, "up")
            assert (await env.run("echo again", timeout=60)).output.text == "again\n"
            await wait_none(seconds)


def _forced(place: Path, **programs: str) -> str:
    """A forced command that finds these programs before those of the system."""
    for name, text in programs.items():
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    return f'ForceCommand PATH={place}:$PATH TMPDIR={place}; export PATH TMPDIR; eval "$SSH_ORIGINAL_COMMAND"'


async def test_refused_directory_of_a_session_is_an_error_with_the_reason(user: str, readable: Path) -> None:
    refused = "for last; do :; done; echo \"mkdir: cannot create directory '$last': Read-only file system\" >&2; exit 1"
    with openssh(user, _forced(readable, mkdir=refused)) as server:
        async with Environment.detect(server.options()) as env:
            with pytest.raises(SpawnError, match=r"mkfifo.*Read-only file system$"):
                await env.session().run("echo hi", timeout=20)


async def test_link_lost_at_the_start_of_a_session_is_reported(user: str, readable: Path) -> None:
    if not ROOT:
        missing("root", "run the tests as root: a server of root's is killed by a program of the session")
    (readable / "reached").touch()
    (readable / "reached").chmod(0o666)
    with openssh(user, _forced(readable, mkfifo=f"echo 1 >{readable}/reached; exec sleep 5")) as server:
        async with Environment.detect(server.options()) as env:
            task = asyncio.create_task(env.session().run("echo hi", timeout=20))
            with anyio.fail_after(20):
                while not (readable / "reached").read_text():
                    await asyncio.sleep(0.02)
            kill(server)
            with pytest.raises(SpawnError, match="connection to the host was lost"):
                await task


async def test_session_that_cannot_begin_on_a_full_disk_leaves_nothing(user: str, readable: Path) -> None:
    if sys.platform != "linux" or not ROOT:
        missing("root on Linux", "run the tests as root: a small file system is mounted")
    place = readable / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "anyshell-test", place], check=True)
    try:
        with contextlib.suppress(OSError), (place / "full").open("wb", buffering=0) as full:
            while True:
                full.write(b"x" * 4096)
        with openssh(user, f"SetEnv TMPDIR={place}") as server:
            async with Environment.detect(server.options()) as env:
                session = env.session()
                with pytest.raises(SpawnError, match="room"):
                    await session.run("echo hi", timeout=20)
                await session.aclose()
                with anyio.fail_after(30):
                    while os.listdir(place) != ["full"]:
                        await asyncio.sleep(0.05)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
