"""Windows' own parts of running commands: jobs, handles, pipes, variables, command lines."""

from __future__ import annotations

import asyncio
import gc
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import Environment, InvalidCommand, Limits, Outcome, Reach, _engine
from anyshell._types import HostQuery, ShellCandidate, Spawn
from anyshell.backends import connect
from anyshell.errors import ReachUnavailable, RecordingError, SpawnError
from anyshell.output import OutputBuilder
from anyshell.recordings import read
from anyshell.types import Recording, Scan

from .conftest import local
from .processes import living, open_descriptors, unique_seconds, wait_living
from .systems import SYSTEM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from anyshell._types import LeftBehind, ProcessInfo
    from anyshell.abc import Backend

if sys.platform != "win32":
    pytest.skip("of Windows alone", allow_module_level=True)
assert sys.platform == "win32"  # else mypy checks the imports below on every platform

from anyshell.backends.local.windows.job_object import JobObject
from anyshell.backends.local.windows.pipes import PipeReceiveStream, pipe_to_read
from anyshell.backends.local.windows.process_handle import TO_OWN, ProcessHandle
from anyshell.backends.local.windows.programs import find_program

pytestmark = pytest.mark.anyio

CMD = os.environ["COMSPEC"]
SLEEP = "import sys, time; time.sleep(float(sys.argv[1]))"
DETACHED = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
START = textwrap.dedent(
    """
    import subprocess, sys, time
    null = subprocess.DEVNULL
    for flags in sys.argv[3:]:
        subprocess.Popen(
            [sys.executable, "-c", "import sys, time; time.sleep(float(sys.argv[1]))", sys.argv[1]],
            creationflags=int(flags), stdin=null, stdout=null, stderr=null,
        )
    print("started", flush=True)
    time.sleep(float(sys.argv[2]))
    """
)
"""Starts a program for each of the given flags; each sleeps for the first time, and the starter itself for the second."""


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = connect()
    yield made
    await made.aclose()


def python(code: str, *arguments: str, **how: Any) -> Spawn:
    """A run of Python, which starts several times as fast as PowerShell."""
    return Spawn(argv=(sys.executable, "-c", code, *arguments), cwd=tempfile.gettempdir(), **how)


async def run(backend: Backend, spawn: Spawn, **how: Any) -> Outcome:
    def output() -> OutputBuilder:
        return OutputBuilder(head=10_000, tail=10_000, max_line=2_000)

    stderr = output() if spawn.split_stderr else None
    return await _engine.run(backend, spawn, output=output(), stderr=stderr, **how)


def named(outcome: Outcome) -> list[ProcessInfo]:
    """The processes left behind, except a console, which under Wine has no name at first."""
    return [process for process in outcome.left_behind if process.name != "unknown"]


# --- the job --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["stop", "exit", "cancel"])
async def test_no_child_escapes_with_any_creation_flag(backend: Backend, ending: str) -> None:
    seconds = unique_seconds()
    flags = ["0", str(DETACHED), str(subprocess.CREATE_NEW_CONSOLE), str(subprocess.CREATE_NO_WINDOW)]
    own = "0" if ending == "exit" else "300"
    control = _engine.Control()
    printed = asyncio.Event()

    async def hear(channel: str, data: bytes) -> None:
        printed.set()

    spawn = python(START, seconds, own, *flags)
    task = asyncio.ensure_future(run(backend, spawn, control=control, listener=hear))
    await printed.wait()
    await asyncio.to_thread(wait_living, seconds, len(flags))
    if ending == "stop":
        control.cancel()
    if ending == "cancel":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        outcome = await task
        assert (outcome.status, outcome.exit_code) == (
            ("exited", 0) if ending == "exit" else ("cancelled", None)
        )
        assert outcome.output.text == "started\n"
        assert outcome.killed_without_warning
        left = [(process.name, process.alive) for process in named(outcome)]
        assert left == ([("python.exe", False)] * len(flags) if ending == "exit" else [])
    assert living(seconds) == []


async def test_program_cannot_leave_its_job(backend: Backend) -> None:
    code = textwrap.dedent(
        """
        import subprocess, sys
        try:
            subprocess.Popen([sys.executable], creationflags=subprocess.CREATE_BREAKAWAY_FROM_JOB)
        except PermissionError:
            print("refused")
        """
    )
    assert (await run(backend, python(code))).output.text == "refused\n"


