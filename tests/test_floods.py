"""Output of any size in bounded memory, with true counts, through a whole process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

if sys.platform != "linux":
    pytest.skip("memory is read from /proc", allow_module_level=True)

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
    "2 GB of lines": ("yes | head -c 2000000000", 2_000_000_000, 1_000_000_000),
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


def test_random_bytes_are_counted_in_bounded_memory() -> None:
    command = "head -c 50000000 /dev/urandom"
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, command], capture_output=True, text=True, check=True
    )
    total, _, shown, growth = json.loads(result.stdout)
    assert total == 50_000_000
    assert shown < 60_000
    assert growth < 24  # MiB
