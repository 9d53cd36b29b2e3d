"""A framework: one fresh process that measures the framework's own shell and the framework over anyshell, and prints JSON.

``python -m bench.framework_consumer NAME ROUNDS LINGER NAP`` runs in an interpreter that has the framework. So no two
frameworks need to be installed together, and Inspect, which replaces parts of asyncio, affects only its own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import random
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from anyshell import Environment, ShellTool, approve_all

from .endings import living

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager

    Call = Callable[[str, int], Coroutine[Any, Any, object]]
    """Runs a bash command with a timeout in seconds, in the framework's own way; may raise any exception."""
    Open = Callable[[Path], AbstractAsyncContextManager[Call]]

SECONDS = 2
"""Seconds of the measured timeout; a whole number, since some frameworks take no fraction."""

BOUND = 30
"""Seconds for one call of a framework; a call that takes longer is given up."""

IMAGE = "ANYSHELL_BENCH_IMAGE"
"""The variable that names the image for the containers of harbor's own shell; the image needs bash and setsid."""


class Peer(NamedTuple):
    """A framework.

    Attributes:
        package: The package that is imported.
        theirs: Opens the framework's own shell.
        ours: Opens anyshell's adapter.
        environment: The tox environment that has the package.
    """

    package: str
    theirs: Open
    ours: Open
    environment: str = "full"


def _ours(adapter: str, name: str, call: Callable[[Any], Call]) -> Open:
    @asynccontextmanager
    async def opened(directory: Path) -> AsyncGenerator[Call]:
        made = getattr(importlib.import_module(f"anyshell.adapters.{adapter}"), name)
        async with Environment.detect(cwd=directory, shell="bash") as env:
            yield call(made(env))

    return opened


def _workspace(backend: Any) -> Call:
    return lambda command, seconds: backend.run(command, shell=True, timeout=seconds)


@asynccontextmanager
async def _pydantic_ai(directory: Path) -> AsyncGenerator[Call]:
    local = importlib.import_module("pydantic_ai.workspaces.local")
    yield _workspace(local.LocalWorkspaceBackend(directory))


def _session(session: Any) -> Call:
    return lambda command, seconds: session.exec("bash", "-c", command, shell=False, timeout=seconds)


@asynccontextmanager
async def _openai_agents(directory: Path) -> AsyncGenerator[Call]:
    local = importlib.import_module("agents.sandbox.sandboxes.unix_local")
    manifest = importlib.import_module("agents.sandbox.manifest").Manifest(root=str(directory))
    client = local.UnixLocalSandboxClient()
    async with await client.create(manifest=manifest, options=None) as session:
        yield _session(session)


def _backend(backend: Any) -> Call:
    return lambda command, seconds: backend.aexecute(command, timeout=seconds)


@asynccontextmanager
async def _deepagents(directory: Path) -> AsyncGenerator[Call]:
    local = importlib.import_module("deepagents.backends.local_shell")
    yield _backend(local.LocalShellBackend(directory, virtual_mode=True, inherit_env=True))


@asynccontextmanager
async def _langchain(directory: Path) -> AsyncGenerator[Call]:
    shell_tool = importlib.import_module("langchain.agents.middleware.shell_tool")
    policy = shell_tool.HostExecutionPolicy()
    session = shell_tool.ShellSession(directory, policy, ("/bin/bash",), os.environ)
    session.start()
    try:
        yield lambda command, seconds: asyncio.to_thread(session.execute, command, timeout=seconds)
    finally:
        session.stop(5)


@asynccontextmanager
async def _our_langchain(directory: Path) -> AsyncGenerator[Call]:
    adapter = importlib.import_module("anyshell.adapters.langchain")
    async with Environment.detect(cwd=directory, shell="bash") as env:
        tool = adapter.tool(ShellTool(env, approver=approve_all, session=True))
        yield lambda command, seconds: tool.ainvoke({"command": command, "timeout": seconds})


def _sandbox(sandbox: Any) -> Call:
    return lambda command, seconds: sandbox.execute(command, timeout=seconds)


@asynccontextmanager
async def _strands(directory: Path) -> AsyncGenerator[Call]:
    local = importlib.import_module("strands.sandbox.not_a_sandbox_local_environment")
    yield _sandbox(local.NotASandboxLocalEnvironment())


def _runtime(runtime: Any) -> Call:
    abstract = importlib.import_module("swerex.runtime.abstract")
    return lambda command, seconds: runtime.execute(
        abstract.Command(command=command, shell=True, timeout=seconds)
    )


@asynccontextmanager
async def _swerex(directory: Path) -> AsyncGenerator[Call]:
    yield _runtime(importlib.import_module("swerex.runtime.local").LocalRuntime())


def _inspect(name: str, adapter: str) -> Open:
    @asynccontextmanager
    async def opened(directory: Path) -> AsyncGenerator[Call]:
        kind = getattr(importlib.import_module(adapter), name)
        await kind.task_init("bench", None)
        made = await kind.sample_init("bench", None, {})
        sandbox = made["default"]
        yield lambda command, seconds: sandbox.exec(["bash", "-c", command], timeout=seconds)
        await kind.sample_cleanup("bench", None, made, interrupted=False)
        await kind.task_cleanup("bench", None, cleanup=True)

    return opened


