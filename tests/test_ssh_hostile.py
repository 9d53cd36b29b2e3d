"""A server that attacks its client: its messages reach no terminal raw, and no caller as a raw exception."""

from __future__ import annotations

import contextlib
import errno
import math
from typing import TYPE_CHECKING, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import AnyshellError, BackendError, ConnectionFailed, Environment, ShellNotFound, detached
from anyshell._answers import Nonsense
from anyshell.backends import connect
from anyshell.backends.ssh.facts import FactLines
from anyshell.backends.ssh.files.shell import ShellFiles
from anyshell.backends.ssh.posix.look import parse
from anyshell.backends.ssh.posix.processes import Processes
from anyshell.backends.ssh.posix.terminal import read_foreground
from anyshell.shells import Login
from anyshell.types import DetachedJobs

from .hostile_server import FACTS, Lies, lying

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from anyshell.abc import Files
    from anyshell.backends.ssh.posix.watcher import Watcher

pytestmark = pytest.mark.anyio

ORDERS = "\x1b]52;c;cm0gLXJmIC8=\x07\x9b31m\u202e\r"
"""Escape sequences with one and with two bytes, a direction and a return: one sets a clipboard."""


def is_harmless(message: str) -> bool:
    """Whether a message has no terminal control characters."""
    return all(line.isprintable() for line in message.split("\n"))


async def test_the_reason_of_a_refused_session_is_one_harmless_line(tmp_path: Path) -> None:
    lies = Lies(refusal=f"no{ORDERS}\nanyshell: all is well", sessions=0)
    async with lying(tmp_path, lies) as server:
        with pytest.raises(ConnectionFailed) as caught:
            async with Environment.detect(server.options()):
                pass
    assert str(caught.value).isprintable()
    assert "all is well" in str(caught.value)


async def test_reason_of_a_later_refused_session_is_one_harmless_line(tmp_path: Path) -> None:
    lies = Lies(refusal=f"no{ORDERS}\nanyshell: all is well", sessions=1)
    async with lying(tmp_path, lies) as server, Environment.detect(server.options()) as env:
        with pytest.raises(ConnectionFailed) as caught:
            await env.run("true")
    assert str(caught.value).isprintable()
    assert "all is well" in str(caught.value)


@pytest.mark.parametrize("begun", [f"cwd {ORDERS}", "program", f"{ORDERS} x"])
async def test_reason_of_a_failed_start_is_one_harmless_line(tmp_path: Path, begun: str) -> None:
    lies = Lies(begun=begun, facts={"shell": f"/bin/{ORDERS}sh"})
    async with lying(tmp_path, lies) as server, Environment.detect(server.options()) as env:
        with pytest.raises(AnyshellError) as caught:
            await env.run("true")
    assert str(caught.value).isprintable()


async def test_list_of_tried_shells_is_harmless(tmp_path: Path) -> None:
    lies = Lies(facts={"kind": ""}, lines=(f"fact tried /bin/bash{ORDERS}\x85\u2028Install: not found",))
    async with lying(tmp_path, lies) as server:
        with pytest.raises(ShellNotFound) as caught:
            async with Environment.detect(server.options()):
                pass
    assert is_harmless(str(caught.value))
    assert caught.value.tried
    assert all(line.isprintable() for line in caught.value.tried)


async def test_the_signal_that_ended_a_command_has_a_name_or_is_unknown(tmp_path: Path) -> None:
    lies = Lies(signal="KILL\x1b]52;c;eA==\x07\n")
    async with lying(tmp_path, lies) as server, Environment.detect(server.options()) as env:
        outcome = await env.run("true")
    assert outcome.signal == "SIGUNKNOWN"


ID = "0123456789ab"


@pytest.mark.parametrize(
    "said",
    [
        f"error {ORDERS}",
        "nothing",
    ],
)
async def test_errors_about_jobs_of_a_lying_host_are_printable(tmp_path: Path, said: str) -> None:
    async with (
        lying(tmp_path, Lies(printed=f"{said}\n")) as server,
        Environment.detect(server.options()) as env,
    ):
        with pytest.raises(AnyshellError) as caught:
            await DetachedJobs(env).list()
        with pytest.raises(AnyshellError) as started:
            await DetachedJobs(env).start("true")
    assert str(caught.value).isprintable()
    assert str(started.value).isprintable()


