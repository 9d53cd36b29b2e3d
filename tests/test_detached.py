"""Jobs that outlive their starter: on every real backend, and tests that are possible only on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest

from anyshell import AnyshellError, BackendError, Environment, InvalidCommand, Outcome
from anyshell.errors import JobNotFound, SpawnError
from anyshell.shells import detached
from anyshell.types import DetachedJob, DetachedJobs

from .cli_program import is_alive, wait_until
from .conftest import NOBODY, missing, open_to_all, python_for_all
from .processes import failing_awk, living, unique_seconds, wait_asleep, wait_living
from .ssh_server import is_root, sessions

assert sys.platform != "win32"  # on other systems mypy skips the import below

from anyshell.backends.local.backend import LocalBackend

from .test_endings import BREEDER
from .test_ssh_watcher import surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from anyshell._types import Spawn
    from anyshell.abc import Program

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def jobs(env: Environment, tmp_path: Path) -> AsyncIterator[DetachedJobs]:
    """The jobs of a temporary directory, stopped at the end."""
    found = DetachedJobs(env, directory=str(tmp_path / "jobs"))
    yield found
    await stop_all(found)


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[DetachedJobs]:
    """The same, only on this machine."""
    async with Environment.detect(cwd=tmp_path) as environment:
        found = DetachedJobs(environment)
        yield found
        await stop_all(found)


class OtherWords(LocalBackend):
    """This machine with changed scripts: words in the texts of its programs are replaced.

    Args:
        words: The replacements, by the original words.
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__()
        self._words = words

    async def spawn(self, spawn: Spawn) -> Program:
        argv = spawn.argv
        for word, other in self._words.items():
            argv = tuple(each.replace(word, other) for each in argv)
        return await super().spawn(replace(spawn, argv=argv))


def environment_of(jobs: DetachedJobs) -> Environment:
    """The environment of the jobs."""
    return cast("Environment", jobs._environment)


async def stop_all(jobs: DetachedJobs) -> None:
    """Stop all jobs."""
    for job in await jobs.list():
        assert await job.stop(grace=0) == []


def directory_of(job: DetachedJob) -> Path:
    return Path(job.record.log).parent


async def read_until(job: DetachedJob, text: str, since: int = 0) -> str:
    """Read output until it contains a text."""
    found = ""
    async with asyncio.timeout(20):
        while text not in found:
            piece = await job.output(since=since)
            found += piece.text
            since = piece.offset
    return found


# --- on every backend -----------------------------------------------------------------------------------------


