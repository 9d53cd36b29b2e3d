"""The pool of environments on Ray, on a real cluster of one node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from anyshell import AnyshellError, ConnectionFailed, Environment, InvalidCommand, Outcome, OutputLimits
from anyshell.backends import connect
from anyshell.errors import BackendUnavailable, EnvironmentLost

from . import test_docs
from .conftest import framework, open_to_all
from .processes import unique_seconds, wait_living, wait_none

framework("ray", apart=True)

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else Ray writes a token into the user's home
}

with pytest.MonkeyPatch.context() as settings:  # Ray reads them at import
    for _name, _value in SETTINGS.items():
        settings.setenv(_name, _value)
    import ray
    from ray._private.node import Node
    from ray._private.parameter import RayParams

from anyshell.ray import Environments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from .ssh_server import Server

assert sys.platform != "win32"  # else mypy checks the code below on every platform

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(300),  # a cluster is many processes of Python, which start slowly on a busy machine
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # of the module: a pool lives in the event loop of its tests


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster on loopback, which leaves nothing alive."""
    place = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # a path of a socket has 107 bytes at most
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SETTINGS, "ANYSHELL_STATE_DIR": f"{place}/state"}.items():
            patch.setenv(name, value)
        for helper in ("start_monitor", "start_log_monitor", "start_api_server"):
            # These programs of Ray are not needed here. When all start at once on a busy machine, Ray gives a node up.
            patch.setattr(Node, helper, lambda *_, **__: None)
        before = set(psutil.Process().children())
        started: set[psutil.Process] = set()
        try:
            ray.init(
                num_cpus=1,
                resources={"box": 1},
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=80 * 1024 * 1024,
                _node_ip_address="127.0.0.1",
                _temp_dir=place,
            )
            yield
        finally:
            started = set(psutil.Process().children(recursive=True)) - before
            ray.shutdown()
            alive = psutil.wait_procs(started, timeout=20)[1]
            for process in alive:
                process.kill()
            shutil.rmtree(place, ignore_errors=True)
        assert len(started) > 3
        assert not alive


@contextlib.contextmanager
def another_node(**given: Any) -> Iterator[Node]:
    """One more node on loopback; ended at the end of the block, or earlier by `lose`."""
    head: Any = ray._private.worker._global_node
    params = RayParams(
        gcs_address=head.gcs_address,
        redis_address=head.redis_address,
        node_ip_address="127.0.0.1",
        node_manager_port=0,
        min_worker_port=0,
        max_worker_port=0,
        dashboard_agent_listen_port=None,
        num_cpus=1,
        object_store_memory=80 * 1024 * 1024,
        **{"include_log_monitor": False, **given},
    )
    node = Node(params, head=False, shutdown_at_exit=False, spawn_reaper=False)
    try:
        yield node
    finally:
        lose(node)


def lose(node: Node) -> None:
    node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


@pytest.fixture(scope="module")
async def pool(cluster: None) -> AsyncIterator[Environments]:
    async with Environments(6, in_flight=4) as pool:
        yield pool


async def pid(_: Environment) -> int:
    return os.getpid()


async def comes(path: Path, count: int) -> None:
    """Wait until a directory has that many files."""
    async with asyncio.timeout(30):
        while len(list(path.iterdir())) < count:
            await asyncio.sleep(0.02)


async def test_map_yields_results_and_errors_in_order(pool: Environments) -> None:
    given = [result async for result in pool.map([*(f"echo {n}; exit 3" for n in range(30)), "\0"])]
    outcomes = [result for result in given if isinstance(result, Outcome)]
    assert [outcome.output.text for outcome in outcomes] == [f"{n}\n" for n in range(30)]
    assert {outcome.exit_code for outcome in outcomes} == {3}
    assert isinstance(given[-1], InvalidCommand)


async def test_options_and_kept_output_of_a_command_come_through(pool: Environments, tmp_path: Path) -> None:
    outcome = await pool.run(
        "cat; echo $X; pwd; seq 9 >&2",
        cwd=tmp_path,
        env={"X": "x"},
        stdin="in\n",
        split_stderr=True,
        limits=OutputLimits(budget=10),
    )
    assert outcome.stderr is not None
    assert outcome.stderr.truncated
    assert outcome.output.artifact is not None
    assert outcome.output.artifact.path.read_text() == f"in\nx\n{tmp_path}\n"
    outcome = await pool.run("echo 1 > new", cwd=tmp_path, effects=[str(tmp_path)])
    assert outcome.effects is not None
    assert [effect.path for effect in outcome.effects.created] == [f"{tmp_path}/new"]