async def test_backend_works_inside_a_windows_job_and_ends_with_it(backend: Backend, tmp_path: Path) -> None:
    seconds = unique_seconds()
    (tmp_path / "inner.py").write_text(
        "import asyncio, sys\n"
        "from anyshell import _engine\n"
        "from anyshell._types import Spawn\n"
        "from anyshell.backends import connect\n"
        "from anyshell.output import OutputBuilder\n"
        "async def main(*argv):\n"
        "    output = OutputBuilder(head=99, tail=99, max_line=99)\n"
        "    return await _engine.run(connect(), Spawn(argv=(sys.executable, *argv), cwd='C:\\\\'), output=output)\n"
        "print(asyncio.run(main('-c', 'print(6 * 7)')).output.text, flush=True)\n"
        f"asyncio.run(main('-c', {SLEEP!r}, {seconds!r}))\n"
    )
    task = asyncio.ensure_future(run(backend, python(f"exec(open({str(tmp_path / 'inner.py')!r}).read())")))
    await asyncio.to_thread(wait_living, seconds)
    task.cancel()
    await asyncio.wait([task])
    assert living(seconds) == []


def test_killed_anyshell_takes_its_tree_along(tmp_path: Path) -> None:
    seconds = unique_seconds()
    script = (
        "import asyncio, sys\n"
        "from anyshell._types import Spawn\n"
        "from anyshell.backends import connect\n"
        "async def main():\n"
        f"    spawn = Spawn(argv=(sys.executable, '-c', {START!r}, {seconds!r}, {seconds!r}, '0', '{DETACHED}'),\n"
        "        cwd='C:\\\\', script='# a text')\n"
        "    process = await connect().spawn(spawn)\n"
        "    await process.wait()\n"
        "asyncio.run(main())\n"
    )
    scripts = set(glob.glob(os.path.join(tempfile.gettempdir(), "anyshell-*")))
    with subprocess.Popen([sys.executable, "-c", script]) as owner:
        try:
            wait_living(seconds, 4)  # the owner itself, its child, and the two processes of that child
        finally:
            owner.kill()
    gone = threading.Event()
    while living(seconds):
        gone.wait(0.05)
    assert set(glob.glob(os.path.join(tempfile.gettempdir(), "anyshell-*"))) <= scripts


def test_kept_process_outlives_anyshell() -> None:
    seconds = unique_seconds()
    script = (
        "import asyncio, sys\n"
        "from anyshell import _engine\n"
        "from anyshell._types import Spawn\n"
        "from anyshell.backends import connect\n"
        "from anyshell.output import OutputBuilder\n"
        "async def main():\n"
        "    backend = connect()\n"
        f"    spawn = Spawn(argv=(sys.executable, '-c', {START!r}, {seconds!r}, '0', '0'), cwd='C:\\\\')\n"
        "    output = OutputBuilder(head=99, tail=99, max_line=99)\n"
        "    outcome = await _engine.run(backend, spawn, output=output, left_behind='keep')\n"
        "    await backend.aclose()\n"
        "    print(*(process.pid for process in outcome.left_behind))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    (line,) = living(seconds)
    assert line.split()[0] == done.stdout.strip()
    psutil.Process(int(line.split()[0])).kill()


async def test_kept_process_can_go_on_printing(backend: Backend, tmp_path: Path) -> None:
    code = (
        "import sys; sys.stdin.readline(); "
        "[print('x' * 1000) for _ in range(1000)]; sys.stdout.flush(); open(sys.argv[1], 'w').close()"
    )
    starter = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], "
        "stdin=subprocess.PIPE); p.stdin.write(b'go\\n'); p.stdin.flush()"
    )
    mark = tmp_path / "done"
    outcome = await run(backend, python(starter, code, str(mark)), left_behind="keep")
    assert outcome.exit_code == 0
    with anyio.fail_after(60):
        while not mark.exists():
            await anyio.sleep(0.02)


@pytest.mark.parametrize("turns", range(8))
async def test_cancellation_during_the_start_leaves_nothing(backend: Backend, turns: int) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(run(backend, python(SLEEP, seconds)))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


async def test_closing_the_backend_ends_running_programs(backend: Backend) -> None:
    seconds = unique_seconds()
    processes = [await backend.spawn(python(SLEEP, seconds)) for _ in range(3)]
    await asyncio.to_thread(wait_living, seconds, 3)
    assert {member.name for each in processes for member in await each.survivors()} == {"python.exe"}
    await backend.aclose()
    assert living(seconds) == []
    for process in processes:
        assert (await process.wait()).code is None
        assert not await process.survivors()
    with pytest.raises(SpawnError, match="closed"):
        await backend.spawn(python(SLEEP, seconds))


