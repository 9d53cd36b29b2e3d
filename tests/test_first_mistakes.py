"""Error messages for unusable calls of anyshell, and the reprs of its objects."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

assert sys.platform != "win32"  # on other systems mypy skips the code below

import anyshell
from anyshell import AnyshellError, Environment, ShellTool

pytestmark = pytest.mark.anyio

if TYPE_CHECKING:
    from pathlib import Path


async def test_use_before_detection_is_an_error() -> None:
    detection: Any = Environment.detect()
    for name in ("run", "files", "no_such_name"):
        with pytest.raises(
            AttributeError, match=r"(?s)not detected yet.*async with.*await.*anyshell\.connect"
        ):
            getattr(detection, name)
    with pytest.raises(AnyshellError, match="'async with'"), detection:
        pass


@pytest.mark.parametrize("host", [3, b"local", object(), ["local"]])
def test_a_host_of_the_wrong_type_is_named(host: Any) -> None:
    with pytest.raises(anyshell.InvalidCommand, match=f"not {type(host).__name__}"):
        Environment.detect(host)


async def test_unentered_stream_is_an_error() -> None:
    async with Environment.detect() as env:
        stream = env.stream("echo x")
        with pytest.raises(AnyshellError, match="was not entered"):
            async for _ in stream:
                pass
        with pytest.raises(AnyshellError, match="'async with'"), stream:
            pass
        with pytest.raises(AnyshellError, match="'async with'"), env.session():
            pass


@pytest.mark.parametrize(
    ("approver", "said"),
    [
        (True, "not bool"),
        (lambda: True, "one argument"),
        ("yes", "not str"),
        (lambda a, b: True, "one argument"),
    ],
)
async def test_an_approver_is_checked_when_the_tool_is_made(approver: Any, said: str) -> None:
    env = await Environment.detect()
    with pytest.raises(AnyshellError, match=said):
        ShellTool(env, approver=approver)
    await env.aclose()


async def test_approver_can_be_a_plain_function_and_its_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(request: anyshell.ApprovalRequest) -> anyshell.Approved:
        raise KeyError("the reason")

    async with Environment.detect() as env:
        yes = ShellTool(env, approver=lambda request: anyshell.Approved())
        assert (await yes({"command": "echo hi"})).output == "hi\n"
        with caplog.at_level(logging.ERROR, "anyshell"):
            assert (await ShellTool(env, approver=fails)({"command": "echo hi"})).details.status == "refused"
            truth: Any = lambda request: True  # noqa: E731 - the mistake that is meant
            assert (await ShellTool(env, approver=truth)({"command": "echo hi"})).details.status == "refused"
    assert "the reason" in caplog.text
    assert "type bool, so nothing ran: return anyshell.Approved()" in caplog.text


def test_message_names_the_other_event_loop() -> None:
    detection = Environment.detect()
    with pytest.raises(AnyshellError, match=r"asyncio\.run\(\)"):
        detection.__await__().send(None)  # like the runner of trio


async def test_reprs_describe_objects_without_secrets(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        assert repr(env) == f"<Environment local, {env.os}, {env.shell.kind} in {str(tmp_path)!r}, entered>"
        secret = "correct horse"
        outcome = await env.run(f"echo {secret}; exit 3", env={"X": secret})
        assert repr(outcome).startswith("Outcome(status='exited', exit_code=3, output=<14 bytes>, duration=")
        session = env.session("build")
        assert repr(session).startswith("<Session 'build' ")
        job = await env.start(f"echo {secret}")
        await job.wait()
        assert repr(job) == "<Job j1 completed, 14 bytes printed>"
        tool = ShellTool(env, approver=anyshell.deny_all, jobs=True)
        assert repr(tool) == f"<ShellTool of {env!r}: jobs, no policy, open>"
        async with env.terminal("cat") as terminal:
            assert repr(terminal) == "<DrivenTerminal 80x24 on local, running>"
        objects = (env, outcome, session, job, tool, terminal)
        assert not [each for each in objects if secret in repr(each) or len(repr(each)) > 500]
    assert "closed" in repr(env)


def test_exceptions_name_their_public_module() -> None:
    for room in (anyshell, anyshell.errors):
        kinds = [getattr(room, name) for name in room.__all__]
        errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
        assert len(errors) >= 8
        assert {kind.__module__ for kind in errors} == {room.__name__}


def test_forgotten_await_gives_a_python_warning() -> None:
    async def forgets() -> None:
        env = await Environment.detect()
        with pytest.raises(AttributeError, match="coroutine"):
            env.run("true").output  # type: ignore[attr-defined]  # noqa: B018 - the mistake that is meant
        await env.aclose()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(forgets())
    assert any("never awaited" in str(each.message) for each in told)
