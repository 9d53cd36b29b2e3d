"""SSH's additions to the contract: login shells, sent and unsent data, many commands at once, sizes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import shutil
import time
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import AnyshellError, ConnectionFailed, Environment, InvalidCommand
from anyshell._types import Command, ExitStatus, Spawn, Terminal
from anyshell.backends import connect
from anyshell.backends.ssh.channel import Channel, ChannelReceiveStream
from anyshell.backends.ssh.connection import pool
from anyshell.backends.ssh.posix.watcher import WatcherShell
from anyshell.errors import BackendUnavailable, SpawnError, TerminalUnavailable
from anyshell.shells import Login

from .conftest import missing, open_to_all, python_for_all
from .processes import living, open_descriptors, unique_seconds, wait_asleep, wait_living
from .sitting import BOUND, Sitting, sit
from .ssh_server import (
    SSHD,
    WORKER,
    Link,
    Server,
    account,
    embedded,
    home,
    is_root,
    openssh,
    own_name,
    sessions,
    startup_file,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from anyshell.abc import Backend
    from anyshell.backends.ssh.posix.watcher import Answer

pytestmark = pytest.mark.anyio

ROOT = is_root()
PYTHON = python_for_all()

LOGIN_SHELLS = ["bash", "zsh", "dash", "fish", "tcsh"]


@pytest.fixture(scope="module")
def sshd() -> Iterator[Server]:
    """OpenSSH with its default limits, which accepts every offered variable."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(own_name(), "AcceptEnv *") as server:
        yield server


@pytest.fixture(scope="module")
def login(sshd: Server) -> Iterator[Callable[[str], Server]]:
    """The same server, used by an ordinary user with the named login shell."""
    with contextlib.ExitStack() as stack:
        made: dict[str, Server] = {}

        def user_with(shell: str) -> Server:
            if not ROOT:
                pytest.skip("only root can make a user with a login shell of its own")
            path = shutil.which(shell, path="/bin:/usr/bin:/usr/local/bin:/usr/sbin")
            if path is None:
                missing(shell, f"install {shell}")
            if shell not in made:
                name = stack.enter_context(account(f"anyshell-{shell}{WORKER}", path))
                made[shell] = dataclasses.replace(sshd, user=name)
            return made[shell]

        yield user_with


@pytest.fixture
def plain(login: Callable[[str], Server], sshd: Server) -> Server:
    """A user with replaceable startup files; the user of the tests if that is not root."""
    return login("bash") if ROOT else sshd


@pytest.fixture
async def env(plain: Server) -> AsyncIterator[Environment]:
    async with Environment.detect(plain.options()) as environment:
        yield environment


# --- Login shells


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
async def test_command_means_the_same_with_any_login_shell(
    login: Callable[[str], Server], shell: str
) -> None:
    server = login(shell)
    value = 'it\'s $HOME `id` "x"\n!! \\ ünï\t*'
    async with Environment.detect(server.options()) as env:
        assert (env.shell.kind, env.info.user, env.os) == ("bash", server.user, "linux")
        assert env.info.home == env.directory == f"/home/{server.user}"
        printed = await env.run('printf %s "$GIVEN"; pwd; exit 3', env={"GIVEN": value}, cwd="/usr")
        assert (printed.output.text, printed.exit_code) == (f"{value}/usr\n", 3)
        literal = await env.run("printf %s 'it'\"'\"'s !! $HOME \\ *'")
        assert literal.output.text == "it's !! $HOME \\ *"
        long = await env.run(f": {'x' * 1_000_000}; cat; echo end", stdin="given")
        assert long.output.text == "givenend\n"
        apart = await env.run("echo out; echo err >&2", split_stderr=True)
        assert apart.stderr is not None
        assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")
        with pytest.raises(InvalidCommand, match="/no such 'place!"):
            await env.run("true", cwd="/no such 'place!")
        seconds = unique_seconds()
        stopped = await env.run(f"setsid sleep {seconds} & sleep {seconds}", timeout=3, grace=0.3)
        assert (stopped.status, stopped.left_behind, living(seconds)) == ("timed_out", (), [])


@pytest.mark.parametrize("kind", ["bash", "zsh", "sh"])
@pytest.mark.parametrize("size", [10, 4_000_000])
async def test_every_shell_runs_texts_of_every_size(plain: Server, kind: str, size: int) -> None:
    if shutil.which(kind) is None:
        missing(kind, f"install {kind}")
    async with Environment.detect(plain.options(), shell=kind) as env:
        outcome = await env.run(f"# {'x' * size}\nprintf '%s\\n' \"$0\"; cat; exit 7", stdin=b"in")
        assert (env.shell.kind, outcome.output.text, outcome.exit_code) == (kind, f"{kind}\nin", 7)
        left = await env.run("ls /tmp/tmp.* 2>/dev/null | wc -l; ls /proc/self/fd")
        assert outcome.left_behind == ()
        assert "7" not in left.output.text.split()[1:]


async def test_account_without_a_shell_is_an_error(login: Callable[[str], Server]) -> None:
    with pytest.raises(ConnectionFailed, match="not available") as caught:
        async with Environment.detect(login("nologin").options()):
            pass
    assert caught.value.stage == "session"


async def test_forced_command_is_an_error_with_its_output() -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with (
        openssh(own_name(), "ForceCommand echo only backups here") as server,
        pytest.raises(ConnectionFailed, match="only backups here"),
    ):
        async with Environment.detect(server.options()):
            pass


@pytest.mark.parametrize("forced", ["bash", "bash --login", "bash -i", "dash", "zsh", "busybox sh"])
async def test_forced_shell_that_reads_commands_from_its_input_is_refused(plain: Server, forced: str) -> None:
    """Regression test: the shell ran its input, and gave the command one more byte of input, and files no answer."""
    if shutil.which(forced.split()[0]) is None:
        missing(forced.split()[0], f"install {forced.split()[0]}")
    with (
        openssh(plain.user, f"ForceCommand exec {forced}") as server,
        pytest.raises(ConnectionFailed, match=r"\$SSH_ORIGINAL_COMMAND") as caught,
    ):
        async with Environment.detect(server.options()):
            pass
    assert caught.value.stage == "session"


