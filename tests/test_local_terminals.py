"""Behaviour particular to terminals of this machine, with both ways to start a program on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import pytest

from anyshell import InvalidCommand
from anyshell._types import ExitStatus, Spawn, Terminal
from anyshell.errors import SpawnError, TerminalUnavailable

from .conftest import missing
from .processes import living, open_descriptors, unique_seconds, wait_asleep
from .sitting import BOUND, sit
from .ssh_server import is_root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

assert sys.platform != "win32"  # on other systems mypy skips the imports below

from anyshell._terminals import TtyModes
from anyshell.backends.local.backend import LocalBackend
from anyshell.backends.local.posix import forking
from anyshell.backends.local.posix.foreground import look
from anyshell.backends.local.posix.spawner import LocalSpawner, default_starter

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["at once", "by ptyprocess"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[LocalBackend]:
    made = LocalBackend(LocalSpawner(forking.start if "ptyprocess" in request.param else None))
    yield made
    await made.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="only there something better is known to work")
def test_default_starter_does_not_fork() -> None:
    assert default_starter() is not forking.start


async def test_only_standard_descriptors_and_the_life_pipe_are_inherited(backend: LocalBackend) -> None:
    extra = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        async with sit(backend, "cd /proc/$$/fd && echo *") as sitting:
            numbers = {int(number) for number in (await sitting.rest()).split()}
    finally:
        os.close(extra)
    numbers -= {3, 255}  # the descriptor of the listed directory, and bash's own
    assert {0, 1, 2} < numbers
    assert len(numbers) == 4
    assert max(numbers) >= 100


async def test_ignored_and_blocked_signals_are_not_inherited(backend: LocalBackend) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        async with sit(backend, "grep -E 'SigBlk|SigIgn' /proc/self/status") as sitting:
            shown = (await sitting.rest()).decode()
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    _, masked, _, ignored = shown.split()
    assert int(masked, 16) == 0
    assert int(ignored, 16) & ~(0b11 << 31) == 0  # two internal signals of glibc, which are never sent


async def test_variables_are_unchanged(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PWD", "/elsewhere"), ("SHLVL", "7"), ("_", "/before"), ("OLDPWD", "/older")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STRANGE-NAME", "line\nb\udcff")
    async with sit(backend, "/usr/bin/env", "-0") as sitting:
        variables = (await sitting.rest()).replace(b"\r\n", b"\n").split(b"\0")
    for expected in (
        b"PWD=/elsewhere",
        b"SHLVL=7",
        b"_=/before",
        b"OLDPWD=/older",
        b"STRANGE-NAME=line\nb\xff",
    ):
        assert expected in variables


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program"])
async def test_a_missing_program_is_a_spawn_error(backend: LocalBackend, program: str) -> None:
    spawn = Spawn(argv=(program,), cwd="/", terminal=Terminal())
    with pytest.raises(SpawnError):
        # The first program of a backend opens descriptors that all of its programs share.
        await backend.spawn(spawn)
    before = open_descriptors()
    with pytest.raises(SpawnError, match=f"{program}: No such file or directory"):
        await backend.spawn(spawn)
    assert open_descriptors() <= before  # garbage of an earlier test may be collected meanwhile


async def test_unrunnable_program_is_a_spawn_error(backend: LocalBackend, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("no program")
    with pytest.raises(SpawnError, match="cannot start"):
        await backend.spawn(Spawn(argv=(str(program),), cwd="/", terminal=Terminal()))


async def test_machine_without_terminals_is_reported(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> tuple[int, int]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "openpty", refuse)
    with pytest.raises(TerminalUnavailable, match="no terminal to give"):
        await backend.spawn(Spawn(argv=("/bin/true",), cwd="/", terminal=Terminal()))


async def test_program_is_found_by_its_given_path_and_directory(
    backend: LocalBackend, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    for name, env in (("program", {"PATH": str(tmp_path)}), ("./program", {})):
        spawn = Spawn(argv=(name,), cwd=str(tmp_path), env=env, terminal=Terminal())
        process = await backend.spawn(spawn)
        assert b"".join([piece async for piece in process.stdout]) == b"found\r\n"
        await process.aclose()


async def test_a_missing_directory_is_refused(backend: LocalBackend) -> None:
    with pytest.raises(InvalidCommand, match="/no/such/place"):
        await backend.spawn(Spawn(argv=("/bin/sh",), cwd="/no/such/place", terminal=Terminal()))


async def test_oversized_arguments_are_a_spawn_error(backend: LocalBackend) -> None:
    with pytest.raises(SpawnError, match="too large"):
        await backend.spawn(Spawn(argv=("/bin/echo", "x" * 200_000), cwd="/", terminal=Terminal()))


async def spawn_often(backend: LocalBackend, spawn: Spawn) -> None:
    for _ in range(3):
        await backend.spawn(spawn)


@pytest.mark.parametrize("left", range(1, 9))
async def test_descriptor_shortage_is_reported_without_leaks(backend: LocalBackend, left: int) -> None:
    seconds = unique_seconds()
    async with sit(backend, "true") as sitting:  # so that all code is loaded
        await sitting.rest()
    gc.collect()  # garbage of other tests
    before = open_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(left):
            os.close(held.pop())
        spawn = Spawn(argv=("/bin/sleep", seconds), cwd="/", terminal=Terminal())
        with pytest.raises(SpawnError, match="too many open files"):
            await spawn_often(backend, spawn)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)
    await backend.aclose()
    assert living(seconds) == []
    assert open_descriptors() <= before


async def test_su_is_recognized_as_waiting_for_a_password(tmp_path: Path) -> None:
    """The state of a program of another user cannot be read, as with a password for sudo."""
    if not is_root():
        missing("root", "run the tests as root, who can become a user for whom su is another user's")
    script = textwrap.dedent(
        """
        import asyncio, os
        from anyshell._types import Spawn, Terminal
        from anyshell.backends.local.backend import LocalBackend

        async def main():
            backend = LocalBackend()
            spawn = Spawn(argv=("/bin/true",), cwd="/", terminal=Terminal())
            process = await backend.spawn(spawn)  # as root, so that everything is loaded
            await process.aclose()
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
            process = await backend.spawn(Spawn(argv=("/bin/su",), cwd="/", terminal=Terminal()))
            shown = b""
            while b"assword" not in shown:
                shown += await process.stdout.receive()
            while True:
                found = await process.foreground()
                if found.asleep_in:
                    break
                await asyncio.sleep(0.01)
            print(found.asleep_in, found.echo, found.line_mode, [each.name for each in found.processes])
            await process.stdin.send(b"\\x03")
            while True:
                try:
                    await process.stdout.receive()
                except Exception:
                    break
            await process.aclose()
            await backend.aclose()

        asyncio.run(main())
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert done.stdout == "poll False True ['su']\n", done.stderr


