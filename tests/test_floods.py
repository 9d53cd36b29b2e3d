"""Output of any size in bounded memory, with true counts, through a whole process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ssh_server import Server

if sys.platform != "linux":
    pytest.skip("memory is read from /proc", allow_module_level=True)

OVER_SSH = textwrap.dedent(
    """
    import asyncio, json, sys
    from anyshell import Environment, SSHOptions

    def peak():
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024

    async def main():
        async with Environment.detect(SSHOptions(**json.loads(sys.argv[2]))) as env:
            await env.run("true")
            before = peak()
            output = (await env.run(sys.argv[1])).output
            print(json.dumps([output.total_bytes, output.total_lines, len(output.text), peak() - before]))

    asyncio.run(main())
    """
)

SCRIPT = textwrap.dedent(
    """
    import json, sys, anyshell

    def peak():
        for line in open("/proc/self/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024

    anyshell.run("true")
    before = peak()
    output = anyshell.run(sys.argv[1]).output
    print(json.dumps([output.total_bytes, output.total_lines, len(output.text), peak() - before]))
    """
)

FLOODS = {
    "a line of 200 MB": ("head -c 200000000 /dev/zero | tr '\\0' x", 200_000_000, 0),
    "150 MB of lines": ("yes | head -c 150000000", 150_000_000, 75_000_000),
    "a million empty lines": ("yes '' | head -n 1000000", 1_000_000, 1_000_000),
    "a bar": ("yes 'progress bar' | tr '\\n' '\\r' | head -c 50000000", 50_000_000, 0),
    "escapes that never end": ("yes \"$(printf '\\033]')\" | tr -d '\\n' | head -c 20000000", 20_000_000, 0),
}


@pytest.mark.parametrize(("command", "size", "lines"), FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_is_counted_in_bounded_memory(command: str, size: int, lines: int) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, command], capture_output=True, text=True, check=True
    )
    total, line_feeds, shown, growth = json.loads(result.stdout)
    assert (total, line_feeds) == (size, lines)
    assert shown < 60_000
    assert growth < 24  # MiB


@pytest.mark.parametrize("flood", ["a line of 200 MB", "150 MB of lines", "a bar"])
def test_a_flood_over_ssh_is_counted_in_bounded_memory(ssh_host: Callable[[str], Server], flood: str) -> None:
    command, size, lines = FLOODS[flood]
    server = ssh_host("openssh as a user")
    options = {
        "host": server.address,
        "port": server.port,
        "user": server.user,
        "keys": [str(server.key)],
        "known_hosts": str(server.known_hosts),
        "config": "",
    }
    result = subprocess.run(
        [sys.executable, "-c", OVER_SSH, command, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    total, line_feeds, shown, growth = json.loads(result.stdout)
    assert (total, line_feeds) == (size, lines)
    assert shown < 60_000
    assert growth < 48  # MiB


def test_random_bytes_are_counted_in_bounded_memory() -> None:
    command = "head -c 50000000 /dev/urandom"
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, command], capture_output=True, text=True, check=True
    )
    total, _, shown, growth = json.loads(result.stdout)
    assert total == 50_000_000
    assert shown < 60_000
    assert growth < 24  # MiB