async def test_new_console_is_no_survivor(backend: Backend) -> None:
    for _ in range(20):
        process = await backend.spawn(python(SLEEP, "300"))
        names = {member.name for _ in range(300) for member in await process.survivors()}
        assert names == {"python.exe"}
        await process.aclose()


def test_a_job_ends_its_members_with_its_last_handle() -> None:
    job = JobObject()
    with subprocess.Popen([sys.executable, "-c", SLEEP, "300"]) as child:
        with ProcessHandle(child.pid, TO_OWN) as process:
            job.assign(process.value)
        assert tuple(job.members()) == (child.pid,)
        job.close()
        assert job.members() == ()
        child.wait(60)


def test_too_short_list_of_members_is_requested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.backends.local.windows.job_object._FEW_MEMBERS", 1)
    job = JobObject()
    children = [subprocess.Popen([sys.executable, "-c", SLEEP, "300"]) for _ in range(3)]
    for child in children:
        with ProcessHandle(child.pid, TO_OWN) as process:
            job.assign(process.value)
    assert set(job.members()) == {child.pid for child in children}
    job.terminate()
    for child in children:
        child.wait(60)
    job.close()


# --- trees of PowerShell --------------------------------------------------------------------------------------

ENDLESS = {
    "a program": "& {python} -c '{sleep}' {s}",
    "a pipeline": "& {python} -c '{sleep}' {s} | Out-String",
    "a flood": "& {python} -c '{sleep}' {s} & while ($true) { 'x' * 1000 }",
    "a shell in a shell": "& $PSHOME\\pwsh -NoProfile -c \"& {python} -c '{sleep}' {s}\"",
    "deaf to ^C and to its console's end": (
        "& {python} -c 'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "signal.signal(signal.SIGBREAK, signal.SIG_IGN); {sleep}' {s}"
    ),
    "beside": "Start-Process -NoNewWindow {python} '-c \"{sleep}\" {s}'; Start-Sleep 300",
    "in a window": "Start-Process -WindowStyle Hidden {python} '-c \"{sleep}\" {s}'; Start-Sleep 300",
    "by cmd": "cmd /d /c start /b {python} -c '{sleep}' {s}; Start-Sleep 300",
}
"""Each text has a program that sleeps for the inserted time."""

LEFT = {
    "beside": "Start-Process -NoNewWindow {python} '-c \"{sleep}\" {s}'; 'started'",
    "in a window": "Start-Process -WindowStyle Hidden {python} '-c \"{sleep}\" {s}'; 'started'",
}
"""Each text leaves such a program behind."""


def fill(text: str, seconds: str) -> str:
    filled = text.replace("{python}", f"'{sys.executable}'").replace("{sleep}", SLEEP)
    return filled.replace("{s}", seconds)


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    own = local()
    async with Environment.detect(own, cwd=tmp_path) as made:
        yield made
    await own.aclose()


async def test_the_whole_tree_is_stopped(env: Environment) -> None:
    marks = {name: unique_seconds() for name in ENDLESS}
    tasks = [asyncio.ensure_future(env.run(fill(text, marks[name]))) for name, text in ENDLESS.items()]
    for seconds in marks.values():
        await asyncio.to_thread(wait_living, seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert {name: living(seconds) for name, seconds in marks.items() if living(seconds)} == {}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT.keys())
@pytest.mark.parametrize("left_behind", ["stop", "keep", "adopt"])
async def test_process_left_behind_is_named(env: Environment, text: str, left_behind: LeftBehind) -> None:
    seconds = unique_seconds()
    outcome = await env.run(fill(text, seconds), left_behind=left_behind)
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
    stopped = left_behind == "stop"
    assert [(process.name, process.alive) for process in named(outcome)] == [("python.exe", not stopped)]
    assert outcome.killed_without_warning == stopped
    assert len(living(seconds)) == (0 if stopped else 1)
    if outcome.job is not None:
        await env.jobs.get(outcome.job).stop()
        assert living(seconds) == []
    elif not stopped:
        psutil.Process(named(outcome)[0].pid).kill()


async def test_a_command_is_recorded_into_a_new_file(env: Environment, tmp_path: Path) -> None:
    file = tmp_path / "demo.cast"
    outcome = await env.run("'hällo'; [Console]::Error.WriteLine('err'); exit 3", record=file)
    with file.open("rb") as opened:
        header, events = read(opened)
        happened = list(events)
    assert (header.columns, header.rows) == (80, 24)
    assert "".join(event.data for event in happened if event.code == "o") == "hällo\r\nerr\r\n"
    assert (happened[-1].code, happened[-1].data) == ("x", "3")
    assert outcome.recording is not None
    assert (outcome.recording.complete, outcome.recording.size) == (True, file.stat().st_size)
    with pytest.raises(RecordingError, match="exists already"):
        await env.run("'again'", record=file)


