"""The shell text that looks at a host's processes, run by itself with the shells and tools of various hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil
import pytest

from anyshell._terminals import TtyModes
from anyshell.backends.ssh.facts import FactLines
from anyshell.backends.ssh.posix.look import LookRow, ProcessLook, Sample, parse
from anyshell.backends.ssh.posix.processes import Blind, Processes, SSHTree
from anyshell.backends.ssh.posix.terminal import read_foreground, read_modes
from anyshell.backends.ssh.posix.watcher import Answer, boot, text_of
from anyshell.backends.tree import UNLIMITED
from anyshell.shells import SHELLS, Login, candidates

from .conftest import NOBODY, missing, open_to_all
from .processes import failing_awk, living, unique_seconds, wait_asleep
from .ssh_server import is_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anyshell.abc import Foreground
    from anyshell.backends.ssh.posix.watcher import Watcher

assert sys.platform != "win32"  # else mypy checks the code below on every platform

MARK = "ANYSHELL_REMOTE_0123456789abcdef_"
TOKEN = "anyshelltoken"
TAG = 12345 << 31

HOSTS = ["dash", "bash", "busybox", "without /proc"]


class Host:
    """A shell that runs the text."""

    def __init__(
        self, argv: list[str], env: Mapping[str, str], first: str = "", *, whole: bool = True
    ) -> None:
        self._shell = subprocess.Popen(
            [*argv, "-c", boot(MARK, TOKEN, first, whole=whole), "anyshell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        assert self._shell.stdout is not None
        assert self._shell.stdout.readline().startswith(f"{TOKEN} started ")
        self._number = 0
        self.first = self._answer()

    def ask(self, question: str) -> list[str]:
        assert self._shell.stdin is not None
        self._number += 1
        self._shell.stdin.write(f"{self._number} {question}\n")
        self._shell.stdin.flush()
        return self._answer()

    def load(self) -> None:
        """Send the rest of the text."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"0 load\n{text_of('looks.sh')}.\n")
        self._shell.stdin.flush()

    def _answer(self) -> list[str]:
        assert self._shell.stdout is not None
        lines: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(f"{TOKEN} ") and line != f"{TOKEN} +\n":
                if line == f"{TOKEN} !\n":
                    return ["!"]
                assert int(line.split()[1]) == self._number
                assert float(line.split()[2]) > 0
                return lines
            if line != f"{TOKEN} +\n":
                lines.append(line.rstrip("\n"))
        raise AssertionError("the shell has ended")

    def close(self) -> None:
        """End the questions; the shell ends with them."""
        self._shell.communicate(timeout=20)
        assert self._shell.returncode == 0