async def test_only_valid_ids_count_as_removed_jobs(tmp_path: Path) -> None:
    said = f"directory /jobs\nbare {ORDERS}\nremoved {ORDERS}\nremoved {ID}\nover 1000"
    async with (
        lying(tmp_path, Lies(printed=f"{said}\n")) as server,
        Environment.detect(server.options()) as env,
    ):
        assert await DetachedJobs(env).prune() == []  # the test has asked for none of them


# # --- Malformed answers

LONG = "9" * 5000

NUMBERS = ("", "nan", "inf", "-inf", "1e999", "-1", "²", "٣", LONG, "0x1", "1_0", " 1", "1.5.2", "\udcff")

WORDS = st.one_of(
    st.sampled_from(
        (*NUMBERS, "0", "1", "4242", "100", "unlimited", "x", "Nov-20-08:06:03-2026", "Feb-31-99:06:03-0000")
    ),
    st.text(st.characters(exclude_characters="\n"), max_size=8),
)


def lines_of(*kinds: str) -> st.SearchStrategy[list[str]]:
    """Lines that begin with one of these words, and continue with random words."""
    line = st.tuples(st.sampled_from(kinds), st.lists(WORDS, max_size=10)).map(
        lambda each: " ".join((each[0], *each[1]))
    )
    return st.lists(line, max_size=6)


@given(lines_of(*(f"fact {name}" for name in (*FACTS, "page", "program", "tried", "variable"))))
def test_facts_are_read_or_refused(lines: list[str]) -> None:
    with contextlib.suppress(Nonsense):
        facts = FactLines.read(lines)
        assert 1 <= facts.ticks <= 10**9
        assert facts.host(notices=()).os in ("linux", "macos", "windows")


@given(lines_of("process", "process 1 1 1 1", "mark", "holds", "holds 1", "other"))
def test_a_look_is_read_or_refused(lines: list[str]) -> None:
    with contextlib.suppress(Nonsense):
        for seen in parse(lines).seen:
            assert 1 <= seen.pid < 2**31
            assert math.isfinite(seen.started)
            assert seen.name.isprintable()


@given(
    lines_of(
        "member 1",
        "member",
        "name 1",
        "has 1",
        "has",
        "thread 1",
        "thread",
        "asleep",
        "hidden",
        "modes",
        "modes x -icanon",
    )
)
def test_a_foreground_is_read_or_refused(lines: list[str]) -> None:
    host = Processes(cast("Watcher", None), 9)
    host.architecture = "x86_64"
    with contextlib.suppress(Nonsense):
        found = read_foreground(lines, host)
        assert found is None or found.cpu is None or math.isfinite(found.cpu)


@given(
    lines_of(
        "directory /jobs",
        f"job {ID}",
        f"job {ID} ended 0 1",
        "job",
        "process",
        "process 1",
        "over",
        "bare",
        "removed",
    )
)
def test_job_lines_are_read_or_refused(lines: list[str]) -> None:
    with contextlib.suppress(Nonsense):
        directory = detached._directory(lines)
        for line in lines:
            if line.startswith("job "):
                record = detached._read(line.removeprefix("job "), directory, "host")
                assert record.id == ID
                assert math.isfinite(record.started)


@pytest.mark.parametrize("clock", NUMBERS)
async def test_a_malformed_clock_is_one_exception(tmp_path: Path, clock: str) -> None:
    async with lying(tmp_path, Lies(clock=clock)) as server:
        with pytest.raises(BackendError, match="the host's answer is malformed: the clock is") as caught:
            async with Environment.detect(server.options()):
                pass
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("ticks", ["nan", "²", "0", "-1", LONG, "1e3"])
async def test_malformed_ticks_are_one_exception(tmp_path: Path, ticks: str) -> None:
    async with lying(tmp_path, Lies(facts={"ticks": ticks})) as server:
        with pytest.raises(BackendError, match="the host's answer is malformed: ticks is"):
            async with Environment.detect(server.options()):
                pass


