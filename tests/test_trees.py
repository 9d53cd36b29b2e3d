"""The processes of a command on this machine: found and stopped processes, and reports about the others."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import Environment, Terminal
from anyshell.types import Control, DetachedJobs

from .conftest import NOBODY, missing, python_for_all
from .processes import STARTED, living, unique_seconds, wait_asleep
from .ssh_server import WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

assert sys.platform != "win32"  # else mypy checks the imports below on every platform

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="what /proc shows, which Linux alone has"),
]

PYTHON = python_for_all()

HEADLESS = (
    "import ctypes, os, threading, time; threading.Thread(target=time.sleep, args=(300,)).start(); "
    'open("pid", "w").write(str(os.getpid())); ctypes.CDLL(None).pthread_exit(None)'
)
"""A program whose first thread ends while a second thread lives."""


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    """This machine."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


def has_threads(pid: int) -> bool:
    """Whether any thread of a process lives, the first or another."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return state not in ("Z", "X") or int(fields[16]) > 1
    return False


async def headless(directory: Path) -> int:
    """Wait until the program's first thread has ended; return its pid."""
    with anyio.fail_after(20):
        while True:
            with suppress(OSError, ValueError):
                pid = int((directory / "pid").read_text())
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return pid
            await anyio.sleep(0.01)


# --- a process whose first thread has ended ------------------------------------------------------------------

AFTER_IT = f"{PYTHON} -c '{HEADLESS}' & until grep -q '^State:.Z' /proc/$!/status; do sleep 0.01; done"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param("", "", id="normal end"),
        pytest.param("", "; sleep 300", id="timeout"),
        pytest.param("setsid ", "", id="own session, normal end"),
        pytest.param("setsid ", "; sleep 300", id="own session, timeout"),
        pytest.param("env -i setsid ", "; sleep 300", id="without environment"),
    ],
)
@pytest.mark.parametrize("door", ["run", "session", "terminal"])
async def test_process_without_first_thread_is_named_and_stopped(
    env: Environment, tmp_path: Path, door: str, start: str, end: str
) -> None:
    text = f"{start}{AFTER_IT}{end}"
    timeout = 4 if end else 60
    with anyio.fail_after(60):
        if door == "session":
            async with env.session() as session:
                outcome = await session.run(text, timeout=timeout, grace=0.3, left_behind="stop")
        elif door == "terminal":
            outcome = await env.run(text, timeout=timeout, grace=0.3, left_behind="stop", terminal=Terminal())
        else:
            outcome = await env.run(text, timeout=timeout, grace=0.3, left_behind="stop")
    pid = int((tmp_path / "pid").read_text())
    assert outcome.status == ("timed_out" if end else "exited")
    if not end and (door, start) != ("terminal", ""):  # the kernel sends a hangup, which ends the process
        assert [process.alive for process in outcome.left_behind if process.pid == pid] == [False]
    assert not has_threads(pid)


