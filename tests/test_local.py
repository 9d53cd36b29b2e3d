"""Behaviour particular to the local backend."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import AnyshellError, Environment, InvalidCommand, ShellNotFound
from anyshell._types import HostQuery, ShellCandidate, Spawn
from anyshell._waits import outlast
from anyshell.backends import connect
from anyshell.errors import BackendUnavailable, SpawnError

from .conftest import missing
from .processes import kill_with_its_net, living, unique_seconds, wait_asleep, wait_dead, wait_living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

assert sys.platform != "win32"  # on other systems mypy skips the imports below

from anyshell.backends.local.posix.variables import restore_library_paths

pytestmark = pytest.mark.anyio


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    """An environment on this machine only."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", [b"LD_LIBRARY_PATH", b"LIBPATH"])
def test_saved_library_path_is_restored(name: bytes, frozen: bool) -> None:
    variables = {name: b"/bundle", name + b"_ORIG": b"/own", b"PATH": b"/bin"}
    restore_library_paths(variables, frozen=frozen)
    assert variables == {name: b"/own", b"PATH": b"/bin"}


def test_unsaved_library_path_is_removed_only_in_a_bundle() -> None:
    variables = {b"LD_LIBRARY_PATH": b"/bundle"}
    restore_library_paths(variables, frozen=False)
    assert variables == {b"LD_LIBRARY_PATH": b"/bundle"}
    restore_library_paths(variables, frozen=True)
    assert variables == {}


async def test_a_command_sees_the_restored_library_path(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/bundle")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/own")
    outcome = await env.run("echo $LD_LIBRARY_PATH ${LD_LIBRARY_PATH_ORIG-gone}")
    assert outcome.output.text == "/own gone\n"


async def test_shells_without_a_correct_answer_are_skipped(tmp_path: Path) -> None:
    mute, garbled, slow = tmp_path / "mute", tmp_path / "garbled", tmp_path / "not-executable"
    for path, text in ((mute, "exit 0"), (garbled, "echo hello"), (slow, "echo anyshell 1")):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    slow.chmod(0o644)
    absent = tmp_path / "absent"
    backend = connect()
    candidates = [ShellCandidate("bash", str(path), ()) for path in (mute, garbled, slow, absent)]
    info = await backend.info(
        HostQuery(shells=(*candidates, ShellCandidate("sh", "/bin/sh", ("-c", "echo anyshell"))))
    )
    assert info.shell is None
    assert [line.partition(":")[0] for line in info.shells_tried[:2]] == [str(mute), str(garbled)]
    assert [line.partition(": ")[2] for line in info.shells_tried[2:4]] == ["not found"] * 2
    await backend.aclose()


async def test_hanging_shell_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = unique_seconds()
    hanging = tmp_path / "bash"
    hanging.write_text(f"#!/bin/sh\nsleep {seconds}\n")
    hanging.chmod(0o755)
    monkeypatch.setattr("anyshell.backends.local.backend.ANSWER_SECONDS", 0.3)
    with pytest.raises(ShellNotFound, match="no answer"):
        await Environment.detect(shell=str(hanging))
    assert living(seconds) == []


async def test_missing_shell_error_names_paths_and_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = tmp_path / "zsh"
    with pytest.raises(ShellNotFound, match="apt-get install zsh") as caught:
        await Environment.detect(shell=str(missing))
    assert caught.value.tried == (f"{missing}: not found",)


async def test_the_shell_is_taken_from_the_argument_then_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANYSHELL_SHELL", "sh")
    assert (await Environment.detect()).shell.kind == "sh"
    assert (await Environment.detect(shell="bash")).shell.kind == "bash"
    monkeypatch.setenv("ANYSHELL_SHELL", "nonsense")
    with pytest.raises(InvalidCommand, match="ANYSHELL_SHELL"):
        await Environment.detect()
    monkeypatch.setenv("ANYSHELL_SHELL", "")
    assert (await Environment.detect()).shell.kind == "bash"


async def test_unsupported_address_error_lists_backends() -> None:
    with pytest.raises(BackendUnavailable, match=r"'docker' addresses.*'local'.*ssh://"):
        await Environment.detect("docker://web")


