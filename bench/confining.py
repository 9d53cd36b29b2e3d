"""A command within a reach, beside the same command without a reach: the cost of a sandbox, and the speed of the proxy."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING

import anyshell

from . import ssh
from .report import Reach, Result, Row
from .rounds import interleave, ratios
from .subject import SHELL, subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .sizes import Sizes

ROUNDS = 7

PROXY = 300
"""Megabytes per second that a proxy must carry at least, over one connection."""

_COMMAND = "true"

# The program connects through the proxy that `http_proxy` names, if any, and prints the received megabytes per second.
_FETCH = """
import os, socket, sys, time
place = sys.argv[1]
proxy = os.environ.get("http_proxy", "").removeprefix("http://")
host, port = (proxy or place).split(":")
with socket.create_connection((host, int(port))) as s:
    if proxy:
        s.sendall(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    s.sendall(b"go")
    buffer, total, began = bytearray(1 << 20), 0, time.perf_counter()
    while size := s.recv_into(buffer):
        total += size
print(total / (time.perf_counter() - began) / 1e6)
"""


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare fresh shells within each reach to fresh shells without a reach, and the proxy to a direct connection."""
    count = max(1, sizes.spawns // 4)
    reaches = {
        "workspace": anyshell.Reach.preset("workspace"),
        "read-only": anyshell.Reach.preset("read-only"),
        "with the network": anyshell.Reach(write=(".",), network=True),
        "no network": anyshell.Reach(write=(".",)),
        "nothing hidden": anyshell.Reach(write=(".",), hide=(), protect=()),
    }
    with (
        subject() as (runner, bare),
        tempfile.TemporaryDirectory() as directory,
        _served(sizes.output) as place,
        ssh.server() as there,
    ):
        named = reaches["names of hosts"] = anyshell.Reach(write=(".",), network=(place,))

        async def detect(reach: anyshell.Reach) -> anyshell.Environment:
            return await anyshell.Environment.detect(shell=SHELL, cwd=directory, reach=reach)

        async def detect_there(reach: anyshell.Reach | None) -> anyshell.Environment:
            return await anyshell.Environment.detect(there.options(), shell=SHELL, reach=reach)

        environments = {name: runner.run(detect(reach)) for name, reach in reaches.items()}
        far = {
            "direct over SSH": runner.run(detect_there(None)),
            "proxy over SSH": runner.run(detect_there(named)),
        }

        async def run(environment: anyshell.Environment) -> float:
            began = time.perf_counter()
            for _ in range(count):
                (await environment.run(_COMMAND)).check()
            return (time.perf_counter() - began) / count * 1000

        async def fetch(environment: anyshell.Environment) -> float:
            python = sys.executable if environment.info.is_this_machine else "python3"
            outcome = await environment.run(shlex.join([python, "-c", _FETCH, place]))
            return float(outcome.check().output.text)

        def fetched(environment: anyshell.Environment) -> Callable[[], float]:
            return lambda: runner.run(fetch(environment))

        def timed(environment: anyshell.Environment) -> Callable[[], float]:
            return lambda: runner.run(run(environment))

        try:
            found = interleave(
                {name: timed(each) for name, each in {"bare": bare, **environments}.items()}, rounds
            )
            places = {"direct": bare, "proxy": environments["names of hosts"], **far}
            carried = interleave({name: fetched(each) for name, each in places.items()}, rounds)
        finally:
            for environment in (*environments.values(), *far.values()):
                runner.run(environment.aclose())
    return Result(
        rows=[
            Row(
                what=f"`{_COMMAND}` within a reach: {name}",
                unit="ms",
                ours=found[name],
                floor=found["bare"],
                ratios=ratios(found[name], found["bare"]),
            )
            for name in reaches
        ]
        + [
            Row(
                what=f"bytes through the proxy of a reach, one connection{where}",
                unit="MB/s",
                ours=carried[f"proxy{where}"],
                floor=carried[f"direct{where}"],
                reach=Reach(">=", PROXY),
            )
            for where in ("", " over SSH")
        ],
        notes=[
            "the floor is the same command without a reach, in the same run; no aim is set",
            "of the proxy, it is a direct connection to the same server",
        ],
    )


@contextlib.contextmanager
def _served(size: int) -> Iterator[str]:
    """Start a server on this machine that answers each connection with `size` bytes, and yield the address and port."""
    data = memoryview(bytes(1024 * 1024))

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:  # the server is closed
                return
            with client, contextlib.suppress(OSError):
                client.recv(16)
                for start in range(0, size, len(data)):
                    client.sendall(data[: size - start])

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