def _harbor(own: bool) -> Open:
    """Return an opener for a trial's environment as harbor makes one: harbor's own, in a container, or anyshell's."""

    @asynccontextmanager
    async def opened(directory: Path) -> AsyncGenerator[Call]:
        factory = importlib.import_module("harbor.environments.factory").EnvironmentFactory
        task = importlib.import_module("harbor.models.task.config").EnvironmentConfig
        trial = importlib.import_module("harbor.models.trial.config").EnvironmentConfig
        paths = importlib.import_module("harbor.models.trial.paths").TrialPaths(directory / "trial")
        paths.mkdir()
        if own:
            config = trial(type=_container())
        else:
            named = {"host": "local", "shell": "bash", "directory": str(directory)}
            config = trial(import_path="anyshell.adapters.harbor:Environment", kwargs=named)
        wanted = task(docker_image=os.environ.get(IMAGE, "debian:stable"))
        made = factory.create_environment_from_config(
            config,
            directory,
            "bench",
            f"bench__{random.randrange(10**9)}",
            paths,
            wanted,
        )
        try:
            await made.start(force_build=False)
            yield lambda command, seconds: made.exec(command, timeout_sec=seconds)
        finally:
            await made.stop(delete=False)  # keeps the image

    return opened


def _container() -> str:
    """Return the first type of containers that harbor can make here: docker or podman."""
    refused = []
    for name, module, kind in (
        ("docker", "docker.docker", "DockerEnvironment"),
        ("podman", "podman", "PodmanEnvironment"),
    ):
        try:
            getattr(importlib.import_module(f"harbor.environments.{module}"), kind).preflight()
        except SystemExit as error:
            refused.append(str(error))
        else:
            return name
    raise RuntimeError(" ".join(refused))


def _kaos(system: Any) -> Call:
    """Return a call that acts like a tool of kimi-cli: read the output to the end, and kill at the call's own timeout."""

    async def call(command: str, seconds: int) -> object:
        process = await system.exec("bash", "-c", command)
        process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(process.stdout.read(-1), process.stderr.read(-1))
                return await process.wait()
        except BaseException:
            await process.kill()
            raise

    return call


@asynccontextmanager
async def _local_kaos(directory: Path) -> AsyncGenerator[Call]:
    yield _kaos(importlib.import_module("kaos.local").LocalKaos())


PEERS: Mapping[str, Peer] = {
    "Pydantic AI": Peer("pydantic_ai", _pydantic_ai, _ours("pydantic_ai", "Workspace", _workspace)),
    "OpenAI Agents": Peer("agents", _openai_agents, _ours("openai_agents", "Sandbox", _session)),
    "LangChain": Peer("langchain", _langchain, _our_langchain),
    "Deep Agents": Peer("deepagents", _deepagents, _ours("deepagents", "Backend", _backend)),
    "Strands": Peer("strands", _strands, _ours("strands", "Sandbox", _sandbox), "strands"),
    "Inspect": Peer(
        "inspect_ai",
        _inspect("LocalSandboxEnvironment", "inspect_ai.util._sandbox.local"),
        _inspect("Sandbox", "anyshell.adapters.inspect_ai"),
        "inspect_ai",
    ),
    "harbor": Peer(
        "harbor",
        _harbor(own=True),
        _harbor(own=False),
        "contract-py312",
    ),
    "SWE-ReX": Peer("swerex", _swerex, _ours("swerex", "Runtime", _runtime)),
    "kimi-cli": Peer("kaos", _local_kaos, _ours("kaos", "Kaos", _kaos), "contract-py312"),
}


class Seen(NamedTuple):
    """The result of a round: seconds that a background process held a call, seconds that a timeout was late, survivors."""

    held: float
    late: float
    alive: float


async def _seen(opened: Open, linger: float, nap: int) -> Seen:
    short = f"{nap}.{random.randrange(10**9):09d}"  # a unique duration identifies the processes of this round
    long = f"60.{random.randrange(10**9):09d}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        async with opened(Path(directory)) as call:
            held = await _seconds(call, f"sleep {short} & echo started", BOUND)
            _killed(short)
            tree = f"(trap '' TERM; sleep {long}) & setsid sleep {long} & nohup sleep {long} & sleep {long}"
            late = await _seconds(call, tree, SECONDS) - SECONDS
            await asyncio.sleep(linger)
            alive = _killed(long)
    return Seen(held, late, alive)


async def _seconds(call: Call, command: str, timeout: int) -> float:
    began = time.perf_counter()
    with suppress(Exception):  # most frameworks raise at a timeout, each a different exception
        await asyncio.wait_for(call(command, timeout), BOUND)
    return time.perf_counter() - began


def _killed(text: str) -> int:
    found = [process for process in living(text) if process.name() == "sleep"]
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    return len(found)


def main(name: str, rounds: str, linger: str, nap: str) -> None:
    """Print the rounds of the framework's own shell and of anyshell; and the reason, if the own shell cannot run here."""
    peer = PEERS[name]
    theirs: list[Seen] = []
    ours: list[Seen] = []
    absent = None
    with contextlib.redirect_stdout(sys.stderr):  # a framework may print, and stdout is for the JSON
        for _ in range(int(rounds)):
            if absent is None:
                try:
                    theirs.append(asyncio.run(_seen(peer.theirs, float(linger), int(nap))))
                except Exception as error:  # noqa: BLE001 - whatever it is, it is said, and ours is measured
                    absent, theirs = (str(error).strip().splitlines() or [type(error).__name__])[-1], []
            ours.append(asyncio.run(_seen(peer.ours, float(linger), int(nap))))
    print(json.dumps({"theirs": theirs, "ours": ours, "absent": absent}))


if __name__ == "__main__":
    main(*sys.argv[1:])
