"""An environment as the operating system of kimi-cli, compared with kimi-cli's own ``LocalKaos`` by one table of calls."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import framework, row
from .processes import living, unique_seconds

framework("kaos", python=(3, 12))
import kaos
from kaos.local import LocalKaos
from kaos.path import KaosPath

from anyshell.adapters import kaos as adapter
from anyshell.adapters.kaos import Kaos

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyshell import Environment

pytestmark = pytest.mark.anyio


@pytest.fixture
def ours(env: Environment) -> Kaos:
    return Kaos(env)


async def every(found: AsyncIterator[Any]) -> list[str]:
    return sorted([str(each) async for each in found])


async def done(process: Any, data: bytes = b"") -> tuple[int, bytes, bytes]:
    """The exit code of a process, and its output."""
    if data:
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
    out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
    return await process.wait(), out, err


async def lines_of(system: kaos.Kaos, *args: str) -> tuple[list[bytes], bool]:
    process = await system.exec(*args)
    lines = [line async for line in process.stdout]
    await process.wait()
    return lines, process.stdout.at_eof()


async def kinds(system: kaos.Kaos, *paths: str) -> list[tuple[int, int]]:
    found = [await system.stat(path, follow_symlinks=False) for path in paths]
    return [(stat.S_IFMT(each.st_mode), 0 if stat.S_ISDIR(each.st_mode) else each.st_size) for each in found]


async def killed(system: kaos.Kaos) -> tuple[bytes, int | None, int, int | None, bool]:
    process = await system.exec("sh", "-c", "echo ready; exec sleep 60")
    line, before = await process.stdout.readline(), process.returncode
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.01)
    await process.kill()
    return line, before, await process.wait(), process.returncode, process.pid > 0


async def moved(system: kaos.Kaos) -> list[str]:
    found = []
    start = str(system.getcwd())
    for step in ("sub", "..", "link"):
        await system.chdir(step)
        found.append(str(system.getcwd()).removeprefix(start))
        found.append((await done(await system.exec("pwd")))[1].decode().removeprefix(start))
    await system.chdir(start)
    return found


TABLE: dict[str, Callable[[Any], Awaitable[object]]] = {  # each row begins with the files that the rows before have left
    "bytes": lambda k: k.writebytes("a.bin", b"\x00\x01\xff"),
    "bytes are read": lambda k: k.readbytes("a.bin"),
    "some bytes are read": lambda k: k.readbytes("a.bin", 2),
    "no bytes are read": lambda k: k.readbytes("a.bin", 0),
    "text": lambda k: k.writetext("b.txt", "caf\u00e9\ntwo"),
    "text is appended": lambda k: k.writetext("b.txt", "\nthree", mode="a"),
    "text is read": lambda k: k.readtext("b.txt"),
    "lines are read": lambda k: every(k.readlines("b.txt")),
    "another encoding": lambda k: k.writetext("c.txt", "caf\u00e9", encoding="latin-1"),
    "is not UTF-8": lambda k: k.readtext("c.txt"),
    "is read anyway": lambda k: k.readtext("c.txt", errors="replace"),
    "line ends are written": lambda k: k.writetext("d.txt", "a\r\nb\n"),
    "and stay": lambda k: k.readbytes("d.txt"),
    "missing file": lambda k: k.readtext("none"),
    "missing directory": lambda k: k.writetext("none/a", ""),
    "directory is not a file": lambda k: k.readbytes("."),
    "mkdir": lambda k: k.mkdir("sub"),
    "mkdir again": lambda k: k.mkdir("sub"),
    "mkdir is there": lambda k: k.mkdir("sub", exist_ok=True),
    "mkdir without parents": lambda k: k.mkdir("x/y"),
    "mkdir with parents": lambda k: k.mkdir("sub/.hidden/deep", parents=True),
    "hidden files": lambda k: k.writetext("sub/.hidden/deep/e.txt", ""),
    "link": lambda k: _exit(k, "ln", "-s", "sub", "link"),
    "stat": lambda k: kinds(k, "a.bin", "sub", "link"),
    "stat of nothing": lambda k: k.stat("none"),
    "iterdir": lambda k: every(k.iterdir(".")),
    "iterdir of a file": lambda k: every(k.iterdir("a.bin")),
    "iterdir of nothing": lambda k: every(k.iterdir("none")),
    "glob": lambda k: every(k.glob(".", "*.txt")),
    "glob in hidden directories": lambda k: every(k.glob("sub", "**/*.txt")),
    "glob of hidden files": lambda k: every(k.glob("sub", "*")),
    "glob of nothing": lambda k: every(k.glob("none", "*")),
    "empty glob": lambda k: every(k.glob(".", "")),
    "chdir": moved,
    "chdir to nothing": lambda k: k.chdir("none"),
    "chdir to a file": lambda k: k.chdir("a.bin"),
    "normpath": lambda k: _said(k.normpath("a//b/../c/")),
    "pathclass": lambda k: _said(k.pathclass()),
    "exec": lambda k: _run(k, "sh", "-c", 'echo "$1"; echo err >&2; exit 7', "sh", "a  $b '\"*\n"),
    "exec of nothing": lambda k: k.exec(),
    "signal": lambda k: _exit(k, "sh", "-c", "kill -TERM $$"),
    "variables": lambda k: _run(k, "/bin/sh", "-c", "echo $A", env={"A": "x y"}),
    "stdin": lambda k: _run(k, "wc", "-c", data=b"x" * 300_000),
    "stdin that is not read": lambda k: _exit(k, "true"),
    "wait before read": lambda k: _late(k, "sh", "-c", "echo out; echo err >&2"),
    "lines": lambda k: lines_of(k, "printf", "a\nb\n\nc"),
    "bytes of output": lambda k: _run(k, "printf", r"\000\377\r\n\033[1m"),
    "kill": killed,
}  # fmt: skip
"""The calls that kimi-cli makes of any `Kaos`. The test asks LocalKaos itself for each expected result: the two have to agree."""


async def _said(value: object) -> str:
    return str(value)


async def _run(system: kaos.Kaos, *args: str, data: bytes = b"", env: dict[str, str] | None = None) -> object:
    return await done(await system.exec(*args, env=env), data)


async def _exit(system: kaos.Kaos, *args: str) -> int:
    process = await system.exec(*args)
    assert process.stdin.can_write_eof()
    code: int = await process.wait()
    return code


async def _late(system: kaos.Kaos, *args: str) -> object:
    process = await system.exec(*args)
    code = await process.wait()
    return code, await process.stdout.read(), await process.stderr.readexactly(4)


async def told(system: kaos.Kaos, ask: Callable[[Any], Awaitable[object]]) -> object:
    try:
        return await ask(system)
    except (OSError, ValueError) as error:
        return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


async def test_kaos_behaves_like_local_kaos(
    ours: Kaos, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    for name, ask in TABLE.items():
        with row(name):
            assert await told(ours, ask) == await told(LocalKaos(), ask)


async def test_paths_and_functions_of_kaos_reach_the_environment(ours: Kaos, env: Environment) -> None:
    assert isinstance(ours, kaos.Kaos)
    kaos.set_current_kaos(ours)
    assert kaos.get_current_kaos().name == "anyshell"
    assert str(KaosPath.home()) == env.info.home
    path = KaosPath("a") / "b.txt"
    await path.parent.mkdir()
    assert await path.write_text("one\n") == 4
    assert await path.append_text("two\n") == 4
    assert [line async for line in path.read_lines()] == ["one\n", "two\n"]
    assert await path.is_file()
    assert not await (KaosPath.cwd() / "none").exists()
    assert str(path.canonical()) == f"{env.directory}/a/b.txt"
    assert await env.files.read("a/b.txt") == b"one\ntwo\n"
    process = await kaos.exec("cat", "a/b.txt")
    assert isinstance(process, kaos.KaosProcess)
    assert isinstance(process.stdin, kaos.AsyncWritable)
    assert isinstance(process.stdout, kaos.AsyncReadable)
    assert await done(process) == (0, b"one\ntwo\n", b"")


async def test_line_endings_are_preserved(ours: Kaos) -> None:
    """LocalKaos loses line endings when reading, so a program that writes the text back would change the file."""
    await ours.writebytes("f", b"a\r\nb\r\n")
    assert await ours.readtext("f") == "a\r\nb\r\n"
    assert [line async for line in ours.readlines("f")] == ["a\r\n", "b\r\n"]
    with pytest.raises(ValueError, match="case-sensitive"):
        await anext(ours.glob(".", "*", case_sensitive=False))


async def test_kill_stops_the_tree(ours: Kaos) -> None:
    seconds = unique_seconds()
    process = await ours.exec("sh", "-c", f"trap '' TERM; sleep {seconds} & echo on; sleep {seconds}; wait")
    assert await process.stdout.readline() == b"on\n"
    assert len(living(seconds)) >= 2
    await process.kill()
    assert not living(seconds)
    assert process.returncode == -9


@pytest.mark.parametrize("how", ["kill", "aclose"])
async def test_flooding_process_with_unread_output_is_stopped(
    ours: Kaos, env: Environment, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(adapter, "PENDING", 10_000)
    process: Any = await ours.exec("yes", word := unique_seconds())
    while process._flows["stdout"].open.is_set():
        await asyncio.sleep(0.02)
    assert len(process.stdout._buffer) <= 10_000 * 2 + 64 * 1024
    await (process.kill() if how == "kill" else env.aclose())
    assert not living(word)


async def test_slow_reader_gets_all_output(ours: Kaos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "PENDING", 1_000)
    process = await ours.exec("seq", "100000")
    read = b""
    while piece := await process.stdout.read(777):
        read += piece
    assert read == b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert await process.wait() == 0


async def test_background_child_runs_until_the_environment_is_closed(ours: Kaos, env: Environment) -> None:
    seconds = unique_seconds()
    process = await ours.exec("sh", "-c", f"sleep {seconds} & echo started")
    assert await done(process) == (0, b"started\n", b"")
    assert living(seconds)
    running = await ours.exec("sleep", seconds)
    await env.aclose()
    assert not living(seconds)
    assert await running.wait() == -9
    with pytest.raises(OSError, match="nothing was started"):
        await ours.exec("true")


async def test_cancelled_exec_leaves_no_process(ours: Kaos) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(ours.exec("sleep", seconds))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_unread_stdin_raises_a_broken_pipe(ours: Kaos) -> None:
    process = await ours.exec("sleep", "0.2")
    process.stdin.writelines([b"x" * 8_000_000, b"y"])  # more than is on the way
    with pytest.raises(BrokenPipeError):
        await process.stdin.drain()
    assert await process.wait() == 0
    process.stdin.write_eof()
    assert process.stdin.is_closing()
    await process.stdin.wait_closed()


async def test_remote_host_gets_only_added_variables(
    ours: Kaos, env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_MACHINE", "here")
    variables = {**os.environ, "ADDED": "yes"}
    _, out, _ = await done(await ours.exec("sh", "-c", "echo $OF_THIS_MACHINE $ADDED", env=variables))
    assert out == (b"here yes\n" if env.info.is_this_machine else b"yes\n")