@pytest.mark.parametrize("pid", ["0", "nan", "²", LONG])
async def test_command_with_a_malformed_pid_is_lost(tmp_path: Path, pid: str) -> None:
    async with (
        lying(tmp_path, Lies(begun=f"started {pid}")) as server,
        Environment.detect(server.options()) as env,
    ):
        outcome = await env.run("true", grace=0)
        assert (outcome.status, outcome.started) == (
            "lost",
            True,
        )  # the command has begun, according to the host


@pytest.mark.parametrize(
    "look",
    [
        "process\n",
        f"process {LONG} 1 1 1 1 1 sh\n",
        "process 1 1 1 1 1 ² sh\n",
    ],
)
async def test_malformed_processes_are_unknown(tmp_path: Path, look: str) -> None:
    lies = Lies(answers={"look": look, "group": "some\n"})
    async with lying(tmp_path, lies) as server, Environment.detect(server.options()) as env:
        outcome = await env.run("true", timeout=20)
    assert outcome.status in ("exited", "lost")


@pytest.mark.parametrize(
    "said",
    [
        "over 1000",
        "directory /jobs\njob \nover 1000",
        f"directory /jobs\njob {ORDERS} running - - 0 0 1 1 {{}}\nover 1000",
        f"directory /jobs\njob {ID} running - - 0 0 {LONG} 1 {{}}\nover 1000",
        f"directory /jobs\njob {ID} ended ² 1 0 0 1 nan {{}}\nover 1000",
        f"directory /jobs\njob {ID} ended 0 {LONG} 0 0 1 1 {{}}\nover 1000",
        f"directory /jobs\njob {ID} ended 0 1 0 0 1 1 {{}}\nover nan",
    ],
)
async def test_malformed_jobs_are_one_exception(tmp_path: Path, said: str) -> None:
    async with (
        lying(tmp_path, Lies(printed=f"{said}\n")) as server,
        Environment.detect(server.options()) as env,
    ):
        with pytest.raises(AnyshellError) as caught:
            await DetachedJobs(env).prune()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "said", ["", "x", "x 81a4 1", f"x 81a4 {LONG} 1", "o 999 1 1", "x 81a4 1 nan", "x ² 1 1"]
)
async def test_malformed_file_is_one_exception(said: str) -> None:
    async def run(argv: Sequence[str], stdin: bytes | None, most: int) -> tuple[int | None, bytes, bytes]:
        return 0, said.encode(), b""

    with pytest.raises(OSError, match="is malformed") as caught:
        await ShellFiles(run).stat("/x")
    assert (caught.value.errno, caught.value.filename) == (errno.EPROTO, "/x")


@pytest.mark.parametrize(
    ("number", "call"),
    [
        (errno.EPROTO, lambda files: files.stat("/x")),
        (errno.EFBIG, lambda files: files.list("/x")),
        (errno.EPROTO, lambda files: files.readlink("/x")),
        (errno.EPROTO, lambda files: files.chmod("/x", 0o600)),
    ],
    ids=["stat", "list", "readlink", "chmod"],
)
async def test_endless_answer_about_a_file_is_cut(
    tmp_path: Path, number: int, call: Callable[[Files], Awaitable[object]]
) -> None:
    lies = Lies(endless=b"f" * 65536)
    async with lying(tmp_path, lies) as server:
        backend = connect(server.options(), launcher=Login)
        with anyio.fail_after(60), pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is looked at
            await call(backend.files)
        await backend.aclose()
    assert (caught.value.errno, caught.value.filename) == (number, "/x")


async def test_directory_with_too_many_names_is_an_error(tmp_path: Path) -> None:
    async with lying(tmp_path, Lies(endless=b"f\0" * 32768)) as server:
        backend = connect(server.options(), launcher=Login)
        with anyio.fail_after(60), pytest.raises(OSError, match="More than 1000000 names") as caught:
            await backend.files.list("/x")
        await backend.aclose()
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, "/x")


async def test_answer_about_a_file_that_drips_for_ever_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.backends.ssh.backend.FILE_SECONDS", 1.0)
    async with lying(tmp_path, Lies(endless=b"f", pause=0.01)) as server:
        backend = connect(server.options(), launcher=Login)
        with anyio.fail_after(60), pytest.raises(TimeoutError) as caught:
            await backend.files.list("/x")
        await backend.aclose()
    assert (caught.value.errno, caught.value.filename) == (errno.ETIMEDOUT, "/x")
