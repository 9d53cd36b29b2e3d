"""A command prefix: valid prefixes, the words that a prefix receives, and the stop of processes below a prefix."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell import Approved, Environment, InvalidCommand, ShellTool
from anyshell.shells.prefix import LONGEST_PREFIX, Prefix

from .cli_program import anyshell
from .conftest import SSH_HOSTS
from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyshell import ApprovalRequest

    from .ssh_server import Server

assert sys.platform != "win32"  # else mypy checks the code below on every platform

pytestmark = pytest.mark.anyio

NICE = min(os.nice(0) + 7, 19)
"""The output of `nice -n 7`: these tests may run with a lower priority themselves."""

LONG = "# " + "x" * 200_000 + "\n"


@pytest.mark.parametrize("host", ["local", *SSH_HOSTS])
async def test_the_shell_runs_below_the_prefix(host: str, ssh_host: Callable[[str], Server]) -> None:
    where = None if host == "local" else ssh_host(host).options()
    async with Environment.detect(where, prefix="nice -n 7", cwd="/tmp") as env:
        assert env.prefix == "nice -n 7"
        for text in ("nice; echo $0 $#; pwd", LONG + "nice; echo $0 $#; pwd"):
            outcome = await env.run(text)
            assert outcome.output.text == f"{NICE}\nbash 0\n/tmp\n"
        assert (await env.run("cat; exit 3", stdin="given")).output.text == "given"


async def test_the_hosts_sh_reads_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AN_ARGUMENT", "two  words")
    prefix = 'env A="it\'s" B=\'$AN_ARGUMENT\' C="$AN_ARGUMENT" "D=${AN_ARGUMENT};#" E=a\\ b#c'
    async with Environment.detect(prefix=prefix) as env:
        printed = (await env.run('printf "%s|" "$A" "$B" "$C" "$D" "$E"')).output.text
    assert printed == "it's|$AN_ARGUMENT|two  words|two  words;#|a b#c|"


WORDLESS = ["", " \t", "A=1 nice", "-a nice", "nice \0", "x" * (LONGEST_PREFIX + 1)]

OPERATORS = ["nice; rm", "nice &", "nice | cat", "nice > /dev/null", "nice <x", "(nice", "nice\nrm", "nice #"]

OPEN = ["nice 'open", 'nice "open', "nice \\"]

SUBSTITUTIONS = ["nice `id`", "nice $(id)", 'nice "$(id)"', "nice $1", "nice $@", "nice ${A:=b}"]


@pytest.mark.parametrize("bad", [*WORDLESS, *OPERATORS, *OPEN, *SUBSTITUTIONS])
def test_prefix_must_be_one_program_with_arguments(bad: str) -> None:
    with pytest.raises(InvalidCommand, match="prefix"):
        Environment.detect(prefix=bad)


@pytest.mark.parametrize("length", [1, 100, LONGEST_PREFIX])
def test_no_prefix_takes_long_to_be_refused(length: int) -> None:
    for piece in ("a ", "a", "'a'", '"a" ', "$a", "\\a"):
        with pytest.raises(InvalidCommand):
            Prefix(piece * min(length, (LONGEST_PREFIX - 1) // len(piece)) + ";")


async def test_missing_prefix_program_is_an_error_at_detection() -> None:
    with pytest.raises(InvalidCommand, match="'no-such-program' was not found on local"):
        await Environment.detect(prefix="no-such-program -x")
    assert "nice" not in (await Environment.detect(prefix="nice -n 1")).info.programs


async def test_refusing_prefix_program_prints_its_own_reason(tmp_path: Path) -> None:
    refuses = tmp_path / "refuses"
    refuses.write_text("#!/bin/sh\necho 'not allowed here' >&2\nexit 9\n")
    refuses.chmod(0o755)
    async with Environment.detect(prefix=f"{refuses} --really") as env:
        outcome = await env.run("echo never")
    assert (outcome.exit_code, outcome.output.text) == (9, "not allowed here\n")


async def test_stop_reaches_processes_below_a_lasting_prefix() -> None:
    seconds = unique_seconds()
    async with Environment.detect(prefix="timeout 100") as env:
        outcome = await env.run(f"sleep {seconds} & sleep {seconds}; echo more", timeout=0.5)
    assert outcome.status == "timed_out"
    assert not living(seconds)


async def test_approver_sees_the_prefix() -> None:
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Approved:
        seen.append(request)
        return Approved()

    async with Environment.detect(prefix="nice -n 7") as env:
        result = await ShellTool(env, approver=approve)({"command": "nice"})
    assert result.output == f"{NICE}\n"
    assert seen[0].prefix == "nice -n 7"
    assert "Run by: nice -n 7" in seen[0].display.splitlines()


def test_the_command_line_takes_a_prefix() -> None:
    done = anyshell("run", "--prefix", "nice -n 7", "--", "nice")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"%d\n" % NICE, b"")
    done = anyshell("run", "--prefix", "nice; id", "--", "nice")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"one program and its arguments" in done.stderr
