"""Terminals of Windows: the behaviour of both kinds, and the choice of a kind.

Programs are Python's, and their terminals are read as bytes, which are then drawn: a terminal of Windows passes on
no exact copy of the output. PowerShell stands for the shell of a person or a model.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from anyshell import Environment, InvalidCommand, ShellTool, ToolLimits, approve_all
from anyshell._exceptions import BackendError
from anyshell._types import ExitStatus, Spawn, Terminal
from anyshell.backends import connect
from anyshell.errors import SpawnError, TerminalUnavailable
from anyshell.output import TerminalOutput
from anyshell.shells import Login
from anyshell.terminal.keys import encode

from .sitting import BOUND, Sitting, sit
from .systems import SYSTEM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.abc import Backend
    from anyshell.types import SecretRequest

if sys.platform != "win32":
    pytest.skip("terminals of Windows", allow_module_level=True)
assert sys.platform == "win32"  # else mypy checks the imports below on every platform

from anyshell.backends.local.windows import terminals as windows_terminals
from anyshell.backends.local.windows.terminals import TerminalReceiveStream

pytestmark = pytest.mark.anyio

KIND = "conpty" if SYSTEM == "windows" else "winpty"
"""The default kind: Wine has no working ConPTY."""


@pytest.fixture(params=["winpty", "conpty"] if SYSTEM == "windows" else ["winpty"])
async def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Backend]:
    """This machine, with each of its kinds of terminals."""
    monkeypatch.setenv("PYWINPTY_BACKEND", "1" if request.param == "winpty" else "0")
    made = connect("local", launcher=Login)
    yield made
    await made.aclose()


@pytest.fixture
async def env(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """PowerShell, with the default kind of terminals."""
    async with Environment.detect(shell="pwsh", cwd=tmp_path) as environment:
        yield environment


def python(code: str) -> tuple[str, ...]:
    """The words that run a text of Python with a fast start."""
    return (sys.executable, "-S", "-c", code)


@contextlib.asynccontextmanager
async def sit_at(
    backend: Backend, code: str, *, columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
) -> AsyncIterator[Sitting]:
    """Start Python on a terminal."""
    async with sit(backend, *python(code), columns=columns, rows=rows, env=env) as sitting:
        yield sitting


def drawn(shown: bytes, columns: int = 80, rows: int = 24) -> str:
    """The text that a person would have seen."""
    output = TerminalOutput(Terminal(columns=columns, rows=rows))
    output.feed(shown)
    return output.finish().text


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("anyshell")]


async def wait_gone(pid: int) -> None:
    async with asyncio.timeout(BOUND):
        while psutil.pid_exists(pid):
            await asyncio.sleep(0.02)


async def test_program_has_a_terminal_of_the_requested_size_and_kind(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "LINES", "TERM"):
        monkeypatch.setenv(name, "7")
    code = (
        "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty());"
        "print(*os.get_terminal_size()); e = os.environ; print(e['TERM'], e.get('COLUMNS'), e.get('LINES'))"
    )
    async with sit_at(backend, code, columns=120, rows=43) as sitting:
        shown = drawn(await sitting.rest(), 120, 43)
    assert shown == "True True True\n120 43\nxterm-256color None None\n"


async def test_variables_of_the_callers_own_win(backend: Backend) -> None:
    code = "import os; print(os.environ['TERM'], os.environ['LINES'])"
    async with sit_at(backend, code, env={"term": "dumb", "LINES": "5"}) as sitting:
        assert drawn(await sitting.rest()) == "dumb 5\n"


@pytest.mark.parametrize("code", [0, 3, 0xC0000005])
async def test_last_lines_and_exit_code_are_reported(backend: Backend, code: int) -> None:
    expected = "".join(f"{number} grüße\n" for number in range(20))
    text = f"import os; print({expected!r}, end='', flush=True); os._exit({code} - (2**32 if {code} >> 31 else 0))"
    async with sit_at(backend, text) as sitting:
        reading = asyncio.create_task(sitting.rest())
        assert await sitting.wait() == ExitStatus(code=code)
        assert drawn(await reading) == expected


async def test_typed_text_shows_once_and_is_read_with_line_feed_as_enter(backend: Backend) -> None:
    code = "print('ready'); print('got', ascii([input(), input(), input()]))"
    async with sit_at(backend, code) as sitting:
        await sitting.until("ready")
        for piece in (
            "gr\xfc".encode()[:3],
            "\xfc".encode()[1:],
            "\xdfe\r".encode(),
            b"\ntwo\n",
            b"three\r\n",
        ):
            await sitting.keys.send(piece)
        shown = drawn(await sitting.rest())
    assert shown == "ready\ngrüße\ntwo\nthree\ngot ['gr\\xfc\\xdfe', 'two', 'three']\n"


KEYS = """
import msvcrt
print('ready', flush=True)
while (key := msvcrt.getwch()) != 'q':
    if key in '\\x00\\xe0':
        key += msvcrt.getwch()
    print(key.encode('unicode_escape').decode(), flush=True)
