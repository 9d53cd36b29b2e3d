"""The programs of ``docs/how-to/come-from-subprocess.md``: originals for other libraries, and ports for anyshell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import framework

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "come-from-subprocess.md"
_PORT = re.compile(
    r"^### (\d+\. [^\n]+)\n\n```py(?:thon)?\n(.+?)^```\n\n```python\n(.+?)^```\n", re.MULTILINE | re.DOTALL
)


class Port(NamedTuple):
    """A program for another library, and its port for anyshell."""

    title: str
    original: str
    ours: str


PORTS = [Port(*each) for each in _PORT.findall(PAGE.read_text(encoding="utf-8"))]


def lines(program: str) -> int:
    return sum(bool(line.strip()) for line in program.splitlines())


def printed(program: str, directory: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_ports_are_numbered_from_1_to_10() -> None:
    assert [each.title.split(".")[0] for each in PORTS] == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.title)
def test_port_is_no_longer_than_the_original(port: Port) -> None:
    assert lines(port.ours) <= lines(port.original)


def library(port: Port) -> str | None:
    """The library of the original that must be installed."""
    imported = re.findall(r"^(?:import|from) (\w+)", port.original, re.MULTILINE)
    return next((name for name in ("fabric", "pexpect") if name in imported), None)


@pytest.mark.parametrize(
    "port", [each for each in PORTS if library(each) != "fabric"], ids=lambda port: port.title
)
def test_port_and_original_print_the_same(port: Port, tmp_path: Path) -> None:
    needed = library(port)
    if needed is not None:
        framework(needed)
    assert printed(port.original, tmp_path) == printed(port.ours, tmp_path) != ""


@pytest.mark.parametrize(
    "port", [each for each in PORTS if library(each) == "fabric"], ids=lambda port: port.title
)
def test_port_of_fabric_runs_on_this_machine(port: Port, tmp_path: Path) -> None:
    """The original needs a host that can be logged in to."""
    assert printed(port.ours, tmp_path).split()[-1] in ("up", "2")