@pytest.mark.parametrize("account_shell", ["bash", "zsh"])
@pytest.mark.parametrize("other", ["dash", "bash", "zsh", "busybox sh", "fish", "tcsh"])
async def test_a_forced_command_may_hand_the_text_to_another_shell(
    login: Callable[[str], Server], account_shell: str, other: str
) -> None:
    if shutil.which(other.split()[0]) is None:
        missing(other.split()[0], f"install {other.split()[0]}")
    forced = f'ForceCommand {other} -c "$SSH_ORIGINAL_COMMAND"'
    seconds = unique_seconds()
    with openssh(login(account_shell).user, forced) as server:
        async with Environment.detect(server.options()) as env:
            outcome = await env.run(
                'printf "%s;" "$GIVEN"; pwd; cat; exit 3', env={"GIVEN": "v'\n"}, cwd="/usr", stdin="in"
            )
            stopped = await env.run(f"setsid sleep {seconds} & sleep {seconds}", timeout=3, grace=0.3)
    assert (outcome.output.text, outcome.exit_code, outcome.started) == ("v'\n;/usr\nin", 3, True)
    assert (stopped.status, stopped.left_behind, living(seconds)) == ("timed_out", (), [])


@pytest.mark.parametrize("other", ["dash", "zsh", "busybox sh", "fish", "tcsh"])
async def test_a_text_that_comes_to_the_wrong_shell_has_not_started(
    plain: Server, other: str, tmp_path: Path
) -> None:
    """The host was asked while its forced command still used the account's own shell."""
    if shutil.which(other.split()[0]) is None:
        missing(other.split()[0], f"install {other.split()[0]}")
    flag = home(plain.user) / f"flag-{secrets.token_hex(4)}"
    forced = f'ForceCommand if [ -e {flag} ]; then exec {other} -c "$SSH_ORIGINAL_COMMAND"; fi; eval "$SSH_ORIGINAL_COMMAND"'
    with openssh(plain.user, forced) as server:
        async with Environment.detect(server.options()) as env:
            assert (await env.run("echo hi")).output.text == "hi\n"
            flag.touch()
            try:
                with pytest.raises(SpawnError, match="another shell"):
                    await env.run("echo hi")
            finally:
                flag.unlink()
            assert (await env.run("echo hi")).output.text == "hi\n"


@pytest.mark.parametrize("shell", ["cmd.exe", "PowerShell"])
async def test_windows_host_is_distinguished_from_a_broken_host(shell: str) -> None:
    """The server answers as these shells do (cmd.exe and PowerShell 7, asked on Windows 11)."""
    with embedded(shell) as server, pytest.raises(BackendUnavailable, match=shell):
        async with Environment.detect(server.options()):
            pass


# --- Startup files


async def test_noise_of_startup_files_reaches_no_output(plain: Server) -> None:
    noise = "echo noise; echo noise >&2; printf unfinished; printf unfinished >&2\ncd() { echo mine; builtin cd /; }\n"
    with startup_file(plain, ".bashrc", noise):
        async with Environment.detect(plain.options()) as env:
            outcome = await env.run("echo out; echo err >&2; pwd", cwd="/usr")
            apart = await env.run("echo out; echo err >&2", split_stderr=True)
    assert outcome.output.text == "out\nerr\n/usr\n"
    assert apart.stderr is not None
    assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")


@pytest.mark.parametrize(
    "text",
    [
        "set -euo pipefail",
        "set -C",
        "set -fkx",
        "set -v",
        "IFS=/abcdefghijklmnopqrstuvwxyz0123456789",
        "trap 'echo DBG; echo DBG >&2' DEBUG; set -T",
        "trap '' TERM INT HUP PIPE; trap 'echo TRAPPED' EXIT",
        "ulimit -n 16",
        "ulimit -x 0",
        "umask 277",
        "export TMPDIR=/nonexistent",
        "exec 3>&1 4>&2 5</dev/null 6>/dev/null 7>/dev/null 8>/dev/null 9>/dev/null 197>/dev/null",
        "export POSIXLY_CORRECT=1 ENV=/etc/passwd",
        "export SHELL=/bin/false",
        "shopt -s expand_aliases; alias printf='echo A' cd='echo A' ulimit='echo A'",
        "mkdir -p ~/gone; cd ~/gone; rmdir ~/gone",
        'echo "$BASH_EXECUTION_STRING"; echo "$BASH_EXECUTION_STRING" >&2; ps -o args= -p $$',
        "exec 2>&1; set -xv",
        "head -c 3000000 /dev/zero | tr '\\0' n",
    ],
)
async def test_settings_of_startup_files_change_nothing(plain: Server, text: str) -> None:
    with startup_file(plain, ".bashrc", f"{text}\n"):
        async with Environment.detect(plain.options()) as env:
            outcome = await env.run(
                'printf "%s;" "$GIVEN"; pwd; cat; exit 3', env={"GIVEN": "v'\n"}, cwd="/usr", stdin="in"
            )
            apart = await env.run("echo out; echo err >&2; exit 4", split_stderr=True)
            long = await env.run(f"# {'x' * 200_000}\ncat; kill -9 $$", stdin=b"in")
            left = await env.run("sleep 78 & echo started", left_behind="stop")
            stopped = await env.run("setsid sleep 77 & sleep 77", timeout=3, grace=0.2)
    assert (outcome.output.text, outcome.exit_code) == ("v'\n;/usr\nin", 3)
    assert apart.stderr is not None
    assert apart.exit_code == 4
    if "2>&1" not in text:  # the startup file joins the channels before the command starts
        assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")
    assert (long.output.text, long.signal) == ("in", "SIGKILL")
    assert (left.output.text, [each.alive for each in left.left_behind]) == ("started\n", [False])
    assert (stopped.status, stopped.left_behind) == ("timed_out", ())


