"""The blocking interface."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anyshell
from anyshell import _sync

from .cli_program import wait_until
from .processes import living, unique_seconds, wait_asleep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

assert sys.platform != "win32"  # else mypy checks the code below on every platform


def test_run_returns_the_outcome_of_a_command() -> None:
    outcome = anyshell.run("echo hi; exit 3")
    assert (outcome.output.text, outcome.exit_code) == ("hi\n", 3)


def test_check_raises_with_the_outcome() -> None:
    with pytest.raises(anyshell.CommandFailed, match="exit code 3") as caught:
        anyshell.run("echo why; exit 3", env={"TOKEN": "hunter2"}, stdin="typed").check()
    assert caught.value.outcome.exit_code == 3
    assert str(caught.value) == "the command ended with exit code 3: echo why; exit 3\n  why"
    assert anyshell.run("true").check().exit_code == 0


def test_run_uses_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anyshell.run("true")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    assert anyshell.run("pwd").output.text == f"{tmp_path}\n"
    assert anyshell.run("pwd", cwd="sub").output.text == f"{tmp_path}/sub\n"


def test_many_threads_share_one_loop() -> None:
    anyshell.run("true")
    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda i: anyshell.run(f"sleep 0.05; echo {i}"), range(64)))
    assert [outcome.output.text for outcome in outcomes] == [f"{i}\n" for i in range(64)]
    assert threading.active_count() == before


def test_run_works_inside_a_running_loop() -> None:
    import asyncio

    async def main() -> str:
        return anyshell.run("echo hi").output.text

    assert asyncio.run(main()) == "hi\n"


def test_bad_input_is_raised_in_the_calling_thread() -> None:
    with pytest.raises(anyshell.InvalidCommand, match="NUL"):
        anyshell.run("echo \0")
    with pytest.raises(anyshell.InvalidCommand, match="fish"):
        anyshell.run("true", shell="fish")


def python(script: str) -> list[str]:
    """The words that run a program; the program has `wait_asleep`."""
    here = str(Path(__file__).parents[1])
    before = (
        f"import sys; sys.path.append({here!r}); from tests.processes import wait_asleep; sys.path.pop()\n"
    )
    return [sys.executable, "-c", before + script]


def test_end_of_the_interpreter_stops_running_commands() -> None:
    seconds = unique_seconds()
    script = (
        "import threading, anyshell\n"
        f"threading.Thread(target=anyshell.run, args=(\"trap '' TERM; sleep {seconds}\",), "
        "kwargs={'grace': 0.3}, daemon=True).start()\n"
        f"wait_asleep('{seconds}')\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stderr) == (0, "")  # the waiting thread is not woken to fail
    assert living(seconds) == []


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_is_raised_after_the_tree_is_gone(interrupts: int) -> None:
    seconds = unique_seconds()
    grace = 0.3 if interrupts == 1 else 3600
    script = (
        "import anyshell, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in a job of a script\n"
        f"try: anyshell.run(\"trap '' TERM; sleep {seconds}\", grace={grace})\n"
        "except KeyboardInterrupt:\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    print('interrupted', flush=True)\n"
        "    raise SystemExit(5)\n"
    )
    with subprocess.Popen(python(script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        wait_asleep(seconds)
        process.send_signal(signal.SIGINT)
        if interrupts == 2:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            # On a busy machine the first interrupt may still be pending, and two pending interrupts are one. A process that is
            # already ending gets no more: a third interrupt would end it.
            for _ in range(60):
                if not living(seconds):
                    break
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        assert process.wait(30) == 5
        assert process.stdout.read() == "interrupted\n"
    assert living(seconds) == []


def test_interrupt_that_another_thread_receives_is_raised() -> None:
    """As one that comes between Python's look for signals and the wait: neither ends the wait of the main thread."""
    seconds = unique_seconds()
    script = (
        "import threading, anyshell, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def interrupt():\n"
        f"    wait_asleep('{seconds}')\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt, daemon=True).start()\n"
        f"try: anyshell.run('exec sleep {seconds}')\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout, result.stderr) == (0, "interrupted\n", "")
    assert living(seconds) == []


def test_second_interrupt_directly_after_the_first_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a terminal and a wrapper that both pass on a Ctrl-C: the second comes while the first is handled."""
    seconds = unique_seconds()
    anyshell.run("true")
    loop = _sync.front.started()
    hand_over, is_closed = loop.call_soon_threadsafe, loop.is_closed
    interrupts = 0

    def interrupted(call: Callable[[], object]) -> None:
        nonlocal interrupts
        hand_over(call)
        if interrupts == 0:
            wait_asleep(seconds)
            interrupts = 1
            raise KeyboardInterrupt

    def interrupted_again() -> bool:
        nonlocal interrupts
        if interrupts == 1 and threading.current_thread() is threading.main_thread():
            interrupts = 2
            raise KeyboardInterrupt
        return is_closed()

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    monkeypatch.setattr(loop, "is_closed", interrupted_again)
    with pytest.raises(KeyboardInterrupt):
        anyshell.run(f"exec sleep {seconds}", grace=0)
    assert interrupts == 2
    wait_until(lambda: not living(seconds), "the sleep has ended")
    assert anyshell.run("echo again").output.text == "again\n"


_MANY_INTERRUPTS = """
import asyncio, os, random, signal, sys, threading, time
from anyshell._sync import front

state = {}

async def work():
    state["began"] = True
    try:
        await asyncio.sleep(2)
    finally:
        state["ended"] = True

async def nothing(): pass

def interrupt(*_):
    if state["left"] > 0:
        state["left"] -= 1
        raise KeyboardInterrupt

def give_up():
    os.write(2, b"it hangs")
    os._exit(1)

sys.unraisablehook = lambda _: None  # an interrupt may come within a callback of a weak reference
front.call(nothing)
state["left"] = 0
signal.signal(signal.SIGALRM, interrupt)
timer = threading.Timer(60, give_up)
timer.daemon = True
timer.start()
for _ in range(300):
    state = {"left": 2}
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002, random.uniform(25e-6, 150e-6))
        front.call(work)
    except KeyboardInterrupt:
        pass
    state["left"] = 0
    signal.setitimer(signal.ITIMER_REAL, 0)
    front.call(nothing)  # each task that was cancelled has ended, or ends now
    if state.get("began") and not state.get("ended"): time.sleep(1)
    if state.get("began") and not state.get("ended"): sys.exit("it goes on")