async def test_removed_shell_is_a_spawn_error(tmp_path: Path) -> None:
    shell = tmp_path / "bash"
    shell.symlink_to("/bin/bash")
    async with Environment.detect(shell=str(shell)) as env:
        shell.unlink()
        with pytest.raises(SpawnError, match="No such file"):
            await env.run("true")


async def test_list_starts_without_bash_if_the_outcome_is_equal(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    bash, real = tmp_path / "bash", shutil.which("bash")
    files = {
        bash: f'#!/bin/sh\necho >> {starts}\nexec {real} "$@"\n',
        tmp_path / "no-first-line": "echo $0 $1\n",
        tmp_path / "lost": "#!/no/such/program\n",
        tmp_path / "here": "#!/bin/sh\necho here $0 $_\n",
    }
    for path, text in files.items():
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "data").touch(0o644)
    rows: list[tuple[int, list[str], dict[str, str | None]]] = [
        (0, ["env"], {}),
        (0, ["env"], {"SHLVL": None, "A": "é"}),
        (0, ["ls", "/no/such"], {}),  # its message begins with its name, as given
        (0, ["sh", "-c", "kill -9 $$"], {}),
        (0, ["./here"], {"PS1": "$ "}),  # its messages begin with its name, too
        (0, ["env"], {"PS1": "$ ", "PS2": "> "}),
        (0, ["here"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}),
        (1, ["here"], {"PATH": ":/usr/bin:/bin"}),
        (1, ["here"], {}),
        (1, ["./data"], {}),
        (1, [str(tmp_path)], {}),
        (1, ["./lost"], {}),
        (1, ["./no-first-line", "a b"], {}),
        (1, ["echo", "-e", r"a\tb"], {}),  # a builtin of bash
        (1, ["env"], {"SHELLOPTS": "xtrace"}),
        (1, ["env"], {"OPTIND": "3", "RANDOM": "4"}),
        (1, ["env"], {"PWD": "/elsewhere"}),
        (1, ["env"], {"SHLVL": "999"}),
        (1, ["env"], {"PATH": None}),
    ]

    async with Environment.detect(shell=str(bash), cwd=tmp_path) as env:
        for expected, words, variables in rows:
            starts.write_text("")
            direct = await env.run(words, env=variables)
            count = starts.read_text().count("\n")
            shell = await env.run(env.quote(*words), env=variables)

            assert count == expected, words
            assert (direct.exit_code, direct.signal) == (shell.exit_code, shell.signal), words
            lines = [
                sorted(line for line in each.output.text.split("\n") if "ANYSHELL_" not in line)
                for each in (direct, shell)
            ]
            assert lines[0] == lines[1], words
        starts.write_text("")
        await env.run(["env"], stdin="x", split_stderr=True)
        assert not starts.read_text()


async def test_missing_program_has_exit_code_127(env: Environment) -> None:
    outcome = await env.run("no-such-program-at-all")
    assert (outcome.status, outcome.exit_code) == ("exited", 127)
    assert "no-such-program-at-all: command not found" in outcome.output.text


async def test_oversized_arguments_are_a_spawn_error() -> None:
    async with Environment.detect() as env:
        with pytest.raises(SpawnError, match="too large"):
            await env.run("true", env={"BIG": "x" * 200_000})