@pytest.mark.parametrize("by", ["mark", "life pipe"])
async def test_process_without_first_thread_is_known_by_each_sign(
    env: Environment, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.backends.local.posix.linux.tree.make_tag", lambda number: None)
    start = "setsid" if by == "mark" else "env -i setsid"
    outcome = await env.run(f"({start} {AFTER_IT}); echo over", timeout=60, grace=0.3, left_behind="stop")
    pid = int((tmp_path / "pid").read_text())
    assert outcome.output.text == "over\n"
    assert pid in {process.pid for process in outcome.left_behind}
    assert not has_threads(pid)


async def test_command_without_first_thread_runs_until_it_is_stopped(
    env: Environment, tmp_path: Path
) -> None:
    task = asyncio.ensure_future(env.run(f"exec {PYTHON} -c '{HEADLESS}'", grace=0.3, left_behind="stop"))
    pid = await headless(tmp_path)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not has_threads(pid)


async def test_job_without_first_thread_runs_until_it_is_stopped(env: Environment, tmp_path: Path) -> None:
    jobs = DetachedJobs(env, directory=str(tmp_path / "jobs"))
    job = await jobs.start(f"exec {PYTHON} -c '{HEADLESS}'")
    pid = await headless(tmp_path)
    assert (await jobs.get(job.id)).status == "running"
    assert await job.stop(grace=1) == []
    assert not has_threads(pid)


async def test_process_of_a_job_without_first_thread_keeps_its_record(
    env: Environment, tmp_path: Path
) -> None:
    jobs = DetachedJobs(env, directory=str(tmp_path / "jobs"))
    job = await jobs.start(f"setsid {PYTHON} -c '{HEADLESS}' & sleep 0.3")
    pid = await headless(tmp_path)
    assert await job.wait(timeout=20) == "completed"
    assert await jobs.prune() == []
    assert await job.stop(grace=1) == []
    assert not has_threads(pid)


# --- signals that the host program blocks or ignores ----------------------------------------------------------

HOST = """
import asyncio, signal, sys
from anyshell import Environment
{setting}

async def main():
    async with Environment.detect(cwd=sys.argv[1]) as env:
        outcome = await env.run("/bin/sleep 300; touch ran-on", timeout=0.5, grace=30)
        print(outcome.status)
        async with env.session() as session:
            await session.run("a=1")
            outcome = await session.run("/bin/sleep 300; touch ran-on", timeout=0.5, grace=30)
            print(outcome.status, (await session.run("echo $a")).output.text.strip())

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["posix_spawn", "fork"])
@pytest.mark.parametrize(
    "change",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGVTALRM])",
        "for each in (signal.SIGTERM, signal.SIGVTALRM): signal.signal(each, signal.SIG_IGN)",
    ],
)
def test_stop_reaches_children_of_a_program_that_blocks_or_ignores_signals(
    tmp_path: Path, change: str, way: str
) -> None:
    setting = change
    if way == "fork":
        setting += "\nfrom anyshell.backends.local.posix import posix_spawn; posix_spawn.AVAILABLE = False"
    host = [sys.executable, "-c", HOST.format(setting=setting), str(tmp_path)]
    result = subprocess.run(host, capture_output=True, text=True, timeout=25)
    assert result.stdout.splitlines() == ["timed_out", "timed_out 1"], result.stderr
    assert not (tmp_path / "ran-on").exists()


async def test_command_has_no_signal_blocked_or_ignored(env: Environment) -> None:
    outcome = await env.run("exec grep -E '^Sig(Blk|Ign)' /proc/self/status")
    assert [line.split()[1] for line in outcome.output.text.splitlines()] == ["0" * 16] * 2


def test_command_gets_its_pipes_from_a_program_without_standard_descriptors(tmp_path: Path) -> None:
    host = (
        "import os, sys; os.closerange(0, 3)\n"
        "import anyshell\n"
        "outcome = anyshell.run('cat; echo err >&2; readlink /proc/self/fd/0', stdin='in ')\n"
        "open(sys.argv[1], 'w').write(outcome.output.text)"
    )
    subprocess.run([sys.executable, "-c", host, tmp_path / "text"], timeout=25)
    assert (tmp_path / "text").read_text().startswith("in err\npipe:")


# --- a /proc that shows other processes, or nothing but processes ---------------------------------------------


TAGGED = "until [ $(ulimit -x) != unlimited ]; do :; done"
"""The beginning of a command for bash that waits for its tag: without /proc, a process that leaves the session has no other sign of
the command."""


def run_in_namespace(program: str, directory: Path, *options: str, before: str = "") -> str:
    """Run a Python program in a pid namespace of its own, after commands of a shell; return its output.

    The variable ``TAGGED`` of the program is `TAGGED`.
    """
    if os.geteuid() != 0:
        missing("root", "run the tests as root, who may make a pid namespace")
    shell = f'{before} exec "$0" -c "$@"'
    argv = ["unshare", "--pid", "--fork", "--kill-child", *options, "sh", "-c", shell]
    text = textwrap.dedent(program)
    result = subprocess.run(
        [*argv, sys.executable, text, directory],
        env={**os.environ, "TAGGED": TAGGED},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert not result.stderr
    return result.stdout


PROCS = {
    "of another namespace": ((), ""),
    "processes alone": (("--mount",), "mount -t proc -o subset=pid proc /proc;"),
    "none": (("--mount",), "mount -t tmpfs none /proc;"),
}

STOPS = """
import asyncio, os, sys
from anyshell import Environment

def lives(pid):
    # This program is init here, and so has to reap it.
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            break
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

async def main():
    async with Environment.detect(cwd=sys.argv[1]) as env:
        print((await env.run("echo hi")).output.text, end="")
        for start in ("", "setsid ", "env -i setsid "):
            outcome = await env.run(f'eval "$TAGGED"; {start}sleep 300 & echo $!; wait', timeout=4, grace=0.3)
            print(outcome.status, len(outcome.left_behind), lives(int(outcome.output.text)))
        outcome = await env.run("sleep 300 &", left_behind="stop")
        print(outcome.status, [process.alive for process in outcome.left_behind])
        async with env.session() as session:
            print((await session.run("a=1; echo $a")).output.text, end="")
            outcome = await session.run("setsid sleep 300; echo ran on", timeout=1.5, grace=20)
            print(outcome.status, len(outcome.left_behind), "ran on" in outcome.output.text)
            print((await session.run("echo $a")).output.text, end="")
            outcome = await session.run("true")
            print(outcome.status, len(outcome.left_behind))

asyncio.run(main())
"""


@pytest.mark.parametrize(("options", "before"), PROCS.values(), ids=PROCS.keys())
def test_commands_and_sessions_stop_under_any_proc(
    tmp_path: Path, options: tuple[str, ...], before: str
) -> None:
    said = run_in_namespace(STOPS, tmp_path, *options, before=before).splitlines()
    stops = ["hi", *["timed_out 0 False"] * 3, "exited [False]", "1", "timed_out 0 False", "1", "exited 0"]
    assert said == stops


LEAVES = """
import asyncio, sys
from anyshell import Environment

async def main():
    async with Environment.detect(cwd=sys.argv[1]) as env, env.session() as session:
        start = "import subprocess as s; s.Popen(['sleep', '300'], stdin=-3, stdout=-3, stderr=-3)"
        for text in "true", f'{sys.executable} -c "{start}"':
            outcome = await session.run(text, left_behind="stop")
            print(outcome.status, [process.name for process in outcome.left_behind])

asyncio.run(main())
"""


@pytest.mark.parametrize("newest", [819244, 0], ids=["lxcfs", "gVisor"])
def test_process_left_behind_is_found_where_loadavg_shows_another_pid(tmp_path: Path, newest: int) -> None:
    """The file shows the last pid of the host with lxcfs, and 0 under gVisor."""
    (tmp_path / "load").write_text(f"0.00 0.00 0.00 1/99 {newest}\n")
    before = f"mount -t proc proc /proc; mount --bind '{tmp_path}/load' /proc/loadavg;"
    said = run_in_namespace(LEAVES, tmp_path, "--mount", before=before).splitlines()
    assert said == ["exited []", "exited ['sleep']"]


MARKS = """
import asyncio, re, sys
from anyshell import Environment

async def main():
    async with Environment.detect(cwd=sys.argv[1], shell="dash") as env, env.session() as session:
        for shell in env, session:
            text = (await shell.run("env")).output.text
            print(len(set(re.findall(r"^ANYSHELL_MARK_[0-9a-f_]+=", text, re.M))))

asyncio.run(main())
"""


@pytest.mark.parametrize(("options", "before"), PROCS.values(), ids=PROCS.keys())
def test_marks_are_names_of_variables_under_any_proc(
    tmp_path: Path, options: tuple[str, ...], before: str
) -> None:
    """dash does not pass on a variable with an invalid name."""
    assert run_in_namespace(MARKS, tmp_path, *options, before=before).split() == ["1", "2"]


@pytest.mark.parametrize(("options", "before"), PROCS.values(), ids=PROCS.keys())
async def test_command_of_a_living_anyshell_is_no_orphan_under_any_proc(
    env: Environment, options: tuple[str, ...], before: str
) -> None:
    seconds = unique_seconds()
    program = f"import anyshell; anyshell.run('exec sleep {seconds}')"
    shell = f'{before} exec "$0" -c "$1"'
    unshare = ["unshare", "--pid", "--fork", "--kill-child", *options]
    with subprocess.Popen([*unshare, "sh", "-c", shell, sys.executable, program]):
        wait_asleep(seconds)
        (pid,) = (int(line.split()[0]) for line in living(seconds) if line.split()[1:] == ["sleep", seconds])
        orphans = await env.orphans()
        os.kill(pid, signal.SIGKILL)
    assert pid not in {process.pid for process in orphans}


def test_unrelated_process_with_the_pid_of_a_member_survives(tmp_path: Path) -> None:
    seconds = unique_seconds()
    program = f"""
        import asyncio, os, subprocess, sys
        from pathlib import Path
        from anyshell import Environment

        def number_outside():
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if each.read_bytes() == b"sleep\\x00{seconds}\\x00":
                        return int(each.parent.name)
                except OSError:
                    pass

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env:
                command = asyncio.ensure_future(env.run("exec sleep {seconds}", grace=0.3))
                while not (number := number_outside()):
                    await asyncio.sleep(0.01)
                Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
                stranger = subprocess.Popen(["sleep", "300"])
                command.cancel()
                await asyncio.wait([command])
                print(stranger.pid == number, stranger.poll())

        asyncio.run(main())
        """
    assert run_in_namespace(program, tmp_path) == "True None\n"
    assert living(seconds) == []


@pytest.mark.parametrize("options", [("--mount-proc",), ()], ids=["shown", "not shown"])
def test_unrelated_process_with_the_pid_of_a_reaped_leader_survives(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    program = """
        import asyncio, os, signal, subprocess, sys
        from pathlib import Path
        from anyshell import Environment

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env:
                outcome = await env.run('eval "$TAGGED"; setsid sleep 300 & echo $$ $!')
                leader, left = map(int, outcome.output.text.split())
                job = env.jobs.get(outcome.job)
                print(os.waitpid(-1, 0)[0] == leader)  # as a program does that waits for any child
                last = Path("/proc/sys/kernel/ns_last_pid")
                last.write_text(str(leader - 1))
                stranger = subprocess.Popen(["sleep", "300"], process_group=0)
                last.write_text(str(left))  # where /proc shows nothing, numbers are tried as far as the last
                print(stranger.pid == leader)
                outcome = await job.stop()
                print(outcome.status, stranger.poll(), os.waitstatus_to_exitcode(os.waitpid(left, 0)[1]))

        asyncio.run(main())
        """
    # The program is init there, and so the parent of orphans.
    assert run_in_namespace(program, tmp_path, *options) == f"True\nTrue\ncancelled None {-signal.SIGTERM}\n"


def test_reused_pid_is_looked_at_again(tmp_path: Path) -> None:
    program = """
        import asyncio, subprocess, sys
        from pathlib import Path
        from anyshell import Environment

        async def main():
            old = subprocess.Popen(["sleep", "300"])
            async with Environment.detect(cwd=sys.argv[1]) as env:
                await env.run("sleep 300", timeout=0.3)
                old.kill()
                old.wait()
                text = f"env -i setsid sh -c 'echo {old.pid - 1} >/proc/sys/kernel/ns_last_pid; sleep 300 & echo $! >pid; wait' & wait"
                outcome = await env.run(text, timeout=3, grace=0.3)
                again = int(Path("pid").read_text())
                stat = Path(f"/proc/{again}/stat")  # of a zombie, if this program has not reaped it yet
                lives = stat.exists() and ") Z" not in stat.read_text()
                print(again == old.pid, outcome.status, lives)

        asyncio.run(main())
        """
    before = "cd " + str(tmp_path) + ";"
    assert run_in_namespace(program, tmp_path, "--mount-proc", before=before) == "True timed_out False\n"


@pytest.mark.parametrize(
    ("leader", "member", "last"), [(100, 30000, 200), (30000, 400, 500)], ids=["above", "below"]
)
@pytest.mark.parametrize("proc", ["of another namespace", "none"])
def test_member_is_stopped_without_proc_after_pids_began_anew(
    tmp_path: Path, proc: str, leader: int, member: int, last: int
) -> None:
    program = f"""
        import asyncio, os, sys
        from contextlib import suppress
        from anyshell import Environment

        def give_next(pid):
            os.pwrite(9, b"%d" % (pid - 1), 0)

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env:
                await env.run("true")
                give_next({leader})
                job = await env.start("echo $$; read line; setsid sleep 300 & echo $!; wait", ready="\\n", grace=0.3)
                give_next({member})
                await job.send("go\\n")
                await job.wait_for(r"\\n\\d+\\n")
                give_next({last})
                os.waitpid(os.posix_spawn("/bin/true", ["true"], {{}}), 0)
                print((await job.output()).text.split(), (await job.stop()).status)
                with suppress(ProcessLookupError):
                    with suppress(ChildProcessError):  # its shell has reaped it
                        os.waitpid({member}, os.WNOHANG)  # this program is init here
                    os.kill({member}, 0)
                    print("lives")

        asyncio.run(main())
        """
    (tmp_path / "pid_max").write_text("32768\n")
    before = f"exec 9>/proc/sys/kernel/ns_last_pid; mount --bind {tmp_path}/pid_max /proc/sys/kernel/pid_max; {PROCS[proc][1]}"
    said = run_in_namespace(program, tmp_path, "--mount", before=before)
    assert said == f"['{leader}', '{member}'] cancelled\n"


def test_members_are_named_and_signalled_in_the_order_of_their_start(tmp_path: Path) -> None:
    program = """
        import asyncio, sys
        from pathlib import Path
        from anyshell import Environment

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env:
                # In a set of numbers those from 4096 on come first.
                text = "echo 4080 >/proc/sys/kernel/ns_last_pid; for i in $(seq 20); do setsid sleep 300 & done"
                outcome = await env.run(text, left_behind="stop")
                pids = [process.pid for process in outcome.left_behind]
                print(len(pids), min(pids) < 4096 < max(pids), pids == sorted(pids))

        asyncio.run(main())
        """
    assert run_in_namespace(program, tmp_path, "--mount-proc") == "20 True True\n"


def test_simultaneous_looks_of_trees_share_one_scan(tmp_path: Path) -> None:
    program = """
        import asyncio, subprocess, sys
        from collections import Counter
        from anyshell.backends.local.posix.linux.proc import now
        from anyshell.backends.local.posix.linux.scan import ProcessScan
        from anyshell.backends.local.posix.linux.tree import LinuxTree

        listed = Counter()
        sys.addaudithook(lambda event, words: listed.update(words[:1]) if event == "os.listdir" else None)

        async def main():
            since, scan = now(), ProcessScan()
            trees = [
                LinuxTree(0, since, mark=b"NONE", tag=None, life="pipe:[0]", pipes=["pipe:[0]"], scan=scan)
                for _ in range(20)
            ]
            with subprocess.Popen(["sleep", "300"]) as stranger:
                await asyncio.gather(*(tree.members() for tree in trees))
                stranger.kill()
            print(listed[f"/proc/{stranger.pid}/fd"])

        asyncio.run(main())
        """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=50
    )
    assert (said.stdout, said.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    ("options", "before", "verdict"),
    [
        (
            *PROCS["of another namespace"],
            "problem proc /proc shows the processes of another pid namespace",
        ),
        (*PROCS["processes alone"], "ok proc "),
        (*PROCS["none"], "problem proc /proc shows no processes"),
    ],
    ids=PROCS.keys(),
)
def test_doctor_reports_the_state_of_proc(
    tmp_path: Path, options: tuple[str, ...], before: str, verdict: str
) -> None:
    program = "import sys; from anyshell.cli.program import main; sys.argv = ['anyshell', 'doctor']; main()"
    said = run_in_namespace(program, tmp_path, *options, before=before)
    assert verdict in " ".join(said.split())
    seen = verdict.startswith("ok")
    assert ("nothing still runs" in said) == seen
    assert ("cannot be seen without /proc" in said) != seen


# --- a process that a debugger holds ------------------------------------------------------------------------------

TRACER = """
import ctypes, os, sys
pid = int(sys.argv[1])
PTRACE_ATTACH, PTRACE_CONT = 16, 7
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
if ptrace(PTRACE_ATTACH, pid, None, None):
    sys.exit(f"cannot trace: {os.strerror(ctypes.get_errno())}")
os.waitpid(pid, 0)
if sys.argv[2] == "continue":
    ptrace(PTRACE_CONT, pid, None, None)
print("traced", flush=True)
sys.stdin.read()
"""
"""A debugger that does not wait for its process. Until it does, the kernel does not tell the parent of the end."""


@contextmanager
def tracing(pid: int, how: str) -> Iterator[None]:
    """Have a debugger hold a process."""
    argv = [sys.executable, "-c", TRACER, str(pid), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == b"traced\n"
        yield


async def test_stopped_process_that_a_debugger_holds_is_not_lost(env: Environment) -> None:
    job = await env.start("echo; exec sleep 300", ready="\n", grace=0.3)
    assert job.pid is not None
    with tracing(job.pid, "stopped"):
        outcome = await job.stop()
    assert (outcome.status, outcome.signal, outcome.left_behind) == ("cancelled", "SIGKILL", ())


@pytest.mark.parametrize("code", [0, 7])
async def test_end_of_a_process_that_a_debugger_holds_is_known(env: Environment, code: int) -> None:
    job = await env.start(f"echo; read line; exit {code}", ready="\n", grace=0.3)
    assert job.pid is not None
    with tracing(job.pid, "continue"):
        await job.send("\n")
        outcome = await job.wait(timeout=20)
    assert outcome is not None
    assert (outcome.status, outcome.exit_code) == ("exited", code)


# # --- programs that clear environment, limits and descriptors ---------------------------------------------------

CLEARING = f'sudo env -i {PYTHON} -c \'import os, resource, sys; os.closerange(3, 4096); resource.setrlimit(10, (-1, -1)); os.execv("/bin/bash", ["bash", "-c", sys.argv[1]])\''
"""``sudo bash -c``, on a host where sudo resets limits."""


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize("server", ["setsid sleep {s} &", "setsid -f sleep {s};"])
async def test_server_on_the_terminal_that_sudo_has_made_is_stopped(tmp_path: Path, server: str) -> None:
    """With `use_pty`, sudo runs a command on a terminal of its own."""
    seconds, account = unique_seconds(), f"anyshell-sudo{WORKER}"
    allowed = Path(f"/etc/sudoers.d/{account}")
    allowed.write_text("Defaults:root use_pty\n")
    allowed.chmod(0o440)
    try:
        async with Environment.detect(cwd=tmp_path, shell="bash") as env:
            text = f"sudo sh -c 'tty; {server.replace('{s}', seconds)} touch begun; sleep {seconds}1'; tty"
            async with asyncio.TaskGroup() as tasks:
                control = Control()
                running = tasks.create_task(
                    env.run(
                        text, timeout=60, grace=0.3, left_behind="stop", terminal=Terminal(), control=control
                    )
                )
                while not (tmp_path / "begun").exists() or not living(f"sleep {seconds}"):
                    await asyncio.sleep(0.01)
                control.cancel()
            outcome = running.result()
        left = living(f"sleep {seconds}")
        for line in left:
            os.kill(int(line.split()[0]), signal.SIGKILL)
        assert (outcome.status, outcome.left_behind, left) == ("cancelled", (), [])
        assert outcome.output.text.startswith("/dev/pts/")
    finally:
        allowed.unlink()


SET_UID = r"""
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int count, char **words) {
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(10, &none);
    for (int fd = 3; fd < 4096; fd++) close(fd);
    setgid(0);
    setuid(0);
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            char *argv[] = {"sleep", words[1], NULL}, *env[] = {NULL};
            execve("/bin/sleep", argv, env);
        }
        _exit(0);
    }
    sleep(1);
    return count != 2;
}
"""
"""The effects of sudo alone: it becomes root, and leaves no sign of the command except its output."""


@pytest.fixture
def sudo() -> None:
    """Sudo without a password for root."""
    if shutil.which("sudo") is None:
        missing("sudo", "install sudo")
    if os.geteuid() != 0:
        missing("root", "run the tests as root, whom sudo asks for no password")


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize(
    "text",
    [
        f"'setsid sleep {{s}} >/dev/null & {STARTED}'",
        f"'setsid sleep {{s}} 2>/dev/null & {STARTED}'",
    ],
    ids=["stderr held", "stdout held"],
)
@pytest.mark.parametrize(
    ("terminal", "end"),
    [(None, "timeout"), (None, "normal end"), (Terminal(), "timeout")],
    ids=["pipes, timeout", "pipes, normal end", "terminal, timeout"],
)
async def test_process_of_sudo_that_holds_the_output_is_stopped(
    env: Environment, text: str, terminal: Terminal | None, end: str
) -> None:
    seconds = unique_seconds()
    if end == "timeout":
        text += "; sleep {s}"
    # On a terminal sudo may give its command another terminal, whose end hangs up the command.
    start = CLEARING if terminal is None else CLEARING.removeprefix("sudo ")
    with anyio.fail_after(60):
        outcome = await env.run(
            f"{start} {text.replace('{s}', seconds)}",
            timeout=2 if end == "timeout" else 60,
            grace=0.3,
            left_behind="stop",
            terminal=terminal,
            split_stderr=terminal is None,
        )
    assert outcome.status == ("exited" if end == "normal end" else "timed_out")
    assert living(seconds) == []
    if end == "normal end":
        assert [(process.name, process.alive) for process in outcome.left_behind] == [("sleep", False)]


@pytest.mark.usefixtures("sudo")
@pytest.mark.parametrize("end", ["timeout", "normal end"])
async def test_process_of_sudo_in_the_group_of_a_session_is_named_and_stopped(
    env: Environment, end: str
) -> None:
    seconds = unique_seconds()
    later = f"sleep {unique_seconds()}" if end == "timeout" else ":"
    async with env.session() as session:
        before = await session.run(f"sleep {unique_seconds()} &", left_behind="keep")
        with anyio.fail_after(60):
            outcome = await session.run(
                f"{CLEARING} '(sleep {seconds} >/dev/null 2>&1 </dev/null & {STARTED})'; {later}",
                timeout=2 if end == "timeout" else 60,
                grace=0.3,
                left_behind="stop",
            )
        assert living(seconds) == []
        assert {process.name for process in outcome.left_behind} <= {"sleep"}
        assert (end == "timeout") == (not outcome.left_behind)
        for process in before.left_behind:  # the process belongs to another command
            assert has_threads(process.pid)
            os.kill(process.pid, signal.SIGKILL)


HOLDING = f"""{PYTHON} -c '
import os, resource, sys
resource.setrlimit(10, (-1, -1))
for fd in set(range(256)) - {{int(sys.argv[1])}}:
    try:
        os.close(fd)
    except OSError:
        pass
