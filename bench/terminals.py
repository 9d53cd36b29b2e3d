"""Terminals: the cost of a program's start on a terminal, beside libraries for terminals alone."""

from __future__ import annotations

import importlib
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from anyshell._types import Spawn, Terminal
from anyshell.backends import connect

from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import argv, subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyshell.abc import Backend

    from .sizes import Sizes

START_ROUNDS = 15

_COMMAND = "true"
_REACH = Reach("<=", 1)


def measure_start(sizes: Sizes, rounds: int) -> Result:
    """Compare a program on a terminal, from the start to the end, to the floor and to other libraries."""
    count = sizes.spawns
    notes = [
        (
            "per program: started on a terminal, read to its end, waited for, closed. Bare is os.posix_spawn onto the "
            "terminal, which chooses no directory and closes nothing; ptyprocess and pexpect are without the 0.1 s "
            "that they sleep in `close`."
        )
    ]
    with subject() as (runner, environment):
        program = argv(environment, _COMMAND)
        backend = connect()

        async def ours() -> None:
            for _ in range(count):
                await _run(backend, program)

        variants: dict[str, Callable[[], object]] = {
            "floor": lambda: _times(count, partial(_floor, program)),
            "anyshell": lambda: runner.run(ours()),
        }
        for name, run in (("ptyprocess", _ptyprocess), ("pexpect", _pexpect)):
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                notes.append(f"{name} was not measured, since it is not installed ({error}).")
            else:
                variants[name] = partial(_times, count, partial(run, module, program))
        for variant in variants.values():
            variant()
        found = interleave(
            {name: partial(_milliseconds, run, count) for name, run in variants.items()}, rounds
        )
        runner.run(backend.aclose())

    def beside(name: str, reach: Reach | None = None) -> Row:
        return Row(
            what=f"the same; the floor is {'bare' if name == 'floor' else name}",
            unit="ms",
            ours=found["anyshell"],
            floor=found[name],
            ratios=ratios(found["anyshell"], found[name]),
            reach=reach,
        )

    return Result(
        rows=[
            Row(what=f"`{_COMMAND}` on a terminal, {count} in a row", unit="ms", ours=found["anyshell"]),
            *(beside(name, None if name == "floor" else _REACH) for name in found if name != "anyshell"),
        ],
        notes=notes,
    )


def _milliseconds(run: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1000 / count


def _times(count: int, run: Callable[[], None]) -> None:
    for _ in range(count):
        run()


async def _run(backend: Backend, program: tuple[str, ...]) -> None:
    process = await backend.spawn(Spawn(argv=program, cwd="/", terminal=Terminal()))
    try:
        while True:
            await process.stdout.receive()
    except anyio.EndOfStream:
        _check((await process.wait()).code)
    finally:
        await process.aclose()


def _floor(program: tuple[str, ...]) -> None:
    if sys.platform == "win32":
        raise RuntimeError("the floor is posix_spawn, which Windows does not have")
    master, slave = os.openpty()
    try:
        pid = os.posix_spawn(
            program[0],
            program,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
            setsid=True,
        )
        os.close(slave)
        _read_to_the_end(master)
    finally:
        os.close(master)
    _check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _read_to_the_end(master: int) -> None:
    try:
        while os.read(master, 65536):
            pass
    except OSError:  # on Linux, a read at the end of a terminal fails
        pass


def _ptyprocess(module: Any, program: tuple[str, ...]) -> None:
    process = module.PtyProcess.spawn(list(program))
    process.delayafterclose = 0
    try:
        while True:
            process.read(65536)
    except EOFError:
        _check(process.wait())
    finally:
        process.close()


def _pexpect(module: Any, program: tuple[str, ...]) -> None:
    child = module.spawn(program[0], list(program[1:]))
    child.delayafterclose = child.ptyproc.delayafterclose = 0
    child.expect(module.EOF)
    child.close()
    _check(child.exitstatus)


def _check(code: int | None) -> None:
    if code != 0:
        raise RuntimeError(f"`{_COMMAND}` ended with {code}")