"""


def test_no_pair_of_interrupts_blocks_later_calls() -> None:
    """The second interrupt comes at a random moment within the handling of the first."""
    done = subprocess.run(python(_MANY_INTERRUPTS), capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_error_of_a_signal_handler_is_raised() -> None:
    """A TimeoutError, as that of the wait is, from the handler of an alarm."""
    seconds = unique_seconds()
    script = (
        "import anyshell, signal\n"
        "def late(*_): raise TimeoutError('the alarm')\n"
        "signal.signal(signal.SIGALRM, late)\n"
        "anyshell.run('true')\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
        f"try: anyshell.run('exec sleep {seconds}')\n"
        "except TimeoutError as error: print(error)\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert (result.returncode, result.stdout, result.stderr) == (0, "the alarm\n", "")
    assert living(seconds) == []


def test_signal_handler_may_run_a_command_within_a_call() -> None:
    script = (
        "import anyshell, os, signal, threading\n"
        "start = threading.Thread.start\n"
        "def begin(thread):\n"
        "    threading.Thread.start = start\n"
        "    start(thread)\n"
        "    signal.raise_signal(signal.SIGUSR1)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print(anyshell.run('echo within').output.text, end=''))\n"
        "threading.Thread.start = begin\n"
        'print(anyshell.run(f"kill -USR1 {os.getpid()}; sleep 0.5; echo around").output.text, end="")\n'
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert (result.stdout, result.stderr) == ("within\nwithin\naround\n", "")


def test_interrupt_at_the_end_of_the_interpreter_leaves_no_process() -> None:
    seconds = unique_seconds()
    script = (
        "import atexit, threading, anyshell, time, signal\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        f"threading.Thread(target=anyshell.run, args=(\"trap '' TERM; sleep {seconds}\",), "
        "kwargs={'grace': 0.5}, daemon=True).start()\n"
        f"wait_asleep('{seconds}')\n"
        "def busy():\n"
        "    anyshell._sync.front.started().call_soon_threadsafe(time.sleep, 0.5)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
        "atexit.register(busy)\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert "KeyboardInterrupt" in result.stderr
    assert living(seconds) == []


def test_exit_within_an_input_at_the_end_of_the_interpreter_leaves_no_process() -> None:
    seconds = unique_seconds()
    script = (
        "import asyncio, sys, threading, anyshell\n"
        "async def pieces():\n"
        "    try:\n"
        "        yield b'x'\n"
        "        await asyncio.sleep(3600)\n"
        "    finally: sys.exit(3)\n"
        f"text = \"trap '' TERM; sleep {seconds}\"\n"
        "for stdin in (pieces(), None):\n"
        "    options = {'grace': 0.5, 'stdin': stdin}\n"
        "    threading.Thread(target=anyshell.run, args=(text,), kwargs=options, daemon=True).start()\n"
        f"wait_asleep('{seconds}', 2)\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    assert living(seconds) == []


def test_exit_beside_the_end_of_the_interpreter_leaves_no_process() -> None:
    seconds = unique_seconds()
    script = (
        "import sys, threading, anyshell, time\n"
        f"threading.Thread(target=anyshell.run, args=(\"trap '' TERM; sleep {seconds}\",), "
        "kwargs={'grace': 0.5}, daemon=True).start()\n"
        f"wait_asleep('{seconds}')\n"
        "loop, begun = anyshell._sync.front.started(), threading.Event()\n"
        "def exit_with_the_stop():\n"
        "    begun.set()\n"
        "    while anyshell._sync.front._ending is None: time.sleep(0.01)\n"
        "    time.sleep(0.2)\n"
        "    loop.call_soon(sys.exit)\n"
        "loop.call_soon_threadsafe(exit_with_the_stop)\n"
        "begun.wait()\n"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    assert living(seconds) == []


def test_exit_within_the_input_of_a_command_reaches_the_caller() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        sys.exit(3)

    with pytest.raises(SystemExit) as caught:
        anyshell.run("cat", stdin=pieces(), timeout=20)
    assert caught.value.code == 3
    assert anyshell.run("echo again").output.text == "again\n"


def test_error_of_a_call_keeps_its_cause() -> None:
    async def fail() -> None:
        raise ValueError("the error") from KeyError("the cause")

    with pytest.raises(ValueError, match="the error") as caught:
        _sync.front.call(fail)
    assert isinstance(caught.value.__cause__, KeyError)


def test_timeout_error_of_a_call_is_raised_as_it_is() -> None:
    error = TimeoutError("its own")

    async def fail() -> None:
        raise error

    with pytest.raises(TimeoutError) as caught:
        _sync.front.call(fail)
    assert caught.value is error


def test_interrupt_during_the_handover_of_a_command_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As from a signal that comes while this thread waits for the interpreter lock, which the loop's thread holds."""
    seconds = unique_seconds()
    anyshell.run("true")
    loop = _sync.front.started()
    hand_over = loop.call_soon_threadsafe

    def interrupted(call: Callable[[], object]) -> None:
        monkeypatch.undo()
        hand_over(call)
        wait_asleep(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        anyshell.run(f"exec sleep {seconds}", grace=0)
    assert not living(seconds)


def test_forked_child_can_run_commands() -> None:
    anyshell.run("true")
    pid = os.fork()
    if pid == 0:
        try:
            ok = anyshell.run("echo child").output.text == "child\n"
        finally:
            os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_removed_directory_is_an_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = (
        "import anyshell, asyncio, os; os.rmdir(os.getcwd())\n"
        "print(anyshell.run('pwd', cwd='/').output.text, end='')\n"
        "try: anyshell.run('pwd')\n"
        "except anyshell.InvalidCommand as error: print(error)"
    )
    result = subprocess.run(python(script), capture_output=True, text=True, cwd=gone)
    assert result.stdout.startswith("/\nthis process's directory has been removed"), result.stderr


def test_failed_start_of_the_thread_is_an_error_and_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    from anyshell._sync import Front

    front = Front()

    async def answer() -> int:
        return 42

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(anyshell.AnyshellError, match="thread"):
            front.call(answer)
    assert front.call(answer) == 42
    front.close()


def _refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_nested_blocking_run_is_refused() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        anyshell.run("true")
        yield b""

    with pytest.raises(anyshell.AnyshellError, match="wait for itself"):
        anyshell.run("cat", stdin=pieces(), timeout=20)
