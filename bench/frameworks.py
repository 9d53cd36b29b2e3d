"""The own shells of frameworks, beside the same frameworks over anyshell.

Each framework is measured in a separate process, since some frameworks cannot be installed together. The process uses the
first interpreter that has the framework: the running interpreter, then the interpreters that the variable
``ANYSHELL_BENCH_PYTHONS`` names, then the environments that tox has made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .framework_consumer import BOUND, PEERS, SECONDS, Seen
from .report import Reach, Result, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sizes import Sizes

ROUNDS = 3

PYTHONS = "ANYSHELL_BENCH_PYTHONS"
"""The variable that names more interpreters, separated by `os.pathsep`."""

_TOP = Path(__file__).resolve().parent.parent
_LOOK = "import json, sys; from importlib.util import find_spec; print(json.dumps([p for p in sys.argv[1:] if find_spec(p)]))"


def measure(sizes: Sizes, rounds: int) -> Result:
    """Measure in each framework found how long a background process holds a call, and the processes alive after a timeout."""
    rows: list[Row] = []
    notes = [
        (
            "the floor is the shell that the framework brings; ours is the adapter. Four processes: a plain one, one that ignores "
            f"TERM, for which ours waits its grace, one of `setsid`, one of `nohup`. A call that does not come back is given up after {BOUND} s."
        )
    ]
    found = _found()
    for name, peer in PEERS.items():
        if peer.package not in found:
            notes.append(
                f"{name} was not measured: {peer.package} is not here. `tox -e {peer.environment} --notest` installs it, or "
                f"{PYTHONS} names an interpreter that has it beside anyshell's dependencies."
            )
            continue
        done = subprocess.run(
            [
                found[peer.package],
                "-m",
                "bench.framework_consumer",
                name,
                str(rounds),
                str(sizes.linger),
                str(sizes.nap),
            ],
            cwd=_TOP,
            env={**os.environ, "PYTHONPATH": str(_TOP / "src")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            notes.append(f"{name} was not measured, since it failed ({last}).")
            continue
        taken = json.loads(done.stdout)
        if taken["absent"] is not None:
            notes.append(f"{name}: its own shell was not measured ({taken['absent']}).")
        rows += _rows(
            name, sizes, [Seen(*each) for each in taken["theirs"]], [Seen(*each) for each in taken["ours"]]
        )
    return Result(rows=rows, notes=notes)


def _rows(name: str, sizes: Sizes, theirs: list[Seen], ours: list[Seen]) -> Iterator[Row]:
    yield Row(
        what=f"{name}: `sleep {sizes.nap} & echo started` back after",
        unit="s",
        ours=[each.held for each in ours],
        floor=[each.held for each in theirs],
        reach=Reach("<=", 0.5),
    )
    yield Row(
        what=f"{name}: a timeout of {SECONDS} s, late",
        unit="s",
        ours=[each.late for each in ours],
        floor=[each.late for each in theirs],
    )
    yield Row(
        what=f"{name}: of four processes alive {sizes.linger:g} s later",
        unit="processes",
        ours=[each.alive for each in ours],
        floor=[each.alive for each in theirs],
        reach=Reach("<=", 0),
    )


def _found() -> dict[str, str]:
    """Return the first interpreter that has each package, by the name of the package."""
    found: dict[str, str] = {}
    named = filter(None, os.environ.get(PYTHONS, "").split(os.pathsep))
    for python in (sys.executable, *named, *map(str, sorted(_TOP.glob(".tox/*/bin/python")))):
        packages = [peer.package for peer in PEERS.values() if peer.package not in found]
        done = subprocess.run([python, "-c", _LOOK, *packages], capture_output=True, check=True)
        found |= dict.fromkeys(json.loads(done.stdout), python)
    return found