"""


async def test_keys_arrive_as_keys(backend: Backend) -> None:
    """Escape, too, which may begin another key: WinPTY asks for the position of the cursor, and waits for the answer."""
    keys = {
        "a": "a", "é": r"\xe9", "Enter": r"\r", "Tab": r"\t", "Backspace": r"\x08", "Escape": r"\x1b",
        "Up": r"\xe0H", "Delete": r"\xe0S", "PageDown": r"\xe0Q", "Ctrl-A": r"\x01", "Ctrl-Left": r"\xe0s",
    }  # fmt: skip
    async with sit_at(backend, KEYS) as sitting:
        await sitting.until("ready")
        for key, arrived in keys.items():
            await sitting.keys.send(encode(key))
            await sitting.until(arrived)
        await sitting.type("q")
        await sitting.rest()


@pytest.mark.parametrize("typed", ["", "line\n", "line\nbegun"])
async def test_closed_input_is_end_of_file_and_keeps_the_terminal(backend: Backend, typed: str) -> None:
    code = "import sys; print('ready'); print('read', ascii(sys.stdin.read())); print('then', input())"
    async with sit_at(backend, code) as sitting:
        await sitting.until("ready")
        await sitting.type(typed)
        await sitting.keys.aclose()
        await sitting.until("read")
        await sitting.keys.aclose()  # has no further effect
        await sitting.type("more\n")
        shown = drawn(await sitting.rest())
    read = typed and typed.removesuffix("\n") + "\n"  # an unfinished line must be ended
    assert shown.endswith(f"read {read!r}\nmore\nthen more\n")


async def test_typing_after_the_end_is_an_error(backend: Backend) -> None:
    async with sit_at(backend, "pass") as sitting:
        await sitting.wait()
        with pytest.raises(anyio.BrokenResourceError):
            await sitting.type("hello\n")
        await sitting.keys.aclose()
    with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
        await sitting.type("hello\n")


async def test_resize_reaches_the_program_and_does_nothing_after_the_end(backend: Backend) -> None:
    code = "import os; print('ready'); input(); print('size', *os.get_terminal_size())"
    async with sit_at(backend, code) as sitting:
        await sitting.until("ready")
        await sitting.process.resize(Terminal(columns=50, rows=10))
        await sitting.type("\n")
        await sitting.until("size 50 10")
        await sitting.wait()
        await sitting.process.resize(Terminal(columns=51, rows=10))
    await sitting.process.resize(Terminal(columns=52, rows=10))


SLEEPER = """
import time
print('ready', flush=True)
try:
    time.sleep(300)
except KeyboardInterrupt:
    print('interrupted', flush=True)
    raise SystemExit(9)