running, runs = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[2]], {{}})
    os._exit(0)
os.close(runs)
os.read(running, 1)
'"""
"""Takes a descriptor and seconds: leaves a process whose only sign is that descriptor. Ends when the process has its name."""


@pytest.mark.parametrize("fd", [1, 2, 197], ids=["stdout", "stderr", "life pipe"])
async def test_process_that_holds_one_pipe_of_a_session_command_is_stopped(tmp_path: Path, fd: int) -> None:
    seconds = unique_seconds()
    async with Environment.detect(cwd=tmp_path, shell="bash") as env, env.session() as session:
        with anyio.fail_after(60):
            outcome = await session.run(
                f"{HOLDING} {fd} {seconds}", timeout=60, left_behind="stop", split_stderr=True
            )
        assert living(seconds) == []
        assert [(process.name, process.alive) for process in outcome.left_behind] == [("sleep", False)]


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def escape(public: Path) -> Path:
    """A set-uid program that takes seconds, ends after one, and leaves a process of root that holds its output."""
    compiler = shutil.which("cc")
    if compiler is None:
        missing("cc", "install gcc")
    if os.geteuid() != 0:
        missing("root", "run the tests as root, who can make a set-uid program")
    source, program = public / "escape.c", public / "escape"
    source.write_text(SET_UID)
    subprocess.run([compiler, "-o", program, source], check=True)
    program.chmod(0o4755)
    return program


