"""Windows hosts over SSH: PowerShell 7 and cmd.exe under Wine, behind a server like OpenSSH for Windows."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tracemalloc
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import anyio
import asyncssh
import psutil
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anyshell import (
    ArtifactStore,
    ConnectionFailed,
    Environment,
    InvalidCommand,
    Policy,
    Refused,
    ShellTool,
    Terminal,
)
from anyshell._types import Spawn
from anyshell.backends import connect
from anyshell.backends.ssh import backend as ssh_backend
from anyshell.backends.ssh.channel import Channel
from anyshell.backends.ssh.facts import FactLines
from anyshell.backends.ssh.windows import host as ssh_windows
from anyshell.backends.ssh.windows.channel import LONGEST_LINE, WindowsChannel
from anyshell.backends.ssh.windows.files import from_sftp, to_sftp
from anyshell.errors import BackendUnavailable, SpawnError, TerminalUnavailable
from anyshell.shells import Login
from anyshell.shells.windows_login import QUESTION, WindowsLogin, windows_logins
from anyshell.tool.powershell import PowerShellParser
from anyshell.tool.verdicts import Verdicts
from anyshell.types import Root

from .processes import living, unique_seconds, wait_living, wait_none
from .ssh_server import HOST, Link, Server, _keys, embedded, free_port
from .test_artifacts import keep
from .windows_server import ROOM, home
from .wine.windows import windows_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path
    from typing import Any

    from anyio.abc import ByteReceiveStream

    from anyshell.backends.ssh.windows.host import WindowsHost
    from anyshell.policy.rules.facts import Question

    from .wine.windows import Windows

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def start(powershell: Windows) -> Iterator[Callable[..., Server]]:
    """Start a server for that Windows, or return the running server with the same arguments."""
    running: dict[tuple[str, ...], Server] = {}
    with ExitStack() as stack:

        def start(*arguments: str) -> Server:
            if arguments not in running:
                running[arguments] = stack.enter_context(embedded(*arguments, module="tests.windows_server"))
            return running[arguments]

        yield start


@pytest.fixture(scope="module")
async def by_cmd(start: Callable[..., Server], anyio_backend: str) -> AsyncIterator[Environment]:
    """One environment for the module, for tests that do not depend on the login shell: the detection of a host takes seconds."""
    async with Environment.detect(start("cmd").options()) as made:
        yield made


@pytest.fixture(scope="module", params=["cmd", "pwsh"])
async def env(
    request: pytest.FixtureRequest, start: Callable[..., Server], by_cmd: Environment, anyio_backend: str
) -> AsyncIterator[Environment]:
    """Each login shell, for tests that depend on the login shell."""
    if request.param == "cmd":
        yield by_cmd
        return
    async with Environment.detect(start(request.param).options()) as made:
        yield made


async def _read_all(stream: ByteReceiveStream) -> bytes:
    data = b""
    while True:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            return data


# Detection.


async def test_windows_host_reports_its_facts(env: Environment, powershell: Windows) -> None:
    info = env.info
    assert (info.os, info.arch, info.name) == ("windows", "AMD64", "Windows")
    assert info.version.startswith("10.0.")
    assert info.hostname
    assert info.home.lower() == rf"c:\users\{home(powershell).name}".lower()
    assert (info.directory, info.user.lower()) == (info.home, home(powershell).name.lower())
    assert (env.shell.kind, env.shell.path, env.shell.version) == ("pwsh", r"C:\ps7\pwsh.exe", "7.6.2")
    assert not info.is_this_machine
    assert info.code_page in {437, 850, 65001}
    assert info.variables == frozenset()


async def test_silent_program_is_no_shell(start: Callable[..., Server]) -> None:
    """Wine's own powershell.exe exits with 0 and prints nothing."""
    from anyshell import ShellNotFound

    with pytest.raises(
        ShellNotFound, match=r"powershell\.exe: it runs, but does not answer as powershell does"
    ):
        await Environment.detect(start("cmd").options(), shell="powershell")


async def test_host_without_powershell_is_refused_with_an_install_hint(
    start: Callable[..., Server],
) -> None:
    with pytest.raises(
        BackendUnavailable, match=r"cmd\.exe, and neither .*winget install.*it printed: .*'pwsh \.\.\.'"
    ):
        await Environment.detect(start("cmd", "no-powershell").options())


