"""One command on many hosts: a fleet beside bare asyncssh, and beside other libraries for many hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fleet_hosts import many

from .fleet_consumer import PEERS
from .report import Reach, Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from .sizes import Sizes

ROUNDS = 7

_TOP = Path(__file__).resolve().parent.parent


class _Absent(Exception):  # noqa: N818 - no failure: a peer need not be there
    """The reason that a peer was not measured."""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Measure the time of one small command on all hosts at once, and the memory for each host."""
    count = sizes.hosts
    with many(count) as hosts:
        given = {
            "ports": hosts.ports,
            "user": hosts.server.user,
            "key": str(hosts.server.key),
            "known_hosts": str(hosts.known_hosts),
        }

        def take(variant: str) -> dict[str, float]:
            with tempfile.TemporaryDirectory() as state:
                done = subprocess.run(
                    [sys.executable, "-m", "bench.fleet_consumer", variant],
                    input=json.dumps(given),
                    cwd=_TOP,
                    env={**os.environ, "ANYSHELL_STATE_DIR": state},
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise _Absent(last)
            taken: dict[str, float] = json.loads(done.stdout)
            return taken

        there, absent = [], []
        for peer in PEERS:
            try:
                take(peer)  # a missing or broken peer is noted, and the other peers are measured
            except _Absent as why:
                absent.append(f"{peer} was not measured: {why}.")
            else:
                there.append(peer)
        variants = ["floor", "ours", *there]
        found = interleave({name: lambda name=name: take(name) for name in variants}, rounds)  # type: ignore[misc]  # mypy knows no default of a lambda's

    def each(variant: str, what: str) -> list[float]:
        return [taken[what] for taken in found[variant]]

    def memory(variant: str) -> list[float]:
        return [growth / count / 2**10 for growth in each(variant, "growth")]

    seconds = each("floor", "seconds")
    rows = [
        Row(
            what=f"`echo ok` on {count} hosts at once",
            unit="s",
            ours=each("ours", "seconds"),
            floor=seconds,
            ratios=ratios(each("ours", "seconds"), seconds),
            reach=Reach("<=", 3.5),
        ),
        Row(
            what="processor time of the client meanwhile",
            unit="s",
            ours=each("ours", "spent"),
            floor=each("floor", "spent"),
            ratios=ratios(each("ours", "spent"), each("floor", "spent")),
        ),
        Row(
            what="memory for each of them",
            unit="KiB",
            ours=memory("ours"),
            floor=memory("floor"),
            reach=Reach("<=", 512),
        ),
    ]
    for peer in there:
        rows += [
            Row(
                what=f"the same, {peer} (beside)",
                unit="s",
                ours=each(peer, "seconds"),
                floor=seconds,
                ratios=ratios(each(peer, "seconds"), seconds),
            ),
            Row(
                what=f"its processor time, {peer} (beside)",
                unit="s",
                ours=each(peer, "spent"),
                floor=each("floor", "spent"),
                ratios=ratios(each(peer, "spent"), each("floor", "spent")),
            ),
            Row(
                what=f"its memory for each, {peer} (beside)",
                unit="KiB",
                ours=memory(peer),
                floor=memory("floor"),
            ),
        ]
    return Result(
        rows=rows,
        notes=[
            (
                f"{count} ports of real OpenSSH servers on loopback; each is connected to, runs the command and is left. The "
                "floor is bare asyncssh, one connection and one `conn.run` each, all gathered. A fleet also asks each host "
                "for its directories and its shell, in a session that stays as long as the command, and takes 32 at a time. Memory is "
                "the growth of a fresh process's peak after one host, for each of the others. Peers check no host key."
            ),
            *absent,
        ],
    )