def run_as_nobody(main: str, public: Path, seconds: str) -> subprocess.CompletedProcess[str]:
    """Run a coroutine function ``main(env)`` as an ordinary user, then end the processes that sleep for the given seconds."""
    host = """
        import asyncio, os, anyshell

        async def load():
            async with anyshell.Environment.detect(cwd="/") as env, env.session() as session:
                await env.run("sleep 5 & sleep 5", timeout=0.3, grace=0.1)
                await session.run("sleep 5 & sleep 5", timeout=0.3, grace=0.1)

        def tell(outcome):
            print(outcome.status, [(each.name, each.pid, each.alive) for each in outcome.left_behind], flush=True)

        async def start():
            async with anyshell.Environment.detect(cwd="/") as env:
                await main(env)

        asyncio.run(load())  # as root, since the other user may not read these files
        """
    as_nobody = f"""
        os.environ["ANYSHELL_STATE_DIR"] = "{public}/state"
        os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
        asyncio.run(start())
        """
    program = "".join(map(textwrap.dedent, (host, main, as_nobody)))
    try:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    finally:
        for line in living(seconds):
            os.kill(int(line.split()[0]), signal.SIGKILL)


UNKNOWN = "[('unknown', 0, True)]"


def test_holder_of_a_pipe_that_cannot_be_seen_is_unknown(public: Path, escape: Path) -> None:
    seconds = unique_seconds()
    main = f"""
        async def main(env):
            tell(await env.run("{escape} {seconds}", timeout=30, left_behind="stop"))
            tell(await env.run("{escape} {seconds}; exec sleep {seconds}", timeout=5, grace=0.3))
        """
    result = run_as_nobody(main, public, seconds)
    assert result.stdout.splitlines() == [f"exited {UNKNOWN}", f"lost {UNKNOWN}"], result.stderr