"""


@pytest.mark.parametrize("how", ["key", "interrupt", "terminate"])
async def test_interrupt_key_and_signals_reach_the_program(backend: Backend, how: str) -> None:
    async with sit_at(backend, SLEEPER) as sitting:
        await sitting.until("ready")
        if how == "key":
            await sitting.type("\x03")
        else:
            await sitting.process.send_signal("interrupt" if how == "interrupt" else "terminate")
        await sitting.until("interrupted")
        assert await sitting.wait() == ExitStatus(code=9)


DEAF = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sleep = 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print("deaf", flush=True); time.sleep(300)'
child = subprocess.Popen([sys.executable, '-S', '-c', sleep], stdout=subprocess.PIPE)
child.stdout.readline()
print('child', child.pid, 'ready', flush=True)
child.wait()
"""


async def test_program_that_ignores_terminate_is_killed_with_its_tree(backend: Backend) -> None:
    async with sit_at(backend, DEAF) as sitting:
        await sitting.until("child ")
        child = int(await sitting.until(" ready"))
        await sitting.process.send_signal("terminate")
        assert {sitting.process.pid, child} <= {each.pid for each in await sitting.process.survivors()}
        await sitting.process.send_signal("kill")
        async with asyncio.timeout(BOUND):
            await sitting.process.wait_gone()
            assert await sitting.wait() == ExitStatus()  # its own exit code is unknown
    await wait_gone(child)


async def test_closing_a_terminal_ends_its_processes_and_threads(
    backend: Backend,
) -> None:
    async with sit_at(backend, DEAF) as sitting:
        await sitting.until("child ")
        child = int(await sitting.until(" ready"))
    assert await sitting.process.survivors() == []
    await wait_gone(child)
    with pytest.raises(anyio.ClosedResourceError):
        await sitting.process.stdout.receive()
    async with asyncio.timeout(BOUND):
        while threads():
            await asyncio.sleep(0.02)


async def test_process_left_behind_does_not_outlive_its_terminal(backend: Backend) -> None:
    code = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(300)'])
print('child', child.pid, 'ready', flush=True)
"""
    async with sit_at(backend, code) as sitting:
        await sitting.until("child ")
        child = int(await sitting.until(" ready"))
        assert await sitting.wait() == ExitStatus(code=0)
        # WinPTY closes the console with the program, and Windows ends the other processes of the console.
        assert {each.pid for each in await sitting.process.survivors()} <= {child}
    await wait_gone(child)


async def test_terminal_ends_with_its_killed_owner(backend: Backend) -> None:
    """The owner is killed, and so cannot clean up."""
    code = """
import asyncio, sys
from anyshell._types import Spawn, Terminal
from anyshell.backends import connect
from anyshell.shells import Login

async def main():
    backend = connect('local', launcher=Login)
    argv = (sys.executable, '-S', '-c', 'import time; time.sleep(300)')
    process = await backend.spawn(Spawn(argv=argv, cwd='C:\\\\', terminal=Terminal()))
    print(process.pid, flush=True)
    await process.wait()