async def test_directory_of_the_address_is_a_windows_path(start: Callable[..., Server]) -> None:
    env = await Environment.detect(start("cmd").options(directory="/C:/windows"))
    try:
        assert env.directory == "C:/windows"
    finally:
        await env.aclose()
    with pytest.raises(InvalidCommand, match="nowhere"):
        await Environment.detect(start("cmd").options(directory=r"C:\nowhere"))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("anyshell-Windows_NT-$env:OS-\r\n", ["cmd.exe", "cmd.exe"]),
        ("anyshell-%OS%-Windows_NT-\r\n", ["PowerShell"]),
        ("MINGW64_NT-10.0-19045", ["a POSIX shell", "a POSIX shell"]),
        ("MSYS_NT-10.0-22631", ["a POSIX shell", "a POSIX shell"]),
        ("CYGWIN_NT-10.0-22631", ["a POSIX shell", "a POSIX shell"]),
        ("Linux", []),
        ("anyshell-%OS%--", []),
        ("", []),
    ],
)
def test_login_shells_are_distinguished_by_one_answer(said: str, names: list[str]) -> None:
    assert [login.name for login in windows_logins(said)] == names


@pytest.mark.parametrize("login", [WindowsLogin("cmd.exe", "powershell"), WindowsLogin("PowerShell")])
def test_command_line_is_short_and_free_of_special_characters(login: WindowsLogin) -> None:
    line = login.read_and_run(123456)
    assert len(line) < 1500  # cmd.exe takes 8,191
    assert not set(line) & set("\"'%^!&|<>\n\\`") - (set() if login.program else set("&|<>"))
    assert not line.startswith("'")
    assert QUESTION.isascii()


async def test_bash_of_windows_is_recognised_by_uname(powershell: Windows, tmp_path: Path) -> None:
    """For example Git for Windows' bash as the default shell: a POSIX shell, recognised by ``uname`` alone."""
    for name, text in (("uname", "echo MINGW64_NT-10.0-19045"), ("pwsh", f'exec {powershell.pwsh} "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        patch.setenv("ANYSHELL_TEST_SHELL", "/bin/bash")
        patch.setenv("ANYSHELL_NO_PROC", "1")  # such a bash has no /proc/sys/kernel
        with embedded() as server:
            async with Environment.detect(server.options()) as env:
                assert (env.os, env.shell.kind) == ("windows", "pwsh")
                assert (await env.run("'hi'", cwd="C:\\")).output.text == "hi\n"


@asynccontextmanager
async def _answering(
    answer: Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]], directory: Path
) -> AsyncIterator[Server]:
    """A server in this process that runs nothing, and answers as the test tells it to."""
    _keys(directory, port := free_port())

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        with suppress(OSError, asyncssh.Error):
            await answer(process)
            process.exit(1)

    server = await asyncssh.listen(
        HOST,
        port,
        server_host_keys=[directory / "host_key"],
        authorized_client_keys=str(directory / "client_key.pub"),
        process_factory=serve,
        encoding=None,
    )
    async with server:
        yield Server(directory, port, "somebody")


async def test_a_flood_instead_of_an_answer_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flood(process: asyncssh.SSHServerProcess[bytes]) -> None:
        while (process.command or "").startswith("echo"):
            process.stdout.write(bytes(65536))
            await process.stdout.drain()

    monkeypatch.setattr(ssh_backend, "WINDOWS_SECONDS", 2.0)
    async with _answering(flood, tmp_path) as server:
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionFailed, match="runs no commands"):
                await Environment.detect(server.options())
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()


async def test_partial_answer_is_a_lost_connection_and_not_a_missing_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_off(process: asyncssh.SSHServerProcess[bytes]) -> None:
        if (process.command or "").startswith("echo"):
            process.stdout.write(b"anyshell-Windows_NT-$env:OS-\r\n")
        elif (process.command or "").startswith("pwsh"):
            process.stdout.write(b"anyshell1234 facts\nfact system Windows_NT\n")
            await asyncio.sleep(0.2)
            process.channel.get_connection().abort()

    monkeypatch.setattr(ssh_windows, "new_token", lambda: "anyshell1234")
    async with _answering(break_off, tmp_path) as server:
        with pytest.raises(ConnectionFailed, match="was lost while PowerShell there was asked"):
            await Environment.detect(server.options())


# Commands.


async def test_a_command_prints_and_exits(env: Environment) -> None:
    outcome = await env.run("'é☃😀'; exit 3")
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 3, None)
    assert outcome.output.text == "é☃😀\n"
    assert outcome.left_behind == ()


async def test_an_exit_code_has_32_bits(by_cmd: Environment) -> None:
    assert (await by_cmd.run("exit -1073741819")).exit_code == 0xC0000005