async def test_startup_files_are_not_read_unless_asked(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup = tmp_path / "startup"
    startup.write_text("echo surprise\n")
    for name in (".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"):
        (tmp_path / name).write_text("echo surprise\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", str(startup))
    monkeypatch.setenv("ENV", str(startup))
    assert (await env.run("echo hi; bash -c 'echo inner'")).output.text == "hi\ninner\n"
    monkeypatch.setenv("SSH_CLIENT", "1 2 3")  # this variable makes bash behave as the child of an sshd
    monkeypatch.setenv("SHLVL", "0")
    assert (await env.run("echo hi")).output.text == "hi\n"
    assert (await env.run("echo hi", env={"BASH_ENV": str(startup)})).output.text == "surprise\nhi\n"


async def test_command_inherits_only_standard_descriptors_and_the_life_pipe(env: Environment) -> None:
    extra = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        outcome = await env.run("cd /proc/$$/fd && echo *")
    finally:
        os.close(extra)
    numbers = {int(number) for number in outcome.output.text.split()}
    numbers -= {3, 255}  # the descriptor of the listed directory, and bash's own
    assert {0, 1, 2} < numbers
    assert len(numbers) == 4
    assert max(numbers) >= 100


async def test_removed_directory_is_refused(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    async with Environment.detect(cwd=gone) as env:
        gone.rmdir()
        with pytest.raises(InvalidCommand, match="No such file"):
            await env.run("true")


def test_removed_current_directory_is_refused(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = textwrap.dedent(
        """
        import anyshell, asyncio, os
        os.rmdir(os.getcwd())

        async def main():
            async with anyshell.Environment.detect() as env:
                print((await env.run("pwd", cwd="/")).output.text, end="")
                try:
                    await env.run("echo ran in $PWD")
                except anyshell.InvalidCommand as error:
                    print(error)

        asyncio.run(main())
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=gone)
    assert result.stdout.startswith(f"/\ncwd '{gone}"), result.stdout + result.stderr
    assert "No such file or directory" in result.stdout


async def test_descriptor_shortage_is_not_a_missing_shell() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 4, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(AnyshellError, match=r"(?i)too many open files"):
            await Environment.detect(shell="/bin/sh")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)


async def test_orphans_are_commands_of_a_killed_anyshell() -> None:
    seconds = unique_seconds()
    script = f"import anyshell; anyshell.run('sleep {seconds}')"
    with subprocess.Popen([sys.executable, "-c", script]) as owner:
        wait_asleep(seconds)  # before that, a child may still show the command line of its parent
        async with Environment.detect() as env:
            own = {int(line.split()[0]) for line in living(seconds)} - {owner.pid}
            assert own
            assert not own & {process.pid for process in await env.orphans()}
            kill_with_its_net(owner.pid)
            orphans = {process.pid for process in await env.orphans()}  # although the owner was not reaped
            assert own <= orphans
    for pid in own:
        os.kill(pid, 9)


def sleeping(*seconds: str) -> set[int]:
    """The sleep processes with this number, without shells that have the number in their texts."""
    return {
        int(line.split()[0])
        for each in seconds
        for line in living(each)
        if line.partition(" ")[2] == f"sleep {each}"
    }


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell whose a process was")
async def test_orphans_include_processes_with_cleared_environments(env: Environment) -> None:
    """The processes are in the group of a marked process, or in their own sessions: with the tag, or as a child."""
    times = [unique_seconds() for _ in range(4)]
    in_group, tagged, parent, child = times
    text = (
        # The tag comes right after the start: a process that has left session and environment before has no sign.
        "until [ $(ulimit -x) != unlimited ]; do :; done\n"
        f"env -i sleep {in_group} & (env -i setsid sleep {tagged} &)\n"
        f"setsid sh -c 'env -i setsid sh -c \"ulimit -S -w unlimited; exec sleep {child}\" & exec sleep {parent}' & wait"
    )
    with subprocess.Popen(
        [sys.executable, "-c", "import anyshell, sys; anyshell.run(sys.argv[1])", text]
    ) as owner:
        for each in times:
            wait_asleep(each)
        own = sleeping(*times)
        assert not own & {process.pid for process in await env.orphans()}
        kill_with_its_net(owner.pid)
    orphans = {process.pid for process in await env.orphans()}
    for pid in orphans & {int(line.split()[0]) for each in times for line in living(each)}:
        os.kill(pid, signal.SIGKILL)
    assert (own - orphans, len(own)) == (set(), 4)


_IN_A_CONTAINER = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"]


@pytest.mark.skipif(sys.platform != "linux", reason="pid namespaces are Linux's")
async def test_a_command_of_a_living_container_is_no_orphan(env: Environment) -> None:
    """The mark of the command names the pid of its anyshell inside the container. After a kill of that anyshell the command is an orphan."""
    seconds, hold = unique_seconds(), unique_seconds()
    script = f"import anyshell; anyshell.run('sleep {seconds}')"
    inside = [*_IN_A_CONTAINER, "sh", "-c", f'"$@" & sleep {hold}; :', "sh", sys.executable, "-c", script]
    container = subprocess.Popen(inside, start_new_session=True)
    try:
        wait_asleep(seconds)
        own = sleeping(seconds)
        assert not own & {process.pid for process in await env.orphans()}
        (shell,) = (process for process in psutil.Process(container.pid).children() if process.name() == "sh")
        net = [each for each in shell.children() if each.name() == "sh"]
        (owner,) = (each for each in shell.children() if each.name() not in ("sh", "sleep"))
        for process in (*net, owner):
            process.kill()
        wait_dead(owner.pid)
        assert own <= {process.pid for process in await env.orphans()}
    finally:
        os.killpg(container.pid, signal.SIGKILL)
        container.wait()
    for pid in sleeping(seconds, hold):
        with contextlib.suppress(ProcessLookupError):  # the end of the namespace also ends the command
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="pid namespaces are Linux's")
async def test_doctor_in_a_container_names_no_outside_command(env: Environment) -> None:
    """The doctor in the container cannot see whether the outside anyshell lives."""
    doctor = f"{sys.executable} -m anyshell doctor --json"
    outcome = await env.run(
        f"{' '.join(_IN_A_CONTAINER)} sh -c 'sleep 300 & {doctor}; kill $!'", split_stderr=True
    )
    assert json.loads(outcome.output.text)["orphans"] == []


async def test_an_empty_shell_or_directory_is_refused(env: Environment) -> None:
    for how in ({"shell": ""}, {"cwd": ""}):
        with pytest.raises(InvalidCommand, match="is empty"):
            Environment.detect(**how)  # type: ignore[arg-type]  # bad input is the point
    with pytest.raises(InvalidCommand, match="cwd is empty"):
        await env.run("true", cwd="")


async def test_agent_variable_is_set(env: Environment) -> None:
    assert (await env.run("echo $AGENT")).output.text == "1\n"


async def test_backend_spawns_programs_without_a_shell(tmp_path: Path) -> None:
    backend = connect()
    process = await backend.spawn(Spawn(argv=(sys.executable, "-c", "print('hi')"), cwd=str(tmp_path)))
    assert b"".join([piece async for piece in process.stdout]) == b"hi\n"
    assert (await process.wait()).code == 0
    await process.aclose()
    await backend.aclose()


def test_script_file_is_not_readable_by_others(tmp_path: Path) -> None:
    from anyshell.backends.local.posix.scripts import open_script

    fd = open_script("echo secret")
    try:
        assert not stat.S_IMODE(os.fstat(fd).st_mode) & 0o077 or os.fstat(fd).st_nlink == 0
    finally:
        os.close(fd)


FIRST_STOP = """
import asyncio, sys
from anyshell import Environment

class Recorder:
    names = None

    def find_spec(self, name, path=None, target=None):
        if self.names is not None:
            self.names.append(name)

async def main():
    recorder = Recorder()
    sys.meta_path.insert(0, recorder)
    async with Environment.detect() as env:
        running = asyncio.ensure_future(env.run("setsid sleep 300 & sleep 300", timeout=0.5, grace=0.1))
        await asyncio.sleep(0.1)
        recorder.names = []
        print((await running).status, recorder.names)

asyncio.run(main())
"""


def test_first_stop_imports_nothing() -> None:
    """An import needs a descriptor, and possibly no descriptor is free at a stop."""
    done = subprocess.run([sys.executable, "-c", FIRST_STOP], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("timed_out []\n", "")


async def test_anyio_scope_does_not_interrupt_outlast() -> None:
    """A cancelled scope cancels every await again: without protection the cancellations repeat without a pause."""
    heard: list[None] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        work = asyncio.ensure_future(asyncio.sleep(0.01, "done"))
        await outlast(work, lambda: heard.append(None))
    assert (work.result(), heard) == ("done", [])


LONG_OUTPUT = r"""
import os, resource
from anyshell.output import OutputBuilder

most = resource.getrlimit(resource.RLIMIT_NOFILE)

def build(data):
    builder = OutputBuilder(excerpts=4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most[1]))
    for _ in range(200):
        builder.feed(data)
    output = builder.finish()
    resource.setrlimit(resource.RLIMIT_NOFILE, most)
    print(output.total_bytes, output.text[-5:].split())

build("é\rü".encode() * 100)
build(b"an error\n" * 100)
import anyshell.output.text.signals
build(b"an error\n" * 100)
"""


def test_first_long_output_needs_no_descriptors() -> None:
    """The code that finds error lines is loaded in advance, and so are the tables of wide characters."""
    done = subprocess.run([sys.executable, "-c", LONG_OUTPUT], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == (
        "100000 ['üé']\n180000 ['rror']\n180000 ['rror']\n",
        "",
    )


class OtherClock(asyncio.SelectorEventLoop):
    """An event loop whose time differs from `time.monotonic`."""

    def time(self) -> float:
        return super().time() - 1000


def test_event_loop_can_have_another_clock() -> None:
    async def run() -> None:
        async with Environment.detect() as env:
            outcome = await env.run("sleep 3 &", left_behind="stop")
            assert (outcome.status, len(outcome.left_behind)) == ("exited", 1)

    with asyncio.Runner(loop_factory=OtherClock) as runner:
        runner.run(run())


NO_THREADS = """
import asyncio, os, resource
from anyshell import AnyshellError, Environment

async def use(limited):
    if limited:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    for ask in (
        lambda env: env.files.stat("/"),
        lambda env: env.session().run("true"),
        lambda env: env.run("true"),
    ):
        try:
            async with Environment.detect(shell="bash") as env:
                if not limited:
                    await ask(env)
        except AnyshellError as error:
            print(error)

def run(limited):  # asyncio.run() starts a thread in order to end
    asyncio.new_event_loop().run_until_complete(use(limited))

async def use_session():
    async with Environment.detect(shell="bash", cwd="/") as env:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        for _ in range(2):
            try:
                await env.session().run("true")
            except AnyshellError as error:
                print(error)

run(False)  # as root, so that everything is loaded
os.setgroups([]); os.setgid(54321); os.setuid(54321)
os.chdir("/")
asyncio.new_event_loop().run_until_complete(use_session())
run(True)
"""


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_thread_limit_of_the_user_is_reported() -> None:
    if os.geteuid() != 0:
        missing("root", "run the tests as root, who can become another user")
    done = subprocess.run([sys.executable, "-c", NO_THREADS], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5, done.stdout
    assert all("too many processes (ulimit -u)" in line for line in lines)


def is_open(fd: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(fd)
        return True
    return False


async def test_tree_is_stopped_without_free_descriptors(tmp_path: Path) -> None:
    seconds = unique_seconds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Environment.detect(cwd=tmp_path) as env:
        task = asyncio.ensure_future(
            env.run(f"setsid sleep {seconds} & sleep {seconds}", timeout=1, grace=0.3)
        )
        await asyncio.to_thread(wait_living, seconds, 2)
        held: list[int] = []
        # Above all descriptors that other tests have left open: a closed descriptor beyond the limit could not be opened again.
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(filter(is_open, range(4096))) + 8, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open(os.devnull, os.O_RDONLY))
            outcome = await task
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in held:
                os.close(fd)
    assert outcome.status == "timed_out"
    assert living(seconds) == []


async def test_stop_without_descriptors_ends_the_group_and_reports_blindness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may take every descriptor, including the reserved descriptors."""
    from anyshell.backends.local.posix.linux import scan

    seconds = unique_seconds()

    def refuse() -> list[int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with Environment.detect(cwd=tmp_path) as env:
        with monkeypatch.context() as patch:
            patch.setattr(scan, "list_pids", refuse)
            outcome = await env.run(f"trap '' TERM; sleep {seconds}", timeout=0.5, grace=0.1)
        assert outcome.status == "lost"
        assert [process.name for process in outcome.left_behind] == ["unknown"]
    assert living(seconds) == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EPERM])
async def test_unavailable_pidfd_leaves_no_process(
    env: Environment, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = unique_seconds()

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    if number == errno.EMFILE:
        with pytest.raises(SpawnError, match="too many open files"):
            await env.run(f"sleep {seconds}", timeout=20)
    else:
        assert (await env.run("echo hi; exit 3")).exit_code == 3
        outcome = await env.run(f"setsid sleep {seconds} & sleep {seconds}", timeout=0.5, grace=0.3)
        assert outcome.status == "timed_out"
    assert living(seconds) == []


def test_a_user_without_a_home_can_run_commands() -> None:
    if os.geteuid() != 0:
        missing("root", "run the tests as root, who can become a user without a name")
    script = textwrap.dedent(
        """
        import asyncio, os, platformdirs, anyshell
        from anyshell.cli.commands.doctor.command import _look_at_state

        async def flood():
            env = await anyshell.Environment.detect(cwd="/")
            outcome = await env.run("seq 100000", timeout=20)
            return env.info.user, env.info.home, outcome.status, outcome.output.artifact_error

        def rules():
            try:
                return str(anyshell.Policy.preset("trusted"))
            except anyshell.errors.PolicyError as error:
                return error

        def all_of_it():
            return *asyncio.run(flood()), rules(), next(_look_at_state()).detail

        all_of_it()  # as root, so that everything is loaded: the stranger may not read these files
        for name in ("HOME", "ANYSHELL_STATE_DIR", "ANYSHELL_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
        os.setgroups([]); os.setgid(54321); os.setuid(54321)
        print(*all_of_it(), sep="|")
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    reason = "there is no home directory for artifacts; set ANYSHELL_STATE_DIR"
    rules = "there is no home directory for your own rules; set ANYSHELL_CONFIG_DIR"
    assert result.stdout == f"54321|/|exited|{reason}|{rules}|{reason}\n", result.stderr


async def test_descendants_are_members_without_marks(tmp_path: Path) -> None:
    """This is the method for macOS, tested here: the scan uses no marks, no limits and no life pipe."""
    from anyshell.backends.local.posix.descendants import DescendantTree

    seconds = unique_seconds()
    child = subprocess.Popen(
        ["bash", "-c", f"setsid sleep {seconds} & (setsid sleep {seconds} &); sleep {seconds}; :"],
        start_new_session=True,
    )
    await asyncio.to_thread(wait_asleep, seconds, 3)
    tree = DescendantTree(child.pid)
    members = await tree.members()
    assert child.pid in {member.pid for member in members}
    assert sorted(member.name for member in members).count("sleep") >= 2
    child.kill()
    child.wait()
    seen = await tree.members()
    assert "sleep" in {member.name for member in seen}  # although its parent has ended
    for member in seen:
        tree.signal(member, signal.SIGKILL)
    tree.close()
    for line in living(seconds):  # a process reparented before the first scan
        os.kill(int(line.split()[0]), signal.SIGKILL)


FEW_DESCRIPTORS = """
import asyncio, os, resource, time
from anyshell import Environment
from anyshell.errors import SpawnError
from anyshell.backends.local.posix import spawner

make_tree = spawner.make_tree

def make_tree_late(*args, **options):
    time.sleep(0.05)  # by now the command has run
    return make_tree(*args, **options)

async def main():
    async with Environment.detect() as env:
        await env.run(":")
        spawner.make_tree = make_tree_late
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for free in range(1, 14):
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + free, hard))
            for number in range(2):
                mark = f"{free}-{number}"
                try:
                    await env.run(f"echo >{mark}", timeout=5)
                    ran = True
                except SpawnError:
                    ran = False
                resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
                assert os.path.exists(mark) == ran, mark
                resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + free, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells which descriptors are open")
def test_command_reported_as_not_started_has_not_run(tmp_path: Path) -> None:
    """For any number of free descriptors, a started command can be watched."""
    done = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
