"""A reach that Landlock alone enforces: its guarantees, its gaps, and that no command runs so without a request."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from anyshell import Environment, InvalidCommand, Limits, Reach
from anyshell._environment.confining import facts_of
from anyshell.errors import ReachUnavailable
from anyshell.reach import LocalPlaces, Sandbox, compile_reach, explain, narrow

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from . import test_endings
from .conftest import missing, row
from .ssh_server import accounts
from .test_reach import (  # noqa: F401 - fixtures among them
    FACTS,
    READS,
    TALKS,
    WRITES,
    World,
    endings,
    none_succeeds,
    tmp_path,
    world,
)
from .test_reach_ssh import server  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

REACH = Reach(write=(".",), protect=(), network=True, landlock=True)
BARE = replace(FACTS, bwrap=None)

NOT_HELD = {
    "by its mode": WRITES,
    "by its times": WRITES,
    "by an attribute": WRITES,
    "to a shared memory outside": WRITES,
    "to another's temporary file": WRITES,
    "variables that hold secrets": READS,
    **dict.fromkeys((name for name, text in WRITES.items() if ".git" in text), WRITES),
}
"""Attempts that Landlock does not cover: metadata of files, names of files, and paths beneath writable directories."""

TALKED = ("a signal to an outer process", "an abstract socket", "words on another's terminal", "typing on another's terminal", "raw",
          "settings of a network device", "the network of another process", "another root", "programs of the kernel's filters", "a module", "the clock")  # fmt: skip


ENDINGS: list[Callable[..., Awaitable[None]]] = [
    partial(test_endings.test_cancelling_raises_after_the_tree_is_gone, cancels=2),
    test_endings.test_process_without_marks_is_stopped_while_its_parent_lives,
    test_endings.test_exit_by_signal_is_distinguished_from_an_exit_code,
]
"""The command is the child of the spawner, as without a reach; so a few of its endings suffice."""


async def alone(env: Environment, directory: Path, reach: Reach = REACH) -> Sandbox:
    """The sandbox for a reach on the host of an environment, as if the host had no bubblewrap."""
    here = env.info.is_this_machine
    facts = replace(await facts_of(env.runner.backend, here=here), bwrap=None)
    if facts.landlock < 6:
        missing("Landlock", "take Linux 6.12 or later")
    return compile_reach(
        reach.resolved(str(directory), env.info.home), facts, LocalPlaces() if here else None
    )


@pytest.fixture
async def env(world: World, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect() as free:
        sandbox = await alone(free, world.workspace)
    async with Environment.detect(cwd=world.workspace, reach=sandbox) as environment:
        yield environment


HELD = {
    **{name: text for name, text in (WRITES | READS).items() if name not in NOT_HELD},
    **{name: TALKS[name] for name in TALKED},
    "the names in a directory with a secret": "ls {home}",
    "another command's temporary directory": "echo x > /tmp/{name}-new",
}


async def none_of_it_succeeds(world: World, env: Environment, **more: object) -> None:
    """Try the attempts that Landlock refuses, and the requests that it allows."""
    own = {
        "own": "echo x > own && mkdir d && mv own d/moved && cat d/moved /etc/passwd >/dev/null && rm -r d && ln -s x y",
        "devices": "head -c 1 /dev/urandom >/dev/null && (: </proc/self/status) && python3 -c pass",
        "a link": "test ! -e link/none",
    }
    await none_succeeds(env, world, HELD, **more)
    with accounts():
        ended = await endings(env, {name: world.fill(text) for name, text in own.items()})
    assert {code for code, _ in ended.values()} == {0}, ended


async def test_landlock_holds_the_reach(world: World, env: Environment) -> None:
    await none_of_it_succeeds(world, env)
    outcome = await env.run("grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; kill -9 $$")
    assert outcome.output.text == "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n"
    assert outcome.signal == "SIGKILL"
    outcome = await env.run(f"echo x > {world.outside}/kept")
    assert env.reach is not None
    assert f"does not let commands write {world.outside}/kept" in explain(outcome.output.text, env.reach, "")
    async with env.session() as session:
        assert (await session.run(f"x=5; echo x > {world.outside}/kept")).exit_code == 1
        assert (await session.run("echo $x > made && cat made")).output.text == "5\n"
    async with env.terminal("tty && echo x > $(tty) && echo over") as terminal:
        assert (await terminal.wait()).output.text.endswith("over\n")


async def test_call_may_narrow_but_not_widen_its_reach_by_landlock(world: World, env: Environment) -> None:
    less = replace(REACH, write=())
    assert "denied" in (await env.run("echo x > new", reach=less)).output.text
    with pytest.raises(ReachUnavailable, match="network: Landlock"):
        await env.run("true", reach=replace(REACH, network=False))
    for wider in (replace(REACH, write=(str(world.outside),)), replace(REACH, write=("link",))):
        with pytest.raises(InvalidCommand, match="than the reach of the environment"):
            await env.run("true", reach=wider)
    with pytest.raises(ReachUnavailable, match="a trial within Landlock alone"):
        async with env.trial("true"):
            pass
    with pytest.raises(InvalidCommand, match="not within the reach"):
        await env.run("true", cwd=world.home / ".ssh")


async def test_endings_hold_by_landlock(world: World, env: Environment) -> None:
    given = {"env": env, "tmp_path": world.workspace}
    for ending in ENDINGS:
        with row(ending):
            await ending(
                **{name: given[name] for name in inspect.signature(ending).parameters if name in given}
            )


async def test_landlock_of_a_host_holds_the_reach(world: World, server: Server) -> None:
    async with Environment.detect(server.options()) as free:
        sandbox = await alone(free, world.workspace)
        job = await free.start("exec sleep 600")
        async with Environment.detect(server.options(), cwd=world.workspace, reach=sandbox) as env:
            await none_of_it_succeeds(world, env, pid=job.pid)
            assert (await env.run("kill -9 $$")).signal == "SIGKILL"
            outcome = await env.run("echo x > link/kept", reach=replace(REACH, write=("link",)))
            assert (outcome.exit_code, (world.outside / "kept").read_text()) == (125, "kept")
        assert job.status == "running"


def test_landlock_alone_is_used_on_request_if_sufficient() -> None:
    workspace = Reach.preset("workspace").resolved("/srv", "/home/x")
    with pytest.raises(
        ReachUnavailable,
        match=r"apt-get install bubblewrap; or, .*with landlock=True, network=True, protect=\[\]",
    ):
        compile_reach(workspace, BARE, LocalPlaces())
    with pytest.raises(ReachUnavailable, match=r"apt-get install bubblewrap\Z"):
        compile_reach(workspace, replace(BARE, landlock=5), LocalPlaces())
    asked = replace(workspace, landlock=True, network=True, protect=())
    assert compile_reach(asked, FACTS, LocalPlaces()).wrap.__qualname__.startswith("Bubblewrap")
    sandbox = compile_reach(asked, BARE, LocalPlaces())
    assert sandbox.wrap.__qualname__.startswith("Landlock")
    assert narrow(sandbox, replace(asked, write=()), directory="/srv", home="/home/x") != sandbox
    for name, more in {
        "network": replace(asked, network=False),
        "network:": replace(asked, network=("example.org",)),
        "protect": replace(asked, protect=("/srv/.git",)),
        "hide": replace(asked, write=("/srv", "/home/x")),
        "write": replace(asked, write=("/proc",)),
        "limits": replace(asked, limits=Limits(processes=5)),
    }.items():
        with row(name), pytest.raises(ReachUnavailable, match=f"lacks {name}.*Landlock alone cannot"):
            compile_reach(more, BARE, LocalPlaces())
    with pytest.raises(ReachUnavailable, match="Landlock of version 6"):
        compile_reach(asked, replace(BARE, landlock=5), LocalPlaces())