@pytest.mark.parametrize(
    "text",
    [
        "TRAPEXIT() { echo D; }",
        "setopt verbose xtrace err_return no_unset no_clobber sh_word_split",
        "alias head='head -n' printf='echo A' unset='echo A' trap='echo A'",
    ],
)
async def test_startup_files_of_zsh_change_nothing(login: Callable[[str], Server], text: str) -> None:
    server = login("zsh")
    with startup_file(server, ".zshenv", f"{text}\n"):
        async with Environment.detect(server.options()) as env:
            for value in ("short", "a\nb\nc"):
                outcome = await env.run(
                    'printf "%s;" "$GIVEN"; pwd; exit 3', env={"GIVEN": value}, cwd="/usr"
                )
                assert (outcome.output.text, outcome.exit_code) == (f"{value};/usr\n", 3)
            apart = await env.run("echo out; echo err >&2", split_stderr=True)
    assert apart.stderr is not None
    assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")


async def test_a_directory_of_any_name_can_be_worked_in(env: Environment) -> None:
    place = (await env.run("mktemp -d")).output.text.strip()
    for name in ('it\'s "q" $HOME', "-n", "two\nlines", "a\udcffb", "~"):
        await env.files.mkdir(f"{place}/{name}")
        assert (await env.run('basename "$PWD" | wc -c', cwd=f"{place}/{name}")).exit_code == 0
        outcome = await env.run("printf x >here; ls", cwd=f"{place}/{name}")
        assert outcome.output.text == "here\n"
        assert await env.files.exists(f"{place}/{name}/here")
    await env.files.remove(place, recursive=True)


async def test_a_callers_variable_does_not_replace_a_long_text(env: Environment) -> None:
    outcome = await env.run(f"# {'x' * 200_000}\necho right", env={"ANYSHELL_SCRIPT": "/etc/hostname"})
    assert outcome.output.text == "right\n"


