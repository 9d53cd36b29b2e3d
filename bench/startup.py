"""Whole processes: the cost of ``import anyshell`` in a program, and of the command ``anyshell``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from . import floors
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 25
SSH_ROUNDS = 15

_TOOL = """
import asyncio, time
from anyshell import Environment, ShellTool, approve_all

async def main():
    began = time.process_time()
    async with Environment.detect() as env:
        ShellTool(env, approver=approve_all).definition
        print((time.process_time() - began) * 1000)

asyncio.run(main())
"""

_BARE = """
import asyncio, sys, asyncssh

async def main(host, port, user, key, known_hosts):
    given = {"username": user, "client_keys": [key], "known_hosts": known_hosts, "config": None, "agent_path": None}
    async with asyncssh.connect(host, int(port), **given) as connection:
        return (await connection.run("true")).exit_status

sys.exit(asyncio.run(main(*sys.argv[1:])))
"""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare an import and the shortest commands to an interpreter that does nothing, or only imports asyncio."""
    variants = {
        "nothing": (sys.executable, "-c", "pass"),
        "asyncio": (sys.executable, "-c", "import asyncio"),
        "import": (sys.executable, "-c", "import anyshell"),
        "version": (*_program(), "--version"),
        "run": (*_program(), "run", "true"),
    }
    found, spent = _both(variants, rounds)
    tool = interleave({"tool": _tool_milliseconds}, rounds)["tool"]
    shown = shlex.join(os.path.basename(word) for word in variants["version"])
    run = "`anyshell run true` beside `import asyncio`"
    return Result(
        rows=[
            _row("`import anyshell`", found["import"], found["nothing"], 3),
            _row("`anyshell --version`", found["version"], found["nothing"], 5),
            _row(run, found["run"], found["asyncio"], 2.2),
            _row(f"{run}, processor time", spent["run"], spent["asyncio"], 2.2),
            Row(
                what="detection and the first `ShellTool`, processor time",
                unit="ms",
                ours=tool,
                reach=Reach("<=", 60),
            ),
        ],
        notes=[
            f"whole processes of one interpreter: `python -c ...` and `{shown}`; the floor does `pass` if none is named.",
            "The tool is made in a process that has imported it.",
        ],
    )


def measure_ssh(sizes: Sizes, rounds: int) -> Result:
    """Compare the shortest command on a host to the same command by OpenSSH, and by bare asyncssh."""
    from .ssh import server  # here, since `measure` needs no server

    ssh, env = shutil.which("ssh"), shutil.which("env")
    if ssh is None or env is None:
        raise RuntimeError("ssh is missing; it comes with openssh-client")
    with server() as there, tempfile.TemporaryDirectory() as home:
        config = Path(home, ".ssh", "config")
        config.parent.mkdir(mode=0o700)
        config.write_text(there.config("web").read_text())
        config.chmod(0o600)
        bare = (there.address, str(there.port), there.user, str(there.key), str(there.known_hosts))
        at_home = (env, f"HOME={home}", "SSH_AUTH_SOCK=")
        variants = {
            "ssh": (*at_home, ssh, "-F", str(config), "web", "true"),
            "asyncssh": (*at_home, sys.executable, "-c", _BARE, *bare),
            "run": (*at_home, *_program(), "run", "--host", "web", "true"),
        }
        found, spent = _both(variants, rounds)
    run = "`anyshell run --host H true`"
    return Result(
        rows=[
            _row(f"{run} beside `ssh H true`", found["run"], found["ssh"], 1.3),
            _row("bare asyncssh beside `ssh H true`", found["asyncssh"], found["ssh"]),
            _row(f"{run} beside bare asyncssh", found["run"], found["asyncssh"]),
            _row(f"{run} beside bare asyncssh, processor time here", spent["run"], spent["asyncssh"]),
        ],
        notes=["whole processes, with one key, on OpenSSH's server on loopback; `ssh` is OpenSSH's."],
    )


def _row(what: str, ours: list[float], floor: list[float], bound: float | None = None) -> Row:
    reach = None if bound is None else Reach("<=", bound)
    return Row(what=what, unit="ms", ours=ours, floor=floor, ratios=ratios(ours, floor), reach=reach)


def _program() -> tuple[str, ...]:
    script = os.path.join(os.path.dirname(sys.executable), "anyshell")
    return (script,) if os.access(script, os.X_OK) else (sys.executable, "-m", "anyshell")


def _both(
    variants: dict[str, tuple[str, ...]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the elapsed time and the processor time of each variant, in milliseconds."""
    for argv in variants.values():
        floors.run(argv)  # compiles the modules that are not compiled yet
    measured = interleave({name: partial(_measured, argv) for name, argv in variants.items()}, rounds)
    return (
        {name: [took for took, _ in numbers] for name, numbers in measured.items()},
        {name: [spent for _, spent in numbers] for name, numbers in measured.items()},
    )


def _measured(argv: tuple[str, ...]) -> tuple[float, float]:
    spent = _spent()
    return milliseconds(argv), _spent() - spent


def _spent() -> float:
    """Return the processor time in milliseconds of the reaped descendants of this process."""
    if sys.platform == "win32":
        raise RuntimeError("the processor time of children is read from POSIX systems only")
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def _tool_milliseconds() -> float:
    argv = (sys.executable, "-c", _TOOL)
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def milliseconds(argv: tuple[str, ...]) -> float:
    """Return the milliseconds from the start of a process to its end."""
    began = time.perf_counter()
    floors.run(argv)
    return (time.perf_counter() - began) * 1000
