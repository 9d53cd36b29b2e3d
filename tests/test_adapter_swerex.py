"""An environment as a runtime of SWE-ReX, compared with SWE-ReX's own local runtime."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import framework
from .processes import living, unique_seconds

framework("swerex")
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NoExitCodeError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

from anyshell.adapters import whole
from anyshell.adapters.swerex import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell import Environment

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime(env: Environment) -> AsyncIterator[Runtime]:
    """A runtime with a session."""
    runtime = Runtime(env)
    await runtime.create_session(CreateBashSessionRequest())
    yield runtime
    await runtime.close()


async def run(runtime: Runtime, command: str, **named: Any) -> BashObservation:
    return await runtime.run_in_session(BashAction(command=command, **{"timeout": 20, **named}))


async def test_named_session_keeps_its_state(runtime: Runtime) -> None:
    seen = await run(runtime, "cd /; A=1\nprintf ' x\n\n'")
    assert (seen.output, seen.exit_code) == (" x\n\n", 0)
    assert (await run(runtime, "echo $PWD $A")).output == "/ 1\n"
    with pytest.raises(SessionExistsError):
        await runtime.create_session(CreateBashSessionRequest())
    await runtime.create_session(CreateBashSessionRequest(session="other"))
    assert (await run(runtime, "echo ${A-none}", session="other")).output == "none\n"
    await runtime.close_session(CloseBashSessionRequest(session="other"))
    with pytest.raises(SessionDoesNotExistError):
        await run(runtime, "true", session="other")
    with pytest.raises(SessionDoesNotExistError):
        await runtime.close_session(CloseBashSessionRequest(session="other"))


async def test_session_reads_its_files_first(env: Environment) -> None:
    await env.files.write("a file.sh", b"echo read; A=1\n")
    runtime = Runtime(env)
    request = CreateBashSessionRequest(startup_source=[f"{env.directory}/a file.sh"], startup_timeout=20)
    assert (await runtime.create_session(request)).output == "read\n"
    assert (await run(runtime, "echo $A")).output == "1\n"
    await env.files.write("slow.sh", b"exec sleep 60")
    slow = CreateBashSessionRequest(session="slow", startup_source=["slow.sh"], startup_timeout=0.3)
    with pytest.raises(CommandTimeoutError):
        await runtime.create_session(slow)
    with pytest.raises(SessionDoesNotExistError):
        await run(runtime, "true", session="slow")


async def test_exit_code_check_follows_the_action(runtime: Runtime) -> None:
    with pytest.raises(NonZeroExitCodeError, match=r"^no luck: .* exit code 3\.(.|\n)*'out\\n'"):
        await run(runtime, "echo out; (exit 3)", error_msg="no luck")
    assert (await run(runtime, "(exit 3)", check="silent")).exit_code == 3
    assert (await run(runtime, "(exit 3)", check="ignore")).exit_code is None
    assert (await run(runtime, "exit 4", check="silent")).exit_code == 4
    assert "ended the shell" in (await run(runtime, "true")).failure_reason


async def test_wrong_syntax_runs_nothing(runtime: Runtime, env: Environment) -> None:
    with pytest.raises(BashIncorrectSyntaxError) as caught:
        await run(runtime, "touch f\n(a")
    assert "syntax error" in caught.value.extra_info["bash_stderr"]
    assert await env.files.list() == []


async def test_timeout_stops_the_tree_and_interrupt_returns_the_output(runtime: Runtime) -> None:
    seconds = unique_seconds()
    await run(runtime, "A=1")
    with pytest.raises(CommandTimeoutError, match=r"'out\\n'"):
        await run(runtime, f"echo out; sleep {seconds} & wait", timeout=0.5)
    assert not living(seconds)
    seen = await runtime.run_in_session(BashInterruptAction())
    assert (seen.output, seen.exit_code) == ("out", 0)
    assert (await run(runtime, "echo $A")).output == "1\n"


@pytest.mark.parametrize("trap", ["", "trap '' INT; "])
async def test_interrupt_stops_the_running_command(runtime: Runtime, env: Environment, trap: str) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(
        run(runtime, f"({trap}echo > begun; sleep {seconds}; sleep {seconds})", timeout=None)
    )
    while not await env.files.exists("begun"):
        await asyncio.sleep(0.02)
    await runtime.run_in_session(BashInterruptAction(n_retry=2))
    with pytest.raises((NonZeroExitCodeError, NoExitCodeError)):
        await task
    assert not living(seconds)
    assert (await run(runtime, "echo on")).output == "on\n"


async def test_cancelled_command_leaves_no_process(runtime: Runtime, env: Environment) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(run(runtime, f"echo > begun; sleep {seconds}"))
    while not await env.files.exists("begun"):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_interactive_program_takes_input_until_its_exit(runtime: Runtime, env: Environment) -> None:
    script = b'printf \'%s> \' "$A"; while read -r line; do [ "$line" = quit ] && exit 5; printf \'got %s\\n> \' "$line"; done'
    await env.files.write("program", script)
    await run(runtime, "export A='x y'; mkdir here; cd here")
    begun = await run(runtime, "sh ../program", is_interactive_command=True, expect=["never", "> "])
    assert (begun.output, begun.expect_string, begun.exit_code) == ("x y", "> ", 0)
    seen = await run(runtime, "one", is_interactive_command=True, expect=[r"\w+ one\s+> "])
    assert seen.expect_string == r"\w+ one\s+> "
    with pytest.raises(CommandTimeoutError, match="it goes on"):
        await run(runtime, "two", is_interactive_command=True, expect=["never"], timeout=0.5)
    with pytest.raises(NonZeroExitCodeError, match="exit code 5"):
        await run(runtime, "quit")
    assert (await run(runtime, "basename $PWD")).output == "here\n"


async def test_interactive_program_is_interrupted_or_stopped(runtime: Runtime) -> None:
    seconds = unique_seconds()
    await run(runtime, f"echo go; sleep {seconds}", is_interactive_command=True, expect=["go"])
    assert (await runtime.run_in_session(BashInterruptAction(timeout=20))).exit_code == 0
    assert not living(seconds)
    await run(runtime, f"trap '' INT; echo go; sleep {seconds}", is_interactive_command=True, expect=["go"])
    await runtime.run_in_session(BashInterruptAction(n_retry=1))
    assert not living(seconds)
    await run(runtime, f"echo go; sleep {seconds}", is_interactive_command=True, expect=["go"])
    await runtime.close()
    assert not living(seconds)


async def test_background_child_runs_until_its_session_is_closed(runtime: Runtime, env: Environment) -> None:
    session, loose = unique_seconds(), unique_seconds()
    seen = await run(runtime, f"sleep {session} & echo started", timeout=None)
    assert seen.output == "started\n"
    command = Command(command=f"sleep {loose} & echo started", shell=True)
    assert (await runtime.execute(command)).stdout == "started\n"
    assert living(session)
    await runtime.close_session(CloseBashSessionRequest())
    assert not living(session)
    assert living(loose)
    await runtime.close()
    assert not living(loose)
    assert not env.closed


async def test_execute_is_a_subprocess(runtime: Runtime, env: Environment) -> None:
    words = ["sh", "-c", 'printf "%s" "$1 $A $(pwd)"; echo err >&2; exit 3', "sh", "$x 'y'"]
    made = await runtime.execute(Command(command=words, env={"A": "1"}, cwd="/"))
    assert (made.stdout, made.stderr, made.exit_code) == ("$x 'y' 1 /", "err\n", 3)
    both = await runtime.execute(
        Command(command="echo out; echo err >&2", shell=True, merge_output_streams=True)
    )
    assert (both.stdout, both.stderr) == ("out\nerr\n", "")
    with pytest.raises(NonZeroExitCodeError, match="exit code 1"):
        await runtime.execute(Command(command="false", check=True))
    with pytest.raises(SwerexException, match="cwd"):
        await runtime.execute(Command(command="true", cwd="/no/such"))
    with pytest.raises(ValueError, match="one text"):
        await runtime.execute(Command(command=["a", "b"], shell=True))
    seconds = unique_seconds()
    with pytest.raises(CommandTimeoutError):
        await runtime.execute(Command(command=f"sleep {seconds} & wait", shell=True, timeout=0.5))
    assert not living(seconds)


async def test_oversized_output_is_an_error_that_names_the_artifact(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "MAX_OUTPUT", 100_000)
    with pytest.raises(SwerexException, match=r"it is kept in \S+\.out"):
        await run(runtime, "yes")
    with pytest.raises(SwerexException, match=r"it is kept in \S+\.out"):
        await runtime.execute(Command(command="yes"))


async def test_files_keep_line_endings_and_directories_merge(runtime: Runtime, tmp_path: Path) -> None:
    await runtime.write_file(WriteFileRequest(path="a/b.txt", content="one\r\ntwo"))
    assert (await runtime.read_file(ReadFileRequest(path="a/b.txt"))).content == "one\r\ntwo"
    with pytest.raises(FileNotFoundError):
        await runtime.read_file(ReadFileRequest(path="none"))
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "c").write_text("c")
    for _ in range(2):
        await runtime.upload(UploadRequest(source_path=str(source), target_path="a"))
    await runtime.upload(UploadRequest(source_path=str(source / "sub" / "c"), target_path="d"))
    listed = await runtime.execute(Command(command="echo a/* a/sub/* d", shell=True))
    assert listed.stdout == "a/b.txt a/sub a/sub/c d\n"


async def test_closed_runtime_is_not_alive(runtime: Runtime, env: Environment) -> None:
    assert await runtime.is_alive()
    await runtime.close()
    await env.aclose()
    dead = await runtime.is_alive(timeout=1)
    assert not dead
    assert "closed" in dead.message