async def test_errors_have_anyshell_types_and_name_their_node(pool: Environments) -> None:
    with pytest.raises(InvalidCommand, match="/nowhere") as caught:
        await pool.run("true", cwd="/nowhere")
    (note,) = caught.value.__notes__
    assert note.startswith("in environment ")
    assert note.endswith(f" on Ray's node {ray.get_runtime_context().get_node_id()}")
    with pytest.raises(InvalidCommand, match="left_behind"):
        await pool.run("true", left_behind="adopt")  # type: ignore[arg-type]  # bad input is the point
    with pytest.raises(InvalidCommand, match="effects must be"):
        await pool.run("true", effects=3)  # type: ignore[arg-type]  # bad input is the point
    with pytest.raises(InvalidCommand, match="listener= is not for a pool: give cwd, env, "):
        await pool.run("true", listener=print)  # type: ignore[call-arg]  # bad input is the point
    with pytest.raises(InvalidCommand, match="timeout"):
        _ = [result async for result in pool.map(["true"], timeout=-1)]


async def test_number_of_concurrent_commands_is_bounded(pool: Environments, tmp_path: Path) -> None:
    command = f"cd {tmp_path}; mkdir $$; ls | wc -l; sleep 0.1; rmdir $$"
    counts = [result.output.text async for result in pool.map([command] * 20) if isinstance(result, Outcome)]
    assert len(counts) == 20
    assert max(map(int, counts)) <= 4


async def test_timeout_and_cancel_stop_the_tree(pool: Environments) -> None:
    seconds = unique_seconds()
    command = f"setsid sleep {seconds} & sleep {seconds}"
    outcome = await pool.run(command, timeout=0.5)
    assert outcome.status == "timed_out"
    running = asyncio.create_task(pool.run(command))
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_none(seconds)


async def test_processes_left_behind_are_stopped_or_kept(pool: Environments) -> None:
    seconds = unique_seconds()
    outcome = await pool.run(f"sleep {seconds} & echo started")
    assert (outcome.output.text, len(outcome.left_behind)) == ("started\n", 1)
    await wait_none(seconds)
    outcome = await pool.run(f"sleep {seconds} & echo $!", left_behind="keep")
    await asyncio.to_thread(wait_living, f"sleep {seconds}")
    os.kill(int(outcome.output.text), signal.SIGKILL)


async def test_files_are_reached_through_the_environment(pool: Environments, tmp_path: Path) -> None:
    async def write(env: Environment, path: str) -> bytes:
        await env.files.write(path, b"a\0b")
        return await env.files.read(path)

    async with pool.environment() as env:
        assert await env.call(write, str(tmp_path / "new")) == b"a\0b"
    assert (tmp_path / "new").read_bytes() == b"a\0b"


async def test_environment_serves_several_commands_and_is_replaced_afterwards(pool: Environments) -> None:
    async def remember(env: Environment, name: str) -> str:
        session = env.session("kept")
        await session.run(f"cd /; {name}=yes")
        return (await session.run("echo $PWD")).output.text

    async def recall(env: Environment, name: str) -> str:
        return (await env.session("kept").run(f"echo ${name}")).output.text

    async with pool.environment() as env:
        assert await env.call(remember, name="x") == "/\n"
        outcome = await env.run("echo $0")
        assert (outcome.output.text, await env.call(recall, "x")) == ("bash\n", "yes\n")
        with pytest.raises(TypeError, match="remember"):
            await env.call(remember)  # type: ignore[call-arg]  # bad input is the point
    with pytest.raises(AnyshellError, match="given back"):
        await env.run("true")
    numbers = {env.number}
    for _ in range(6):  # each environment once, and the first again at the end
        async with pool.environment() as env:
            assert await env.call(recall, "x") == "\n"
            numbers.add(env.number)
    assert numbers == set(range(6))


async def test_cancelled_call_stops_the_tree_of_its_command(pool: Environments) -> None:
    """The function does not stop the command itself: its run is cancelled there, and stops the started processes."""
    seconds = unique_seconds()

    async def serve(env: Environment) -> None:
        await env.run(f"setsid sleep {seconds} & sleep {seconds}")

    async with pool.environment() as env:
        serving = asyncio.create_task(env.call(serve))
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await wait_none(seconds)


