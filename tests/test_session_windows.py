"""Sessions of PowerShell on Windows: lasting state, state after a stop, the end of a session, and that sessions leave nothing behind."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from anyshell import Environment, InvalidCommand, ShellNotFound

from .conftest import local, missing, row
from .processes import living, open_descriptors, unique_seconds, wait_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell import Outcome, Session
    from anyshell.types import SessionReport

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "win32", reason="sessions of PowerShell are of Windows"),
]

PYTHON = f"& '{sys.executable}' -c"
"""Words that run a text of Python in each PowerShell."""

PARTS = {"pwsh": "PowerShell", "powershell": "Windows PowerShell"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=PARTS)
async def shell(request: pytest.FixtureRequest, anyio_backend: str) -> str:
    """Each PowerShell on this machine that answers."""
    try:
        async with Environment.detect(shell=request.param) as env:
            return env.shell.path
    except ShellNotFound as error:
        missing(PARTS[request.param], str(error).splitlines()[-1])


@pytest.fixture
async def env(shell: str, tmp_path: Path) -> AsyncIterator[Environment]:
    own = local()
    async with Environment.detect(own, shell=shell, cwd=tmp_path) as environment:
        yield environment
    await own.aclose()


@pytest.fixture(scope="module")
async def shared(shell: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    """A session that lasts for all tests."""
    directory = tmp_path_factory.mktemp("shared")
    async with Environment.detect(shell=shell, cwd=directory) as env, env.session() as session:
        yield session


def reported(outcome: Outcome) -> SessionReport:
    """The report of an outcome about its session."""
    assert outcome.session is not None, outcome
    return outcome.session


async def run(session: Session, text: str, *, state: str = "kept", **how: object) -> Outcome:
    """Run a text in the same shell as before."""
    outcome = await session.run(text, **{"timeout": 60, **how})  # type: ignore[arg-type]  # whatever it takes
    assert (outcome.status, reported(outcome).state, reported(outcome).fresh) == ("exited", state, ""), (
        outcome
    )
    return outcome


async def printed(session: Session, text: str) -> str:
    """The output of a text that keeps the session."""
    return (await run(session, text)).output.text


async def cancel(session: Session, text: str) -> None:
    """Cancel a text as soon as it has printed ``begun``."""
    begun = asyncio.Event()

    async def listen(channel: object, data: bytes) -> None:
        if b"begun" in data:
            begun.set()

    task = asyncio.create_task(session.run(text, timeout=100, grace=30, listener=listen))
    hearing = asyncio.create_task(begun.wait())
    await asyncio.wait((task, hearing), timeout=60, return_when=asyncio.FIRST_COMPLETED)
    hearing.cancel()
    assert begun.is_set(), task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def wait_for(file: Path) -> None:
    """Wait until a text has made a file, as a sign of its progress."""
    async with asyncio.timeout(60):
        while not file.exists():
            await asyncio.sleep(0.005)


# # --- Lasting state


async def test_state_of_the_shell_lasts_for_the_next_text(shared: Session, tmp_path: Path) -> None:
    await printed(
        shared,
        "$a = 1; $b = @{ k = 'two' }; function f($x) { \"f $x $a\" }; Set-Alias hi Write-Output; $env:C = 'é'; "
        f"Set-Location -LiteralPath '{tmp_path}'; New-Item -ItemType Directory 'a [b]' | Out-Null; "
        "Set-Location -LiteralPath 'a [b]'; $ErrorView = 'NormalView'; $Script:d = 4",
    )
    assert await printed(
        shared, f"f x; hi $b.k; $d; {PYTHON} 'import os; print(os.environ[\"C\"] == chr(233))'"
    ) == ("f x 1\ntwo\n4\nTrue\n")
    assert await printed(shared, f"{PYTHON} 'import os; print(os.getcwd())'") == f"{tmp_path}\\a [b]\n"
    assert shared.directory == f"{tmp_path}\\a [b]"
    assert (await run(shared, "cmd /c exit 42")).exit_code == 42
    assert await printed(shared, '"$? $LASTEXITCODE"') == "False 42\n"
    assert await printed(shared, "Remove-Item function:f; $ErrorView = 'ConciseView'") == ""
    assert await printed(shared, "(Get-History).CommandLine[-2]") == '"$? $LASTEXITCODE"\n'


async def test_directory_of_any_name_is_reported(shared: Session, tmp_path: Path) -> None:
    for name in ["a b", "it's $x `y` [z]", "ünï", "-n"]:
        (tmp_path / name).mkdir()
        outcome = await run(shared, "$PWD.ProviderPath", cwd=tmp_path / name)
        assert outcome.output.text == f"{tmp_path / name}\n"
        assert reported(outcome).directory == shared.directory == str(tmp_path / name)
    outcome = await run(shared, "Set-Location HKCU:; $PWD.Path")
    assert outcome.output.text == "HKCU:\\\n"
    assert shared.directory == str(tmp_path / "-n")
    assert (await run(shared, "$PWD.Path", cwd="..")).output.text == f"{tmp_path}\n"


async def test_given_directory_and_variables_persist(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with env.session(cwd="sub", env={"FIRST": "1"}) as session:
        assert await printed(session, "$PWD.Path; $env:FIRST") == f"{tmp_path}\\sub\n1\n"
        given = await run(session, '$PWD.Path; "$env:GIVEN"', cwd="..", env={"GIVEN": "it's\n$x"})
        assert given.output.text == f"{tmp_path}\nit's\n$x\n"
        assert await printed(session, '"$env:FIRST $env:GIVEN"') == "1 it's\n$x\n"
        empty = f"Test-Path env:EMPTY; {PYTHON} 'import os; print(len(os.environ[\"EMPTY\"]))'"
        assert (await run(session, empty, env={"EMPTY": ""})).output.text == "True\n0\n"
        assert await printed(session, empty) == "True\n0\n"
        gone = await session.run("Test-Path Env:EMPTY, Env:FIRST", env={"EMPTY": None, "first": None})
        assert gone.output.text == "False\nFalse\n"
        with pytest.raises(InvalidCommand, match="none"):
            await session.run("'no'", cwd=tmp_path / "none")
        with pytest.raises(InvalidCommand):
            await session.run("'a\0b'")
        assert await printed(session, "'on'") == "on\n"


async def test_changes_of_exported_variables_are_reported(shared: Session) -> None:
    await printed(shared, "$env:GOES = $env:STAYS = $env:CHANGES = 1; $local = 1")
    outcome = await run(
        shared,
        "$env:GOES = $null; $env:CHANGES = \"two`n lines=\"; $env:NEW = 'é'; $local = 2",
        variables=True,
    )
    assert reported(outcome).variables == {"GOES": None, "CHANGES": "two\n lines=", "NEW": "é"}
    assert reported(await run(shared, "", variables=True)).variables == {}
    assert reported(await run(shared, "")).variables is None


# # --- Input and output

LIKE_FRESH = {
    "an error in a line": "Get-Item missing",
    "errors in lines": "'a'\nGet-Item missing\nthrow 'all over'",
    "no PowerShell": "'never'\nif (",
    "a cmdlet after a program": "cmd /c exit 5; gi missing",
    "a program last": "[pscustomobject]@{ name = 'x'; size = 3 }; cmd /c exit 6",
    "every stream": "Write-Host a -NoNewline; Write-Warning b; Write-Verbose c -Verbose; Write-Progress d; "
    "[Console]::Error.WriteLine('e'); Write-Error f; 'é☃😀'; cmd /c echo é☃",
    "strict mode": "Set-StrictMode -Version Latest; $nothing.x; 'on'; Set-StrictMode -Off",
    "questions": "$null = ni full/of -ItemType Directory -Force; Remove-Item full; Test-Path full; "
    "Remove-Item full -Recurse -Force; Read-Host a; Read-Host -AsSecureString b; 'on'",
}


@pytest.mark.parametrize("case", LIKE_FRESH)
async def test_a_text_prints_and_ends_as_in_a_fresh_shell(
    env: Environment, shared: Session, case: str
) -> None:
    fresh = await env.run(LIKE_FRESH[case], timeout=60)
    kept = await run(shared, LIKE_FRESH[case], cwd=env.directory)
    assert (kept.output.text.rstrip("\n"), kept.exit_code) == (
        fresh.output.text.rstrip("\n"),
        fresh.exit_code,
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("# nothing", 0),
        ("function f { }", 0),
        ("cmd /c exit 5; return", 1),
        ("'a'; return", 0),
        ("begin { 1 } end { gi missing }", 1),
        ("'a'; break", 0),
        ("cmd /c exit -1073741819", 0xC0000005),
        ("$ErrorActionPreference = 'Stop'; gi missing; 'no'", 1),
    ],
)
async def test_exit_code_reflects_the_last_statement(shared: Session, text: str, code: int) -> None:
    await run(shared, "gi missing")
    assert (await run(shared, text)).exit_code == code
    await printed(shared, "$ErrorActionPreference = 'Continue'")


async def test_input_output_and_errors_are_bytes_of_any_size(shared: Session) -> None:
    data = random.Random(1).randbytes(3_000_000)
    program = f"{PYTHON} 'import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())'"
    heard = hashlib.sha256()

    async def listen(channel: object, piece: bytes) -> None:
        heard.update(piece)

    outcome = await run(shared, program, stdin=data, listener=listen)
    assert outcome.output.total_bytes == len(data)
    assert heard.digest() == hashlib.sha256(data).digest()
    assert await printed(shared, program) == ""
    outcome = await run(
        shared,
        "[Console]::Error.WriteLine('err'); 'out'; [Console]::In.ReadLine()",
        stdin="in\n",
        split_stderr=True,
    )
    assert outcome.stderr is not None
    assert (outcome.output.text, outcome.stderr.text) == ("out\nin\n", "err\n")
    assert (await run(shared, '$input | ForEach-Object { "<$_>" }', stdin="é\nb")).output.text == "<é>\n<b>\n"
    assert (await run(shared, "'unread'", stdin=bytes(1_000_000))).output.text == "unread\n"


async def test_a_text_of_any_size_and_a_flood_go_through(shared: Session) -> None:
    assert await printed(shared, f"'{'x' * 100_000}'.Length") == "100000\n"
    outcome = await run(shared, f"{PYTHON} 'import sys; sys.stdout.write(10_000_000 * chr(120))'; $kept = 1")
    assert outcome.output.total_bytes == 10_000_000
    assert await printed(shared, "$kept") == "1\n"


async def test_channels_of_powershell_keep_their_order(shared: Session) -> None:
    text = '1..20 | ForEach-Object { "o$_"; [Console]::Error.WriteLine("e$_"); cmd /c echo n$_ }'
    assert await printed(shared, text) == "".join(f"o{i}\ne{i}\nn{i}\n" for i in range(1, 21))


# --- Stopping

SLEEP = f"{PYTHON} 'import time; time.sleep(300)'"

STOPPED = {
    "a list": "'begun'; Start-Sleep 300; ni X",
    "lines": "'begun'\nStart-Sleep 300\nni X",
    "a busy loop": "'begun'; while ($true) { }; ni X",
    "a program": f"'begun'; {SLEEP}; ni X",
    "a program that prints": f"{PYTHON} 'import time; print(\"begun\", flush=True); time.sleep(300)' | Out-Host; ni X",
    "programs in a loop": "'begun'; while ($true) { cmd /c exit 0 }; ni X",
    "a program whose output is taken": f"'begun'; $x = {SLEEP}; ni X",
    "a program in a pipe": f"'begun'; {SLEEP} | ForEach-Object {{ $_ }}; ni X",
    "a function": "function f { Start-Sleep 300; ni X }; 'begun'; f; ni X",
    "functions": "function g { while ($true) { Start-Sleep 1 } }; function f { g; ni X }; 'begun'; f; ni X",
    "try": f"'begun'; try {{ {SLEEP} }} catch {{ ni X }}; ni X",
    "a trap": "trap { ni X }; 'begun'; Start-Sleep 300; ni X",
    "Invoke-Expression": "'begun'; iex 'iex \"Start-Sleep 300; ni X\"; ni X'; ni X",
    "a pipe into a loop": "'begun'; 1..100 | ForEach-Object { Start-Sleep 10; ni X }; ni X",
    "another PowerShell": "'begun'; & (Get-Process -Id $PID).Path -NoProfile -Command 'Start-Sleep 300'; ni X",
    "an exit": "'begun'; Start-Sleep 300; exit 3",
}
"""Texts that make X if any part runs after a stop, and whose session is kept."""


@pytest.mark.parametrize("case", STOPPED)
async def test_stop_ends_a_text_at_any_place_and_keeps_the_state(
    shared: Session, tmp_path: Path, case: str
) -> None:
    await run(shared, f"$state = '{case}'", cwd=tmp_path)
    await cancel(shared, f"$begun = 1; {STOPPED[case]}")
    assert shared.alive
    assert await printed(shared, '"$state $begun"') == f"{case} 1\n"
    assert shared.directory == str(tmp_path)
    assert not (tmp_path / "X").exists()


async def test_a_timeout_stops_the_programs_of_that_command_alone(env: Environment) -> None:
    earlier, late = unique_seconds(), unique_seconds()
    async with env.session() as session:
        started = await run(
            session,
            f"Start-Process -NoNewWindow '{sys.executable}' '-c \"import time; time.sleep({earlier})\"'; 'started'",
            left_behind="adopt",
        )
        assert started.output.text == "started\n"
        assert [info.name for info in started.left_behind] == ["python.exe"]
        outcome = await session.run(
            f"$a = 5; {PYTHON} 'import time; time.sleep({late})'; $a = 6", timeout=5, grace=30
        )
        assert (outcome.status, outcome.exit_code, reported(outcome).state) == ("timed_out", None, "kept")
        assert not living(late)
        assert living(earlier)
        assert await printed(session, "$a") == "5\n"
        assert started.job is not None
        assert env.jobs.get(started.job).status == "running"
        assert (await run(session, "exit 3", state="ended")).exit_code == 3
        assert living(earlier)
        await env.jobs.get(started.job).stop()
    assert not living(earlier)


async def test_process_left_behind_is_stopped_unless_kept(env: Environment) -> None:
    text = f"Start-Process -NoNewWindow '{sys.executable}' '-c \"import time; time.sleep({{s}})\"'"
    async with env.session() as session:
        kept = unique_seconds()
        outcome = await run(session, text.replace("{s}", kept), left_behind="keep")
        assert [info.alive for info in outcome.left_behind] == [True]
        assert await printed(session, "'next'") == "next\n"
        assert living(kept)
        psutil.Process(outcome.left_behind[0].pid).kill()
        await wait_none(kept)
        for last, state in (("", "kept"), ("; exit 3", "ended")):
            seconds = unique_seconds()
            outcome = await run(session, text.replace("{s}", seconds) + last, left_behind="stop", state=state)
            assert [info.alive for info in outcome.left_behind] == [False]
            assert not living(seconds)


async def test_late_output_of_a_process_left_behind_stays_apart(env: Environment, tmp_path: Path) -> None:
    program = (
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('late', flush=True)\n"
        "open('done', 'w').close()\n"
    )
    (tmp_path / "late.py").write_text(program)
    async with env.session() as session:
        first = await run(
            session, f"Start-Process -NoNewWindow '{sys.executable}' late.py; 'first'", left_behind="adopt"
        )
        assert first.output.text == "first\n"
        assert first.left_behind
        waiting = asyncio.create_task(
            run(session, "while (-not (Test-Path done)) { Start-Sleep -Milliseconds 20 }; 'second'")
        )
        (tmp_path / "go").touch()
        assert (await waiting).output.text == "second\n"


async def test_finally_runs_when_a_text_is_stopped(shared: Session) -> None:
    await cancel(shared, "$closed = 0; try { 'begun'; Start-Sleep 300 } finally { $closed = 1 }")
    assert await printed(shared, "$closed") == "1\n"


async def test_unstoppable_shell_is_reported_and_replaced(env: Environment) -> None:
    async with env.session() as session:
        await printed(session, "$a = 1")
        stopped = await session.run("[Threading.Thread]::Sleep(300000)", timeout=1, grace=0.5)
        assert (stopped.status, stopped.exit_code, reported(stopped).state) == ("timed_out", None, "lost")
        assert not session.alive
        fresh = await session.run('"<$a>"', timeout=60)
        assert fresh.output.text == "<>\n"
        assert "a stop ended the shell" in reported(fresh).fresh


# # --- The end of a session


ENDS = {
    "exit 7": 7,
    "function f { exit 8 }; f": 8,
    "[Environment]::Exit(9)": 9,
    "Stop-Process -Id $PID -Force": 0xFFFF_FFFF,
}


async def test_ended_shell_is_reported_and_replaced(env: Environment) -> None:
    async with env.session() as session:
        await printed(session, "$a = 1; Set-Location \\")
        for text, code in ENDS.items():
            with row(text):
                outcome = await run(session, f"'before'; {text}; 'no'", state="ended")
                assert (outcome.exit_code, outcome.output.text) == (code, "before\n")
                assert reported(outcome).directory is None
                fresh = await session.run('"<$a>"; $PWD.Path; $a = 1; Set-Location \\', timeout=60)
                assert fresh.output.text == f"<>\n{env.directory}\n"
                assert "ended the shell" in reported(fresh).fresh


async def test_killed_shell_is_reported_and_replaced(env: Environment) -> None:
    async with env.session() as session:
        pid = int(await printed(session, "$PID"))
        running = asyncio.create_task(
            session.run("'before'; New-Item begun | Out-Null; Start-Sleep 300", timeout=60)
        )
        await wait_for(Path(env.directory) / "begun")
        psutil.Process(pid).kill()
        outcome = await running
        assert (outcome.status, reported(outcome).state, outcome.output.text) == (
            "exited",
            "ended",
            "before\n",
        )
        assert (await session.run("'on'", timeout=60)).output.text == "on\n"
        psutil.Process(int(await printed(session, "$PID"))).kill()
        again = await session.run("'again'", timeout=60)
        assert again.output.text == "again\n" or reported(again).state == "ended"


async def test_a_restart_gives_a_fresh_shell_and_closing_leaves_no_process(env: Environment) -> None:
    async with env.session() as session:
        pids = [int(await printed(session, "$a = 1; $PID"))]
        await session.restart()
        fresh = await session.run('"$a$PID"', timeout=60)
        assert reported(fresh).fresh == "the session was restarted"
        pids.append(int(fresh.output.text))
        await printed(session, "Register-EngineEvent PowerShell.Exiting -Action { New-Item over } | Out-Null")
        await run(session, "exit", state="ended")
        assert (Path(env.directory) / "over").exists()
        pids.append(int((await session.run("$PID", timeout=60)).output.text))
    assert not any(psutil.pid_exists(pid) for pid in pids)


def handles(process: psutil.Process) -> int:
    if sys.platform == "win32":
        return process.num_handles()
    raise AssertionError("sessions of PowerShell are of Windows")


async def test_many_commands_accumulate_no_descriptors_or_handles(shared: Session) -> None:
    shell = psutil.Process(int(await printed(shared, "$PID")))
    for _ in range(10):
        await run(shared, "'hi'; cmd /c exit 0", stdin=b"x", split_stderr=True)
    before = (open_descriptors(), handles(shell))
    for _ in range(50):
        await run(shared, "'hi'", stdin=b"x", split_stderr=True)
    after = (open_descriptors(), handles(shell))
    assert after[0] <= before[0]
    assert after[1] <= before[1] + 20  # handles of .NET, which its garbage collection returns
