"""An environment for the trials of harbor, created and called as harbor does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import framework
from .processes import living, unique_seconds

framework("harbor", python=(3, 12))
from harbor.environments.base import BaseEnvironment, HealthcheckError
from harbor.environments.factory import EnvironmentFactory
from harbor.models.task.config import EnvironmentConfig, HealthcheckConfig
from harbor.models.trial.config import EnvironmentConfig as TrialConfig
from harbor.models.trial.paths import TrialPaths

from anyshell.adapters import whole

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell import Environment

pytestmark = pytest.mark.anyio


def made(env: Environment, tmp_path: Path, **named: Any) -> BaseEnvironment:
    """The environment that harbor creates from its configuration."""
    task = tmp_path / "task"
    (task / "environment").mkdir(parents=True, exist_ok=True)
    config = TrialConfig(
        import_path="anyshell.adapters.harbor:Environment",
        env={"A": "of the trial"},
        kwargs={"host": env.runner.backend, "directory": env.directory},
    )
    return EnvironmentFactory.create_environment_from_config(
        config,
        environment_dir=task / "environment",
        environment_name="task",
        session_id="task__1",
        trial_paths=TrialPaths(tmp_path / "trial"),
        task_env_config=EnvironmentConfig(workdir=f"{env.directory}/work", **named),
    )


@pytest.fixture
async def trial(env: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BaseEnvironment]:
    trial = made(env, tmp_path_factory.mktemp("trial"))
    await trial.start(force_build=False)
    yield trial
    await trial.stop(delete=True)


async def test_command_has_its_directory_and_variables(trial: BaseEnvironment, env: Environment) -> None:
    result = await trial.exec("printf '%s' \"$PWD $A $B\"; echo err >&2; exit 3", env={"B": "2"})
    assert result.stdout == f"{env.directory}/work of the trial 2"
    assert (result.stderr, result.return_code) == ("err\n", 3)
    with trial.scoped_exec_env({"A": "scoped"}):
        assert (await trial.exec("echo $A; pwd", cwd="/")).stdout == "scoped\n/\n"
    assert (await trial.exec("kill -9 $$")).return_code == 137
    with pytest.raises(RuntimeError, match="nothing ran: cwd"):
        await trial.exec("true", cwd="/no/such")


async def test_output_callback_is_called_while_the_command_runs(
    trial: BaseEnvironment, env: Environment
) -> None:
    told = asyncio.Event()
    heard: dict[str, str] = {"stdout": "", "stderr": ""}

    async def hear(text: str, stream: str) -> None:
        heard[stream] += text
        if "\u00e9" in heard["stdout"]:
            told.set()

    with trial.scoped_output_callback(hear):
        task = asyncio.ensure_future(
            trial.exec(
                "printf '\\303'; sleep 0.2; printf '\\251'; echo err >&2; while [ ! -e on ]; do sleep 0.05; done"
            )
        )
        await told.wait()
        await env.files.write("work/on", b"")
        result = await task
    assert (
        heard == {"stdout": result.stdout, "stderr": result.stderr} == {"stdout": "\u00e9", "stderr": "err\n"}
    )


async def test_timeout_is_exit_code_124_and_leaves_no_process(trial: BaseEnvironment) -> None:
    seconds = unique_seconds()
    result = await trial.exec(f"echo out; echo err >&2; sleep {seconds} & wait", timeout_sec=1)
    assert (result.return_code, result.stdout) == (124, "out\n")
    assert result.stderr == "err\n\nCommand timed out after 1 seconds"
    assert not living(seconds)
    check = HealthcheckConfig(command=f"sleep {seconds}", timeout_sec=1, retries=1, start_period_sec=0)
    with pytest.raises(HealthcheckError):
        await trial.run_healthcheck(check)


async def test_cancelled_command_leaves_no_process(trial: BaseEnvironment, env: Environment) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(trial.exec(f"echo > begun; sleep {seconds}"))
    while not await env.files.exists("work/begun"):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_background_child_goes_on_until_the_trial_stops(trial: BaseEnvironment) -> None:
    seconds = unique_seconds()
    assert (await trial.exec(f"sleep {seconds} & echo started")).stdout == "started\n"
    assert living(seconds)
    await trial.stop(delete=False)
    assert not living(seconds)
    with pytest.raises(RuntimeError, match="not started"):
        await trial.exec("true")
    await trial.start(force_build=True)
    assert await trial.is_dir(".")


async def test_oversized_output_is_shown_in_part(
    trial: BaseEnvironment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(whole, "MAX_OUTPUT", 10_000)
    assert trial.logger.parent is not None
    trial.logger.parent.propagate = True
    result = await trial.exec("echo first; seq 100000; echo last; exit 2")
    assert result.return_code == 2
    assert result.stdout.startswith("first\n1\n")
    assert result.stdout.rstrip().endswith("last")
    assert len(result.stdout) < 20_000
    assert ".out" in caplog.text


async def test_files_and_directories_are_copied_both_ways_and_merged(
    trial: BaseEnvironment, env: Environment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = tmp_path_factory.mktemp("here")
    (here / "up" / "sub").mkdir(parents=True)
    (here / "up" / "sub" / "a").write_bytes(b"\xff")
    (here / "up" / "run.sh").write_text("exit 5")
    (here / "up" / "run.sh").chmod(0o755)
    for _ in range(2):
        await trial.upload_dir(here / "up", f"{env.directory}/new/tests")
    await trial.upload_file(here / "up" / "run.sh", f"{env.directory}/other/run.sh")
    assert (await trial.exec("../new/tests/run.sh")).return_code == 5
    await trial.exec("echo more > ../new/tests/sub/b; rm ../new/tests/sub/a")
    for _ in range(2):
        await trial.download_dir(f"{env.directory}/new/tests", here / "down" / "tests")
    await trial.download_dir(f"{env.directory}/new/tests", here / "up")
    await trial.download_file(f"{env.directory}/other/run.sh", here / "one" / "run.sh")
    assert (here / "one" / "run.sh").read_text() == "exit 5"
    found = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert found == [
        "down/tests/run.sh", "down/tests/sub/b", "one/run.sh", "up/run.sh", "up/sub/a", "up/sub/b",
    ]  # fmt: skip
    assert await trial.is_file(f"{env.directory}/other/run.sh")
    with pytest.raises(FileNotFoundError):
        await trial.download_file(f"{env.directory}/none", here / "none")


async def test_another_user_runs_the_command(trial: BaseEnvironment, user: str, env: Environment) -> None:
    me = (await trial.exec("id -un")).stdout
    if me != "root\n":
        with trial.with_default_user("root"):
            refused = await trial.exec("id -un", env={"B": "x"})
        assert refused.return_code != 0 or refused.stdout == "root\n"
        assert (await trial.exec("id -un", user=(me or "").strip())).stdout == me
        return
    seconds = unique_seconds()
    uid = int((await trial.exec(f"id -u {user}")).stdout or "")
    for name in (user, uid):
        result = await trial.exec('id -un; echo "it\'s $B"; exit 4', env={"B": "x"}, user=name, cwd="/")
        assert (result.stdout, result.return_code) == (f"{user}\nit's x\n", 4)
    late = await trial.exec(f"sleep {seconds} & wait", user=user, cwd="/", timeout_sec=1)
    assert late.return_code == 124
    assert not living(seconds)


async def test_gpus_and_several_containers_are_refused(env: Environment, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="GPU"):
        made(env, tmp_path, gpus=1)
    (tmp_path / "task" / "environment" / "docker-compose.yaml").touch()
    with pytest.raises(ValueError, match="several containers"):
        made(env, tmp_path)