async def test_job_outlives_its_call_and_is_stopped_by_another(pool: Environments) -> None:
    seconds = unique_seconds()

    async def begin(env: Environment) -> str:
        return (await env.start(f"sleep {seconds}")).id

    async def end(env: Environment, job: str) -> str:
        return (await env.jobs.get(job).stop()).status

    async with pool.environment() as env:
        job = await env.call(begin)
        await asyncio.to_thread(wait_living, f"sleep {seconds}")
        assert await env.call(end, job) == "cancelled"
        await wait_none(seconds)


async def test_exiting_function_is_an_error_and_its_actor_goes_on(pool: Environments) -> None:
    async def leave(_: Environment) -> None:
        sys.exit(3)

    async with pool.environment() as env:
        worker = await env.call(pid)
        with pytest.raises(AnyshellError, match=r"the function ended with SystemExit\(3\)"):
            await env.call(leave)
        assert await env.call(pid) == worker


async def test_thousand_environments_survive_two_killed_workers(tmp_path: Path) -> None:
    """Of 200 commands, those of the two workers are lost and reported; none runs twice, and none is left alive."""
    for number in range(1000):
        (tmp_path / str(number)).mkdir()
    base = str(tmp_path)
    backends: list[object] = []

    def make(number: int) -> object:
        backends[:] = backends or [
            connect("local")
        ]  # one backend for all environments of an actor, as without make=
        return Environment.detect(backends[0], cwd=f"{base}/{number}")  # type: ignore[arg-type]  # typed as object, so that any order of imports will do

    async with Environments(1000, make=make, per_actor=334, in_flight=12) as pool:  # type: ignore[arg-type]  # typed as object, so that any order of imports will do
        used = Counter(
            [
                result.output.text
                async for result in pool.map(["echo ${PWD##*/}"] * 1000)
                if isinstance(result, Outcome)
            ]
        )
        assert used == {f"{number}\n": 1 for number in range(1000)}

        async with contextlib.AsyncExitStack() as stack:
            workers: set[int] = set()
            while (
                len(workers) < 3
            ):  # as many workers as actors; each actor has at most a third of the thousand environments
                env = await stack.enter_async_context(pool.environment())
                workers.add(await env.call(pid))
        killed = sorted(workers)[:2]
        begun, go = tmp_path / "begun", tmp_path / "go"
        begun.mkdir()
        command = f"echo $PPID >> {begun}/$N; until [ -e {go} ]; do sleep 0.05; done"
        running = [asyncio.create_task(pool.run(command, env={"N": str(number)})) for number in range(200)]
        await comes(begun, 12)
        while not all(path.read_text() for path in begun.iterdir()):  # a file is created before it is written
            await asyncio.sleep(0.02)
        hit = {path.name for path in begun.iterdir() if int(path.read_text()) in killed}
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        go.touch()
        await asyncio.wait(running)
    errors = {str(number): task.exception() for number, task in enumerate(running)}
    lost = {name for name, error in errors.items() if error is not None}
    assert lost == hit
    assert len(hit) > 1
    assert all(isinstance(errors[name], EnvironmentLost) for name in lost)
    assert all(task.result().exit_code == 0 for task in running if task.exception() is None)
    assert {path.name: len(path.read_text().split()) for path in begun.iterdir()} == dict.fromkeys(errors, 1)
    await wait_none(str(begun))


async def test_lost_environment_reports_whether_its_command_had_started() -> None:
    seconds = unique_seconds()
    async with Environments(2, options={"max_restarts": 0}) as pool:
        reported = False
        with contextlib.suppress(EnvironmentLost):
            async with pool.environment() as env:
                worker = await env.call(pid)
                running = asyncio.create_task(env.run(f"setsid sleep {seconds} & sleep {seconds}"))
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
                assert env._place is not None
                while not env._place.started:
                    await asyncio.sleep(0.02)
                os.kill(worker, signal.SIGKILL)
                with pytest.raises(EnvironmentLost, match="the command had started") as caught:
                    await running
                assert (caught.value.started, caught.value.environment) == (True, env.number)
                assert caught.value.node == env.node == ray.get_runtime_context().get_node_id()
                await wait_none(seconds)  # the watchdog of the worker process has stopped the command
                with pytest.raises(EnvironmentLost, match="nothing has started") as caught:
                    await env.run("true")
                assert caught.value.started is False
                reported = True
        assert reported
        with pytest.raises(EnvironmentLost, match="all actors"):
            await pool.run("true")