@pytest.mark.parametrize("held", ["both", "stdout", "stderr"])
def test_holder_of_a_pipe_of_a_session_that_cannot_be_seen_is_unknown(
    public: Path, escape: Path, held: str
) -> None:
    seconds = unique_seconds()
    closing = {"both": "", "stdout": " 2>/dev/null", "stderr": " >/dev/null"}[held]
    main = f"""
        async def main(env):
            async with env.session() as session:
                for text, timeout in (("", 60), ("; sleep {seconds}", 5)):
                    text = "{escape} {seconds}{closing}" + text
                    tell(await session.run(text, timeout=timeout, grace=0.3, left_behind="stop", split_stderr=True))
                tell(await session.run("exec 3>&1 4>&2", left_behind="stop", split_stderr=True))
                tell(await session.run(":", left_behind="stop", split_stderr=True))
        """
    result = run_as_nobody(main, public, seconds)
    assert result.stdout.splitlines() == [
        f"exited {UNKNOWN}",
        f"lost {UNKNOWN}",
        "exited []",  # the shell itself holds the pipes
        "exited []",
    ], result.stderr


def test_copy_of_the_program_that_holds_a_pipe_of_a_session_is_not_signalled(tmp_path: Path) -> None:
    program = """
        import asyncio, os, signal, sys, time
        from anyshell import Environment

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env, env.session() as session:
                await session.run("true")
                for text in ("sleep 300", f"sleep 300 & {sys.argv[2]}", "sleep 1"):
                    running = asyncio.create_task(session.run(text, timeout=3, grace=0.3, left_behind="stop"))
                    await asyncio.sleep(0.5)
                    if (copy := os.fork()) == 0:
                        time.sleep(300)
                    outcome = await running
                    print(outcome.status, [each.name for each in outcome.left_behind])
                    print(os.waitpid(copy, os.WNOHANG))
                    os.kill(copy, signal.SIGKILL)

        asyncio.run(main())
        """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path, STARTED],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert result.stdout.splitlines() == [
        "timed_out []",
        "(0, 0)",
        "exited ['sleep']",
        "(0, 0)",
        "exited []",
        "(0, 0)",
    ], result.stderr