async def test_recording_of_a_terminal_masks_all_input(env: Environment, tmp_path: Path) -> None:
    file = tmp_path / "demo.cast"
    recording = Recording(file, input=True)
    async with env.terminal('$x = Read-Host; "got $x"; Read-Host', record=recording) as terminal:
        await terminal.send("word\r")
        await terminal.expect("got word", timeout=60)
        await terminal.resize(columns=100)
        outcome = await terminal.stop()
    with file.open("rb") as opened:
        happened = list(read(opened)[1])
    assert "got word" in "".join(event.data for event in happened if event.code == "o")
    assert [event.data for event in happened if event.code == "r"] == ["100x24"]
    assert "".join(event.data for event in happened if event.code == "i") == "[secret]\r"
    assert outcome.recording is not None
    assert "the host does not say whether it was a secret" in (outcome.recording.notice or "")


@pytest.mark.parametrize("cancels", [1, 2])
async def test_cancelling_raises_after_the_tree_is_gone(env: Environment, cancels: int) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(env.run(fill(ENDLESS["beside"], seconds), grace=3600))
    await asyncio.to_thread(wait_living, seconds)
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


async def test_leaving_the_environment_stops_running_commands(tmp_path: Path) -> None:
    seconds = unique_seconds()
    async with Environment.detect(cwd=tmp_path) as env:
        task = asyncio.ensure_future(env.run(fill(ENDLESS["a program"], seconds)))
        await asyncio.to_thread(wait_living, seconds)
    assert living(seconds) == []
    outcome = await task
    assert (outcome.status, outcome.exit_code, outcome.killed_without_warning) == ("cancelled", None, True)