async def test_actors_follow_labels_and_resources_and_survive_a_lost_node() -> None:
    """Commands of the lost node are reported as lost, no process of theirs lives on, and the other node goes on; a new node takes the actor."""
    wanted = ({"resources": {"box": 0.1}}, {"label_selector": {"zone": "b"}, "resources": {"lab": 1}})
    own, seconds = ray.get_runtime_context().get_node_id(), unique_seconds()
    with another_node(labels={"zone": "b"}, resources={"lab": 1}) as first:
        async with Environments(2, per_actor=1, options=lambda number: wanted[number]) as pool:
            async with pool.environment() as here, pool.environment() as there:
                assert (here.number, here.node, there.number, there.node) == (0, own, 1, first.node_id)
                running = asyncio.create_task(there.run(f"setsid sleep {seconds} & sleep {seconds}"))
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
                assert there._place is not None
                while not there._place.started:
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(lose, first)
                with pytest.raises(EnvironmentLost, match="the command had started") as caught:
                    await running
                assert (caught.value.environment, caught.value.node) == (1, first.node_id)
                await wait_none(seconds)
                assert (await here.run("echo here")).output.text == "here\n"
            given = [result async for result in pool.map(["true"] * 4)]
            assert [isinstance(result, Outcome) for result in given] == [True] * 4
            with another_node(labels={"zone": "b"}, resources={"lab": 1}) as second:
                async with (
                    pool.environment(),
                    pool.environment() as there,
                ):  # the existing environment, then the new one
                    assert (there.number, there.node) == (1, second.node_id)
                    assert (await there.run("echo there")).output.text == "there\n"


@pytest.mark.parametrize("host", ["openssh"])
async def test_environments_are_on_hosts_that_the_actor_reaches_by_ssh(
    host: str, ssh_host: Callable[[str], Server], tmp_path: Path
) -> None:
    options = ssh_host(host).options()
    open_to_all(tmp_path)

    def make(number: int) -> contextlib.AbstractAsyncContextManager[Environment]:
        return Environment.detect(options, cwd=tmp_path)

    seconds = unique_seconds()
    async with Environments(2, make=make) as pool:
        outcome = await pool.run(f"pwd; setsid sleep {seconds} & sleep {seconds}", timeout=1)
        assert (outcome.status, outcome.output.text) == ("timed_out", f"{tmp_path}\n")
        await wait_none(seconds)
        async with pool.environment() as env:
            assert await env.call(name_of_host) == f"{options.user}@{options.host}:{options.port}"


async def name_of_host(env: Environment) -> str:
    return env.host


async def test_unstarted_command_is_retried_in_another_environment() -> None:
    def make(number: int) -> contextlib.AbstractAsyncContextManager[Environment]:
        if number != 1:
            raise (TimeoutError if number == 3 else ConnectionFailed)(f"{number} is not there")
        return Environment.detect()

    async with Environments(4, make=make, retries=1) as pool:
        assert (await pool.run("echo here")).output.text == "here\n"
        with pytest.raises(TimeoutError, match="3 is not there") as caught:
            await pool.run("echo here")
        assert caught.value.__notes__[0].startswith("in environment 3 ")


async def test_leaving_the_pool_stops_commands_and_actors() -> None:
    seconds = unique_seconds()
    async with Environments(1) as pool:
        async with pool.environment() as env:
            worker = psutil.Process(await env.call(pid))
        running = asyncio.create_task(pool.run(f"setsid sleep {seconds} & sleep {seconds}"))
        await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
        waiting = asyncio.create_task(pool.run("true"))
    await wait_none(seconds)
    assert (await running).status == "cancelled"
    with pytest.raises(AnyshellError, match="not open"):
        await waiting
    assert not psutil.wait_procs([worker], timeout=20)[1]


async def test_actors_that_have_no_node_are_an_error() -> None:
    with pytest.raises(BackendUnavailable, match="0 of 1 actors"):
        async with Environments(1, options={"resources": {"box": 2}}, start_timeout=1):
            pass


@pytest.mark.parametrize("option", [{"max_task_retries": 1}, {"no_such": 1}])
async def test_reserved_and_unknown_actor_options_are_refused(option: dict[str, int]) -> None:
    with pytest.raises(InvalidCommand, match=next(iter(option))):
        async with Environments(1, options=lambda _: option):
            pass


def test_documented_code_for_ray_works(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
    test_docs.test_code_of_a_page_works_as_shown(test_docs.ON_RAY, tmp_path, request, monkeypatch)