async def test_job_runs_like_a_command_and_is_found_by_id(jobs: DetachedJobs, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    text = 'echo "$A|$PWD|$PATH|$HOME|$(umask)"; echo err >&2; cat; exit 3'
    variables = {"A": "x y", "HOME": "/nowhere", "PATH": "/usr/bin:/bin:/mine"}
    job = await jobs.start(text, cwd="sub", env=variables)
    assert (job.status, job.command) == ("running", text)
    assert await job.wait(timeout=20) == "failed"
    found = await jobs.get(job.id[:5])
    assert found.record == job.record
    assert (found.exit_code, found.host, found.pid) == (3, jobs._runner.host, job.pid)
    assert found.started <= (found.ended or 0)
    output = await found.output()
    expected = await environment_of(jobs).run(text, cwd="sub", env=variables)
    assert output.text == expected.output.text
    assert output.total_bytes == output.offset == len(output.data) == found.record.log_bytes
    assert [each.id for each in await jobs.list()] == [job.id]


async def test_a_job_survives_the_end_of_its_environment(
    env: Environment, tmp_path: Path, request: pytest.FixtureRequest, ssh_host: Callable[[str], Server]
) -> None:
    """Over SSH, the job also survives the end of the connection."""
    name = request.node.callspec.params["env"]
    target = "local" if name == "local" else ssh_host(name).options()
    directory = str(tmp_path / "jobs")
    go = tmp_path / "go"
    async with Environment.detect(target, cwd=tmp_path) as first:
        job = await DetachedJobs(first, directory=directory).start(
            f"echo before; until [ -e {go} ]; do sleep 0.02; done; echo after; exit 5"
        )
        before = await job.output()
        while before.data != b"before\n":
            before = await job.output()
    go.touch()
    jobs = DetachedJobs(env, directory=directory)
    found = await jobs.get(job.id)
    assert await found.wait(timeout=20) == "failed"
    assert found.exit_code == 5
    assert (await found.output(since=before.offset)).data == b"after\n"


async def test_job_survives_a_broken_connection(
    ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> None:
    server = ssh_host("openssh as root" if is_root() else "openssh as a user")
    seconds = unique_seconds()
    async with Environment.detect(server.options(), cwd=tmp_path) as environment:
        jobs = DetachedJobs(environment, directory=str(tmp_path / "jobs"))
        job = await jobs.start(f"exec sleep {seconds}")
        wait_asleep(seconds)
        for pid in sessions(server.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert (await environment.run("true")).status in ("exited", "lost")
        assert await job.refresh() == "running"
        assert await job.stop() == []
        assert living(seconds) == []


async def test_stop_ends_the_tree_of_a_job(jobs: DetachedJobs) -> None:
    seconds = unique_seconds()
    job = await jobs.start(
        f"sleep {seconds} & (exec setsid sleep {seconds}) & (trap '' TERM; exec setsid sleep {seconds}) & "
        f"sleep {seconds}; echo went on; sleep {seconds}"
    )
    wait_living(f"sleep {seconds}", 5)  # including the shell, whose text has the number
    wait_until(
        lambda: sum(line.endswith(f" sleep {seconds}") for line in living(seconds)) == 4, "four of them"
    )
    # A busy machine may let the shell stand still before it heeds SIGTERM.
    assert await job.stop(grace=5) == []
    assert living(seconds) == []
    assert (job.status, job.exit_code) == ("stopped", 128 + signal.SIGTERM)
    assert (await job.output()).data == b""
    assert await job.stop() == []  # a repeated stop is not an error


async def test_stop_finds_a_process_after_its_session_leader_ends(jobs: DetachedJobs) -> None:
    """The process has no mark and ignores SIGTERM; only its former session identifies the process."""
    seconds = unique_seconds()
    job = await jobs.start(f"env -i /bin/sh -c \"trap '' TERM; exec sleep {seconds}\" & exec sleep {seconds}")
    wait_until(
        lambda: sum(line.endswith(f" sleep {seconds}") for line in living(seconds)) == 2, "both of them"
    )
    assert await job.stop(grace=0.3) == []
    assert (living(seconds), job.status) == ([], "stopped")


async def test_stop_ends_a_chain_of_forks(jobs: DetachedJobs, tmp_path: Path) -> None:
    """No process of the chain lives longer than a scan takes, so the growth of its file shows whether the chain lives."""
    beats = tmp_path / "beats"
    job = await jobs.start(f"{python_for_all()} -c '{BREEDER}'; exec sleep {unique_seconds()}")
    wait_until(beats.exists, "the chain")
    assert await job.stop(grace=0.3) == []
    size = beats.stat().st_size
    for _ in range(50):
        await asyncio.sleep(0.01)
        assert beats.stat().st_size == size
    assert job.status == "stopped"


async def test_process_left_behind_keeps_the_record_of_its_job_until_stopped(jobs: DetachedJobs) -> None:
    seconds = unique_seconds()
    job = await jobs.start(f"sleep {seconds} & :")
    assert await job.wait(timeout=20) == "completed"
    wait_asleep(seconds)
    assert await jobs.prune() == []
    assert await job.stop(grace=0) == []
    assert (living(seconds), job.status) == ([], "completed")
    assert await jobs.prune() == [job.id]


async def test_job_with_killed_processes_is_lost(jobs: DetachedJobs) -> None:
    seconds = unique_seconds()
    job = await jobs.start(f"exec sleep {seconds}")
    wait_asleep(seconds)
    process = psutil.Process(job.pid)
    supervisor = process.ppid()
    os.kill(supervisor, signal.SIGKILL)
    assert await job.refresh() == "running"
    os.kill(job.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(job.pid), "its end")
    assert await job.wait(timeout=20) == "lost"
    assert (job.exit_code, job.ended) == (None, None)


async def test_growing_output_is_read_by_offset(jobs: DetachedJobs, tmp_path: Path) -> None:
    """No byte is lost or repeated, although pieces end in the middle of a character."""
    go = tmp_path / "go"
    program = f"printf 'a\\303'; until [ -e {go} ]; do sleep 0.02; done; printf '\\244\\342\\202'; printf '\\254z\\377'"
    job = await jobs.start(program)
    first = await job.output()
    while first.total_bytes < 2:
        first = await job.output()
    assert (first.data, first.text, first.offset) == (b"a", "a", 1)
    go.touch()
    assert await job.wait(timeout=20) == "completed"
    pieces = [first]
    while pieces[-1].offset < pieces[-1].total_bytes:
        pieces.append(await job.output(since=pieces[-1].offset, limit=3))
    assert b"".join(piece.data for piece in pieces) == "aä€z".encode() + b"\xff"
    assert "".join(piece.text for piece in pieces) == "aä€z\ufffd"
    assert (await job.output(since=1000)).data == b""


async def test_pruning_removes_only_ended_jobs(jobs: DetachedJobs) -> None:
    ended = await jobs.start("true")
    runs = await jobs.start(f"exec sleep {unique_seconds()}")
    await ended.wait(timeout=20)
    assert await jobs.prune(older_than=3600) == []
    assert await jobs.prune() == [ended.id]
    assert not directory_of(ended).exists()
    assert [job.id for job in await jobs.list()] == [runs.id]
    assert f"removed {runs.id}" not in await jobs._look("remove", runs.id)  # also not by its id
    for lost in (ended.refresh, ended.output, ended.wait):
        with pytest.raises(JobNotFound, match=ended.id):
            await lost()


async def test_record_of_a_long_command_has_its_beginning(jobs: DetachedJobs) -> None:
    text = f": {'x' * 200_000}\nexit 4"
    job = await jobs.start(text)
    assert await job.wait(timeout=20) == "failed"
    assert job.exit_code == 4
    assert text.startswith(job.command[:-1])
    assert len(job.command) == 1001


async def test_variable_values_are_in_no_record_or_command_line(jobs: DetachedJobs) -> None:
    seconds, secret = unique_seconds(), "s3cr3t-value"
    job = await jobs.start(f"echo $TOKEN; exec sleep {seconds}", env={"TOKEN": secret})
    assert secret in await read_until(job, "\n")
    wait_asleep(seconds)
    assert living(secret) == []
    for path in directory_of(job).iterdir():
        assert path.name == "log" or secret.encode() not in path.read_bytes(), path


async def test_job_directory_is_private(jobs: DetachedJobs) -> None:
    job = await jobs.start("exit 2")
    await job.wait(timeout=20)
    directory = directory_of(job)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, directory.parent)} == {0o700}
    names = {"request", "record", "job.sh", "log", "exit"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == dict.fromkeys(names, 0o600)


# --- on this machine ------------------------------------------------------------------------------------------

_START_AND_HANG = """
import asyncio, os, sys
from anyshell import Environment
from anyshell.types import DetachedJobs
async def main():
    async with Environment.detect() as env:
        job = await DetachedJobs(env).start(sys.argv[1])
        print(job.id, flush=True)
        await env.run(sys.argv[2])
asyncio.run(main())
"""


async def test_job_survives_a_kill_of_its_starter(here: DetachedJobs, tmp_path: Path) -> None:
    go, hang = tmp_path / "go", unique_seconds()
    argv = [sys.executable, "-c", _START_AND_HANG, f"until [ -e {go} ]; do sleep 0.02; done; echo done"]
    with subprocess.Popen([*argv, f"exec sleep {hang}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        id_ = process.stdout.readline().decode().strip()
        wait_asleep(hang)
        process.kill()
    orphans = [
        info for info in await environment_of(here).orphans() if f"sleep {hang}" in " ".join(_line(info.pid))
    ]
    for info in orphans:
        os.kill(info.pid, signal.SIGKILL)
    go.touch()
    job = await here.get(id_)
    assert await job.wait(timeout=20) == "completed"
    assert (await job.output()).text == "done\n"


def _line(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh"])
async def test_job_inherits_no_descriptor_mark_tag_or_ignored_signal(
    shell: str, tmp_path: Path, anyio_backend: str
) -> None:
    """No descriptor, no mark, no tag, and default signals: a stop cannot find the job by any of these."""
    program = (
        "import os, resource, signal;"
        "print(sorted(os.listdir('/proc/self/fd'))[:-1], resource.getrlimit(10)[0],"
        "[name for name in os.environ if name.startswith('ANYSHELL_MARK')],"
        "[signal.getsignal(number) != signal.SIG_IGN for number in (1, 2, 3, 15)], os.getsid(0) == os.getppid())"
    )
    if sys.platform != "linux":
        pytest.skip("there is no /proc")
    async with Environment.detect(shell=shell, cwd=tmp_path) as environment:
        jobs = DetachedJobs(environment)
        job = await jobs.start(f'{python_for_all()} -c "{program}"; :')
        assert await job.wait(timeout=20) == "completed"
        # A program that ignores a signal from its start, such as nohup, passes that on to its children.
        heeded = [signal.getsignal(number) != signal.SIG_IGN for number in (1, 2, 3, 15)]
        assert (await job.output()).text == f"['0', '1', '2'] -1 [] {heeded} True\n"
        assert not [info for info in await environment.orphans() if info.pid == job.pid]


async def test_stop_of_the_starting_command_spares_the_job(here: DetachedJobs) -> None:
    """The job is outside the tree of the command, by marks and by limits, although anyshell ran inside that command."""
    seconds = unique_seconds()
    environment = environment_of(here)
    inner = f"{sys.executable} -m anyshell run --background -- sleep {seconds}; exec sleep 100"
    async with environment.stream(inner) as events:
        async for event in events:
            id_ = event.text
            break
        job = await here.get(id_)
        wait_asleep(seconds)
        events.cancel()
    assert events.outcome.status == "cancelled"
    assert await job.refresh() == "running"


async def test_exit_code_is_known_after_a_kill_of_the_group(here: DetachedJobs) -> None:
    job = await here.start("trap 'exit 7' TERM; kill 0; sleep 5")
    assert await job.wait(timeout=20) == "failed"
    assert job.exit_code == 7


async def test_program_killed_by_a_signal_has_128_plus_its_number(here: DetachedJobs) -> None:
    job = await here.start("kill -9 $$")
    assert await job.wait(timeout=20) == "failed"
    assert job.exit_code == 128 + 9


async def test_record_with_a_reused_pid_is_lost_and_the_process_spared(
    here: DetachedJobs,
) -> None:
    """The pid now belongs to another process, with another start time."""
    job = await here.start("true")
    await job.wait(timeout=20)
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        record = directory_of(job) / "record"
        _, _, rest = record.read_text().partition(" ")
        record.write_text(f"{stranger.pid} {rest}")
        (directory_of(job) / "exit").unlink()
        assert await job.refresh() == "lost"
        assert job.pid == stranger.pid
        assert await job.stop(grace=0) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("room", ["nr_inodes", "size"])
async def test_failed_start_on_a_full_disk_has_a_reason(room: str, env: Environment, tmp_path: Path) -> None:
    """The free space grows by a file or a page until a job starts; each failure before that has a reason, and leaves no file."""
    if sys.platform != "linux" or not is_root():
        missing("root on Linux", "run the tests as root: a small file system is mounted")
    refused: list[tuple[bool, list[Path]]] = []
    for room_for in range(1, 32):
        place = tmp_path / str(room_for)
        place.mkdir()
        option = f"{room}={room_for * (4096 if room == 'size' else 1)}"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"{option},mode=755", "anyshell-test", place], check=True
        )
        os.chown(place, *_owner(await env.run("id -u; id -g")))
        try:
            job = await DetachedJobs(env, directory=str(place / "jobs")).start("true")
        except SpawnError as error:
            refused.append(("No space left on device" in str(error), list((place / "jobs").glob("*"))))
        else:
            await job.stop(grace=0)
            break
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
    assert refused == [(True, [])] * len(refused)
    assert 0 < len(refused) < 31


def _owner(outcome: Outcome) -> tuple[int, int]:
    user, group = map(int, outcome.output.text.split())
    return user, group


async def test_job_with_another_state_directory_variable_is_listed(here: DetachedJobs) -> None:
    job = await here.start("echo $ANYSHELL_STATE_DIR", env={"ANYSHELL_STATE_DIR": "/nowhere"})
    assert await job.wait(timeout=20) == "completed"
    assert (await job.output()).text == "/nowhere\n"
    assert [each.id for each in await here.list()] == [job.id]


async def test_record_of_another_boot_is_lost(here: DetachedJobs) -> None:
    """Start times count from the boot: after a reboot the same numbers may belong to another process."""
    if sys.platform != "linux":
        pytest.skip("start times are dates there")
    seconds = unique_seconds()
    job = await here.start(f"exec sleep {seconds}")
    wait_asleep(seconds)
    record = directory_of(job) / "record"
    text = record.read_text()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record.write_text(text.replace(boot, boot[::-1]))
    assert await job.refresh() == "lost"
    assert await job.stop(grace=0) == []
    assert is_alive(job.pid)
    record.write_text(text)
    assert await job.refresh() == "running"


async def test_job_with_an_unreadable_request_is_listed_and_stopped(
    here: DetachedJobs,
) -> None:
    """A full disk can leave such a request."""
    job = await here.start(f"exec sleep {unique_seconds()}")
    (directory_of(job) / "request").write_text('{"command": "ex\n')
    (found,) = await here.list()
    assert (found.id, found.command, found.status) == (job.id, "(not readable)", "running")
    assert await found.stop(grace=0) == []
    assert found.status == "stopped"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("record", ""),
        ("record", "1 2\n"),
        ("record", "1 1 1 1 - 5\n"),
        ("record", "-1 0 -1 0 x 5\n"),
        ("record", f"{'9' * 5000} 1 1 1 - 1\n"),
        ("exit", "² 5\n"),
        ("exit", "0\n"),
        ("request", "[" * 20_000 + "\n"),
    ],
)
async def test_broken_record_does_not_affect_other_jobs(name: str, text: str, here: DetachedJobs) -> None:
    broken, whole = await here.start("exit 3"), await here.start("exit 3")
    assert [await job.wait(timeout=20) for job in (broken, whole)] == ["failed", "failed"]
    (directory_of(broken) / name).write_text(text)
    assert {job.id: job.status for job in await here.list()} == {
        broken.id: "failed" if name == "request" else "lost",
        whole.id: "failed",
    }
    assert await broken.stop(grace=0) == []
    assert set(await here.prune()) == {broken.id, whole.id}


def another_machine(files: Path, machine: str = "a" * 32) -> OtherWords:
    """This machine as another machine with the same home: its boot id and machine id differ."""
    words = {}
    for path, text in (("/proc/sys/kernel/random/boot_id", "another-boot"), ("/etc/machine-id", machine)):
        file = files / path.rpartition("/")[2]
        file.write_text(f"{text}\n")
        words[path] = str(file)
    return OtherWords(words)


async def test_a_job_of_another_machine_is_foreign_and_keeps_its_record(
    here: DetachedJobs, tmp_path: Path
) -> None:
    """The boot id of the record differs, although this machine was not rebooted."""
    runs, ended = await here.start(f"exec sleep {unique_seconds()}"), await here.start("exit 3")
    await ended.wait(timeout=20)
    async with Environment.detect(another_machine(tmp_path), cwd=tmp_path) as environment:
        there = DetachedJobs(environment)
        assert {job.id: job.status for job in await there.list()} == {runs.id: "foreign", ended.id: "failed"}
        assert await there.prune() == []
        assert f"removed {runs.id}" not in await there._look("remove", runs.id, ended.id)
        with pytest.raises(BackendError, match="another machine"):
            await (await there.get(runs.id)).stop()
        assert await (await there.get(runs.id)).wait(timeout=20) == "foreign"
    assert await runs.refresh() == "running"


async def test_a_job_of_another_pid_namespace_keeps_its_record(
    here: DetachedJobs, state_directory: Path
) -> None:
    """Two containers can share a home: the boot id is equal, and the pids of one mean nothing in the other."""
    job = await here.start(f"exec sleep {unique_seconds()}")
    inside = [
        "unshare",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-m",
        "anyshell",
    ]
    listed = subprocess.run([*inside, "jobs", "list"], capture_output=True, text=True)
    assert (listed.returncode, listed.stdout.split()[:2]) == (0, [job.id, "foreign"])
    pruned = subprocess.run([*inside, "jobs", "prune"], capture_output=True, text=True)
    assert (pruned.returncode, pruned.stdout) == (0, "")
    assert await job.refresh() == "running"


async def test_a_job_of_an_earlier_boot_of_this_machine_is_lost_and_removed(here: DetachedJobs) -> None:
    job = await here.start(f"exec sleep {unique_seconds()}")
    record = directory_of(job) / "record"
    text = record.read_text()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record.write_text(text.replace(boot, boot[::-1]))
    assert await job.refresh() == "lost"
    assert await here.prune() == []  # a process with the mark of the job lives here
    record.write_text(text)
    assert await job.stop(grace=0) == []
    (directory_of(job) / "exit").unlink()
    record.write_text(text.replace(boot, boot[::-1]))
    assert await here.prune() == [job.id]


async def test_a_record_of_an_older_format_is_read(here: DetachedJobs, tmp_path: Path) -> None:
    """The record has one line, without a machine or a namespace."""
    runs, ended = await here.start(f"exec sleep {unique_seconds()}"), await here.start("exit 3")
    await ended.wait(timeout=20)
    for job in (runs, ended):
        record = directory_of(job) / "record"
        first, second = record.read_text().splitlines()
        assert len(second.split()) == 2
        record.write_text(f"{first}\n")
    assert {job.id: job.status for job in await here.list()} == {runs.id: "running", ended.id: "failed"}
    async with Environment.detect(another_machine(tmp_path), cwd=tmp_path) as environment:
        there = DetachedJobs(environment)
        assert (await there.get(runs.id)).status == "foreign"  # a reboot, or another machine: unknown
        assert await there.prune() == [ended.id]
    assert await runs.stop(grace=0) == []
    assert await here.prune() == [runs.id]


@pytest.mark.parametrize("name", ["record", "request", "exit", "seen", "stopped", "log"])
@pytest.mark.parametrize("kind", ["fifo", "endless"])
async def test_fifo_or_device_as_a_record_does_not_block(name: str, kind: str, here: DetachedJobs) -> None:
    seconds = unique_seconds()
    odd, whole = await here.start("exit 3"), await here.start(f"exec sleep {seconds}")
    await odd.wait(timeout=20)
    for job in (odd, whole):
        (directory_of(job) / name).unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(directory_of(job) / name)
        else:
            (directory_of(job) / name).symlink_to("/dev/zero")
    assert {job.id for job in await here.list()} == {odd.id, whole.id}
    assert await here.prune() == [odd.id]
    assert await whole.stop(grace=0) == []
    assert living(seconds) == []
    assert await here.prune() == [whole.id]


@pytest.mark.skipif(sys.platform != "linux", reason="the record has the clock of /proc")
@pytest.mark.parametrize("kind", ["dash", "bash", "busybox"])
def test_kill_of_a_job_needs_no_room_for_a_file(kind: str, tmp_path: Path) -> None:
    """A user who may not write to the directory of the job can make no file there, as on a full disk."""
    if not is_root():
        missing("root", "run the tests as root")
    ordinary = [shutil.which("setpriv") or "", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    open_to_all(tmp_path)
    shell, env = surroundings(kind, tmp_path)
    process = subprocess.Popen([*ordinary, shutil.which("sleep") or "", "300"], start_new_session=True)
    try:
        while psutil.Process(process.pid).name() != "sleep":
            time.sleep(0.01)
        began = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        job = tmp_path / "jobs" / "0123456789abcdef"
        job.mkdir(parents=True)
        (job / "record").write_text(f"{process.pid} {began} {process.pid} {began} {boot} 1\n")
        for path in (job.parent, job, job / "record"):
            os.chown(path, NOBODY, NOBODY)
        job.parent.chmod(0o700)
        job.chmod(0o500)
        words = detached.look("signal", "KILL", job.name, directory=str(tmp_path / "jobs"))
        said = subprocess.run(
            [*ordinary, *shell, *words[1:]], env=env, capture_output=True, text=True, check=False
        )
        assert f"process {process.pid} {began} sleep" in said.stdout, said
        assert process.wait(timeout=20) == -9
    finally:
        process.kill()
        process.wait()


async def test_stop_reports_a_living_chain_of_forks(tmp_path: Path, anyio_backend: str) -> None:
    """The awk of the machine stops at a NUL byte."""
    beats, end = tmp_path / "beats", tmp_path / "end"
    text = BREEDER.replace("while ", 'while not os.path.exists("end") and ')
    async with Environment.detect(OtherWords({"| awk ": "| busybox awk "}), cwd=tmp_path) as environment:
        try:
            job = await DetachedJobs(environment).start(f"{python_for_all()} -c '{text}'; exit 3")
            wait_until(beats.exists, "the chain")
            left = await job.stop(grace=0)
        finally:
            end.touch()
        assert [info.name for info in left] == ["unknown"]


@pytest.mark.parametrize("times", [4, 5])
async def test_a_list_of_processes_that_is_cut_is_made_again(
    times: int, here: DetachedJobs, tmp_path: Path, anyio_backend: str
) -> None:
    """mawk fails when a process ends while its file is read; what it has printed until then is not the whole."""
    failing_awk(tmp_path / "awk", times)
    seconds = unique_seconds()
    job = await here.start(f"setsid sleep {seconds} & wait")
    wait_asleep(seconds)
    async with Environment.detect(OtherWords({"| awk -v since": f"| {tmp_path}/awk/awk -v since"})) as other:
        same = await DetachedJobs(other).get(job.id)
        if times == 4:
            try:
                left = await same.stop(grace=0)
            except BackendError:  # mawk itself has failed in the only attempt that was left
                (tmp_path / "awk" / "count").unlink()
                left = await same.stop(grace=0)
            assert left == []
        else:
            with pytest.raises(
                BackendError, match="the processes of the host cannot be listed: see whether awk works"
            ):
                await same.stop(grace=0)
            assert await same.stop(grace=0) == []
    assert living(seconds) == []


@pytest.mark.parametrize("kind", ["link", "fifo"])
async def test_a_log_that_was_swapped_is_not_followed(kind: str, here: DetachedJobs, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    job = await here.start("echo mine")
    await job.wait(timeout=20)
    log = Path(job.record.log)
    log.unlink()
    if kind == "fifo":
        os.mkfifo(log)
    else:
        log.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="not a file any more"):
        await job.output()


async def test_job_with_a_broken_record_is_stopped_by_its_mark(here: DetachedJobs) -> None:
    seconds = unique_seconds()
    job = await here.start(f"exec sleep {seconds}")
    wait_asleep(seconds)
    (directory_of(job) / "record").write_text("1 2\n")
    assert await job.refresh() == "lost"
    assert await here.prune() == []
    assert await job.stop(grace=0) == []
    assert living(seconds) == []


async def test_process_that_quotes_the_mark_is_not_stopped(here: DetachedJobs) -> None:
    job = await here.start(f"exec sleep {unique_seconds()}")
    stranger = subprocess.Popen(
        ["sleep", "300"], env={"PATH": os.environ["PATH"], "DUMP": f"a\nANYSHELL_JOB_{job.id}=1\n"}
    )
    try:
        assert await job.stop(grace=0) == []
        assert (job.status, stranger.poll()) == ("stopped", None)
    finally:
        stranger.kill()
        stranger.wait()


async def test_foreign_files_are_neither_listed_nor_removed_nor_made_private(
    here: DetachedJobs, tmp_path: Path
) -> None:
    photos = tmp_path / "photos"
    kept = [photos / "2019" / "a", photos / "cafe" / "b", photos / "0123456789ab" / "c", photos / "1"]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (photos / "two words").mkdir()
    (photos / "ba9876543210").write_text("x")
    for path in photos.iterdir():
        os.utime(path, (0, 0))
    photos.chmod(0o755)
    jobs = DetachedJobs(environment_of(here), directory=str(photos))
    job = await jobs.start("true")
    await job.wait(timeout=20)
    (directory_of(job) / "mine").write_text("x")
    assert [each.id for each in await jobs.list()] == [job.id]
    assert await jobs.prune() == []  # also not directories with other content
    (directory_of(job) / "mine").unlink()
    assert await jobs.prune() == [job.id]
    assert [path.read_text() for path in (*kept, photos / "ba9876543210")] == ["x"] * 5
    assert stat.S_IMODE(photos.stat().st_mode) == 0o755
    photos.chmod(0o775)
    with pytest.raises(SpawnError, match="chmod go-w"):
        await jobs.start("true")
    assert stat.S_IMODE(photos.stat().st_mode) == 0o775


@pytest.mark.parametrize(
    "variables",
    [
        {"LD_PRELOAD": "/nonexistent.so"},
        {"LC_ALL": "xx_XX.UTF-8"},
        {"ANYSHELL_NO_PROC": "1", "ANYSHELL_SCRIPT": "/nowhere"},
        {"anyshell_job": "/nowhere", "anyshell_path": "/nowhere", "anyshell_umask": "0"},
        {"ANYSHELL_JOB_path": "/nowhere", "ANYSHELL_JOB_place": "/nowhere", "ANYSHELL_MARK_x": "1"},
    ],
)
async def test_variables_of_a_job_do_not_change_its_start(
    variables: dict[str, str], here: DetachedJobs
) -> None:
    """Messages of the loader or a shell about a variable on stderr do not count as the answer."""
    job = await here.start("env", env=variables)
    assert await job.refresh() in ("running", "completed")
    assert await job.wait(timeout=20) == "completed"
    found = set((await job.output()).text.splitlines())
    given = {f"{name}={value}" for name, value in variables.items()}
    ours = {entry for entry in given if entry.startswith(("ANYSHELL_JOB_", "ANYSHELL_MARK_"))}
    assert given & found == given - ours
    assert [line for line in found if line.startswith("ANYSHELL_JOB_")] == [f"ANYSHELL_JOB_{job.id}=1"]


async def test_perl_replaces_a_missing_setsid(
    here: DetachedJobs, state_directory: Path, tmp_path: Path
) -> None:
    """macOS has no setsid(1)."""
    seconds = unique_seconds()
    text = detached._text("start").replace("command -v setsid", "false")
    argv = ["/bin/sh", "-c", text, "anyshell", detached._text("job")]
    argv += [
        str(state_directory / "jobs"),
        "0" * 12,
        "1000",
        "",
        json.dumps({"command": "c", "directory": "/"}),
    ]
    done = subprocess.run(
        [*argv, "sleep", seconds], capture_output=True, text=True, start_new_session=True, cwd=tmp_path
    )
    assert done.stdout.startswith("started ")
    job = await here.get("0")
    wait_asleep(seconds)
    assert os.getsid(job.pid) == job.pid
    assert await job.stop() == []
    assert job.status == "stopped"


async def test_jobs_are_identified_without_proc(tmp_path: Path, anyio_backend: str) -> None:
    """On macOS and BSD, dates from ps(1) identify processes."""
    async with Environment.detect(OtherWords({"/proc/": "/nowhere/"}), cwd=tmp_path) as environment:
        here = DetachedJobs(environment)
        seconds = unique_seconds()
        ended = await here.start("exit 3")
        job = await here.start(f"sleep {seconds} & sleep {seconds}; :")
        wait_living(f"sleep {seconds}", 3)
        assert await ended.wait(timeout=20) == "failed"
        assert await job.refresh() == "running"
        assert re.search(r" [A-Z][a-z]{2}-\d+-", (directory_of(job) / "record").read_text())
        assert await job.stop() == []
        assert (job.status, living(seconds)) == ("stopped", [])
        assert set(await here.prune()) == {job.id, ended.id}  # dates of ps(1) have a resolution of seconds


async def test_cancelled_start_leaves_no_process(here: DetachedJobs) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(here.start(f"exec sleep {seconds}"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


async def test_environment_starts_a_detached_job_on_request(here: DetachedJobs) -> None:
    environment = environment_of(here)
    job = await environment.start("echo $WORD", env={"WORD": "there"}, detach=True)
    assert await job.wait(timeout=20) == "completed"
    assert (await job.output()).text == "there\n"
    with pytest.raises(InvalidCommand, match="only cwd, env and reach"):
        await cast("Any", environment).start(
            "true", detach=True, timeout=3
        )  # no type checker lets it through


async def test_many_jobs_start_at_once(here: DetachedJobs) -> None:
    started = await asyncio.gather(*(here.start(f"exit {number}") for number in range(12)))
    for number, job in enumerate(started):
        await job.wait(timeout=20)
        assert job.exit_code == number
    assert {job.id for job in await here.list()} == {job.id for job in started}


async def test_impossible_requests_are_refused_with_a_reason(here: DetachedJobs, tmp_path: Path) -> None:
    with pytest.raises(InvalidCommand, match="NUL"):
        await here.start("a\0b")
    with pytest.raises(InvalidCommand, match="nowhere"):
        await here.start("true", cwd="nowhere")
    with pytest.raises(InvalidCommand, match="absolute"):
        DetachedJobs(environment_of(here), directory="relative")
    with pytest.raises(JobNotFound, match="not an id"):
        await here.get("../x")
    with pytest.raises(JobNotFound, match="no job 0123"):
        await here.get("0123")
    job = await here.start("true")
    odd = cast("Any", None)
    for wrong in (
        job.output(since=-1),
        job.output(since=cast("Any", "x")),
        job.output(since=cast("Any", 1.5)),
        job.output(since=True),
        job.output(limit=0),
        job.output(limit=odd),
        job.wait(timeout=-1),
        job.stop(grace=-1),
        job.stop(grace=odd),
        here.prune(older_than=odd),
        here.get(odd),
        here.start("true", cwd=cast("Any", 5)),
    ):
        with pytest.raises(InvalidCommand, match="must be"):
            await wrong
    past = await job.output(since=10**30, limit=10**30)
    assert (past.data, past.offset, past.total_bytes) == (b"", 10**30, 0)
    (tmp_path / "link").symlink_to(directory_of(job).parent)
    linked = DetachedJobs(environment_of(here), directory=str(tmp_path / "link"))
    with pytest.raises(SpawnError, match="link"):
        await linked.start("true")
    with pytest.raises(BackendError, match="link"):
        await linked.list()


async def test_closed_environment_refuses_detached_jobs(tmp_path: Path, anyio_backend: str) -> None:
    async with Environment.detect(cwd=tmp_path) as environment:
        pass
    with pytest.raises(AnyshellError, match="closed"):
        await DetachedJobs(environment).list()


async def test_jobs_over_the_limit_of_records_are_refused(here: DetachedJobs) -> None:
    job = await here.start("true")
    for number in range(1000):
        (directory_of(job).parent / f"{number:012x}").mkdir()
    began = time.time()
    with pytest.raises(SpawnError, match=r"1000 jobs are recorded.*prune"):
        await here.start("true")
    await job.wait(timeout=20)
    for number in range(3, 1000):
        (directory_of(job).parent / f"{number:012x}").rmdir()
    os.utime(directory_of(job).parent / f"{2:012x}", (began - 3 * 86400,) * 2)
    assert await here.prune() == [job.id, f"{2:012x}"]  # the others may still be starting
