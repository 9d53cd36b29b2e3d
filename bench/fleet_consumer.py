"""A consumer of many hosts: one fresh process that runs a command on all hosts and prints the cost as JSON.

``python -m bench.fleet_consumer VARIANT``, with the hosts on stdin. The extra ``bench`` installs parallel-ssh, and
``pip install fabric`` the other peer; nothing in the project needs a peer.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from .consumer import peak

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Run = Callable[[Mapping[str, Any], Sequence[int]], list[str]]
    """Runs the command on the hosts of these ports, and returns the output of each host."""

_HOST = "127.0.0.1"
_COMMAND = "echo ok"


def _ours(given: Mapping[str, Any], ports: Sequence[int]) -> list[str]:
    from anyshell import Fleet, SSHOptions

    async def run() -> list[str]:
        hosts = [
            SSHOptions(
                host=_HOST,
                port=port,
                user=given["user"],
                keys=[given["key"]],
                known_hosts=given["known_hosts"],
                config="",
                agent=False,
            )
            for port in ports
        ]
        async with Fleet(hosts) as fleet:
            return [result.check().output.text async for result in fleet.run(_COMMAND)]

    return asyncio.run(run())


def _floor(given: Mapping[str, Any], ports: Sequence[int]) -> list[str]:
    import asyncssh

    async def one(port: int) -> str:
        async with asyncssh.connect(
            _HOST,
            port,
            username=given["user"],
            client_keys=[given["key"]],
            known_hosts=given["known_hosts"],
            config=None,
            agent_path=None,
        ) as connection:
            return str((await connection.run(_COMMAND, check=True)).stdout)

    async def run() -> list[str]:
        return list(await asyncio.gather(*map(one, ports)))

    return asyncio.run(run())


def _parallel_ssh(given: Mapping[str, Any], ports: Sequence[int]) -> list[str]:
    clients = importlib.import_module("pssh.clients")
    config = importlib.import_module("pssh.config")
    client = clients.ParallelSSHClient(
        [_HOST] * len(ports),
        host_config=[config.HostConfig(port=port) for port in ports],
        user=given["user"],
        pkey=given["key"],
        pool_size=len(ports),
        allow_agent=False,
    )
    outputs = client.run_command(_COMMAND)
    client.join(outputs)
    return ["".join(f"{line}\n" for line in output.stdout) for output in outputs]


def _fabric(given: Mapping[str, Any], ports: Sequence[int]) -> list[str]:
    fabric = importlib.import_module("fabric")
    how = {"key_filename": given["key"], "look_for_keys": False, "allow_agent": False}
    connections = [fabric.Connection(_HOST, given["user"], port, connect_kwargs=how) for port in ports]
    with fabric.ThreadingGroup.from_connections(connections) as group:
        results = group.run(_COMMAND, hide=True, in_stream=False)
        return [result.stdout for result in results.values()]


PEERS: Mapping[str, Run] = {
    "parallel-ssh": _parallel_ssh,
    "fabric's ThreadingGroup": _fabric,
}

_VARIANTS: Mapping[str, Run] = {"ours": _ours, "floor": _floor, **PEERS}


def main(variant: str) -> None:
    """Run the command on one host, then on all hosts; print the seconds, processor seconds and memory growth on all hosts."""
    given = json.load(sys.stdin)
    run = _VARIANTS[variant]
    run(given, given["ports"][:1])
    before = peak()
    began, spent = time.perf_counter(), time.process_time()
    texts = run(given, given["ports"])
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    if texts != ["ok\n"] * len(given["ports"]):
        raise RuntimeError(
            f"{variant} gave {len(texts)} outputs for {len(given['ports'])} hosts, or wrong ones"
        )
    print(json.dumps({"seconds": seconds, "spent": spent, "growth": peak() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
