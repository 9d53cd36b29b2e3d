"""The shells that frameworks bring themselves, beside the same frameworks over anyshell.

Those that are installed are measured: ``pip install --group frameworks`` brings them. Nothing of the project needs them.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from anyshell import Environment, ShellTool, approve_all

from .endings import living
from .report import Reach, Result, Row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from .sizes import Sizes

    Call = Callable[[str, int], Awaitable[object]]
    """Runs a text of bash for so many seconds at most, in the framework's own way; raises what it likes to."""
    Open = Callable[[Path], AbstractAsyncContextManager[Call]]

ROUNDS = 3

NAP = 8
"""Seconds that what stays in the background sleeps."""

_SECONDS = 2
"""Of the timeout; one that some take for a whole number."""

_BOUND = 30
"""Seconds for a call of a framework that never comes back."""


class _Peer(NamedTuple):
    package: str
    theirs: Open
    ours: Open


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


def _sandbox(session: Any) -> Call:
    return lambda command, seconds: session.exec("bash", "-c", command, shell=False, timeout=seconds)


@asynccontextmanager
async def _openai_agents(directory: Path) -> AsyncGenerator[Call]:
    local = importlib.import_module("agents.sandbox.sandboxes.unix_local")
    manifest = importlib.import_module("agents.sandbox.manifest").Manifest(root=str(directory))
    client = local.UnixLocalSandboxClient()
    async with await client.create(manifest=manifest, options=None) as session:
        yield _sandbox(session)


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


PEERS: Mapping[str, _Peer] = {
    "Pydantic AI": _Peer(
        "pydantic_ai.workspaces", _pydantic_ai, _ours("pydantic_ai", "Workspace", _workspace)
    ),
    "OpenAI Agents": _Peer("agents.sandbox", _openai_agents, _ours("openai_agents", "Sandbox", _sandbox)),
    "LangChain": _Peer("langchain.agents", _langchain, _our_langchain),
    "Inspect": _Peer(
        "inspect_ai.util",
        _inspect("LocalSandboxEnvironment", "inspect_ai.util._sandbox.local"),
        _inspect("Sandbox", "anyshell.adapters.inspect_ai"),
    ),
    "SWE-ReX": _Peer("swerex.runtime", _swerex, _ours("swerex", "Runtime", _runtime)),
    "Deep Agents": _Peer("deepagents", _deepagents, _ours("deepagents", "Backend", _backend)),
}


class _Seen(NamedTuple):
    held: float
    late: float
    alive: float


def measure(sizes: Sizes, rounds: int) -> Result:
    """How long a background process holds a call, and what a timeout leaves alive, in each framework that is installed."""
    rows, missing = [], []
    for name, peer in PEERS.items():
        if not _installed(peer.package):
            missing.append(name)
            continue
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(asyncio.run(_seen(peer.theirs, sizes)))
            ours.append(asyncio.run(_seen(peer.ours, sizes)))
        rows.append(
            Row(
                what=f"{name}: `sleep {NAP} & echo started` back after",
                unit="s",
                ours=[each.held for each in ours],
                floor=[each.held for each in theirs],
                reach=Reach("<=", 0.5),
            )
        )
        rows.append(
            Row(
                what=f"{name}: a timeout of {_SECONDS} s, late",
                unit="s",
                ours=[each.late for each in ours],
                floor=[each.late for each in theirs],
            )
        )
        rows.append(
            Row(
                what=f"{name}: of four processes alive {sizes.linger:g} s later",
                unit="processes",
                ours=[each.alive for each in ours],
                floor=[each.alive for each in theirs],
                reach=Reach("<=", 0),
            )
        )
    notes = [
        (
            "the floor is the shell that the framework brings; ours is the adapter. Four processes: a plain one, one that ignores "
            f"TERM, for which ours waits its grace, one of `setsid`, one of `nohup`. A call that does not come back is given up after {_BOUND} s."
        )
    ]
    if missing:
        notes.append(f"not installed: {', '.join(missing)}.")
    return Result(rows=rows, notes=notes)


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


async def _seen(opened: Open, sizes: Sizes) -> _Seen:
    nap = f"{NAP}.{random.randrange(10**9):09d}"  # a time that no other program sleeps is found again
    long = f"60.{random.randrange(10**9):09d}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        async with opened(Path(directory)) as call:
            held = await _seconds(call, f"sleep {nap} & echo started", _BOUND)
            _killed(nap)
            tree = f"(trap '' TERM; sleep {long}) & setsid sleep {long} & nohup sleep {long} & sleep {long}"
            late = await _seconds(call, tree, _SECONDS) - _SECONDS
            await asyncio.sleep(sizes.linger)
            alive = _killed(long)
    return _Seen(held, late, alive)


async def _seconds(call: Call, command: str, timeout: int) -> float:
    began = time.perf_counter()
    with suppress(Exception):  # a timeout is an error to most, each in its own way
        await asyncio.wait_for(call(command, timeout), _BOUND)
    return time.perf_counter() - began


def _killed(text: str) -> int:
    found = [process for process in living(text) if process.name() == "sleep"]
    for process in found:
        with suppress(psutil.Error):
            process.kill()
    return len(found)