async def test_command_runs_in_the_given_directory(by_cmd: Environment, powershell: Windows) -> None:
    directory = home(powershell) / f"a b'é {secrets.token_hex(4)}"
    directory.mkdir()
    outcome = await by_cmd.run("$PWD.Path", cwd=directory.name)
    assert outcome.output.text == rf"{by_cmd.directory}\{directory.name}" + "\n"
    assert (
        (await by_cmd.run("$PWD.Path", cwd=r"\\?\C:\windows")).output.text.lower().endswith("c:\\windows\n")
    )
    with pytest.raises(InvalidCommand, match=r"nowhere.*No such file"):
        await by_cmd.run("'hi'", cwd=r"C:\nowhere")
    with pytest.raises(InvalidCommand, match="not a directory"):
        await by_cmd.run("'hi'", cwd=r"C:\ps7\pwsh.exe")


async def test_variables_arrive_and_appear_on_no_command_line(by_cmd: Environment) -> None:
    secret = secrets.token_hex(12)
    values = {"A_SECRET": secret, "QUOTES": "a 'b' \"c\" %PATH% $x `n\\", "LINES": "é\n☃\r\n", "EMPTY": ""}
    text = (
        "foreach ($n in 'A_SECRET', 'QUOTES', 'LINES', 'EMPTY') {"
        " [BitConverter]::ToString([Text.Encoding]::UTF8.GetBytes([Environment]::GetEnvironmentVariable($n))) };"
        " Test-Path env:EMPTY; $env:PYTHONUTF8; Start-Sleep 300"
    )
    async with by_cmd.stream(text, env=values) as events:
        iterator = aiter(events)
        lines = [(await anext(iterator)).text for _ in range(6)]
        assert [bytes.fromhex(line.replace("-", "")).decode() for line in lines[:4]] == list(values.values())
        assert lines[4:] == ["True", "1"]
        assert living("-EncodedCommand")
        assert not living(secret)


async def test_unset_variables_are_absent(by_cmd: Environment) -> None:
    backend = by_cmd.runner.backend
    argv = (r"C:\windows\system32\cmd.exe", "/c", "set")
    process = await backend.spawn(
        Spawn(argv=argv, cwd="C:\\", settings={"Kept": "1"}, unset=frozenset({"winepath", "KEPT"}))
    )
    try:
        printed = await _read_all(process.stdout)
    finally:
        await process.aclose()
    names = [line.partition(b"=")[0] for line in printed.splitlines()]
    assert b"Kept" in names
    assert b"WINEPATH" not in names


async def test_channels_of_a_windows_host_keep_their_order_unless_split(by_cmd: Environment) -> None:
    text = 'foreach ($i in 1..200) { [Console]::Out.WriteLine("o$i"); [Console]::Error.WriteLine("e$i") }'
    together = await by_cmd.run(text)
    assert together.output.text == "".join(f"o{i}\ne{i}\n" for i in range(1, 201))
    apart = await by_cmd.run(text, split_stderr=True)
    assert apart.stderr is not None
    assert apart.output.text == "".join(f"o{i}\n" for i in range(1, 201))
    assert apart.stderr.text == "".join(f"e{i}\n" for i in range(1, 201))


def _scripts(powershell: Windows, text: str) -> list[Path]:
    """The files that begin as a text does: other tests may have some in the same place."""
    beginning = text[:30].encode()
    found = []
    for place in ("Temp/anyshell-*", "AppData/Local/Temp/anyshell-*"):
        for file in home(powershell).glob(place):
            with suppress(FileNotFoundError), file.open("rb") as opened:
                if beginning in opened.read(10_000):
                    found.append(file)
    return found


def _long(characters: int, end: str) -> str:
    return f"# {secrets.token_hex(8)} {'x' * characters}\n{end}"


async def test_long_text_travels_in_a_temporary_file(by_cmd: Environment, powershell: Windows) -> None:
    text = _long(100_000, "'the end'; Start-Sleep $env:SECONDS")
    assert (await by_cmd.run(text, env={"SECONDS": "0"})).output.text == "the end\n"
    async with by_cmd.stream(text, env={"SECONDS": "300"}) as events:
        assert (await anext(aiter(events))).text == "the end"
        (file,) = _scripts(powershell, text)
        assert file.stat().st_size > 100_000
    assert events.outcome.status == "cancelled"
    assert not _scripts(powershell, text)


