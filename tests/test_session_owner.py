"""Remains of the sessions of a killed program: no waiting shell, and no directory."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from anyshell import Environment
from anyshell.errors import SpawnError

assert sys.platform != "win32"  # else mypy checks the import below on every platform

from typing import TYPE_CHECKING

from anyshell.backends.local.posix import pipe_directory

from .conftest import missing
from .ssh_server import is_root
from .test_session_texts import SHELLS, shell_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


KILLED = """
import asyncio, os, signal, sys
from anyshell import Environment

async def main(shell):
    async with Environment.detect(shell=shell, cwd="/") as env:
        session = env.session()
        go = os.environ["TMPDIR"] + "/go"
        suspend = f"(until [ -e {go} ]; do sleep 0.01; done; kill -STOP $$) & echo $$"
        told = await session.run(suspend, left_behind="keep", timeout=20)
        open(go, "w").close()
        pid = int(told.output.text)
        while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "T":
            await asyncio.sleep(0.01)
        running = asyncio.create_task(session.run("cat; echo never", stdin=b"x", split_stderr=True))
        await asyncio.sleep(0.3)
        print(pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_ends_after_its_owner_was_killed_during_a_command(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, shell_path(shell, tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with contextlib.suppress(psutil.NoSuchProcess):  # the shell may have ended already
        process = psutil.Process(int(done.stdout))
        process.resume()
        try:
            process.wait(20)
        finally:
            process.kill()


HOLDS = """
import asyncio, os, signal, sys
from anyshell import Environment

async def main(ends):
    async with Environment.detect(shell="bash", cwd="/") as env, env.session() as session:
        await session.run("true")
        print("ready", flush=True)
        if ends:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main(sys.argv[1] == "killed"))
"""


async def test_next_start_removes_only_directories_of_killed_owners(private: Path, tmp_path: Path) -> None:
    if not is_root():
        missing("root", "run the tests as root, who can make a pid namespace")
    env = {**os.environ, "TMPDIR": str(private)}
    namespace = ["unshare", "--pid", "--fork", "--mount-proc"]

    def started(how: str, *before: str) -> tuple[subprocess.Popen[str], Path]:
        there = set(private.iterdir())
        owner = subprocess.Popen(
            [*before, sys.executable, "-c", HOLDS, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        (directory,) = set(private.iterdir()) - there
        return owner, directory

    # The owner's kernel, of another machine or of a sandbox, does not know the lock.
    foreign = private / "anyshell-foreign"
    foreign.mkdir()
    (foreign / "command").touch()
    (foreign / "owner").write_text("another kernel")
    # An owner of this machine before its last start; and an owner with the machine's identity, such as a sandbox.
    machine = pipe_directory._kernel().partition(b"\n")[2]
    earlier = {}
    for name, since_boot in (("earlier", -100), ("sandbox", 100)):
        earlier[name] = private / f"anyshell-{name}"
        earlier[name].mkdir()
        (earlier[name] / "command").touch()
        owner_file = earlier[name] / "owner"
        owner_file.write_bytes(b"another boot\n" + machine)
        changed = psutil.boot_time() + since_boot
        os.utime(owner_file, (changed, changed))
    begun = private / "anyshell-begun"
    begun.mkdir()
    linked = tmp_path / "linked"
    owner, killed = started("killed")
    owner.communicate()
    shutil.copytree(killed, linked, ignore=shutil.ignore_patterns("pipe*"))
    (private / "anyshell-link").symlink_to(linked)
    others = shutil.copytree(linked, private / "anyshell-others")
    os.chown(others, 65534, 65534)
    waits = shutil.copytree(linked, private / "anyshell-waits")
    (waits / "owner").unlink()
    os.mkfifo(waits / "owner")
    living_owner, held = started("lives")
    contained_owner, contained = started("lives", *namespace)
    assert not killed.exists()  # the next start has removed the directory

    pipe_directory.remove_abandoned.cache_clear()
    async with (
        Environment.detect(shell="bash", cwd=tmp_path) as environment,
        environment.session() as session,
    ):
        assert (await session.run("true")).exit_code == 0
        assert earlier["earlier"].exists() == (not machine)
        for kept in (
            held,
            contained,
            foreign,
            earlier["sandbox"],
            begun,
            linked,
            private / "anyshell-link",
            others,
            waits,
        ):
            assert kept.exists(), kept
    for each in (living_owner, contained_owner):
        each.communicate("", timeout=30)
    assert not held.exists()
    assert not contained.exists()


# --- A directory that is removed from outside


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("removed", ["directory", "files"])
async def test_session_recreates_its_private_directory(
    private: Path, shell: str, removed: str, tmp_path: Path
) -> None:
    path = shell_path(shell, tmp_path)
    async with Environment.detect(shell=path, cwd=tmp_path) as env, env.session() as session:
        await session.run("A=1; echo to stderr >&2", split_stderr=True)
        (directory,) = private.iterdir()
        shutil.rmtree(directory)
        if removed == "files":
            directory.mkdir(mode=0o700)
        for _ in range(3):
            outcome = await session.run("cat; echo $A; echo error >&2", stdin=b"in\n", split_stderr=True)
            assert outcome.session is not None
            assert (outcome.exit_code, outcome.output.text, outcome.session.state) == (0, "in\n1\n", "kept")
            assert outcome.stderr is not None
            assert outcome.stderr.text == "error\n"
        assert directory.stat().st_mode & 0o777 == 0o700
        with contextlib.suppress(BlockingIOError):
            fd = os.open(directory / "command", os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pytest.fail("another program of this user would remove it")
        os.close(fd)
        running = asyncio.create_task(
            session.run(": >begun; while :; do sleep 0.01; done; echo no", timeout=60)
        )
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        shutil.rmtree(directory)
        assert await session.interrupt()
        assert (await running).output.text == ""
        assert (await session.run("echo $A")).output.text == "1\n"
    assert list(private.iterdir()) == []


async def test_replaced_private_directory_is_an_error_that_names_restart(
    private: Path, tmp_path: Path
) -> None:
    async with Environment.detect(shell="bash", cwd=tmp_path) as env, env.session() as session:
        await session.run("A=1")
        (directory,) = private.iterdir()
        shutil.rmtree(directory)
        directory.mkdir()
        directory.chmod(0o777)
        with pytest.raises(SpawnError, match=r"private directory .* was removed.*restart\(\)"):
            await session.run("echo no")
        await session.restart()
        outcome = await session.run("echo on")
        assert outcome.session is not None
        assert (outcome.output.text, outcome.session.fresh) == ("on\n", "the session was restarted")


async def test_a_start_without_descriptors_leaves_no_directory(private: Path, tmp_path: Path) -> None:
    """Neither the first start, which loads the modules of a session, nor a later start."""
    async with Environment.detect(shell="bash", cwd=tmp_path) as env, env.session() as session:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        for _ in range(2):
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
            try:
                with pytest.raises(SpawnError, match="too many open files"):
                    await session.run("echo no")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert list(private.iterdir()) == []
            assert (await session.run("echo on")).output.text == "on\n"
            await session.restart()


async def test_a_cancelled_command_leaves_no_directory_of_the_shell_before(
    private: Path, tmp_path: Path
) -> None:
    async with Environment.detect(shell="bash", cwd=tmp_path) as env, env.session() as session:
        await session.run("exit")
        running = asyncio.create_task(session.run("echo no", timeout=60))
        while session._shell is not None:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await session.run("echo on")).output.text == "on\n"
        assert len(list(private.iterdir())) == 1
    assert list(private.iterdir()) == []


async def test_removed_private_directory_by_ssh_is_an_error_that_names_restart(
    ssh_host: Callable[[str], Server],
) -> None:
    host = ssh_host("openssh as a user").options()
    async with Environment.detect(host, shell="bash", cwd="/tmp") as env, env.session() as session:
        await session.run("A=1")
        assert session._shell is not None
        shutil.rmtree(session._shell._pipe_directory.directory or "")
        for text in ("echo no", f": {'x' * 100_000}"):
            with pytest.raises(SpawnError, match=r"private directory .* was removed.*restart\(\)"):
                await session.run(text)
        await session.restart()
        assert (await session.run("echo on")).output.text == "on\n"


# # --- No remains