def test_copy_of_the_program_that_holds_a_pipe_is_not_signalled(tmp_path: Path) -> None:
    program = """
        import asyncio, os, signal, sys, time
        from anyshell import Environment
        from anyshell.backends.local.posix import posix_spawn

        spawn, copies = posix_spawn.spawn, []

        def fork_beside(*arguments, **options):
            pid = spawn(*arguments, **options)
            time.sleep(0.02)
            if (copy := os.fork()) == 0:
                time.sleep(300)
            copies.append(copy)
            return pid

        async def main():
            async with Environment.detect(cwd=sys.argv[1]) as env:
                posix_spawn.spawn = fork_beside
                for text, seconds in (("sleep 300", 1), (f"sleep 300 & {sys.argv[2]}", 40)):
                    outcome = await env.run(text, timeout=seconds, grace=0.3, left_behind="stop")
                    print(outcome.status, [each.name for each in outcome.left_behind])
                for copy in copies:
                    print(os.waitpid(copy, os.WNOHANG))
                    os.kill(copy, signal.SIGKILL)

        asyncio.run(main())
        """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path, STARTED],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert result.stdout.splitlines() == [
        "timed_out []",
        "exited ['sleep']",
        "(0, 0)",
        "(0, 0)",
    ], result.stderr


# --- variables -------------------------------------------------------------------------------------------------


def test_variable_that_cannot_be_encoded_is_an_invalid_command() -> None:
    program = """
        import anyshell
        try:
            anyshell.run("true", env={"NAME": "\\xe4"})
        except anyshell.InvalidCommand as error:
            print(error)
        """
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=ascii_only,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "PYTHONUTF8=1" in result.stdout, result.stderr