async def test_hanging_login_shell_is_ended(plain: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(plain.options()) as env:
        with startup_file(plain, ".bashrc", f"sleep {seconds}; :\n"):
            for kind in ({}, {"GIVEN": "x" * 5000}):
                outcome = await env.run("true", timeout=0.5, env=kind)
                assert (outcome.status, outcome.started) == ("timed_out", False)
    assert living(seconds) == []


async def test_early_exit_of_a_login_shell_is_an_error(plain: Server) -> None:
    async with Environment.detect(plain.options()) as env:
        with (
            startup_file(plain, ".bashrc", "echo 'out of order' >&2; exit 4\n"),
            pytest.raises(SpawnError, match="out of order"),
        ):
            await env.run("echo hi")
        assert (await env.run("echo hi")).output.text == "hi\n"


async def test_command_given_up_before_its_start_never_runs(plain: Server, tmp_path: Path) -> None:
    traces = [home(plain.user) / f"trace-{secrets.token_hex(4)}" for _ in range(2)]
    async with Environment.detect(plain.options()) as env:
        with startup_file(plain, ".bashrc", "sleep 5\n"):
            outcome = await env.run(f"touch {traces[0]}", timeout=0.3)
            assert (outcome.status, outcome.started) == ("timed_out", False)
            task = asyncio.ensure_future(env.run(f"touch {traces[1]}"))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await asyncio.sleep(5.5)
    assert [trace.exists() for trace in traces] == [False, False]


async def test_a_slow_startup_file_only_delays(plain: Server) -> None:
    with startup_file(plain, ".bashrc", "sleep 0.5\n"):
        async with Environment.detect(plain.options()) as env:
            outcomes = await asyncio.gather(*(env.run(f"echo {n}") for n in range(12)))
    assert [outcome.output.text for outcome in outcomes] == [f"{n}\n" for n in range(12)]


# # --- Sent data


async def test_nothing_of_the_local_environment_is_sent(
    plain: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secrets.token_hex(16)
    monkeypatch.setenv("LC_PLANTED", secret)
    monkeypatch.setenv("PLANTED", secret)
    config = plain.config(more="  SendEnv *\n  SendEnv LC_* PLANTED\n  SetEnv SET_HERE=" + secret)
    async with Environment.detect(plain.options(host="testhost", config=config)) as env:
        outcome = await env.run("env; cat /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n'")
        assert any("SendEnv" in notice for notice in env.info.notices)
    assert secret not in outcome.output.text


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        'it\'s "q" $HOME `id` \\',
        "two\nlines\n",
        "ünïcödé \U0001f40d",
        "x" * 100_000,
        "-n",
        "!! ~ * ?",
    ],
    ids=["empty", "plain", "quotes", "lines", "unicode", "100 KB", "dash", "signs"],
)
async def test_variable_value_arrives_unchanged(env: Environment, value: str) -> None:
    outcome = await env.run('printf %s "$GIVEN" | cksum; printf %s "$GIVEN" | wc -c', env={"GIVEN": value})
    local = await asyncio.create_subprocess_exec(
        "cksum", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    expected, _ = await local.communicate(value.encode())
    assert outcome.output.text == f"{expected.decode()}{len(value.encode())}\n"


async def test_no_value_is_ever_in_the_process_list(plain: Server) -> None:
    secret = secrets.token_hex(16)
    with startup_file(
        plain, ".bashrc", "sleep 0.3\n"
    ):  # during the sleep, every user can see the command line that sshd received
        async with Environment.detect(plain.options()) as env:
            seconds = unique_seconds()
            runs = [
                asyncio.ensure_future(env.run(f'sleep 1; : "$GIVEN" {seconds}', env={"GIVEN": value}))
                for value in (secret, f"{secret}\n{'x' * 5000}")
            ]
            seen: list[str] = []
            while not all(run.done() for run in runs):
                seen += await asyncio.to_thread(living, secret)
                await asyncio.sleep(0.02)
    assert seen == []


async def test_a_value_too_large_for_the_host_is_refused_at_once(env: Environment) -> None:
    with pytest.raises(SpawnError, match="too large"):
        await env.run("true", env={"GIVEN": "x" * 200_000})
    with pytest.raises(SpawnError, match="too large"):
        await env.run("true", env={f"GIVEN{n}": "x" * 100_000 for n in range(60)})


async def test_local_choice_of_a_shell_does_not_apply_to_a_host(
    plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_SHELL", "/only/here/zsh")
    async with Environment.detect(plain.options()) as env:
        assert env.shell.path == "/bin/bash"


async def test_the_non_interactive_set_is_sent_and_the_hosts_own_kept(env: Environment) -> None:
    outcome = await env.run("echo $PAGER $GIT_TERMINAL_PROMPT $USER; echo ${SSH_CONNECTION:+there}")
    assert outcome.output.text == f"cat 0 {env.info.user}\nthere\n"


async def test_a_directory_of_the_address_is_where_commands_run(plain: Server) -> None:
    async with Environment.detect(plain.options(directory="/usr")) as env:
        assert (env.directory, (await env.run("pwd")).output.text) == ("/usr", "/usr\n")
    with pytest.raises(InvalidCommand, match="/no/such"):
        async with Environment.detect(plain.options(directory="/no/such")):
            pass


async def test_missing_directory_is_distinguished_from_failure_of_the_command(env: Environment) -> None:
    assert (await env.run("cd /no/such/place || exit 1")).exit_code == 1
    with pytest.raises(InvalidCommand, match="No such file or directory"):
        await env.run("true", cwd="/no/such/place")
    with pytest.raises(InvalidCommand, match="not a directory"):
        await env.run("true", cwd="/etc/hostname")
    if ROOT:
        with pytest.raises(InvalidCommand, match="Permission denied"):
            await env.run("true", cwd="/root")


# --- Sizes


async def test_a_hundred_megabytes_of_input(env: Environment) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(range(256)) * 4096

    outcome = await env.run("cksum; wc -c", stdin=pieces())
    assert outcome.output.text.split()[1] == str(100 * 2**20)


async def test_binary_input_and_output(env: Environment) -> None:
    data = os.urandom(1_000_000)
    async with env.stream("cat", stdin=data, by="chunks") as events:
        back = b"".join([event.data async for event in events])
    assert back == data


async def test_a_slow_reader_slows_the_host(env: Environment, plain: Server) -> None:
    trace = home(plain.user) / f"trace-{secrets.token_hex(4)}"
    loop = f"for i in $(seq 500); do head -c 1000000 /dev/zero; printf x >>{trace}; done"
    try:
        async with env.stream(loop, by="chunks") as events:
            async for _ in events:
                break
            size = -1
            with anyio.fail_after(20):
                while not trace.exists() or size != trace.stat().st_size:  # until the command is held up
                    size = trace.stat().st_size if trace.exists() else -1
                    await asyncio.sleep(0.5)
            assert size < 20
    finally:
        trace.unlink(missing_ok=True)


async def test_backlog_of_a_slow_reader_is_bounded(env: Environment, tmp_path: Path) -> None:
    written = tmp_path / "written"
    open_to_all(tmp_path)
    program = (
        "import os, sys\n"
        "for count in range(1, 1025):\n"
        "    os.write(1, bytes(32768))\n"
        "    open(sys.argv[1], 'w').write(str(count * 32768))"
    )
    written.touch()
    written.chmod(0o666)
    taken = most = 0
    async with env.stream(f'{PYTHON} -c "{program}" {written}', by="chunks") as events:
        async for event in events:
            taken += len(event.data)
            await asyncio.sleep(0.001)
            most = max(
                most, int(written.read_text() or 0) - taken
            )  # the file is empty while it is being written
    assert taken == 32 * 1024 * 1024
    # Here, on their way, and on the host in the queue for sending.
    assert most < 10_000_000


async def test_reader_of_buffered_output_yields_to_other_tasks() -> None:
    stream = ChannelReceiveStream(lambda count: None)
    for _ in range(100):
        stream.feed(b"y\r\n")
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(100):
        assert await stream.receive() == b"y\r\n"
    task.cancel()
    assert turns >= 100


async def test_channels_over_ssh_keep_their_order(env: Environment) -> None:
    loop = "for i in $(seq 200); do echo o$i; echo e$i >&2; done"
    words = (await env.run(loop)).output.text.split()
    assert words == [word for n in range(1, 201) for word in (f"o{n}", f"e{n}")]


async def test_late_output_over_a_slow_link_is_awaited(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status arrives; the output, and its end, are delayed on their way."""

    def delay(name: str) -> None:
        real = getattr(Channel, name)

        def arrive(self: Channel, *args: object) -> bool:
            if self.said.done() and self._take is None:
                asyncio.get_running_loop().call_later(1.5, real, self, *args)
            else:
                real(self, *args)
            return True

        monkeypatch.setattr(Channel, name, arrive)

    for name in ("data_received", "eof_received", "connection_lost"):
        delay(name)
    outcome = await env.run("seq 1000; sleep 0.2; seq 1000")
    assert (outcome.status, outcome.exit_code, outcome.output.total_lines) == ("exited", 0, 2000)


async def test_output_right_before_the_end_arrives(env: Environment) -> None:
    text = "head -c 300000 /dev/zero | tr '\\0' x; echo; sleep 30 & echo the end"
    for _ in range(20):
        outcome = await env.run(text, left_behind="stop")
        assert outcome.output.text.endswith("the end\n")
        assert outcome.output.total_bytes == 300_009


# --- Many at once


async def test_many_commands_at_once_all_succeed(env: Environment) -> None:
    outcomes = await asyncio.gather(*(env.run(f"echo {n}") for n in range(400)))
    assert [outcome.output.text for outcome in outcomes] == [f"{n}\n" for n in range(400)]


@pytest.mark.parametrize("limits", ["MaxSessions 1", "MaxSessions 2", "MaxSessions 4", "MaxStartups 2:50:4"])
async def test_server_with_lower_limits_is_usable(limits: str) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(own_name(), limits) as server:
        async with Environment.detect(server.options()) as env:
            outcomes = await asyncio.gather(*(env.run(f"sleep 0.2; echo {n}") for n in range(30)))
            assert [outcome.output.text for outcome in outcomes] == [f"{n}\n" for n in range(30)]
            assert await env.files.exists("/etc/hostname")
            seconds = unique_seconds()
            stopped = await asyncio.gather(
                *(
                    env.run(f"setsid sleep {seconds} & sleep {seconds}", timeout=1.5, grace=0.3)
                    for _ in range(3)
                )
            )
            assert {outcome.status for outcome in stopped} == {"timed_out"}
            assert living(seconds) == []


async def test_session_that_is_never_free_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher and the service for files hold both sessions."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    monkeypatch.setattr(pool, "STARVED_SECONDS", 0.2)
    with (
        openssh(own_name(), "MaxSessions 2") as server,
        pytest.raises(ConnectionFailed, match=r"allows \(2\) .* max_connections"),
    ):
        async with Environment.detect(server.options(max_connections=1), cwd="/tmp") as env:
            await env.run("true", timeout=20)


async def test_server_without_sessions_is_an_error() -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(own_name(), "MaxSessions 0") as server, pytest.raises(ConnectionFailed, match="session"):
        async with Environment.detect(server.options()):
            pass


async def test_commands_can_be_stopped_with_every_session_taken(plain: Server) -> None:
    seconds = unique_seconds()
    text = f"trap '' TERM; setsid sleep {seconds} & sleep {seconds}"
    async with Environment.detect(plain.options(max_connections=1)) as env:
        tasks = [asyncio.ensure_future(env.run(text, timeout=6, grace=0.3)) for _ in range(9)]
        await asyncio.to_thread(wait_living, seconds, 18)
        queued = await env.run("true", timeout=0.3)
        assert (queued.status, queued.started) == ("timed_out", False)
        outcomes = await asyncio.gather(*tasks)
        assert {outcome.status for outcome in outcomes} == {"timed_out"}
        assert living(seconds) == []


async def test_abandoned_session_requests_are_closed_on_the_host(plain: Server) -> None:
    async with (
        Link(plain, delay=0.03) as link,
        Environment.detect(link.options(max_connections=1)) as env,
    ):
        for commands in [*[0] * 10, 9, 9]:
            tasks = [asyncio.ensure_future(env.run("true")) for _ in range(commands)]
            files = asyncio.ensure_future(env.files.exists("/"))
            await asyncio.sleep(0.03)
            for task in (*tasks, files):
                task.cancel()
            await asyncio.gather(*tasks, files, return_exceptions=True)
        outcomes = await asyncio.gather(*(env.run("true", timeout=30) for _ in range(9)))
        assert {outcome.exit_code for outcome in outcomes} == {0}


async def test_kept_process_holds_its_session_until_its_end(plain: Server) -> None:
    seconds = unique_seconds()
    async with Environment.detect(plain.options(max_connections=1)) as env:
        for _ in range(9):
            await env.run(f"sleep {seconds} & true", left_behind="keep")
        assert (await env.run("true", timeout=0.3)).started is False
        stop = await asyncio.to_thread(living, seconds)
        for line in stop:
            psutil.Process(int(line.split()[0])).kill()
        assert (await env.run("echo room", timeout=20)).output.text == "room\n"


async def test_channel_of_a_kept_process_is_forgotten_after_its_end(env: Environment) -> None:
    channels = []
    for _ in range(3):
        seconds = unique_seconds()
        await env.run(f"sleep {seconds} & true", left_behind="keep")
        kept = env.runner.backend._released  # type: ignore[attr-defined]  # nothing else tells what adds up
        (channel,) = kept
        assert channel not in channels
        channels.append(channel)
        for line in living(seconds):
            psutil.Process(int(line.split()[0])).kill()
        with anyio.fail_after(10):
            await channel.closed.wait()


async def test_simultaneous_environments_tolerate_a_busy_server(plain: Server) -> None:
    async def one() -> str:
        async with Environment.detect(plain.options()) as env:
            return (await env.run("echo hi")).output.text

    assert await asyncio.gather(*(one() for _ in range(20))) == ["hi\n"] * 20


# --- Hostile commands


@pytest.mark.parametrize(
    "text",
    [
        "for i in $(seq 60); do setsid sleep {s} & done; sleep {s}",
        "(trap '' TERM; for i in $(seq 60); do sleep {s} & done; wait); sleep {s}",
    ],
)
async def test_a_tree_that_uses_up_the_users_processes_is_stopped(sshd: Server, text: str) -> None:
    if not ROOT:
        pytest.skip("who runs the tests has other processes, which count")
    seconds = unique_seconds()
    # Two users: a killed process counts until the process that inherits orphans on this machine has reaped it.
    with (
        account(f"anyshell-few{WORKER}", "/bin/bash") as first,
        account(f"anyshell-less{WORKER}", "/bin/bash") as second,
    ):
        few = dataclasses.replace(sshd, user=first if "setsid" in text else second)
        with startup_file(few, ".bashrc", "ulimit -u 40\n"):
            await use_up(few, text, seconds)


async def use_up(server: Server, text: str, seconds: str) -> None:
    async with Environment.detect(server.options()) as env:
        outcome = await env.run(text.replace("{s}", seconds), timeout=1.5, grace=0.5)
        # A host too busy to answer in time is given up, with the names of possible survivors; they are stopped right after.
        assert outcome.status == "timed_out" or (outcome.status == "lost" and outcome.left_behind)
        while living(seconds):  # the bound is that of the test
            await asyncio.sleep(0.05)
        assert (await env.run("echo again")).output.text == "again\n"


async def test_a_file_with_a_forged_name_makes_no_process_a_member(env: Environment, plain: Server) -> None:
    """The host's ls shows the target of a descriptor, and the name of a file can imitate more of that output."""
    stranger = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    place = home(plain.user)
    forge = (
        "import os, sys; p = os.readlink('/proc/self/fd/197'); "
        "name = f'a\\nl 1 a b 1 Jan 1 00:00 /proc/{sys.argv[1]}/fd/197 -> {p}'; "
        "os.makedirs(os.path.dirname(name), exist_ok=True); "
        "fd = os.open(name, os.O_CREAT | os.O_RDWR); os.dup2(fd, 2); os.execvp('sleep', ['sleep', '300'])"
    )
    try:
        outcome = await env.run(
            f'cd $(mktemp -d); /usr/bin/python3 -c "{forge}" {stranger.pid}', timeout=1, grace=0.3
        )
        assert place.is_absolute()
        assert (outcome.status, outcome.left_behind) == ("timed_out", ())
        assert stranger.returncode is None
        assert psutil.Process(stranger.pid).status() != psutil.STATUS_ZOMBIE
    finally:
        stranger.kill()
        await stranger.wait()


async def test_signal_without_a_protocol_name_is_reported(env: Environment) -> None:
    outcome = await env.run("kill -BUS $$")
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", None, "SIGUNKNOWN")


# --- Cancelling and closing


@pytest.mark.timeout(300)  # each of the stops has a minute of its own to be seen
async def test_a_storm_of_cancels_leaves_nothing(plain: Server) -> None:
    """Cancellations at every moment of a start: queued, connecting, requested, begun; once, twice, three times."""
    seconds = unique_seconds()
    for _ in range(2):
        async with Environment.detect(plain.options()) as env:
            tasks = [
                asyncio.ensure_future(env.run(f"setsid sleep {seconds} & sleep {seconds}", grace=0.1))
                for _ in range(60)
            ]
            for number in range(60):
                await asyncio.sleep(0.01)
                tasks[(number * 37) % 60].cancel()
                tasks[(number * 23) % 60].cancel()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await no_process_lives(seconds)
            for number in range(15):
                task = asyncio.ensure_future(env.run(f"setsid sleep {seconds} & sleep {seconds}", grace=0.1))
                await asyncio.sleep(number * 0.001)
                for _ in range(number % 3 + 1):
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait([task])
                await no_process_lives(seconds)
    assert living(seconds) == []


async def no_process_lives(text: str) -> None:
    """At once if the host answers in time, and otherwise as soon as it answers: the stop is repeated until then."""
    give_up = time.monotonic() + 60
    while found := living(text):
        assert time.monotonic() < give_up, found
        await asyncio.sleep(0.1)


async def test_commands_on_a_busy_host_are_stopped_when_the_host_answers(
    plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = unique_seconds()
    async with Environment.detect(plain.options()) as env:
        await env.run("true")
        with monkeypatch.context() as busy:
            busy.setattr("anyshell.backends.ssh.posix.watcher.ANSWER_SECONDS", 0.0)
            busy.setattr("anyshell.backends.ssh.posix.watcher.SILENCE_SECONDS", 0.0)
            tasks = [asyncio.ensure_future(env.run(f"sleep {seconds} & sleep {seconds}")) for _ in range(30)]
            while not living(seconds):
                await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert living(seconds)
        await no_process_lives(seconds)


def test_ended_event_loop_stops_its_commands_on_a_host(plain: Server) -> None:
    seconds = unique_seconds()

    async def one() -> None:
        async with Environment.detect(plain.options()) as env:
            await env.run(f"trap '' TERM; setsid sleep {seconds} & sleep {seconds}", grace=0.2)

    async def main(count: int) -> None:
        background = [asyncio.ensure_future(one()) for _ in range(3)]
        await asyncio.to_thread(wait_living, seconds, count) if count else await asyncio.sleep(0.1)
        assert not any(task.done() for task in background)

    for count in (6, 0):
        asyncio.run(main(count))
        assert living(seconds) == []


async def test_input_that_is_cancelled_at_its_source_does_not_hang(env: Environment) -> None:
    printed = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"so far"
        await printed.wait()
        raise asyncio.CancelledError

    with anyio.fail_after(20):
        async with env.stream("cat", stdin=pieces(), by="chunks") as events:
            async for _ in events:
                printed.set()
    outcome = events.outcome
    assert (outcome.status, outcome.output.text) == ("cancelled", "so far")


async def test_closing_leaves_nothing(plain: Server) -> None:
    seconds = unique_seconds()
    await asyncio.sleep(0)
    tasks, descriptors = len(asyncio.all_tasks()), open_descriptors()
    others = set(sessions(plain.pid))
    async with Environment.detect(plain.options()) as env:
        runs = [asyncio.ensure_future(env.run(f"trap '' TERM; sleep {seconds}")) for _ in range(12)]
        await env.files.read_text("/etc/hostname")
        await asyncio.to_thread(wait_living, seconds, 12)
    assert {run.result().status for run in runs} == {"cancelled"}
    assert living(seconds) == []
    with anyio.fail_after(20):
        while set(sessions(plain.pid)) - others:
            await asyncio.sleep(0.02)
    assert (len(asyncio.all_tasks()), open_descriptors()) == (tasks, descriptors)


async def test_an_awaited_environment_is_closed_by_hand(plain: Server) -> None:
    env = await Environment.detect(plain.options())
    assert (await env.run("echo hi")).output.text == "hi\n"
    await env.aclose()
    await env.aclose()
    with pytest.raises(AnyshellError, match="closed"):
        await env.run("true")


async def test_a_closed_environment_starts_nothing(plain: Server) -> None:
    env = Environment.detect(plain.options())
    async with env as entered:
        pass
    with pytest.raises(AnyshellError, match="closed"):
        await entered.run("true")


async def test_error_shows_no_secret() -> None:
    with pytest.raises(InvalidCommand) as caught:
        Command(text="true", env={"TOKEN": "s3cret\0"})
    assert "s3cret" not in str(caught.value)


# # --- Terminals. The contract of all backends is in test_terminals.py, the lines of login shells in test_login.py.


@contextlib.asynccontextmanager
async def backend_of(server: Server) -> AsyncIterator[Backend]:
    backend = connect(server.options(), launcher=Login)
    try:
        yield backend
    finally:
        await backend.aclose()


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
async def test_terminal_is_the_same_with_any_login_shell(login: Callable[[str], Server], shell: str) -> None:
    value = "it's $HOME !! \\ \x03\x04\x16\x7f\r\n\x1a\x11"
    seconds = unique_seconds()
    async with backend_of(login(shell)) as backend:
        async with sit(backend, "stty -a; test -t 2 && exit 3") as sitting:
            plain = await sitting.rest()
            assert await sitting.wait() == ExitStatus(code=3)
        assert set(plain.decode().split()) >= {
            "icanon",
            "echo",
            "isig",
            "iexten",
            "onlcr",
            "icrnl",
            "iutf8",
            "^C;",
            "^D;",
        }
        # A variable in the request leaves the terminal unchanged.
        async with sit(backend, "stty -a; exit 4", env={"GIVEN": value}) as sitting:
            assert await sitting.rest() == plain
            assert await sitting.wait() == ExitStatus(code=4)
        async with sit(backend, 'printf %s "$GIVEN" | od -An -tx1 -w99', env={"GIVEN": value}) as sitting:
            assert bytes.fromhex((await sitting.rest()).decode()) == value.encode()
        with pytest.raises(InvalidCommand, match="/no such 'place!"):
            await backend.spawn(dataclasses.replace(on_terminal("true"), cwd="/no such 'place!"))
        async with sit(backend, f"setsid sleep {seconds} & sleep {seconds}"):
            await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        assert living(seconds) == []


def on_terminal(text: str) -> Spawn:
    return Spawn(argv=("/bin/bash", "-c", text), cwd="/", terminal=Terminal())


@pytest.mark.parametrize(
    "text",
    [
        "echo noise; echo noise >&2; printf unfinished; printf '\\r'",
        "exec 2>&1; set -xv; trap 'echo DBG' DEBUG; set -T",
        "exec 3>&1 4>&2 7>/dev/null 8>/dev/null 9>/dev/null 197>/dev/null; ulimit -n 16",
        "export TERM=vt52; stty() { echo mine; }; set -euo pipefail",
        "printf '\\033[c\\033[6n'; head -c 3000000 /dev/zero | tr '\\0' n",
    ],
)
async def test_startup_files_are_not_seen_on_a_terminal(plain: Server, text: str) -> None:
    with startup_file(plain, ".bashrc", f"{text}\n"):
        async with backend_of(plain) as backend:
            for env in ({}, {"GIVEN": "v\x03\n"}):
                async with sit(backend, "/bin/sh", "-c", 'echo "$TERM ${#GIVEN}"', env=env) as sitting:
                    assert (
                        await sitting.rest()
                    ).decode() == f"xterm-256color {len(env.get('GIVEN', ''))}\r\n"


async def test_no_value_is_ever_in_the_process_list_of_a_terminals_host(plain: Server) -> None:
    secret = secrets.token_hex(16)
    seen: list[str] = []
    with startup_file(plain, ".bashrc", "sleep 0.3\n"):
        async with backend_of(plain) as backend, sit(backend, "true"):

            async def run() -> bytes:
                async with sit(backend, "sleep 0.2; echo ${#GIVEN}", env={"GIVEN": secret}) as sitting:
                    return await sitting.rest()

            running = asyncio.ensure_future(run())
            while not running.done():
                seen += await asyncio.to_thread(living, secret)
            assert running.result() == b"32\r\n"
    assert seen == []


@pytest.mark.parametrize("text", ["yes", "yes & yes", "trap '' HUP TERM; yes"])
async def test_flood_on_a_terminal_is_stopped_with_its_processes(env: Environment, text: str) -> None:
    seconds = unique_seconds()
    with anyio.fail_after(BOUND):
        for timeout in (0.3, 2, 8):
            outcome = await env.run(
                f": {seconds}; {text}; :", terminal=Terminal(), timeout=timeout, grace=0.5
            )
            if outcome.output.text:  # the shell has started
                break
    assert (outcome.status, outcome.left_behind) == ("timed_out", ())
    assert outcome.output.text.startswith("y\n")
    assert living(seconds) == []


async def test_a_flood_on_a_terminal_can_be_cancelled_interrupted_and_stopped(env: Environment) -> None:
    seconds = unique_seconds()
    with anyio.fail_after(BOUND):
        task = asyncio.ensure_future(env.run(f": {seconds}; yes; :", terminal=Terminal()))
        await asyncio.to_thread(wait_living, seconds, 1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert living(seconds) == []
        async with env.terminal(f": {seconds}; yes; :") as terminal:
            await terminal.expect("y")
            outcome = await terminal.stop()
        assert (outcome.status, outcome.left_behind) == ("cancelled", ())
        async with env.terminal("yes") as terminal:
            await terminal.expect("y")
            await terminal.send_key("Ctrl-C")
            outcome = await terminal.wait()
        assert (outcome.status, outcome.signal) == ("exited", "SIGINT")
        async with env.terminal(f": {seconds}; yes; :") as terminal:
            await terminal.expect("y")
        assert living(seconds) == []


async def test_all_output_of_a_program_on_a_terminal_is_drawn(env: Environment) -> None:
    outcome = await env.run("yes | head -n 150000", terminal=Terminal())
    assert (outcome.status, outcome.output.total_lines, outcome.output.total_bytes) == (
        "exited",
        150_000,
        450_000,
    )


@pytest.mark.parametrize("no_terminal", ["PermitTTY no", "no-pty"])
async def test_refused_terminal_is_an_error_and_keeps_no_session_busy(no_terminal: str) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    by_key = no_terminal == "no-pty"
    with openssh(own_name(), "" if by_key else no_terminal) as server:
        keys = server.directory / "authorized_keys"
        keys.write_text(("no-pty " if by_key else "") + keys.read_text())
        async with Environment.detect(server.options(max_connections=1)) as env:
            backend = connect(server.options(max_connections=1), launcher=Login)
            for _ in range(12):  # more than the number of sessions
                with pytest.raises(TerminalUnavailable, match="grants no terminal"):
                    await backend.spawn(on_terminal("true"))
            process = await backend.spawn(Spawn(argv=("/bin/echo", "without"), cwd="/"))
            assert await process.stdout.receive() == b"without\n"
            await backend.aclose()
            assert (await env.run("echo again")).output.text == "again\n"


async def test_hidden_process_is_found_by_its_terminal(plain: Server) -> None:
    seconds = unique_seconds()
    hides = f"(ulimit -S -x unlimited; exec env -i setsid sleep {seconds}) & sleep {seconds}"
    async with backend_of(plain) as backend:
        async with sit(backend, hides):
            await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        assert living(seconds) == []


async def test_a_later_program_on_the_same_terminal_is_not_stopped(plain: Server) -> None:
    """The name of a terminal is given again as soon as the terminal is free."""
    seconds = unique_seconds()
    hides = f"(ulimit -S -x unlimited; exec env -i setsid sleep {seconds}) & tty; echo; read line"
    before: dict[bytes, Sitting] = {}
    async with backend_of(plain) as backend:
        for _ in range(20):  # other programs may begin terminals as well
            async with sit(backend, hides) as sitting:
                await sitting.until("\r\n\r\n")
                await asyncio.to_thread(wait_asleep, seconds)
                if sitting.shown in before:
                    await before[sitting.shown].process.send_signal("kill")
                    assert len(living(seconds)) == 2
                    return
                assert len(await sitting.process.survivors()) == 2
                before[sitting.shown] = sitting
    raise AssertionError("no terminal was ever given again")


async def test_foreground_of_an_unresponsive_host_is_unknown(plain: Server) -> None:
    if not ROOT:
        pytest.skip("only root may freeze a server of its own user's")
    with openssh(plain.user) as server:
        async with backend_of(server) as backend, sit(backend, "cat") as sitting:
            assert await sitting.process.foreground() is not None
            psutil.Process(server.pid).suspend()
            frozen = [psutil.Process(pid) for pid in sessions(server.pid)]
            for each in frozen:
                each.suspend()
            try:
                async with asyncio.timeout(BOUND):
                    assert await sitting.process.foreground() is None
                    await sitting.keys.aclose()  # which asks for the settings of the terminal
            finally:
                for each in (*frozen, psutil.Process(server.pid)):
                    each.resume()
            await sitting.rest()
            assert await sitting.wait() == ExitStatus(code=0)


async def test_session_makes_no_unneeded_looks_at_its_host(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look starts three programs on the host; an unneeded look delays each stop and each end."""
    asked: list[str] = []
    ask = WatcherShell.ask

    def listen(self: WatcherShell, question: str = "") -> asyncio.Future[Answer]:
        asked.append(question.partition(" ")[0])
        return ask(self, question)

    async with env.session() as session:
        await session.run("true")
        with monkeypatch.context() as patch:
            patch.setattr(WatcherShell, "ask", listen)
            # A busy machine is no reason for another look: the shell may be back only after a while.
            patch.setattr("anyshell.session.process.INTERRUPT_AGAIN", 20.0)
            assert (await session.run("sleep 300", timeout=2)).status == "timed_out"
            assert asked.count("look") == 3  # the members to be stopped; then twice, that they are gone
            asked.clear()
            await session.aclose()
            assert asked
            assert "look" not in asked


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh"])
async def test_a_session_with_few_descriptors_works_or_names_the_limit(plain: Server, shell: str) -> None:
    with startup_file(plain, ".bashrc", "ulimit -n 64\n"):
        async with Environment.detect(plain.options(), shell=shell) as env, env.session() as session:
            if shell == "bash":
                for _ in range(2):
                    with pytest.raises(
                        SpawnError, match=r"64 open files at most \(ulimit -n\).* bash needs 200"
                    ):
                        await session.run("echo hi")
            else:
                assert (await session.run("x=1; echo hi")).output.text == "hi\n"
                assert (await session.run("echo $x")).output.text == "1\n"


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("exec > >(tee -a ~/log)", True),
        ("exec 2> >(tee -a ~/log >&2)", True),
        ("exec > >(tee -a ~/log) 2>&1", False),
        ("exec 2>&1", False),
    ],
)
async def test_session_error_names_a_startup_file_that_joins_channels(
    plain: Server, text: str, works: bool
) -> None:
    with startup_file(plain, ".bashrc", f"{text}\n"):
        async with Environment.detect(plain.options()) as env, env.session() as session:
            if works:
                assert (await session.run("x=1; echo hi; echo err >&2")).output.text == "hi\nerr\n"
                assert (await session.run("echo $x; cat", stdin="in")).output.text == "1\nin"
            else:
                with pytest.raises(SpawnError, match=r"joins stderr to stdout \(exec 2>&1\)"):
                    await session.run("echo hi")
                assert (await env.run("echo hi")).output.text == "hi\n"