def test_ended_event_loop_stops_its_commands(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def main() -> None:
        env = await Environment.detect(local(), cwd=tmp_path)
        background = asyncio.ensure_future(env.run(fill(ENDLESS["a program"], seconds)))
        await asyncio.to_thread(wait_living, seconds)
        assert not background.done()

    asyncio.run(main())
    assert living(seconds) == []


# # --- the end of a program -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 137, 256, 0xC000_0005, 0xFFFF_FFFF, 0xE061_6E79])
async def test_an_exit_code_has_32_bits_without_a_sign(backend: Backend, code: int) -> None:
    """The last code is the one with which anyshell ends a job. A program may also exit with it."""
    end = "import ctypes, sys; ctypes.windll.kernel32.ExitProcess(ctypes.c_uint(int(sys.argv[1])))"
    outcome = await run(backend, python(end, str(code)))
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", code, None)
    assert not outcome.killed_without_warning


async def test_ended_program_keeps_its_code_after_a_stop(backend: Backend) -> None:
    process = await backend.spawn(python("import os; os._exit(7)"))
    assert (await process.wait()).code == 7
    await process.send_signal("kill")
    assert (await process.wait()).code == 7
    await process.aclose()
    assert (await process.wait()).code == 7


# --- pipes ----------------------------------------------------------------------------------------------------


async def test_unread_program_waits(backend: Backend) -> None:
    code = (
        "import sys\n"
        "for count in range(1, 101):\n"
        "    sys.stdout.buffer.write(b'x' * 65536); sys.stdout.flush()\n"
        "    print(count, file=sys.stderr, flush=True)\n"
    )
    process = await backend.spawn(python(code, split_stderr=True))
    assert process.stderr is not None
    with anyio.fail_after(30):
        counted = await process.stderr.receive()
    with anyio.move_on_after(3):
        while True:
            counted += await process.stderr.receive()
    # The pipe, the buffer on this side, and two reads.
    assert 1 <= len(counted.split()) <= 4
    total = sum([len(piece) async for piece in process.stdout])
    assert total == 100 * 65536
    assert (await process.wait()).code == 0
    await process.aclose()


async def test_cancelled_read_loses_nothing(backend: Backend) -> None:
    code = "import sys; [print(number, flush=True) for number in range(2000)]"
    process = await backend.spawn(python(code))
    data = b""
    with anyio.fail_after(60):
        while True:
            try:
                async with asyncio.timeout(0.001):
                    data += await process.stdout.receive(7)
            except TimeoutError:
                continue
            except anyio.EndOfStream:
                break
    assert data.split() == [b"%d" % number for number in range(2000)]
    await process.aclose()


async def test_unread_input_does_no_harm(backend: Backend) -> None:
    big = b"x" * 5_000_000
    assert (await run(backend, python("pass", stdin=True), stdin=big)).exit_code == 0
    counted = await run(
        backend, python("import sys; print(len(sys.stdin.buffer.read()))", stdin=True), stdin=big
    )
    assert counted.output.text == "5000000\n"
    outcome = await run(backend, python(SLEEP, "300", stdin=True), stdin=big, timeout=1)
    assert outcome.status == "timed_out"


async def test_each_program_has_its_own_pipes_alone(backend: Backend) -> None:
    """If other programs started at the same time inherited a pipe, its output would not end before those programs end."""
    long = await asyncio.gather(*(backend.spawn(python(SLEEP, "300", stdin=True)) for _ in range(3)))
    short, *more = await asyncio.gather(
        backend.spawn(python("print(input())", stdin=True)),
        *(backend.spawn(python(SLEEP, "300", stdin=True)) for _ in range(3)),
    )
    assert short.stdin is not None
    await short.stdin.send(b"a line\n")
    with anyio.fail_after(60):
        assert b"".join([piece async for piece in short.stdout]).split() == [b"a", b"line"]
    await asyncio.gather(*(process.aclose() for process in (*long, short, *more)))


async def test_a_stream_can_be_closed_during_a_read() -> None:
    ours, theirs = pipe_to_read()
    stream = await PipeReceiveStream.connect(ours)
    reading = asyncio.ensure_future(stream.receive())
    await asyncio.sleep(0)
    stream.close()
    with pytest.raises(anyio.ClosedResourceError):
        await reading
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive()
    await asyncio.sleep(0)
    with pytest.raises(OSError, match=r".*"):
        os.write(theirs, b"x")
    os.close(theirs)


def test_a_loop_that_starts_no_programs_is_named() -> None:
    async def main() -> None:
        with pytest.raises(SpawnError, match="ProactorEventLoop"):
            await connect().spawn(python("pass"))

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


async def test_many_runs_accumulate_nothing(backend: Backend) -> None:
    spawn = Spawn(argv=(CMD, "/d", "/c", "exit 3"), cwd="C:\\", stdin=True, split_stderr=True, script="text")

    async def some(count: int) -> None:
        for _ in range(count):
            assert (await run(backend, spawn)).exit_code == 3

    def counts() -> tuple[int, int, int]:
        gc.collect()
        return open_descriptors(), threading.active_count(), len(asyncio.all_tasks())

    async def cancel() -> None:
        for turns in range(8):
            task = asyncio.ensure_future(run(backend, spawn))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

    await asyncio.gather(*(some(1) for _ in range(5)))
    await cancel()
    before = counts()
    await asyncio.gather(*(some(10) for _ in range(5)))
    await cancel()
    assert all(now <= then for now, then in zip(counts(), before, strict=True))


# # --- the start of a program -----------------------------------------------------------------------------------


async def test_invalid_cwd_is_refused(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(InvalidCommand, match=name):
            await backend.spawn(Spawn(argv=(CMD,), cwd=str(tmp_path / name)))


async def test_a_directory_in_which_windows_starts_nothing_is_named(backend: Backend, tmp_path: Path) -> None:
    long = os.path.join(tmp_path, *("a" * 100 for _ in range(3)))
    os.makedirs("\\\\?\\" + long)
    try:
        with pytest.raises(InvalidCommand, match=r"too long: .* at most 258 characters"):
            await backend.spawn(Spawn(argv=(CMD,), cwd=long))
    finally:
        shutil.rmtree("\\\\?\\" + str(tmp_path / ("a" * 100)))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("no-such-program",), "No such file"),
        ((r"C:\no\such\program.exe",), "No such file"),
        (("relative\\program.exe",), "No such file"),
        ((__file__,), "not a program for this Windows"),
        ((CMD, "x" * 32_767), "32,767 characters"),
        ((CMD, "\N{GRINNING FACE}" * 16_384), "32,767 characters"),
    ],
)
async def test_failed_start_names_its_reason(backend: Backend, argv: tuple[str, ...], said: str) -> None:
    with pytest.raises(SpawnError, match=said):
        await backend.spawn(Spawn(argv=argv, cwd="C:\\"))


@pytest.mark.parametrize("name", ["a.bat", "a.CMD", "a.bat. ", "a.cmd ."])
async def test_a_batch_file_is_not_given_arguments(backend: Backend, tmp_path: Path, name: str) -> None:
    """CVE-2024-24576: cmd.exe would run the text behind the quote. And CVE-2024-43402: names with any ending."""
    (tmp_path / name.rstrip(" .")).write_text("echo %*\n")
    with pytest.raises(SpawnError, match="batch file"):
        await backend.spawn(Spawn(argv=(str(tmp_path / name), '"&calc.exe'), cwd=str(tmp_path)))


