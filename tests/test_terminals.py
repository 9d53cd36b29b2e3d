"""The contract of terminals for every backend that has them; a new backend adds a parameter.

Programs are started without the shell layer, and their output is read as bytes. The meaning of the bytes is tested
in ``test_terminal_output.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import InvalidCommand
from anyshell._types import ExitStatus, Spawn, Terminal
from anyshell.backends import connect
from anyshell.shells import Login

from .conftest import SSH_HOSTS, open_to_all
from .processes import STARTED, living, unique_seconds, wait_asleep, wait_living
from .sitting import BOUND, Sitting, sit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell._types import Foreground
    from anyshell.abc import Backend

    from .ssh_server import Server

assert sys.platform != "win32"  # else mypy checks the imports below on every platform

from anyshell.backends.local.backend import LocalBackend
from anyshell.backends.local.posix import forking
from anyshell.backends.local.posix.spawner import LocalSpawner

pytestmark = pytest.mark.anyio

LOCAL = ["local", "local by ptyprocess"]
"""This machine, by the better way to start on a terminal and by the fallback."""


HOSTS = SSH_HOSTS[1:]
"""Other hosts: OpenSSH with an ordinary user, and another server."""


@pytest.fixture(params=[*LOCAL, *HOSTS])
async def backend(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server]
) -> AsyncIterator[Backend]:
    """Every backend that has terminals."""
    made: Backend
    if request.param in HOSTS:
        made = connect(ssh_host(request.param).options(), launcher=Login)
    else:
        made = LocalBackend(LocalSpawner(forking.start if "ptyprocess" in request.param else None))
    yield made
    await made.aclose()


@contextlib.asynccontextmanager
async def sit_at_bash(backend: Backend) -> AsyncIterator[Sitting]:
    """Start an interactive bash, and wait for its prompt."""
    env = {"PS1": "ready> ", "HISTFILE": "", "TERM": "dumb"}
    async with sit(backend, "/bin/bash", "--norc", "--noprofile", "-i", env=env) as sitting:
        await sitting.until("ready> ")
        yield sitting


async def test_a_program_has_a_controlling_terminal(backend: Backend) -> None:
    text = "tty; ls -l /proc/self/fd/0 | grep -o '/dev/pts.*'; echo by name >/dev/tty; ps -o tty= $$; "
    async with sit(backend, f"{text} test -t 0 -a -t 1 -a -t 2 && echo all") as sitting:
        shown = (await sitting.rest()).decode().split("\r\n")
    tty = shown[0]
    assert tty.startswith("/dev/pts/")
    assert shown == [tty, tty, "by name", f"{tty.removeprefix('/dev/')}   "[: len(shown[3])], "all", ""]


async def test_output_is_shown_exactly_with_line_ends_of_a_terminal(
    backend: Backend,
) -> None:
    async with sit(backend, "echo out; echo err >&2; printf 'no end'") as sitting:
        assert await sitting.rest() == b"out\r\nerr\r\nno end"
        assert await sitting.wait() == ExitStatus(code=0)


async def test_terminal_has_the_requested_size_and_kind(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "7")
    monkeypatch.setenv("LINES", "7")
    monkeypatch.setenv("TERM", "vt52")
    text = "echo $TERM ${COLUMNS-unset} ${LINES-unset}; stty size"
    async with sit(backend, text, columns=132, rows=43) as sitting:
        assert await sitting.rest() == b"xterm-256color unset unset\r\n43 132\r\n"


async def test_variables_of_the_callers_own_win(backend: Backend) -> None:
    async with sit(backend, "echo $TERM $LINES", env={"TERM": "dumb", "LINES": "5"}) as sitting:
        assert await sitting.rest() == b"dumb 5\r\n"


async def test_a_new_size_reaches_the_foreground(backend: Backend) -> None:
    async with sit(
        backend, "trap 'stty size' WINCH; sleep 300 & echo ready; while :; do wait; done"
    ) as sitting:
        await sitting.until("ready")
        await sitting.process.resize(Terminal(columns=50, rows=10))
        await sitting.until("10 50\r\n")


async def test_resize_after_the_end_does_nothing(backend: Backend) -> None:
    async with sit(backend, "true") as sitting:
        await sitting.rest()
        await sitting.process.resize(Terminal(columns=50, rows=10))
        await sitting.wait()
        await sitting.process.resize(Terminal(columns=51, rows=10))
    await sitting.process.resize(Terminal(columns=52, rows=10))


async def test_the_interrupt_key_ends_the_foreground(backend: Backend) -> None:
    async with sit(backend, "echo ready; exec sleep 300") as sitting:
        await sitting.until("ready")
        await sitting.type("\x03")
        assert await sitting.wait() == ExitStatus(signal="SIGINT")


async def test_interrupt_key_reaches_the_foreground_job_and_not_its_shell(backend: Backend) -> None:
    seconds = unique_seconds()
    async with sit_at_bash(backend) as sitting:
        await sitting.type(f"sleep {seconds}; echo after $?\n")
        await asyncio.to_thread(wait_living, f"sleep {seconds}")
        await sitting.type("\x03")
        await sitting.until("ready> ")
        assert living(f"sleep {seconds}") == []
        await sitting.type("exit 5\n")
        await sitting.rest()
        assert await sitting.wait() == ExitStatus(code=5)


async def wait_in_front(sitting: Sitting, name: str) -> None:
    """Wait until a program is in the foreground and reads, with the terminal settings of its shell."""
    async with asyncio.timeout(BOUND):
        while True:
            found = await sitting.process.foreground()
            reads = found and found.line_mode and found.echo and found.asleep_in is not None
            if found and reads and [process.name for process in found.processes] == [name]:
                return
            await asyncio.sleep(0.01)


async def test_job_control_works(backend: Backend) -> None:
    async with sit_at_bash(backend) as sitting:
        assert b"job control" not in sitting.shown
        await sitting.type("cat\n")
        await wait_in_front(sitting, "cat")
        await sitting.type("line\n")
        await sitting.until("line\r\nline\r\n")
        await sitting.type("\x1a")
        assert "Stopped" in await sitting.until("ready> ")
        await sitting.type("jobs\n")
        await sitting.until("Stopped")
        await sitting.until("ready> ")
        await sitting.type("fg\n")
        await wait_in_front(sitting, "cat")
        await sitting.type("more\n")
        await sitting.until("more\r\nmore\r\n")
        await sitting.type("\x04")
        await sitting.until("ready> ")


@pytest.mark.parametrize("typed", ["", "line\n", "line\nbegun"])
async def test_closed_input_is_end_of_file_and_keeps_the_terminal(backend: Backend, typed: str) -> None:
    async with sit(backend, "stty -echo; echo ready; cat; echo over; stty size") as sitting:
        await sitting.until("ready\r\n")
        await sitting.type(typed)
        await sitting.keys.aclose()
        expected = "ready\r\n" + typed.replace("\n", "\r\n") + "over\r\n24 80\r\n"
        assert (await sitting.rest()).decode() == expected
        assert await sitting.wait() == ExitStatus(code=0)
        with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
            await sitting.type("x")


async def test_more_can_be_typed_after_the_end_of_file(backend: Backend) -> None:
    async with sit(backend, "stty -echo; echo ready; cat; echo over; read x; echo $x") as sitting:
        await sitting.until("ready\r\n")
        await sitting.keys.aclose()
        await sitting.until("over\r\n")
        await sitting.keys.aclose()  # has no further effect
        await sitting.type("more\n")
        assert await sitting.rest() == b"ready\r\nover\r\nmore\r\n"


async def test_end_of_file_types_no_key_in_raw_mode(backend: Backend) -> None:
    async with sit(backend, "stty raw -echo; echo ready; read -t 0.3 -n 1 key; echo $? [$key]") as sitting:
        await sitting.until("ready")
        await sitting.keys.aclose()
        assert (await sitting.rest()).endswith(b"142 []\n")


@pytest.mark.parametrize("end", ["exit 3", "kill -KILL $$"])
async def test_the_last_bytes_before_the_end_are_never_lost(backend: Backend, end: str) -> None:
    expected = ExitStatus(code=3) if end == "exit 3" else ExitStatus(signal="SIGKILL")
    for _ in range(4):
        async with sit(backend, f"head -c 2000 /dev/zero | tr '\\0' x; printf end; {end}") as sitting:
            assert await sitting.wait() == expected
            assert await sitting.rest() == b"x" * 2000 + b"end"  # the bytes were still in the terminal
        async with sit(backend, f"head -c 300000 /dev/zero | tr '\\0' x; printf end; {end}") as sitting:
            assert await sitting.rest() == b"x" * 300_000 + b"end"
            assert await sitting.wait() == expected


async def test_program_can_close_and_reopen_its_terminal(backend: Backend) -> None:
    text = "echo before; exec 0<&- 1>&- 2>&-; sleep 0.2; echo again >/dev/tty"
    async with sit(backend, text) as sitting:
        assert await sitting.rest() == b"before\r\nagain\r\n"


async def test_any_byte_can_be_typed_and_shown(backend: Backend) -> None:
    async with sit(backend, "stty raw -echo; echo ready; head -c 256 | od -An -v -tu1 -w256") as sitting:
        await sitting.until("ready\n")
        await sitting.keys.send(bytes(range(256)))
        shown = (await sitting.rest()).split(b"\n")[1]
    assert [int(word) for word in shown.split()] == list(range(256))


async def test_typed_text_shows_once(backend: Backend) -> None:
    async with sit(backend, "echo ready; read line; echo got $line") as sitting:
        await sitting.until("ready\r\n")
        await sitting.type("grüße\n")
        assert (await sitting.rest()).decode() == "ready\r\ngrüße\r\ngot grüße\r\n"


async def test_backspace_removes_a_whole_multibyte_character(backend: Backend) -> None:
    async with sit(backend, "stty -echo; echo ready; read line; echo got $line") as sitting:
        await sitting.until("ready\r\n")
        await sitting.type("aü\x7fb\n")
        assert (await sitting.rest()).decode() == "ready\r\ngot ab\r\n"


async def test_ten_megabytes_are_taken_line_by_line(backend: Backend) -> None:
    line = b"x" * 1023 + b"\n"
    async with sit(backend, "stty -echo; echo ready; sum=$(cat | wc -c); echo sum $sum") as sitting:
        await sitting.until("ready\r\n")
        async with asyncio.timeout(BOUND):
            await sitting.keys.send(line * 10240)
            await sitting.keys.aclose()
        assert (await sitting.rest()).endswith(b"sum 10485760\r\n")


async def test_typing_for_a_slow_reader_waits_without_blocking_other_tasks(
    backend: Backend,
) -> None:
    async with sit(backend, "stty -echo; echo ready; sleep 300") as sitting:
        await sitting.until("ready")
        typing = asyncio.create_task(sitting.keys.send(b"line\n" * 1_000_000))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not typing.done()
        typing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await typing


async def test_typing_after_the_end_is_an_error(backend: Backend) -> None:
    async with sit(backend, "true") as sitting:
        await sitting.rest()
        await sitting.wait()
        with pytest.raises(anyio.BrokenResourceError):
            await sitting.type("hello\n")


async def test_blocked_typing_ends_with_its_program(backend: Backend) -> None:
    async with sit(backend, "stty -echo; echo ready; read -n 1 -t 0.3; exit 4") as sitting:
        await sitting.until("ready")
        with pytest.raises(anyio.BrokenResourceError):
            async with asyncio.timeout(BOUND):
                await sitting.keys.send(b"line\n" * 1_000_000)
        assert await sitting.wait() == ExitStatus(code=4)


async def test_a_line_that_the_terminal_would_cut_is_refused(backend: Backend) -> None:
    async with sit(backend, "stty -echo; echo ready; read line; echo ${#line}; wc -c") as sitting:
        await sitting.until("ready\r\n")
        with pytest.raises(InvalidCommand, match="shorter lines"):
            await sitting.type("short\n" + "x" * 4096 + "\n")
        await sitting.type("x" * 2000)
        with pytest.raises(InvalidCommand, match="4,095"):
            await sitting.type("x" * 2096)
        await sitting.type("x" * 2095 + "\n")
        await sitting.type("y" * 4095)
        await sitting.keys.aclose()
        assert await sitting.rest() == b"ready\r\n4095\r\n4095\r\n"


async def test_line_of_any_length_can_be_typed_in_raw_mode(backend: Backend) -> None:
    async with sit(backend, "stty raw -echo; echo ready; head -c 100000 | wc -c") as sitting:
        await sitting.until("ready\n")
        await sitting.keys.send(b"x" * 100_000)
        assert (await sitting.rest()).endswith(b"100000\n")


async def test_closing_ends_the_whole_session(backend: Backend) -> None:
    seconds = unique_seconds()
    async with sit_at_bash(backend) as sitting:
        for words in (
            "sleep {} &",
            "setsid sleep {} &",
            "nohup sleep {} &",
            "(trap '' HUP TERM; sleep {}) &",
        ):
            await sitting.type(words.format(seconds) + "\n")
        await sitting.type(f"sleep {seconds}\n")
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 5)
    assert living(seconds) == []
    assert not await sitting.process.survivors()


async def test_terminate_ends_an_interactive_shell_and_its_jobs(backend: Backend) -> None:
    seconds = unique_seconds()
    async with sit_at_bash(backend) as sitting:
        await sitting.type(f"sleep {seconds} &\n")
        await sitting.type(f"sleep {seconds}\n")
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        await sitting.process.send_signal("terminate")
        assert await sitting.wait() == ExitStatus(signal="SIGHUP")
        async with asyncio.timeout(BOUND):
            await sitting.process.wait_gone()
        assert living(seconds) == []


async def test_terminate_wakes_a_suspended_program(backend: Backend) -> None:
    async with sit(backend, "trap 'exit 9' TERM; echo ready; kill -STOP $$; sleep 300") as sitting:
        await sitting.until("ready")
        await sitting.process.send_signal("terminate")
        async with asyncio.timeout(BOUND):
            await sitting.process.wait_gone()


async def test_background_process_ends_with_its_shell(backend: Backend) -> None:
    async with sit(backend, "sleep 300 & sleep 0.05; echo over") as sitting:
        assert await sitting.rest() == b"over\r\n"
        await sitting.wait()
        async with asyncio.timeout(BOUND):
            while await sitting.process.survivors():  # a killed process needs a processor to end
                await asyncio.sleep(0.03)


CLOSES_ALL = 'import subprocess as s; n = s.DEVNULL; s.Popen(["sleep", "{}"], stdin=n, stdout=n, stderr=n)'


@pytest.mark.parametrize(
    "text",
    [
        f"nohup sleep {{}} >/dev/null 2>&1 & {STARTED}",
        f"trap '' HUP; sleep {{}} & {STARTED}",
        f"setsid sleep {{}} & {STARTED}",
        f"set -m; sleep {{}} >/dev/null 2>&1 </dev/null & {STARTED}",
        f"set -m; python3 -c '{CLOSES_ALL}' & wait",
    ],
    ids=["nohup", "trap", "setsid", "another group", "another group without any pipe"],
)
async def test_survivors_of_a_program_are_named(backend: Backend, text: str) -> None:
    seconds = unique_seconds()
    async with sit(backend, text.format(seconds)) as sitting:
        assert (await sitting.wait()).code == 0
        with anyio.move_on_after(0.1):
            await sitting.rest()
        assert [process.name for process in await sitting.process.survivors()] == ["sleep"]
    assert living(seconds) == []


async def test_released_process_goes_on_and_can_write(backend: Backend, tmp_path: Path) -> None:
    open_to_all(tmp_path)
    go, done = tmp_path / "go", tmp_path / "done"
    waiting = f"until test -e {go}; do sleep 0.01; done"
    async with sit(
        backend, f"trap '' HUP; ({waiting}; head -c 1000000 /dev/zero; touch {done}) &"
    ) as sitting:
        await sitting.wait()
        await sitting.process.release()
        go.touch()
        give_up = time.monotonic() + BOUND
        while not done.exists():
            assert time.monotonic() < give_up
            await asyncio.sleep(0.01)


async def test_a_flood_can_be_closed(backend: Backend) -> None:
    word = f"flood{random.randrange(10**9)}"
    async with sit(backend, f"yes {word} & yes {word}") as sitting:
        await sitting.until(word)
    assert living(f"yes {word}") == []


async def test_a_killed_program_leaves_nothing(backend: Backend) -> None:
    seconds = unique_seconds()
    async with sit(backend, f"stty raw -echo; sleep {seconds} & echo ready; kill -KILL $$") as sitting:
        assert await sitting.wait() == ExitStatus(signal="SIGKILL")
    assert living(seconds) == []


async def test_program_without_a_terminal_cannot_open_one(backend: Backend) -> None:
    process = await backend.spawn(Spawn(argv=("/bin/sh", "-c", "exec 3<>/dev/tty"), cwd="/"))
    assert b"No such device or address" in b"".join([piece async for piece in process.stdout])
    assert (await process.wait()).code not in (0, None)
    assert await process.foreground() is None
    await process.resize(Terminal())
    await process.aclose()


async def test_a_long_text_is_read_from_its_descriptor(backend: Backend) -> None:
    argv = ("/bin/bash", "-c", '. "$ANYSHELL_SCRIPT"')
    async with sit(backend, *argv, script="echo long " + "x" * 200_000) as sitting:
        assert await sitting.rest() == b"long " + b"x" * 200_000 + b"\r\n"


async def foreground_when(sitting: Sitting, asleep: str | None, name: str = "") -> Foreground:
    """Ask for the foreground until its process is asleep as expected, and runs the program of that name."""
    give_up = time.monotonic() + BOUND
    while True:
        found = await sitting.process.foreground()
        assert found is not None
        there = not name or name in {process.name for process in found.waiting}
        if (there and found.asleep_in == asleep) or time.monotonic() > give_up:
            return found
        await asyncio.sleep(0.01)


WAITING = {
    "cat": ("read", True, True, "cat"),
    "read line": ("read", True, True, "bash"),
    "cat </dev/tty": ("read", True, True, "cat"),
    "stty -echo; read password": ("read", False, True, "bash"),
    "stty raw -echo; head -c 1": ("read", False, False, "head"),
    "bash --norc --noprofile -i": ("read", False, False, "bash"),
    "python3 -c 'import select, sys; select.select([sys.stdin], [], [], 300)'": (
        "poll",
        True,
        True,
        "python3",
    ),
    "python3 -c 'import select; p = select.poll(); p.register(0, 1); p.poll()'": (
        "poll",
        True,
        True,
        "python3",
    ),
    "python3 -c 'import threading, sys, time; threading.Thread(target=sys.stdin.read).start(); time.sleep(300)'": (
        "read",
        True,
        True,
        "python3",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what holds up a program")
@pytest.mark.parametrize("text", list(WAITING))
async def test_program_that_waits_for_input_is_found(backend: Backend, text: str) -> None:
    async with sit(backend, f"{text}; :") as sitting:
        found = await foreground_when(sitting, WAITING[text][0], WAITING[text][3])
        assert (found.asleep_in, found.echo, found.line_mode) == WAITING[text][:3]
        assert WAITING[text][3] in {process.name for process in found.processes}
        assert {*found.waiting} <= {*found.processes}
        assert WAITING[text][3] in {process.name for process in found.waiting}
        assert found.cpu is not None


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what holds up a program")
async def test_program_stopped_while_reading_is_not_waiting(backend: Backend) -> None:
    async with sit(backend, "exec cat") as sitting:
        await foreground_when(sitting, "read")
        await anyio.run_process(["kill", "-STOP", str(sitting.process.pid)])
        found = await foreground_when(sitting, None)
        assert found.waiting == ()


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what holds up a program")
@pytest.mark.parametrize("text", ["sleep {}", "sleep {} | cat", "sleep {} </dev/null & cat < <(sleep {})"])
async def test_program_that_waits_for_another_event_is_not_waiting_for_input(
    backend: Backend, text: str
) -> None:
    seconds = unique_seconds()
    async with sit(backend, text.format(seconds, seconds)) as sitting:
        await asyncio.to_thread(wait_asleep, seconds)
        for _ in range(5):
            found = await sitting.process.foreground()
            assert found is not None
            assert (found.asleep_in, found.waiting) == (None, ())
            await asyncio.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else tells what holds up a program")
async def test_program_that_polls_nothing_is_asleep(backend: Backend) -> None:
    polls = "threading.Thread(target=lambda: select.poll().poll(300000)).start()"
    text = f"python3 -uc 'import select, threading; {polls}; print(1); select.select([], [], [], 300)'; :"
    async with sit(backend, text) as sitting:
        await sitting.until("1")
        for _ in range(5):
            found = await sitting.process.foreground()
            assert found is not None
            assert (found.asleep_in, found.waiting) == (None, ())
            await asyncio.sleep(0.02)


async def test_the_foreground_is_the_job_in_front(backend: Backend) -> None:
    seconds = unique_seconds()
    async with sit_at_bash(backend) as sitting:
        await sitting.type(f"sleep {seconds} &\n")
        await sitting.until("ready> ")
        found = await sitting.process.foreground()
        assert found is not None
        assert [process.name for process in found.processes] == ["bash"]
        await sitting.type(f"sleep {seconds}\n")
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        found = await foreground_when(sitting, None)
        assert [process.name for process in found.processes] == ["sleep"]


async def test_processor_time_of_a_busy_foreground_grows(backend: Backend) -> None:
    async with sit(backend, "while :; do :; done") as sitting:
        give_up = time.monotonic() + BOUND
        while True:
            found = await sitting.process.foreground()
            assert found is not None
            assert found.asleep_in is None
            if found.cpu:
                break
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)


async def test_foreground_is_absent_after_the_end(backend: Backend) -> None:
    async with sit(backend, "true") as sitting:
        await sitting.rest()
        await sitting.wait()
        found = await sitting.process.foreground()
        assert found is None or found.processes == ()
    assert await sitting.process.foreground() is None