async def test_long_text_without_disk_space_leaves_no_file(
    start: Callable[..., Server], powershell: Windows
) -> None:
    text = _long(2 * ROOM, "'never'")
    async with Environment.detect(start("cmd", "full").options()) as env:
        assert (await env.run(_long(ROOM - 10_000, "'it fits'"))).output.text == "it fits\n"
        with pytest.raises(SpawnError, match="no room for a temporary file"):
            await env.run(text)
    assert not _scripts(powershell, text)


async def test_long_text_of_a_failed_start_leaves_no_file(
    start: Callable[..., Server], powershell: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {name: ssh_windows._program(name) for name in ("facts.ps1", "leader.ps1")}
    asked = b"SetInformationJobObject($job, 9,"
    assert asked in given["leader.ps1"]
    given["leader.ps1"] = given["leader.ps1"].replace(asked, asked.replace(b"$job", b"[IntPtr]::Zero"))
    monkeypatch.setattr(ssh_windows, "_program", given.__getitem__)
    text = _long(100_000, "'never'")
    async with Environment.detect(start("cmd").options()) as env:
        with pytest.raises(SpawnError, match="refuses a job object"):
            await env.run(text)
    assert not _scripts(powershell, text)


async def test_a_prefix_stands_before_the_shell(start: Callable[..., Server], powershell: Windows) -> None:
    prefix = f'"{windows_path(powershell.programs / "console.exe")}"'
    tell = '"$((Get-Process -Id $PID).Parent.ProcessName) $input"; exit 44'
    async with Environment.detect(start("cmd").options(), prefix=prefix) as env:
        for text in (tell, _long(100_000, tell)):
            outcome = await env.run(text, stdin="read")
            assert (outcome.output.text, outcome.exit_code) == ("console read\n", 44)
    with pytest.raises(InvalidCommand, match="batch file"):
        await Environment.detect(start("cmd").options(), prefix=r"C:\a.cmd b")


# Stops.


def _tree(seconds: str) -> str:
    """Words that start a lasting program, and report the start."""
    return f"Start-Process \"$PSHOME\\pwsh.exe\" -NoNewWindow -ArgumentList '-NoProfile -c Start-Sleep {seconds}'; "


async def test_a_cancel_ends_the_whole_tree(by_cmd: Environment) -> None:
    seconds = unique_seconds()
    task = asyncio.create_task(by_cmd.run(_tree(seconds) + "'started'; Start-Sleep 300", timeout=60))
    await asyncio.to_thread(wait_living, seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_processes_left_behind_become_a_job_or_go_on(by_cmd: Environment) -> None:
    seconds = unique_seconds()
    outcome = await by_cmd.run(_tree(seconds))
    assert outcome.job is not None
    assert living(seconds)
    await by_cmd.jobs.get(outcome.job).stop()
    assert not living(seconds)
    outcome = await by_cmd.run(_tree(seconds) + "'started'; exit 3", left_behind="keep")
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 3, "started\n")
    assert [(each.name, each.alive) for each in outcome.left_behind] == [("pwsh", True)]
    assert living(seconds)
    (line,) = living(seconds)
    psutil.Process(int(line.split()[0])).kill()


FLOOD = "while ($true) { 'x' * 1000 }"


async def test_a_flood_is_stopped(by_cmd: Environment) -> None:
    async with by_cmd.stream(FLOOD, by="chunks") as events:
        iterator = aiter(events)
        taken = 0
        while taken < 2_000_000:
            taken += len((await anext(iterator)).data)
    assert (events.outcome.status, events.outcome.left_behind) == ("cancelled", ())


async def test_blocked_listener_does_not_prevent_a_stop(by_cmd: Environment) -> None:
    seconds = unique_seconds()
    heard = asyncio.Event()

    async def listener(*_: object) -> None:
        heard.set()
        await anyio.sleep_forever()

    task = asyncio.create_task(by_cmd.run(_tree(seconds) + FLOOD, listener=listener))
    await asyncio.to_thread(wait_living, seconds)
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_stopped_program_may_leave_input_unread(by_cmd: Environment) -> None:
    async with by_cmd.stream("'started'; Start-Sleep 300", stdin=b"x" * 5_000_000) as events:
        await anext(aiter(events))
    assert (events.outcome.status, events.outcome.left_behind) == ("cancelled", ())


@pytest.mark.parametrize("options", [(), ("kills", "no-sftp")])
async def test_lost_connection_ends_its_commands(
    start: Callable[..., Server], options: tuple[str, ...]
) -> None:
    """OpenSSH for Windows ends nothing by itself (Win32-OpenSSH, issue 1751); other servers do."""
    seconds = unique_seconds()
    async with Environment.detect(start("cmd", *options).options()) as env:
        task = asyncio.create_task(env.run(_tree(seconds) + "Start-Sleep 300"))
        await asyncio.to_thread(wait_living, seconds)
        for link in tuple(env.runner.backend._sessions._pool._links):  # type: ignore[attr-defined]  # as if the network were gone
            link.connection.abort()
        outcome = await task
        assert outcome.status == "lost"
        assert [each.alive for each in outcome.left_behind] == [True]  # unknown on this side
        await wait_none(seconds)


async def test_killed_server_ends_its_commands(powershell: Windows) -> None:
    seconds = unique_seconds()
    with embedded("cmd", module="tests.windows_server") as server:
        async with Environment.detect(server.options()) as env:
            task = asyncio.create_task(env.run(_tree(seconds) + "Start-Sleep 300"))
            await asyncio.to_thread(wait_living, seconds)
            psutil.Process(server.pid).kill()
            assert (await task).status == "lost"
            await wait_none(seconds)


async def test_command_cancelled_before_its_start_leaves_nothing(by_cmd: Environment) -> None:
    seconds = unique_seconds()
    with anyio.move_on_after(0.01):
        await by_cmd.run(f"& $PSHOME\\pwsh.exe -c Start-Sleep {seconds}")
    assert not living(seconds)
    outcome = await by_cmd.run("'hi'", timeout=1e-9)
    assert (outcome.status, outcome.started) == ("timed_out", False)
    assert (await by_cmd.run("'hi'")).output.text == "hi\n"


@pytest.mark.parametrize("numbers", [range(3), range(3, 6)], ids=["short", "long"])
async def test_windows_start_is_reported_as_not_started_only_if_nothing_ran(
    by_cmd: Environment, tmp_path: Path, numbers: range
) -> None:
    trace = tmp_path / "trace"
    outcomes = []
    host: WindowsHost = by_cmd.runner.backend._windows  # type: ignore[attr-defined]  # a private part of one backend
    for number in numbers:
        text = f"[IO.File]::WriteAllText('{windows_path(trace)}{number}', 'ran')"
        outcomes.append(await by_cmd.run(text, timeout=0.05 + 0.28 * number))
        host._prepare()  # lets a leader wait for the next command
    for number, outcome in zip(numbers, outcomes, strict=True):
        ran = trace.with_name(f"trace{number}").exists()
        assert outcome.started is not False or (outcome.status, ran) == ("timed_out", False), outcome
        assert (outcome.started is None) <= (outcome.status == "lost"), outcome


@pytest.mark.timeout(120)
async def test_start_known_to_the_host_alone_is_lost(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing arrives from the host after the request: the command runs, and no report arrives."""
    trace = tmp_path / "trace"
    begin = ssh_windows.WindowsHost._begin
    # After its timeout the command is ended, if it has begun: PowerShell must have run the text by then.
    for seconds in (8, 40):
        async with Link(start("cmd")) as link, Environment.detect(link.options()) as env:

            async def begin_and_fall_silent(*arguments: Any, link: Link = link) -> None:
                link.deaf = True
                await begin(*arguments)

            with monkeypatch.context() as patch:
                patch.setattr(ssh_windows.WindowsHost, "_begin", begin_and_fall_silent)
                text = f"[IO.File]::WriteAllText('{windows_path(trace)}', 'ran')"
                outcome = await env.run(text, timeout=seconds)
        assert (outcome.status, outcome.started) == ("lost", None)
        assert [process.alive for process in outcome.left_behind] == [True]
        if trace.exists():
            return
    pytest.fail("the command did not run")


async def test_simultaneous_commands_leave_nothing(start: Callable[..., Server]) -> None:
    with embedded("cmd", module="tests.windows_server") as server:
        async with Environment.detect(server.options()) as env:
            (waiting,) = psutil.Process(server.pid).children()  # the process that detected the host
            outcomes = await asyncio.gather(*(env.run(f"'{number}'") for number in range(3)))
            assert not waiting.is_running()
            assert [outcome.output.text for outcome in outcomes] == [f"{number}\n" for number in range(3)]
            while not (children := psutil.Process(server.pid).children(recursive=True)):
                await anyio.sleep(0.05)  # until a process waits for the next command
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, 20)
        assert not alive


async def test_a_job_runs_and_is_stopped(by_cmd: Environment) -> None:
    job = await by_cmd.start(
        "'ready'; $x = [Console]::In.ReadLine(); \"got $x\"; Start-Sleep 300", ready="ready"
    )
    await job.send("word\n")
    await job.wait_for("got word")
    outcome = await job.stop()
    assert outcome is not None
    assert job.status == "stopped"


# Missing features.


async def test_terminals_and_sessions_are_refused_with_a_message(by_cmd: Environment) -> None:
    with pytest.raises(TerminalUnavailable, match=r"Windows host.*without one"):
        await by_cmd.run("'hi'", terminal=Terminal())
    with pytest.raises(SpawnError, match="no sessions over SSH"):
        await by_cmd.runner.backend.pipe_directory()
    with pytest.raises(InvalidCommand, match="no detached jobs on Windows"):
        await by_cmd.start("'hi'", detach=True)


async def test_failed_start_names_the_reason(by_cmd: Environment) -> None:
    with pytest.raises(SpawnError, match=r"nothing\.exe: it does not exist"):
        await by_cmd.runner.backend.spawn(Spawn(argv=(r"C:\nothing.exe",), cwd="C:\\"))
    with pytest.raises(SpawnError, match="command line on Windows"):
        await by_cmd.runner.backend.spawn(Spawn(argv=(r"C:\ps7\pwsh.exe", "x" * 33_000), cwd="C:\\"))
    assert (await by_cmd.run("$env:LONG.Length", env={"LONG": "x" * 32_766})).output.text == "32766\n"
    with pytest.raises(SpawnError, match=r"variable LONG is longer than"):
        await by_cmd.run("$env:LONG.Length", env={"LONG": "x" * 32_767})


# The command line.


async def test_command_line_reaches_a_windows_host(
    start: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start("cmd")
    (tmp_path / ".ssh").mkdir(mode=0o700)
    server.config("win").rename(tmp_path / ".ssh" / "config")
    monkeypatch.setenv("HOME", str(tmp_path))
    words = (sys.executable, "-m", "anyshell")
    run = await anyio.run_process((*words, "run", "--host", "win", "--", "'é'; exit 44"), check=False)
    assert (run.returncode, run.stdout.decode(), run.stderr.decode()) == (44, "é\r\n", "")
    doctor = await anyio.run_process((*words, "doctor", "--host", "win"), check=False)
    shown = (doctor.stdout + doctor.stderr).decode()
    assert "commands run in PowerShell 7.6.2" in shown, shown


# Files.


async def test_files_are_named_as_on_windows(by_cmd: Environment, powershell: Windows) -> None:
    name = f"é {secrets.token_hex(4)}"
    files = by_cmd.files
    await files.mkdir(rf"{name}\deep", parents=True)
    await files.write_text(rf"{name}\deep\file.txt", "text\n")
    assert (home(powershell) / name / "deep" / "file.txt").read_text() == "text\n"
    assert await files.read_text(rf"C:\users\{home(powershell).name}\{name}/deep/file.txt") == "text\n"
    assert await files.read_text(rf"\\?\{by_cmd.directory}\{name}\deep\file.txt") == "text\n"
    outcome = await by_cmd.run("Get-Content file.txt; 'more' | Add-Content file.txt", cwd=rf"{name}\deep")
    assert outcome.output.text == "text\n"
    assert (await files.read_text(rf"{name}\deep\file.txt")).splitlines() == ["text", "more"]
    with pytest.raises(FileNotFoundError) as caught:
        await files.read_text(r"C:\nowhere\file")
    assert caught.value.filename == r"C:\nowhere\file"
    await files.remove(name, recursive=True)
    assert not (home(powershell) / name).exists()


async def test_without_sftp_files_are_refused_and_commands_run(start: Callable[..., Server]) -> None:
    async with Environment.detect(start("cmd", "kills", "no-sftp").options()) as env:
        with pytest.raises(OSError, match="no SFTP service"):
            await env.files.read_text(r"C:\file")
        assert (await env.run("'hi'")).output.text == "hi\n"


async def test_failed_rename_names_both_paths(by_cmd: Environment) -> None:
    files, name = by_cmd.files, secrets.token_hex(8)
    await files.write_text(name, "text\n")
    for target, error in ((r"C:\windows", IsADirectoryError), (rf"C:\{name}\file", FileNotFoundError)):
        with pytest.raises(error) as refused:
            await files.rename(name, target)
        assert refused.value.filename == rf"{by_cmd.directory}\{name}"
        assert refused.value.filename2 == target
    await files.remove(name)


@pytest.mark.parametrize(
    ("windows", "sftp"),
    [
        (r"C:\Users\x", "/C:/Users/x"),
        ("c:/Users/x", "/c:/Users/x"),
        ("C:", "/C:/"),
        ("C:\\", "/C:/"),
        (r"\\?\C:\x", "/C:/x"),
        (r"\\.\C:\x", "/C:/x"),
        (r"\\server\share\x", "//server/share/x"),
        (r"\\?\UNC\server\share\x", "//server/share/x"),
    ],
)
def test_windows_path_becomes_an_sftp_path(windows: str, sftp: str) -> None:
    assert to_sftp(windows) == sftp


@pytest.mark.parametrize(("sftp", "windows"), [("/C:/x/y", r"C:\x\y"), ("x/y", r"x\y"), ("//s/t", r"\\s\t")])
def test_sftp_path_becomes_a_windows_path(sftp: str, windows: str) -> None:
    assert from_sftp(sftp) == windows


# Messages on stderr.


_PIECES = st.sampled_from([b"x", b"any", b"anyshell123", b"\n", b"anyshell", b"4"])


@given(
    st.lists(_PIECES, max_size=12), st.lists(_PIECES, max_size=6), st.lists(st.integers(0, 200), max_size=6)
)
def test_messages_within_output_are_found_at_any_cut(
    before: list[bytes], after: list[bytes], cuts: list[int]
) -> None:
    token = b"anyshell1234"
    first, second = b"".join(before), b"".join(after)
    assume(token not in first + token[:-1] and token not in second)
    stream = (
        b"noise" + token + b" started\n" + first + token + b" took 7\n" + second + token + b" exited 3 gone\n"
    )

    async def hear() -> tuple[bytes, WindowsChannel]:
        channel = WindowsChannel(token.decode())
        channel.splits = True
        channel.unread = 7
        at = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        for start, end in pairwise(at):
            channel.data_received(stream[start:end], 1)
        channel.connection_lost(None)
        return await _read_all(channel.stderr), channel

    received, channel = asyncio.run(hear())
    assert received == first + second
    assert channel.unread == 0
    assert channel.noise == "noise"
    assert channel.exit.result().code == 3


@pytest.mark.parametrize(
    "words",
    [
        b"took x",
        b"took -1",
        b"took " + b"9" * 5000,
        b"living x",
        b"living 1 a b c",
        b"living 1 7 name nan",
        b"exited x",
        b"exited " + b"9" * 5000,
        b"gone",
    ],
)
async def test_nonsense_from_a_host_is_ignored(words: bytes) -> None:
    """An exception would end the connection, and all commands over it."""
    channel = WindowsChannel("anyshell1234")
    channel.data_received(b"anyshell1234 started\nanyshell1234 " + words + b"\nanyshell1234 exited 3\n", 1)
    assert channel.exit.result().code == 3


async def test_a_line_without_an_end_is_not_kept() -> None:
    channel = WindowsChannel("anyshell1234")
    channel.splits = True
    channel.data_received(b"anyshell1234 started\nanyshell1234 ", 1)
    for _ in range(100):
        channel.data_received(b"x" * 32768, 1)
    assert len(channel._held) < 2 * LONGEST_LINE
    assert channel.arrived > 100 * 32768 - LONGEST_LINE
    channel.data_received(b"\nanyshell1234 exited 3\n", 1)
    assert channel.exit.result().code == 3
    other = Channel("anyshell1234")
    other.data_received(b"anyshell1234 ", None)
    for _ in range(100):
        other.data_received(b"x" * 32768, None)
    assert len(other._noise["stdout"]) < 100_000
    other.data_received(b"\nanyshell1234 started 7\n", None)
    assert other.said.result() == ["started", "7"]


@pytest.mark.parametrize("page", ["9" * 5000, "x", "\u0664", "-1", ""])
def test_an_unknown_code_page_is_ignored(page: str) -> None:
    assert FactLines.read([f"fact page {page}"]).host(notices=()).code_page is None


def test_launcher_works_before_the_system_is_known() -> None:
    """The launcher of `connect` is enough for a host whose system is not known yet."""
    assert Login("").question == QUESTION
    assert connect("somewhere", launcher=Login).name == "somewhere"


async def test_addresses_become_paths_of_windows(start: Callable[..., Server], tmp_path: Path) -> None:
    """A file of this machine is copied to the host, a script takes the place of a command, and the copies are removed."""
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "it's.ps1").write_text("'ran ' + $args[0]\n")
    (skills / "a b.txt").write_text("text\n")
    artifact = keep(ArtifactStore(), b"one\ntwo\nthree\n")
    resolvers = {"skill": Root(path=str(skills))}
    async with Environment.detect(start("cmd").options(), resolvers=resolvers) as env:
        text = (
            f'gc \'artifact://{artifact.id}?tail=2\'; gc "skill://a b.txt", artifact://{artifact.id}; & "skill://it\'s.ps1" well; '
            "gc $env:A; 'see skill://none'; 'made' > 'workspace://a made $b.txt'; gc 'workspace://a made $b.txt'; "
            "ri 'workspace://a made $b.txt'; if ((Test-Path -LiteralPath workspace://) -and -not (Test-Path 'workspace://a made $b.txt')) { 'gone' }"
        )
        outcome = await env.run(text, env={"A": "skill://a b.txt"}, cwd="workspace://", timeout=60)
        assert outcome.output.text == (
            "two\nthree\ntext\none\ntwo\nthree\nran well\ntext\nsee skill://none\nmade\ngone\n"
        )
        assert not await env.files.exists(env.runner.addresses._private)
        (skills / "plain.ps1").write_text("'plain ' + $args[0]\n")
        assert (await env.run("skill://plain.ps1 x", timeout=60)).output.text == "plain x\n"
        for wrong in (
            "skill://..\\a",
            "skill://C:/a",
            "skill://none",
            "workspace://../a",
            "workspace://nul",
            "workspace://a:b",
        ):
            with pytest.raises(InvalidCommand):
                await env.run(f"'ran'; gc '{wrong}'", timeout=60)


# Facts for a policy.


async def test_policy_uses_the_facts_of_a_windows_host(by_cmd: Environment) -> None:
    """The host's PowerShell parses texts, in one lasting process."""
    asked: list[str] = []

    def approver(request: object) -> Refused:
        asked.append(getattr(request, "text", ""))
        return Refused("no")

    before = set(by_cmd.runner.helpers)
    tool = ShellTool(by_cmd, approver=approver, policy=Policy.preset("workspace"))
    statuses = {}
    pids = set()
    for text in (
        "Get-Content C:\\windows\\*.ini | Out-Null",
        "Remove-Item C:\\windows\\told.txt",
        "(Get-Item told.txt).Delete()",
        "git status",
        "cmd /c ver",
    ):
        statuses[text] = (await tool({"command": text, "timeout": 100})).details.status
        (parser,) = set(by_cmd.runner.helpers) - before
        assert isinstance(parser, PowerShellParser)
        assert parser._process is not None
        pids.add(parser._process.pid)
    assert [*statuses.values()] == ["exited"] + ["refused"] * 4
    assert asked == [*statuses][1:]
    assert len(pids) == 1
    await parser.aclose()


async def test_a_windows_host_answers_questions_about_names(by_cmd: Environment) -> None:
    verdicts = Verdicts(Policy.preset("workspace"), by_cmd)
    verdicts._parser = PowerShellParser(by_cmd, by_cmd.shell)
    user = str(by_cmd.info.home)
    expected: dict[Question, str | tuple[str, ...] | None] = {
        ("home", ""): user,
        ("find", "cmd"): r"C:\windows\system32\cmd.exe",
        ("find", "no-such-program"): "",
        ("find", "cmd.ps1"): "",
        ("resolve", "c:/WINDOWS/System32/no/y"): r"C:\windows\system32\no\y",
        ("resolve", "C:\\users\\..\\Windows"): r"C:\windows",
        ("resolve", "C:\\"): "C:\\",
        ("resolve", "C:\\Progra~1"): None,
        ("resolve", "C:\\nul"): None,
        ("resolve", "C:\\a:b"): None,
        ("resolve", "\\\\server\\share\\x"): None,
        ("resolve", "C:\\windows\\win.ini\\x"): None,
        ("names", "C:\\no-such-directory"): (),
        ("names", "C:\\windows\\win.ini"): (),
        ("git_runs", user): None,
        ("resolve", "C:\\\udcff"): None,
    }
    questions = [*expected]
    assert dict(await verdicts._ask(questions[:-1])) == {key: expected[key] for key in questions[:-1]}
    assert dict(await verdicts._ask(questions[-1:])) == {questions[-1]: None}
    names = (await verdicts._ask([("names", "C:\\")]))["names", "C:\\"]
    assert isinstance(names, tuple)
    assert {"windows/", "ps7/"} <= set(names)
    await verdicts.aclose()