def test_a_program_is_not_looked_for_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.exe").touch()
    (tmp_path / "planted").touch()
    monkeypatch.chdir(tmp_path)
    assert find_program("planted", f".;;relative;{tmp_path.drive}") is None
    found = find_program("planted", f'"{tmp_path}"')
    assert found is not None
    assert found.lower() == str(tmp_path / "planted.exe").lower()
    assert find_program("planted.exe", str(tmp_path), ".COM;.EXE") == str(tmp_path / "planted.exe")
    assert find_program(str(tmp_path / "planted"), "") == str(tmp_path / "planted")
    assert find_program(r"tests\planted", str(tmp_path)) is None


async def test_arguments_arrive_unchanged(backend: Backend) -> None:
    words = [
        "",
        "a b",
        'a"b',
        "a\\",
        "a b\\",
        '\\"',
        "é☃😀",
        "line\nfeed",
        "*",
        "$x",
        "%PATH%",
        "\t",
        "^&|<>",
    ]
    code = "import sys; print(*(word.encode().hex() for word in sys.argv[1:]), sep='.')"
    outcome = await run(backend, python(code, *words))
    assert [bytes.fromhex(word).decode() for word in outcome.output.text.strip().split(".")] == words


async def test_names_of_variables_ignore_case(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Some_Variable", "ours")
    monkeypatch.setenv("Another_Variable", "ours")
    monkeypatch.delenv("ComSpec")
    monkeypatch.delenv("PathExt")
    code = (
        "import os; print(*(os.environ.get(name) for name in "
        "('SOME_VARIABLE', 'another_variable', 'third', 'empty', 'COMSPEC', 'PATHEXT', 'SYSTEMROOT')), sep='|')"
    )
    outcome = await run(
        backend,
        python(
            code,
            unset=frozenset({"SOME_variable", "systemroot"}),
            settings={"another_VARIABLE": "set", "Third": "set", "EMPTY": ""},
            env={"THIRD": "é☃", "SystemRoot": os.environ["SYSTEMROOT"]},
        ),
    )
    root = os.environ["SYSTEMROOT"]
    told = outcome.output.text.strip().split("|")
    assert told[:4] == ["None", "set", "é☃", ""]
    assert told[4].lower() == rf"{root}\system32\cmd.exe".lower()
    assert told[5:] == [".COM;.EXE;.BAT;.CMD", root]


# --- texts ----------------------------------------------------------------------------------------------------


async def test_long_text_is_read_from_a_temporary_file(tmp_path: Path) -> None:
    def scripts() -> set[str]:
        return set(glob.glob(os.path.join(tempfile.gettempdir(), "anyshell-*")))

    before = scripts()
    filler = "# é☃😀\n" * 2_000
    async with Environment.detect(cwd=tmp_path) as env:
        outcome = await env.run(f"{filler}'é☃😀'; \"[$env:ANYSHELL_SCRIPT]\"")
        assert outcome.output.text == "é☃😀\n[]\n"
        assert scripts() == before
        task = asyncio.ensure_future(env.run(f"{filler}'begun' > begun; Start-Sleep 300"))
        with anyio.fail_after(60):
            while not (tmp_path / "begun").exists():
                await anyio.sleep(0.02)
        (script,) = scripts() - before
        assert Path(script).parent == Path(tempfile.gettempdir())
        task.cancel()
        await asyncio.wait([task])
    assert scripts() == before


async def test_a_script_that_cannot_be_started_leaves_no_file(backend: Backend) -> None:
    before = set(glob.glob(os.path.join(tempfile.gettempdir(), "anyshell-*")))
    with pytest.raises(SpawnError):
        await backend.spawn(Spawn(argv=(__file__,), cwd="C:\\", script="a text"))
    assert set(glob.glob(os.path.join(tempfile.gettempdir(), "anyshell-*"))) == before


# --- a prefix -------------------------------------------------------------------------------------------------


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """A prefix that runs the following words, and marks them with a variable."""
    runner = tmp_path / "a place" / "runner.py"
    runner.parent.mkdir()
    runner.write_text(
        "import os, subprocess, sys\n"
        "os.environ['BEHIND'] = sys.argv[1]\n"
        "sys.exit(subprocess.call(sys.argv[2:]))\n"
    )
    return f'{sys.executable} "{runner}"  "it is"'


async def test_prefix_runs_the_shell_with_any_text(tmp_path: Path, prefix: str) -> None:
    tell = "\"$env:BEHIND|$input|é☃\"; [Console]::Error.Write('apart'); exit 259"
    async with Environment.detect(cwd=tmp_path, prefix=prefix) as env:
        assert env.prefix == prefix
        for text in (tell, "# é☃😀\n" * 20_000 + tell):
            outcome = await env.run(text, stdin="read", split_stderr=True)
            assert outcome.stderr is not None
            told = (outcome.output.text, outcome.stderr.text, outcome.exit_code, outcome.left_behind)
            assert told == ("it is|read|é☃\n", "apart", 259, ())


async def test_behind_a_prefix_the_whole_tree_is_stopped_in_time(tmp_path: Path, prefix: str) -> None:
    seconds = unique_seconds()
    text = f"& '{sys.executable}' -c \"print('begun', flush=True); {SLEEP}\" {seconds}"
    async with Environment.detect(cwd=tmp_path, prefix=prefix) as env:
        for timeout in (5, 15, 45):  # 5 s, unless other programs keep the machine busy
            outcome = await env.run(text, timeout=timeout)
            assert (outcome.status, outcome.exit_code, outcome.left_behind) == ("timed_out", None, ())
            assert living(seconds) == []
            if outcome.output.text:
                break
        assert outcome.output.text == "begun\n"


async def test_a_session_lasts_behind_a_prefix(tmp_path: Path, prefix: str) -> None:
    seconds = unique_seconds()
    async with Environment.detect(cwd=tmp_path, prefix=prefix) as env, env.session() as session:
        assert (await session.run('$x = "kept"; $env:BEHIND')).output.text == "it is\n"
        endless = f"& '{sys.executable}' -c '{SLEEP}' {seconds}"
        task = asyncio.ensure_future(session.run(endless))
        await asyncio.to_thread(wait_living, seconds)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert living(seconds) == []
        outcome = await session.run("$x")
        assert (outcome.output.text, outcome.session and outcome.session.fresh) == ("kept\n", "")


async def test_a_prefix_that_windows_cannot_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = tmp_path / "planted.cmd"
    batch.write_text("@%*\n")
    monkeypatch.setenv("PATH", f"{tmp_path};{os.environ['PATH']}")
    for words in (f'"{batch}" a', f"{batch}", "planted.cmd", "planted a"):
        with pytest.raises(InvalidCommand, match=r"prefix: .*planted.*is a batch file.*give a program"):
            await Environment.detect(prefix=words)
    with pytest.raises(InvalidCommand, match=r"prefix: 'nowhere' was not found"):
        await Environment.detect(prefix="nowhere a")
    for words in ("cmd /c $HOME", "cmd 'a b'", "cmd /c%PATH%", 'cmd a"b"'):
        with pytest.raises(InvalidCommand, match="its words are taken literally"):
            await Environment.detect(prefix=words)


# --- the host -------------------------------------------------------------------------------------------------


async def test_facts_describe_windows(backend: Backend) -> None:
    mute = ShellCandidate("powershell", CMD, ("/d", "/c", "exit 0"))  # like the powershell.exe of Wine
    info = await backend.info(HostQuery(programs=("cmd", "no-such-program"), shells_on_windows=(mute,)))
    assert (info.os, info.name, info.container, info.wsl) == ("windows", "Windows", None, False)
    assert info.version.count(".") == 2
    assert info.arch in {"AMD64", "ARM64"}
    assert info.user.lower() == os.environ["USERNAME"].lower()
    assert info.home == os.environ["USERPROFILE"]
    assert {name: path.lower() for name, path in info.programs.items()} == {"cmd": CMD.lower()}
    assert info.shell is None
    assert info.shells_tried == (f"{CMD}: it runs, but does not answer as powershell does",)


async def test_detached_jobs_are_refused_on_windows_with_the_alternative(env: Environment) -> None:
    with pytest.raises(InvalidCommand, match=r"no detached jobs on Windows.*without detach"):
        await env.start("'never'", detach=True)
    assert list(await env.orphans()) == []


async def test_a_job_runs_in_the_background(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        job = await env.start("'ready'; while ($line = [Console]::In.ReadLine()) { \"got $line\" }; exit 5")
        with anyio.fail_after(60):
            await job.wait_for("ready")
            await job.send("one\n")
            await job.wait_for("got one")
            await job.send("", close=True)
            outcome = await job.wait()
        assert outcome is not None
        assert (outcome.exit_code, outcome.output.text) == (5, "ready\ngot one\n")
        sleeping = await env.start("Start-Sleep 300")
        outcome = await sleeping.stop()
        assert (outcome.status, outcome.exit_code, outcome.killed_without_warning) == (
            "cancelled",
            None,
            True,
        )


async def test_limits_are_enforced_by_the_job_object_alone(tmp_path: Path) -> None:
    """Limits of simultaneous processes, memory, and processor time of each; any other limit is refused by its name."""
    free: dict[str, Any] = {"write": ("/",), "hide": (), "protect": (), "network": True}
    limits = Limits(memory=256 * 2**20, processes=4, cpu=2)
    async with Environment.detect(cwd=tmp_path, reach=Reach(**free, limits=limits)) as env:
        assert env.shell.on_windows
        assert (await env.run("exit 3", timeout=60)).exit_code == 3
        with pytest.raises(ReachUnavailable, match="network: a Job Object"):
            await env.run("exit 0", reach=Reach(**{**free, "network": False}))
    with pytest.raises(
        ReachUnavailable, match="write, hide, protect, network: a Job Object of Windows limits"
    ):
        await Environment.detect(cwd=tmp_path, reach=Reach.preset("workspace"))


@pytest.mark.skipif(SYSTEM == "wine", reason="Wine takes the limits of a job and does not enforce them")
async def test_job_object_enforces_its_limits(backend: Backend) -> None:
    took = python("x = bytearray(400 * 2**20); print('took')")
    assert (await run(backend, took)).output.text.strip() == "took"
    outcome = await run(backend, replace(took, job_limits=(256 * 2**20, None, None)))
    assert outcome.exit_code != 0
    assert "MemoryError" in outcome.output.text
    starts = python("import subprocess, sys; subprocess.run([sys.executable, '-c', '']); print('started')")
    assert (await run(backend, replace(starts, job_limits=(None, 2, None)))).output.text.strip() == "started"
    outcome = await run(backend, replace(starts, job_limits=(None, 1, None)))
    assert outcome.exit_code != 0
    assert "started" not in outcome.output.text.splitlines()
    busy = replace(python("while True: pass"), job_limits=(None, None, 1))
    outcome = await run(backend, busy, timeout=60)
    assert outcome.status == "exited"


async def test_usage_comes_from_the_job_object(backend: Backend) -> None:
    """Wine does not report the usage of a job, and no number is invented."""
    burn = (
        "import subprocess, sys, time\nif sys.argv[1:]: subprocess.run([sys.executable, '-c', sys.argv[1]])\n"
    )
    burn += "while time.process_time() < 0.3: pass\nprint('x' * 100_000)"
    usage = (await run(backend, python(burn, "import time\nwhile time.process_time() < 0.3: pass"))).usage
    if SYSTEM == "wine":
        assert usage is None
        return
    assert usage is not None
    assert usage.how == "exact"
    assert usage.user + usage.system >= 0.55
    assert usage.processes is not None
    assert usage.processes >= 2
    assert usage.written is not None
    assert usage.written >= 100_000


CHANGES = """
import os
with open("changed.txt", "a", newline="") as file:
    file.write("two\\n")
os.remove("gone.txt")
os.rename("moved.txt", "there.txt")
os.mkdir("made")
with open("made/\u00e4.txt", "w") as file:
    file.write("x")
"""


async def test_effects_and_undo_match_the_files(tmp_path: Path) -> None:
    names = ("changed.txt", "gone.txt", "moved.txt", "same.txt")
    for name in names:
        (tmp_path / name).write_bytes(f"{name}: one\n".encode())
    async with Environment.detect(cwd=tmp_path) as env:
        start = await env.checkpoint()
        outcome = await env.run([sys.executable, "-c", CHANGES], effects=Scan(diff=True), timeout=60)
        assert outcome.exit_code == 0, outcome.output.text
        effects = outcome.effects
        assert effects is not None
        assert effects.complete
        assert {each.path for each in effects.created} >= {"made", "made/\u00e4.txt"}
        assert [each.path for each in effects.changed if each.kind == "file"] == ["changed.txt"]
        assert "+two" in (effects.diff or "")
        end = await env.checkpoint(since=start)
        restored = await env.restore(start, until=end)
        assert restored.kept == {}
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
            name: f"{name}: one\n".encode() for name in names
        }
        again = await env.restore(restored.before)
        assert (tmp_path / "made" / "\u00e4.txt").read_text() == "x"
        assert set(again.kept) == {"gone.txt", "moved.txt"}