async def test_foreground_is_known_by_psutil(backend: LocalBackend) -> None:
    """This is the method for macOS, tested here."""
    seconds = unique_seconds()
    async with sit(backend, f"stty -echo; echo ready; exec sleep {seconds}") as sitting:
        await sitting.until("ready")
        await asyncio.to_thread(wait_asleep, seconds)
        assert sitting.process.pid is not None
        settings = TtyModes(echo=False, line_mode=True, end_key=b"\x04")
        found = look(sitting.process.pid, "/dev/pts/0", 0, lambda: settings)
    assert found is not None
    assert [process.name for process in found.processes] == ["sleep"]
    assert (found.asleep_in, found.echo, found.line_mode) == (None, False, True)
    assert found.cpu is not None


@pytest.fixture
def busy() -> Iterator[None]:
    """Three threads that use the processor all the time: each gets as much of it as the tested code."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=work) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # the test is about success, and not about the time of the other threads
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)


async def converse(backend: LocalBackend, text: str) -> None:
    """Start a program on a terminal, type, read its answer, and wait for its end."""
    async with sit(backend, 'read line; echo "got $line"; exit 3') as sitting:
        await sitting.type(f"{text}\n")
        assert (await sitting.rest()).endswith(f"got {text}\r\n".encode())
        assert await sitting.wait() == ExitStatus(code=3)


async def test_five_hundred_terminals_in_turn_leak_no_resources() -> None:
    backend = LocalBackend()
    await converse(backend, "first")
    gc.collect()  # garbage of other tests
    before = open_descriptors(), threading.active_count()
    for number in range(500):
        await converse(backend, str(number))
    assert (open_descriptors(), threading.active_count()) == before
    await backend.aclose()


async def test_forks_beside_busy_threads_leak_no_resources(busy: None) -> None:
    backend = LocalBackend(LocalSpawner(forking.start))
    await converse(backend, "first")
    gc.collect()  # garbage of other tests
    before = open_descriptors(), threading.active_count()
    async with asyncio.timeout(50), asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(converse(backend, str(number)))
    assert (open_descriptors(), threading.active_count()) == before
    await backend.aclose()


async def test_hundred_parallel_terminals_beside_busy_threads_leak_no_resources(busy: None) -> None:
    backend = LocalBackend()
    await converse(backend, "first")
    gc.collect()  # garbage of other tests
    before = open_descriptors(), threading.active_count()
    async with asyncio.timeout(50), asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(converse(backend, str(number)))
    assert (open_descriptors(), threading.active_count()) == before
    await backend.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what holds up a program")
async def test_kernel_functions_replace_hidden_system_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyshell.backends.local.posix.linux.foreground._MACHINE", "of another kind")
    seconds = unique_seconds()
    polls = "import select, sys; select.select([sys.stdin], [], [])"
    backend = LocalBackend()
    for argv in (
        ("cat",),
        ("python3", "-c", polls),
    ):  # for the first program the name of the function shows only a poll
        spawn = Spawn(argv=argv, cwd="/", terminal=Terminal())
        process = await backend.spawn(spawn)
        async with asyncio.timeout(BOUND):
            while (found := await process.foreground()) is None or found.asleep_in != "poll":
                await asyncio.sleep(0.01)
        await process.aclose()
    async with sit(backend, f"cat < <(sleep {seconds})") as sitting:
        await asyncio.to_thread(wait_asleep, seconds)
        found = await sitting.process.foreground()
        assert found is not None
        assert found.asleep_in is None
    await backend.aclose()


@pytest.mark.parametrize("name", ["posix_spawn", "forking"] if sys.platform == "linux" else ["forking"])
@pytest.mark.parametrize("numbers", [(3,), (4, 3), (5, 3, 101), (100, 101), (3, 4, 5, 6)])
def test_descriptors_are_inherited_at_their_own_numbers(name: str, numbers: tuple[int, ...]) -> None:
    script = textwrap.dedent(
        f"""
        import os
        from anyshell._types import Terminal
        from anyshell.backends.local.posix import {name} as starter
        from anyshell.backends.local.posix.starter import ProgramStart

        null = os.open(os.devnull, os.O_RDWR)
        for number in (3, 4, 5, 6, 100, 101):
            if number != null:
                os.dup2(null, number, inheritable=number == 6)
        env = {{b"PATH": os.fsencode(os.environ["PATH"])}}
        text = "for n in /proc/$$/fd/*; do echo ${{n##*/}}=$(readlink $n); done"
        program = ProgramStart(argv=("sh", "-c", text), cwd="/", env=env, inherited={numbers})
        started = starter.start(program, Terminal())
        os.close(started.slave)
        shown = b""
        try:
            while data := os.read(started.master, 4096):
                shown += data
        except OSError:
            pass
        print(shown.decode().replace("\\r", ""), end="")
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    found = dict(line.split("=") for line in done.stdout.split())
    assert {number for number in found if found[number] == os.devnull} == set(map(str, numbers)), done.stderr
    assert {found[number] for number in "012"} & {os.devnull} == set()