def surroundings(kind: str, tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    if kind == "without /proc":
        return ["/bin/sh"], {**env, "ANYSHELL_NO_PROC": "1"}
    program = shutil.which(kind)
    if program is None:
        missing(kind, f"install {kind}")
    if kind != "busybox":
        return [program], env
    tools = tmp_path / "tools"  # only programs of busybox
    tools.mkdir()
    subprocess.run([program, "--install", "-s", str(tools)], check=True)
    return [program, "ash"], {**env, "PATH": str(tools)}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(*surroundings(request.param, tmp_path))
    yield made
    made.close()


def look(host: Host, since: int = 0) -> dict[int, LookRow]:
    return {seen.pid: seen for seen in parse(host.ask(f"look {since} 9 - 0 0")).seen}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, with a mark, which holds a pipe."""
    seconds = unique_seconds()
    process = subprocess.Popen(
        ["sleep", seconds],
        start_new_session=True,
        env={f"{MARK}2a": "1"},
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_asleep(seconds)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_look_returns_the_identity_of_a_process(
    request: pytest.FixtureRequest, host: Host, sleeper: subprocess.Popen[bytes]
) -> None:
    seen = look(host)[sleeper.pid]
    assert (seen.parent, seen.group, seen.name) == (os.getpid(), sleeper.pid, "sleep")
    assert seen.started > 0
    if "without /proc" not in request.node.name:
        assert (seen.session, seen.limit, seen.marks) == (sleeper.pid, UNLIMITED, [f"{MARK}2a"])
        assert list(seen.holds) == [1]


def test_look_skips_earlier_processes(
    host: Host, sleeper: subprocess.Popen[bytes], request: pytest.FixtureRequest
) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("ps(1) prints seconds instead of ticks, and the client leaves earlier processes out")
    started = look(host)[sleeper.pid].started
    assert sleeper.pid in look(host, int(started))
    assert sleeper.pid not in look(host, int(started) + 1)


def test_a_zombie_is_not_seen(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    os.kill(sleeper.pid, 9)
    while psutil.Process(sleeper.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    assert sleeper.pid not in look(host)


def test_process_name_with_special_characters_is_parsed(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "a ) R 1 1\n"
    program.symlink_to(shutil.which("sleep") or "")
    process = subprocess.Popen([str(program), "300"])
    try:
        seen = look(host)[process.pid]
        assert (seen.parent, seen.group) == (os.getpid(), os.getpgid(process.pid))
    finally:
        process.kill()
        process.wait()


def test_only_the_same_process_is_signalled(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    began = look(host)[sleeper.pid].began
    other = "1" if began.isdigit() else "Jan-1-00:00:00-1999"
    host.ask(f"signal KILL {sleeper.pid}:{other} -{sleeper.pid}:{other}")
    assert sleeper.poll() is None
    host.ask(f"signal TERM -{sleeper.pid}:{began}")
    assert sleeper.wait(timeout=20) == -15


def test_signal_for_a_process_on_another_host_is_not_sent(
    host: Host, sleeper: subprocess.Popen[bytes], request: pytest.FixtureRequest
) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("only /proc tells where the watcher is")
    target = f"KILL {sleeper.pid}:{look(host)[sleeper.pid].began}"
    place = host.ask("ping")[0].split()[1]
    host.ask(f"at {place[:-2]}x signal {target}")
    assert host.ask(f"group {sleeper.pid}") == ["some"]
    assert sleeper.poll() is None
    host.ask(f"at {place} signal {target}")
    assert sleeper.wait(20) == -9


def test_a_stopped_process_is_woken_to_act_on_a_signal(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    psutil.Process(sleeper.pid).suspend()
    host.ask(f"signal TERM {sleeper.pid}:{look(host)[sleeper.pid].began}")
    assert sleeper.wait(timeout=20) == -15


def test_existence_of_a_group_is_reported(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    assert host.ask(f"group {sleeper.pid}") == ["some"]
    sleeper.kill()
    sleeper.wait()
    assert host.ask(f"group {sleeper.pid}") == ["none"]


def test_chase_kills_tagged_processes_alone(
    request: pytest.FixtureRequest, host: Host, sleeper: subprocess.Popen[bytes]
) -> None:
    if sys.platform != "linux" or "without /proc" in request.node.name:
        pytest.skip("there are tags on Linux alone, where /proc tells them")
    import resource

    tag = unique_tag()  # the chase would kill processes of other tests that have the same tag
    ends: list[int | None] = []
    while not ends or (
        -9 not in ends and len(ends) < 50
    ):  # the chase looks at the newest processes, and other programs start some too
        tagged = subprocess.Popen(["sleep", "300"])
        resource.prlimit(tagged.pid, 10, (tag, resource.RLIM_INFINITY))
        host.ask(f"chase {tag}")
        ends.append(tagged.poll())
        if len(ends) == 1:
            resource.prlimit(sleeper.pid, 10, (tag + (1 << 31), resource.RLIM_INFINITY))
            assert look(host)[sleeper.pid].limit == tag + (1 << 31)
        tagged.terminate()
        tagged.wait()
    shell = subprocess.Popen(["sleep", "300"])
    resource.prlimit(shell.pid, 10, (tag, resource.RLIM_INFINITY))
    host.ask(f"chase {tag} {shell.pid}")
    shell.terminate()
    assert shell.wait() == -15
    assert -9 in ends
    assert sleeper.poll() is None


def test_starts_from_ps_do_not_depend_on_the_time_zone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv, env = surroundings("without /proc", tmp_path)
    host = Host(argv, {**env, "TZ": "America/Lima"})
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        seen = look(host)[sleeper.pid]
        assert abs(seen.started - psutil.Process(sleeper.pid).create_time()) < 5
        host.ask(f"signal TERM {sleeper.pid}:{seen.began}")
        assert sleeper.wait(timeout=20) == -15
    finally:
        host.close()
        monkeypatch.undo()
        time.tzset()


def test_login_shell_is_found_by_a_token_in_its_command_line(
    host: Host, request: pytest.FixtureRequest
) -> None:
    tokens = [f"anyshell{os.urandom(6).hex()}" for _ in range(3)]
    shells = [
        subprocess.Popen(["sh", "-c", f"sleep 300; : {word}"], start_new_session=True) for word in tokens
    ]
    try:
        found = parse(host.ask(f"look 0 9 - 0 0 {tokens[0]} {tokens[1]}")).seen
        begins = {seen.pid: seen.begins for seen in found if seen.begins}
        expected = {shells[0].pid: tokens[0], shells[1].pid: tokens[1]}
        assert begins == ({} if "without /proc" in request.node.name else expected)
    finally:
        for shell in shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, 9)
            shell.wait()


def test_leader_group_and_descendants_are_signalled_before_a_look(
    host: Host, request: pytest.FixtureRequest
) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("only /proc tells whether a number is still the same process's")
    text = "(setsid sleep 300; :) & sleep 300 & echo; wait"
    leader = subprocess.Popen(
        ["bash", "-c", text],
        start_new_session=True,
        stdout=subprocess.PIPE,
        env={**os.environ, f"{MARK}2a": "1"},
    )
    assert leader.stdout is not None
    try:
        leader.stdout.readline()
        children: list[psutil.Process] = []

        def all_started() -> bool:  # setsid has left the group before it becomes sleep
            children[:] = psutil.Process(leader.pid).children(recursive=True)
            return len(children) == 3 and [child.name() for child in children].count("sleep") == 2

        wait_for(all_started)
        started = look(host)[leader.pid].started
        descendants = {child.pid for child in children}
        assert host.ask(f"lead KILL {leader.pid} {int(started) + 1} {TAG} 9 {MARK}2a") == []
        # A process of another command, with the same number alone.
        assert host.ask(f"lead KILL {leader.pid} {int(started)} {TAG} 9 {MARK}2") == []
        told = parse(host.ask(f"lead TERM {leader.pid} {int(started)} {TAG} 9 {MARK}2a"))
        assert told.led
        assert {seen.pid for seen in told.seen} == {leader.pid, *descendants}
        assert leader.wait(timeout=20) == -15
        assert {seen.group == leader.pid for seen in told.seen} == {True, False}
        assert psutil.wait_procs(children, timeout=20)[1] == []
    finally:
        leader.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, 9)
        leader.wait()


def test_file_named_like_a_pipe_is_not_a_pipe(
    host: Host, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The owner chooses the name of a file, and a process that holds a command's pipe is killed with the command."""
    names = ["pipe:[1]", "a -> pipe:[1]", "-> pipe:[2]", "x\nl 1 0 0 64 Nov 1 10:00 /proc/1/fd/1 -> pipe:[3]"]
    files = [(tmp_path / name.replace("/", "_")).open("wb") for name in names]
    reader, writer = os.pipe()
    main, terminal = os.openpty()
    deleted, gone = os.openpty()
    name = os.ttyname(gone)
    with contextlib.ExitStack() as stack:
        for descriptor in (reader, writer, main, terminal):
            stack.callback(os.close, descriptor)
        for file in files:
            stack.enter_context(file)
        started = [
            stack.enter_context(subprocess.Popen(["sleep", "300"], stdout=out, stderr=err))
            for out, err in ((*files[:2],), (*files[2:],), (writer, terminal), (gone, writer))
        ]
        os.close(gone)
        os.close(deleted)
        for each in started:
            stack.callback(each.kill)
        held = [look(host)[each.pid].holds for each in started]
        if "without /proc" in request.node.name:
            assert held == [{}] * 4
            return
        pipe = os.readlink(f"/proc/self/fd/{writer}")
        assert held == [{}, {}, {1: pipe, 2: os.ttyname(terminal)}, {1: f"{name}(deleted)", 2: pipe}]


def test_look_reports_its_place_only_if_complete(host: Host, tmp_path: Path) -> None:
    place = parse(host.ask("look 0 9 - 0 0")).place
    assert place is not None
    (tmp_path / "none").mkdir()
    argv, env = surroundings("dash", tmp_path)
    for name in ("xargs", "grep", "ls", "sed", "tr", "readlink"):
        (tmp_path / "none" / name).symlink_to(shutil.which(name) or "")
    without_awk = Host(argv, {**env, "PATH": str(tmp_path / "none")})
    assert parse(without_awk.ask("look 0 9 - 0 0")).place is None
    without_awk.close()


def test_look_that_is_cut_is_taken_again(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    argv, env = surroundings("dash", tmp_path)
    for attempt in range(
        3
    ):  # mawk itself may fail in the only attempt that is left, beside many short programs
        failing_awk(tmp_path / f"awk{attempt}", 4)
        host = Host(argv, {**env, "PATH": f"{tmp_path}/awk{attempt}:{env['PATH']}"})
        found = {each.pid for each in parse(host.ask("look 0 9 - 0 0")).seen}
        host.close()
        if found:
            break
    assert sleeper.pid in found


def test_look_that_is_always_cut_sees_nothing(tmp_path: Path) -> None:
    failing_awk(tmp_path / "awk", 1000)
    argv, env = surroundings("dash", tmp_path)
    host = Host(argv, {**env, "PATH": f"{tmp_path}/awk:{env['PATH']}"})
    assert parse(host.ask("look 0 9 - 0 0")) == ProcessLook(None, [])
    host.close()


CUT_LIST = """#!/bin/sh
echo >>{count}
left=$#
for word; do
    shift
    left=$((left - 1))
    if [ $left = 0 ] && [ "$(wc -l <{count})" -le {times} ]; then
        word=$(printf '%s' "$word" | sed 's/list = "/list = "exit 1; /')
    fi
    set -- "$@" "$word"
done
exec {awk} "$@"
"""


@pytest.mark.parametrize("times", [2, 1000])
def test_list_that_is_not_made_to_its_end_is_not_believed(
    times: int, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """The shell that makes the list for awk may not be started."""
    awk = tmp_path / "awk"
    awk.mkdir()
    text = CUT_LIST.format(count=tmp_path / "count", times=times, awk=shutil.which("awk"))
    (awk / "awk").write_text(text)
    (awk / "awk").chmod(0o755)
    argv, env = surroundings("dash", tmp_path)
    host = Host(argv, {**env, "PATH": f"{awk}:{env['PATH']}"})
    seen = parse(host.ask("look 0 9 - 0 0"))
    host.close()
    assert (sleeper.pid in {each.pid for each in seen.seen}) is (times == 2)
    assert (seen.place is None) is (times == 1000)


def test_descriptors_are_seen_in_any_style_of_ls(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    argv, env = surroundings("dash", tmp_path)
    host = Host(argv, {**env, "TIME_STYLE": "long-iso", "QUOTING_STYLE": "c"})
    assert list(look(host)[sleeper.pid].holds) == [1]
    host.close()


def test_mark_within_a_value_is_not_a_mark(host: Host, request: pytest.FixtureRequest) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("the variables of a process are in /proc")
    process = subprocess.Popen(["sleep", "300"], env={"DUMP": f"a\n{MARK}2a=1"})
    try:
        wait_until_sleeping(process)
        assert look(host)[process.pid].marks == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", HOSTS)
def test_group_of_another_users_processes_exists(
    kind: str, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    if not is_root():
        missing("root", "run the tests as root")
    argv, env = surroundings(kind, tmp_path)
    open_to_all(tmp_path)
    setpriv = shutil.which("setpriv") or ""
    host = Host([setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv], env)
    assert host.ask(f"group {sleeper.pid}") == ["some"]
    sleeper.kill()
    sleeper.wait()
    assert host.ask(f"group {sleeper.pid}") == ["none"]
    host.close()


@pytest.mark.parametrize("kind", HOSTS[:-1])
def test_container_that_shows_another_load_is_looked_at_whole(
    kind: str, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """The last pid in /proc/loadavg is that of the host under lxcfs, and 0 under gVisor."""
    argv, env = surroundings(kind, tmp_path)
    host = Host(argv, {**env, "ANYSHELL_NO_LOAD": "1"})
    _, place, *sample = host.first[0].split()
    assert sample == ["0", "0"]
    newest = Path("/proc/loadavg").read_text().split()[-1]
    for after in (f"{place} 0 0", f"{place} {newest} 1"):
        assert sleeper.pid in {seen.pid for seen in parse(host.ask(f"look 0 9 {after}")).seen}
    assert host.ask(f"newer {newest} {TAG} {sleeper.pid} {sleeper.pid}") == ["some"]
    host.close()


@pytest.mark.parametrize("cleared", [False, True])
def test_newer_process_of_the_group_counts_without_its_tag_too(
    cleared: bool, host: Host, request: pytest.FixtureRequest
) -> None:
    """A program such as sudo may have cleared the limit; a look then decides."""
    if "without /proc" in request.node.name:
        pytest.skip("only /proc tells which pid was given last")
    tag = unique_tag()
    limit = "unlimited" if cleared else tag
    text = f"ulimit -S -x {tag}; read _; (ulimit -S -x {limit}; exec sleep 300) & echo; wait"
    shell = subprocess.Popen(
        ["bash", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        while f" {tag} " not in Path(f"/proc/{shell.pid}/limits").read_text():
            time.sleep(0.01)
        newest = host.ask("ping")[0].split()[2]
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        shell.stdout.read(1)
        (child,) = psutil.Process(shell.pid).children()
        wait_until_sleeping(child)
        assert host.ask(f"newer {newest} {tag} {shell.pid} {shell.pid}") == ["some"]
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()
        shell.stdin.close()
        shell.stdout.close()


def test_sweep_leaves_the_shell_of_a_session_out(
    host: Host, sleeper: subprocess.Popen[bytes], request: pytest.FixtureRequest
) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("a sweep reads /proc")
    place = host.ask("ping")[0].split()[1]
    sweep = f"sweep 0 0 {unique_tag()} {sleeper.pid} {place}"
    assert [seen.pid for seen in parse(host.ask(sweep)).seen] == [sleeper.pid]
    assert parse(host.ask(f"{sweep} {sleeper.pid}")).seen == []


@pytest.mark.parametrize("kind", ["dash", "bash"])
@pytest.mark.parametrize(
    ("part", "dies", "server_ends"),
    [(0, True, True), (0, True, False), (0, False, True), (3, False, True)],
    ids=["leader has died", "connection exists", "leader lives", "command of a session"],
)
def test_lost_connection_stops_all_that_a_leader_has_started(
    kind: str,
    part: int,
    dies: bool,
    server_ends: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loss itself ends a leader that writes; what it has started outside of its session has the tag alone."""
    seconds, tag = unique_seconds(), unique_tag()
    lead = f"ulimit -S -x {tag | part}; setsid sleep {seconds} & echo $$; sleep 300; :"
    # The kills below come before the end of this time, on a busy machine too.
    monkeypatch.setattr("anyshell.backends.ssh.posix.watcher.SERVER_SECONDS", 5)
    server = subprocess.Popen(
        ["bash", "-c", f"bash -c '{lead}' & wait; :"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert server.stdout is not None
    leader = int(server.stdout.readline())
    host = Host(*surroundings(kind, tmp_path))
    try:
        wait_asleep(seconds)
        stdin = host._shell.stdin
        assert stdin is not None
        stdin.write(f"0 hold {leader} {tag}\n")
        stdin.flush()
        host.ask("ping")
        stdin.close()
        watcher = psutil.Process(host._shell.pid)

        def waits_for_the_server() -> bool:
            with contextlib.suppress(psutil.NoSuchProcess):  # each other program of the watcher soon ends
                return any(each.name() == "sleep" for each in watcher.children(recursive=True))
            return False

        wait_for(waits_for_the_server)
        if dies:
            os.kill(leader, 9)
        if server_ends:
            server.kill()
            server.wait()
        host._shell.wait(timeout=30)
        assert bool(living(seconds)) is not server_ends
    finally:
        host._shell.kill()
        host._shell.wait()
        assert host._shell.stdout is not None
        host._shell.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 9)
        server.wait()
        server.stdout.close()
        for line in living(seconds):
            os.kill(int(line.split()[0]), 9)


def unique_tag() -> int:
    """A tag that no test has which runs at the same time: a sweep looks at all processes of the machine."""
    return (int.from_bytes(os.urandom(3)) + 1) << 31


def wait_until_sleeping(process: subprocess.Popen[bytes] | psutil.Process) -> None:
    """Wait until a program has become the one that was started."""
    while psutil.Process(process.pid).name() != "sleep":
        time.sleep(0.01)


def test_a_terminal_is_asked_to_end_by_two_signals(host: Host, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    text = f"trap 'echo HUP >>{heard}' HUP; trap 'echo TERM >>{heard}; exit' TERM; : >{heard}; while :; do sleep 0.01; done"
    process = subprocess.Popen(["sh", "-c", text], start_new_session=True)
    try:
        wait_for(heard.exists)
        began = look(host)[process.pid].began
        psutil.Process(process.pid).suspend()
        host.ask(f"signal HUP+TERM {process.pid}:{began}")
        assert process.wait(timeout=20) == 0
        assert sorted(heard.read_text().split()) == ["HUP", "TERM"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


@contextlib.contextmanager
def on_terminal(text: str) -> Iterator[tuple[int, int]]:
    """A shell on a terminal of its own: its pid, and the master of the terminal."""
    import pty

    pid, master = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "--norc", "-c", text])
    try:
        yield pid, master
    finally:
        os.killpg(pid, 9)
        os.close(master)
        os.waitpid(pid, 0)


def foreground_of(host: Host, pid: int, host_has_proc: bool) -> Foreground | None:
    processes = Processes(cast("Watcher", None), 9)
    processes.architecture = os.uname().machine
    processes.ticks = os.sysconf("SC_CLK_TCK") if host_has_proc else 1.0
    return read_foreground(host.ask(f"foreground {pid} 64"), processes)


@pytest.mark.parametrize(
    ("text", "name", "asleep_in", "echo", "line_mode"),
    [
        ("exec cat", "cat", "read", True, True),
        ("read -s password", "bash", "read", False, True),
        ("set -m; cat; :", "cat", "read", True, True),
        ("stty raw -echo; read -N 1 -t 300", "bash", "poll", False, False),
        ("exec sleep 300", "sleep", None, True, True),
        ("cat <(sleep 300); :", "cat", None, True, True),
    ],
    ids=["reads", "asks for a password", "has a job", "edits", "sleeps", "reads from a pipe"],
)
def test_watcher_lists_the_processes_of_a_terminal(
    host: Host,
    request: pytest.FixtureRequest,
    text: str,
    name: str,
    asleep_in: str | None,
    echo: bool,
    line_mode: bool,
) -> None:
    has_proc = "without /proc" not in request.node.name

    with on_terminal(text) as (pid, _):

        def is_so() -> bool:
            seen = foreground_of(host, pid, has_proc)
            return (
                seen is not None
                and name in {each.name for each in seen.processes}
                and (seen.asleep_in, seen.echo, seen.line_mode)
                == (asleep_in if has_proc else None, echo, line_mode)
                and seen.cpu is not None
                and seen.cpu < 5
            )

        wait_for(is_so)


def test_processor_time_of_a_foreground_is_reported(host: Host, request: pytest.FixtureRequest) -> None:
    has_proc = "without /proc" not in request.node.name
    with on_terminal("while :; do :; done") as (pid, _):
        least = 0.05 if has_proc else 0.0  # ps(1) prints whole seconds, which would be a long test
        wait_for(
            lambda: (seen := foreground_of(host, pid, has_proc)) is not None and (seen.cpu or 0) >= least
        )


def test_process_without_terminal_has_no_foreground(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    assert host.ask(f"foreground {sleeper.pid} 64") == []
    assert host.ask(f"modes {sleeper.pid}") == []
    assert host.ask("modes 999999999") == []


def read_line(terminal: int) -> bytes:
    """The first line that a program prints on a terminal; it may come in two parts."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(terminal, 100)
    return line


def test_the_key_that_ends_the_input_is_read(host: Host) -> None:
    with on_terminal("stty eof '^X'; echo go; exec sleep 300") as (pid, master):
        assert read_line(master) == b"go\r\n"
        modes = read_modes(host.ask(f"modes {pid}"))
    assert modes == TtyModes(echo=True, line_mode=True, end_key=b"\x18")
    with on_terminal("stty eof undef -icanon; echo go; exec sleep 300") as (pid, master):
        assert read_line(master) == b"go\r\n"
        modes = read_modes(host.ask(f"modes {pid}"))
    assert modes == TtyModes(echo=True, line_mode=False, end_key=None)


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_nonsense_is_answered_with_nothing(host: Host) -> None:
    assert host.ask("nonsense 1 2") == []
    assert host.ask("") == []


@pytest.mark.parametrize("kind", HOSTS)
def test_watcher_reports_the_facts_of_its_host(kind: str, tmp_path: Path) -> None:
    words = ["/usr", "ls", "no-such-program", "--"]
    for shell in (*candidates("/no/such/place/bash"), *candidates("/bin/sh")):
        words += [shell.kind, shell.path, *shell.arguments, ","]
    host = Host(*surroundings(kind, tmp_path), "brief=\nfacts " + Login().join(words))
    host.close()
    info = FactLines.read(host.first).host(notices=())
    assert (info.os, info.directory, info.home) == ("linux", "/usr", str(tmp_path))
    assert (info.arch, info.hostname) == (os.uname().machine, os.uname().nodename)
    assert list(info.programs) == ["ls"]
    assert info.shell is not None
    assert (info.shell.kind, info.shell.path) == ("sh", "/bin/sh")
    assert info.shells_tried == ("/no/such/place/bash: not found",)
    assert set(SHELLS) >= {info.shell.kind}


@pytest.mark.parametrize("kind", HOSTS)
def test_brief_start_reports_only_needed_facts(kind: str, tmp_path: Path) -> None:
    """The facts that a command needs come first; the looks work after they are loaded."""
    words = ["", "--"]
    for shell in candidates():
        words += [shell.kind, shell.path, *shell.arguments, ","]
    first = "brief=1\nfacts " + Login().join(words)
    host = Host(*surroundings(kind, tmp_path), first, whole=False)
    known, unknown = host.ask(f"group {os.getpgrp()}"), host.ask("look 0 9 - 0 0")
    host.load()
    seen = host.ask("look 0 9 - 0 0")
    host.close()
    info = FactLines.read(host.first).host(notices=())
    assert (info.os, info.home, info.directory) == ("linux", str(tmp_path), os.getcwd())
    assert info.shell is not None
    assert os.access(info.shell.path, os.X_OK)
    assert (info.user, info.name, info.programs) == ("", "Linux", {})
    assert (known, unknown) == (["some"], [])
    assert os.getpid() in {each.pid for each in parse(seen).seen}


@pytest.mark.anyio
async def test_question_of_a_cancelled_asker_is_asked_again() -> None:
    """The cancellation belongs to one caller: raised for the next caller, it would end that caller silently."""

    class Answering:
        async def ask(self, question: str, asked: asyncio.Future[Answer] | None) -> Answer:
            assert (question, asked) == ("group 7", None)
            return Answer(("some",), 0.0, 0.0, 0.0)

    processes = Processes(cast("Watcher", Answering()), 9)
    asked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asked.cancel()
    assert await processes.group_exists(7, asked)


@pytest.mark.anyio
async def test_members_are_signalled_oldest_first() -> None:
    """A subshell must not see its program end, and start the next program, before its own signal."""
    listed = [
        f"process {pid} 1 {pid} {pid} {start} {TAG} sleep" for pid, start in ((10016, 7), (8, 8), (9999, 7))
    ]
    asked = []

    class Answering:
        async def ask(self, question: str, asked_before: object = None) -> Answer:
            asked.append(question)
            return Answer((*listed, "looked here") if question.startswith("look ") else (), 0.0, 0.0, 0.0)

    tree = SSHTree(Processes(cast("Watcher", Answering()), 9), TOKEN, MARK, TAG, since=0.0, after=Sample())
    members = await tree.members()
    assert [member.pid for member in members] == [9999, 10016, 8]
    await tree.signal("terminate", members)
    assert asked[-1] == "signal TERM 9999:7 10016:7 8:8"


@pytest.mark.anyio
async def test_processes_with_the_output_of_an_ending_leader_stay_members() -> None:
    """Su cleared everything except the output; a leader that has closed its descriptors, and is no zombie yet, does not change that."""
    held = "holds 9 9 pipe:[1]"
    leader = f"process 7 1 7 7 5 {TAG} bash"
    looks = iter(((leader, "holds 7 9 pipe:[1]"), (leader, "process 9 1 9 9 6 unlimited sleep", held)))

    class Answering:
        async def ask(self, question: str, asked_before: object = None) -> Answer:
            return Answer(("looked", *next(looks)), 0.0, 0.0, 0.0)

    tree = SSHTree(Processes(cast("Watcher", Answering()), 9), TOKEN, MARK, TAG, 0.0, Sample(), leader=7)
    assert [member.pid for member in await tree.members()] == [7]
    assert [member.pid for member in await tree.members()] == [7, 9]


BOOT = "4001549d-b5a0-404a-bd8b-d2912a5af50c"

STAT = "77 (a b) S 1 77 77 0 -1 4194304 165 0 0 0 0 0 0 0 20 0 1 0 654836 4464640 786"


def tree_whose_leader_says(said: str, place: str, *lines: str) -> SSHTree:
    """The tree of a leader of pid 77, where each look at a place gives the same answer."""

    class Showing:
        async def ask(self, question: str, asked: asyncio.Future[Answer] | None = None) -> Answer:
            return Answer(("looked", *lines), 0.0, 0.0, 0.0, place)

    tree = SSHTree(Processes(cast("Watcher", Showing()), 9), "t" * 20, MARK, TAG, 0.0, Sample(place, 5, 1000))
    tree.set_leader(77, said.split())
    return tree


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "place", "blind"),
    [
        (f"{BOOT} ino: 5 {STAT}", f"{BOOT}pid:[5]", False),
        (f"{BOOT} ino: 5 {STAT}", f"{BOOT}pid:[55]", True),
        (f"{BOOT} ino: 5 {STAT}", "anotherpid:[5]", True),
        (f"{BOOT} ino: 5 {STAT}", "", True),
        (f"{BOOT} {STAT}", f"{BOOT}pid:[5]", False),  # before Linux 5.14
        (f"{BOOT} {STAT}", "anotherpid:[5]", True),
        (f"{BOOT} ino: 5 7{STAT}", "anotherpid:[5]", False),  # its /proc shows another pid namespace
        ("", "", False),
        ("nonsense", "anotherpid:[5]", False),
    ],
)
async def test_look_from_another_machine_or_namespace_is_blind(said: str, place: str, blind: bool) -> None:
    tree = tree_whose_leader_says(said, place, "process 77 1 77 77 654836 unlimited sh")
    if blind:
        with pytest.raises(Blind):
            await tree.members()
        with pytest.raises(Blind):
            await tree.shell_is_back()
    else:
        assert [each.pid for each in await tree.members()] == [77]
        assert tree.seen
        assert tree.place == place


@pytest.mark.anyio
async def test_process_with_the_reused_pid_of_the_leader_is_no_member() -> None:
    young = ("process 77 1 77 77 700000 unlimited sh", "process 78 77 77 77 700001 unlimited sleep")
    own = f"process 79 1 77 77 700000 {TAG} sleep"
    tree = tree_whose_leader_says(f"{BOOT} ino: 5 {STAT}", f"{BOOT}pid:[5]", *young, own)
    assert [each.pid for each in await tree.members()] == [79]
    assert not tree.seen


def test_look_for_a_tree_begins_with_its_identified_leader() -> None:
    tree = tree_whose_leader_says(f"{BOOT} ino: 5 {STAT}", f"{BOOT}pid:[5]")
    assert tree.since == 654836.0


def test_rebooted_host_has_a_new_clock() -> None:
    processes = Processes(cast("Watcher", None), 9)
    processes.learn(Answer((), 9000.0, 1.0, 1.01, f"{BOOT}pid:[5]"))
    processes.learn(Answer((), 5.0, 10.0, 11.0, "anotherpid:[5]"))
    assert processes.host_time(10.5) == pytest.approx(500.0)


def test_first_answer_has_a_sample(host: Host, request: pytest.FixtureRequest) -> None:
    assert [line.split()[0] for line in host.first] == (
        [] if "without /proc" in request.node.name else ["at"]
    )


def test_look_after_a_sample_sees_later_processes_alone(
    host: Host, request: pytest.FixtureRequest, sleeper: subprocess.Popen[bytes]
) -> None:
    if "without /proc" in request.node.name:
        pytest.skip("only /proc tells which pid was given last")
    for attempt in range(3):
        before = newest_now(host)
        try:
            look_after_a_sample(host, sleeper)
        except AssertionError:
            # The numbers of processes may begin again between a look and the question for the newest number.
            if attempt == 2 or newest_now(host) >= before:
                raise
        else:
            break


def newest_now(host: Host) -> int:
    return int(host.ask("ping")[0].split()[2])


def look_after_a_sample(host: Host, sleeper: subprocess.Popen[bytes]) -> None:
    (sample,) = host.ask("ping")
    _, place, newest, forks = sample.split()
    later = subprocess.Popen(["sleep", "300"])
    try:

        def seen(after: str) -> set[int]:
            return {seen.pid for seen in parse(host.ask(f"look 0 9 {after}")).seen} & {sleeper.pid, later.pid}

        assert seen(f"{place} {newest} {forks}") == {later.pid}
        # A sample of possibly reused numbers, or of another machine, restricts nothing.
        assert seen(f"{place} {newest} 0") == {sleeper.pid, later.pid}
        assert seen(f"elsewhere {newest} {forks}") == {sleeper.pid, later.pid}
        # The numbers have begun again: later ones are beyond the newest of the sample, or up to the newest now. If they have
        # really begun again since the start of a process here, the newest is below the number of the process.
        largest = int(Path("/proc/sys/kernel/pid_max").read_text())
        found = seen(f"{place} {largest - 1} {forks}")
        assert found == {pid for pid in (sleeper.pid, later.pid) if pid <= newest_now(host)}
        assert seen(f"{place} {later.pid} {forks}") == set()
        # Questions about a terminal in between changed nothing.
        with on_terminal("echo; exec sleep 300") as (pid, master):
            os.read(master, 100)
            assert host.ask(f"foreground {pid} 8")
        assert seen(f"{place} {newest} {int(forks) - 1000}") == {later.pid}
    finally:
        later.kill()
        later.wait()


THREAD = (
    "import threading, time; thread = threading.Thread(target=time.sleep, args=(300,)); thread.start(); "
    "print(thread.native_id, flush=True)"
)


def test_look_takes_no_thread_for_a_process(host: Host, request: pytest.FixtureRequest) -> None:
    """The number of a thread leads to the thread in /proc, where it is not listed."""
    if "without /proc" in request.node.name:
        pytest.skip("only /proc tells which pid was given last")
    (sample,) = host.ask("ping")
    process = subprocess.Popen([sys.executable, "-c", THREAD], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        thread = int(process.stdout.readline())
        seen = {each.pid for each in parse(host.ask(f"look 0 9 {sample.partition(' ')[2]}")).seen}
        assert process.pid in seen
        assert thread not in seen
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_look_starts_the_same_number_of_programs_for_many_processes(tmp_path: Path) -> None:
    """Also with busybox, whose grep does not see all of an environment."""
    for kind in ("dash", "busybox"):
        (tmp_path / kind).mkdir()
        argv, env = surroundings(kind, tmp_path / kind)
        counting, log = tmp_path / kind / "counting", tmp_path / kind / "log"
        counting.mkdir()
        for name in ("awk", "cat", "grep", "ls", "sed", "tr", "xargs"):
            text = f'#!/bin/sh\necho >>{log}\nexec {shutil.which(name, path=env["PATH"])} "$@"\n'
            (counting / name).write_text(text)
            (counting / name).chmod(0o755)
        made = Host(argv, {**env, "PATH": f"{counting}:{env['PATH']}"})
        counts = []
        started: list[subprocess.Popen[bytes]] = []
        try:
            for number in (1, 30):
                started += [subprocess.Popen(["sleep", "300"], env={}) for _ in range(number)]
                since = psutil.Process(started[0].pid).create_time() - psutil.boot_time()
                looks = []
                for _ in range(3):  # mawk may fail beside many short programs; then the look is taken again
                    log.write_text("")
                    seen = look(made, int(since * os.sysconf("SC_CLK_TCK")) - 100)
                    assert {each.pid for each in started} <= seen.keys()
                    looks.append(len(log.read_text()))
                counts.append(min(looks))
        finally:
            for each in started:
                each.kill()
                each.wait()
            made.close()
        assert 0 < counts[1] <= counts[0]