asyncio.run(main())
"""
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert owner.stdout is not None
    with owner, owner.stdout:
        pid = int(await asyncio.to_thread(owner.stdout.readline))
        assert psutil.pid_exists(pid)
        owner.kill()
    await wait_gone(pid)


async def test_ended_terminals_hold_no_handles(backend: Backend) -> None:
    kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
    count = ctypes.c_ulong()

    async def handles() -> int:
        async with asyncio.timeout(BOUND):
            while threads():
                await asyncio.sleep(0.02)
        assert kernel32.GetProcessHandleCount(ctypes.c_void_p(-1), ctypes.byref(count))
        return count.value

    async def use() -> None:
        async with sit_at(backend, "print('hello')") as sitting:
            await sitting.rest()
            await sitting.wait()

    await use()
    before = await handles()
    for _ in range(4):
        await use()
    assert await handles() <= before


def program_of(process: psutil.Process) -> str:
    """The path of a process; empty if it has ended, which Wine reports in a way that psutil does not expect."""
    try:
        return process.exe()
    except (psutil.Error, OSError):
        return ""


async def test_cancelled_start_leaves_nothing(backend: Backend) -> None:
    for turns in (1, 3, 30):
        task = asyncio.ensure_future(
            backend.spawn(Spawn(argv=python("input()"), cwd="C:\\", terminal=Terminal()))
        )
        for _ in range(turns):
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task.result().aclose()
    async with asyncio.timeout(BOUND):
        while threads():
            await asyncio.sleep(0.02)
    left = [process for process in psutil.Process().children() if "agent" in program_of(process)]
    psutil.wait_procs(left, timeout=BOUND)
    assert not [process for process in left if process.is_running()]


async def test_terminals_are_independent(backend: Backend) -> None:
    code = "import time; print('ready'); print('got', input())"
    async with sit_at(backend, code) as one, sit_at(backend, code, columns=40) as other:
        await asyncio.gather(one.until("ready"), other.until("ready"))
        await other.type("other\n")
        assert drawn(await other.rest(), 40) == "ready\nother\ngot other\n"
        await one.type("one\n")
        assert drawn(await one.rest()) == "ready\none\ngot one\n"


async def test_foreground_of_a_terminal_does_not_name_the_reader(backend: Backend) -> None:
    async with sit_at(backend, "print('ready'); input()") as sitting:
        await sitting.until("ready")
        seat = await sitting.process.foreground()
        assert seat is not None
        assert [process.pid for process in seat.processes] == [sitting.process.pid]
        assert (seat.asleep_in, seat.echo, seat.line_mode) == (None, None, None)
        assert seat.cpu is not None
        await sitting.type("\n")
        await sitting.wait()
        assert await sitting.process.foreground() is None


async def test_failed_start_on_a_terminal_raises_and_leaves_no_thread(
    backend: Backend, tmp_path: Path
) -> None:
    other = tmp_path / "no program.exe"
    other.write_bytes(b"text")
    for argv, directory, error in (
        (("no-such-program-anywhere",), "C:\\", SpawnError),
        ((str(other),), "C:\\", SpawnError),
        (python("pass"), str(tmp_path / "nowhere"), InvalidCommand),
    ):
        with pytest.raises(error):
            await backend.spawn(Spawn(argv=argv, cwd=directory, terminal=Terminal()))
    async with asyncio.timeout(BOUND):
        while threads():
            await asyncio.sleep(0.02)


async def test_variable_chooses_the_kind_of_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    spawn = Spawn(argv=python("print(1)"), cwd="C:\\", terminal=Terminal())
    made = connect("local", launcher=Login)
    for chosen, expected in (("", KIND), ("1", "winpty")):
        monkeypatch.setenv("PYWINPTY_BACKEND", chosen)
        process = await made.spawn(spawn)
        assert process.terminal_kind == expected
        await process.aclose()
    monkeypatch.setenv("PYWINPTY_BACKEND", "2")
    with pytest.raises(InvalidCommand, match="0 for ConPTY or 1 for WinPTY"):
        await made.spawn(spawn)
    await made.aclose()


@pytest.mark.skipif(SYSTEM != "wine", reason="a Windows that is newer than 2018 has ConPTY")
async def test_unavailable_chosen_kind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYWINPTY_BACKEND", "0")
    made = connect("local", launcher=Login)
    with pytest.raises(TerminalUnavailable, match="conpty: "):
        await made.spawn(Spawn(argv=python("pass"), cwd="C:\\", terminal=Terminal()))
    await made.aclose()


async def test_silent_terminal_counts_as_ended() -> None:
    stream = TerminalReceiveStream()
    feeding = threading.Thread(target=stream.feed, args=(b"last",))
    feeding.start()
    await stream.drained()
    feeding.join()
    assert await stream.receive() == b"last"
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()


async def test_never_silent_terminal_counts_as_ended() -> None:
    stream = TerminalReceiveStream()
    over = threading.Event()

    def feed() -> None:
        while not over.wait(windows_terminals.QUIET / 10):
            stream.feed(b"x")

    feeding = threading.Thread(target=feed)
    feeding.start()
    async with asyncio.timeout(BOUND):
        await stream.drained()
    over.set()
    feeding.join()
    assert stream.ended


async def test_unread_output_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_terminals, "MOST_HELD", 10)
    stream = TerminalReceiveStream()
    for _ in range(4):
        stream.feed(b"1234")
    assert await stream.receive(3) == b"123"
    assert await stream.receive() == b"4"
    assert await stream.receive() == b"1234"
    with pytest.raises(BackendError, match="were not taken"):
        await stream.receive()


async def test_command_on_a_terminal_may_ask_and_reports_the_kind(env: Environment) -> None:
    text = "[Console]::WindowWidth; $name = Read-Host 'name'; \"hello $name\"; exit 4"
    outcome = await env.run(text, terminal=Terminal(columns=100), stdin=b"world\n", timeout=60)
    assert outcome.output.text == "100\nname: world\nhello world\n"
    assert (outcome.status, outcome.exit_code, outcome.terminal) == ("exited", 4, KIND)


async def test_timeout_interrupts_before_a_kill(env: Environment) -> None:
    # The program does not read: under Wine a read continues after ^C.
    text = "'began'; try { Start-Sleep 300 } finally { [Console]::WriteLine('cleaned up') }"
    outcome = await env.run(text, terminal=Terminal(), timeout=20, grace=30)
    assert (outcome.status, outcome.killed_without_warning) == ("timed_out", False)
    assert outcome.output.text == "began\ncleaned up\n"


async def test_a_driven_terminal_is_expected_typed_on_and_resized(env: Environment) -> None:
    async with env.terminal(
        "$a = Read-Host 'first'; $b = Read-Host 'second'; \"<$a|$b|$([Console]::WindowWidth)>\""
    ) as t:
        await t.expect("first:", timeout=60)
        waiting = await t.wait_for_input(timeout=60)
        assert waiting is not None
        assert (waiting.certainty, waiting.prompt.rstrip()) == ("likely", "first:")
        assert [process.name for process in waiting.processes] == ["pwsh.exe"]
        await t.send("grüße")
        await t.send_key("Enter")
        await t.expect("second:")
        await t.resize(columns=120, rows=40)

        def secret(request: SecretRequest) -> str:
            return "hush-hush"

        assert await t.send_secret(secret)
        await t.expect("<grüße\\|\\[secret\\]\\|120>", timeout=60)
        assert await t.find("never", timeout=60) is None
        assert t.outcome is not None
        assert (t.outcome.exit_code, t.outcome.terminal) == (0, KIND)
        assert "hush" not in t.outcome.output.text


async def test_a_model_answers_a_command_that_asks(env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all, limits=ToolLimits(max_wait=60), terminals=True)
    command = "$name = Read-Host 'Name'; \"hello $name\""
    asked: Any = await tool({"command": command, "pty": True, "timeout": 100})
    assert (asked.details.status, asked.details.terminal) == ("waiting", "t1")
    assert not asked.details.waiting.certain
    if not asked.details.waiting.prompt:  # PowerShell started so slowly that it seemed to wait
        await tool.job_tool({"action": "output", "id": "t1", "until": "Name:", "wait": 60})
    told = await tool.job_tool({"action": "send", "id": "t1", "text": "World", "enter": True, "wait": 60})
    while told.details.running:  # it may have seemed to wait before its read
        told = await tool.job_tool({"action": "output", "id": "t1", "wait": 60})
    assert told.details.exit_code == 0
    assert "hello World" in told.output


async def test_the_command_line_does_not_take_a_persons_console(backend: Backend) -> None:
    async with sit(backend, sys.executable, "-m", "anyshell", "run", "--pty", "--", "1") as sitting:
        shown = drawn(await sitting.rest())
        assert await sitting.wait() == ExitStatus(code=2)
    assert "redirect stdin or stdout" in " ".join(shown.split())
