"""``anyshell run --background`` and ``anyshell jobs``."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anyshell.cli import main

from .cli_program import anyshell, is_alive, read_line, start, within
from .processes import living, unique_seconds, wait_asleep
from .test_cli import completed

assert sys.platform != "win32"  # on other systems mypy skips the code below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .ssh_server import Server


@pytest.fixture
def asleep() -> Iterator[tuple[str, str]]:
    """The id of a sleeping job, and its number of seconds."""
    seconds = unique_seconds()
    id_ = background(f"echo begun; exec sleep {seconds}")
    try:
        wait_asleep(seconds)
        yield id_, seconds
    finally:
        within("jobs", "stop", "--grace", "0", id_)


def background(command: str, *options: str) -> str:
    done = anyshell("run", "--background", *options, "--", command)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().strip()


def ended(id_: str) -> dict[str, object]:
    """Wait for the end of a job, and return its description."""
    done = anyshell("jobs", "tail", "--follow", "--since", "0", id_)
    assert (done.returncode, done.stderr) == (0, b"")
    record: dict[str, object] = json.loads(within("jobs", "show", "--json", id_).stdout)
    return {**record, "output": done.stdout.decode()}


def test_a_job_is_started_listed_shown_stopped_and_removed(asleep: tuple[str, str]) -> None:
    id_, seconds = asleep
    listed = anyshell("jobs", "list").stdout.decode()
    assert [word for word in listed.split() if word in (id_, "running", "begun;")] == [
        id_,
        "running",
        "begun;",
    ]
    shown = anyshell("jobs", "show", id_[:6]).stdout.decode()
    assert dict(line.split(None, 1) for line in shown.splitlines())["status"] == "running"
    assert anyshell("jobs", "prune").stdout == b""
    stopped = anyshell("jobs", "stop", id_)
    assert (stopped.returncode, stopped.stderr.decode()) == (0, f"anyshell: {id_} stopped\n")
    assert living(seconds) == []
    assert [job["status"] for job in json.loads(within("jobs", "list", "--json").stdout)] == ["stopped"]
    assert within("jobs", "prune", "--older-than", "1h").stdout == b""
    assert anyshell("jobs", "prune").stdout.decode() == f"{id_}\n"
    gone = within("jobs", "show", id_)
    assert (gone.returncode, gone.stdout) == (1, b"")
    assert f"no job {id_}" in gone.stderr.decode()


def test_job_gets_its_directory_variables_and_arguments(tmp_path: Path) -> None:
    id_ = background('echo "$PWD $A"; echo err >&2; exit 3', "--cwd", str(tmp_path), "--env", "A=b c")
    job = ended(id_)
    assert (job["output"], job["status"], job["exit_code"]) == (f"{tmp_path} b c\nerr\n", "failed", 3)
    words = json.loads(
        anyshell("run", "--background", "--json", "--", "printf", "%s|", "two words", "$HOME").stdout
    )
    assert words["status"] == "running"
    assert ended(words["id"])["output"] == "two words|$HOME|"


def test_job_runs_with_a_prefix_and_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = tmp_path / "box"
    box.write_text('#!/bin/sh\necho boxed\nexec "$@"\n')
    box.chmod(0o700)
    (tmp_path / ".bashrc").write_text("mine() { echo from the set-up; }\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    id_ = background("mine", "--shell", "bash", "--prefix", str(box), "--snapshot")
    assert ended(id_)["output"] == "boxed\nfrom the set-up\n"
    done = anyshell("run", "--background", "--prefix", "no-such-program", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"'no-such-program' was not found" in done.stderr
    box.unlink()
    assert ended(background("true", "--prefix", str(box)))["exit_code"] == 127  # like a command


def test_reading_by_offset_neither_skips_nor_repeats_output(tmp_path: Path) -> None:
    go = tmp_path / "go"
    id_ = background(f"printf 'one\\377\\n'; until [ -e {go} ]; do sleep 0.02; done; printf 'two\\n'")
    first = anyshell("jobs", "tail", id_)
    while not first.stdout:
        first = anyshell("jobs", "tail", id_)
    assert first.stdout == b"one\xff\n"
    assert first.stderr == b"anyshell: the job runs; to read on: --since 5\n"
    following = start("jobs", "tail", "-f", "--since", "5", id_)
    go.touch()
    assert following.communicate(timeout=20)[0] == b"two\n"
    assert following.returncode == 0


def test_tail_of_a_long_log_shows_its_end() -> None:
    id_ = background("seq 1 20000; echo last")
    assert str(ended(id_)["output"]).startswith("1\n2\n")
    done = anyshell("jobs", "tail", id_)
    assert len(done.stdout) == 64 * 1024
    assert done.stdout.endswith(b"\nlast\n")
    assert b"--since 0 shows all" in done.stderr


def test_end_of_following_leaves_the_job_running(asleep: tuple[str, str]) -> None:
    id_, seconds = asleep
    following = start("jobs", "tail", "-f", id_)
    assert read_line(following.stdout) == "begun"
    assert following.stdout is not None
    following.stdout.close()
    assert following.wait(20) == 141
    following = start("jobs", "tail", "-f", id_)
    assert read_line(following.stdout) == "begun"
    following.terminate()
    assert following.wait(20) == 143
    following.stdout.close() if following.stdout else None
    assert living(f"sleep {seconds}")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--timeout", "3"], "--timeout does not go with --background"),
        (["--grace", "3"], "--grace does not go with --background"),
        (["--left-behind", "keep"], "--left-behind does not go with --background"),
        (["--json", "--split-stderr"], "--split-stderr does not go with --background"),
    ],
)
def test_options_without_meaning_for_a_job_are_refused(options: list[str], why: str) -> None:
    done = CliRunner().invoke(main, ["run", "--background", *options, "--", "true"])
    assert done.exit_code == 2
    assert why in done.output


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_job_with_an_unwritable_id_is_stopped(options: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    seconds = unique_seconds()
    with open("/dev/full", "wb") as full:
        done = anyshell(
            "run", "--background", *options, "--", f"sleep {seconds}", stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 125
    (job,) = json.loads(within("jobs", "list", "--json").stdout)
    said = f"anyshell: cannot write to stdout: No space left on device; job {job['id']} was stopped\n"
    assert (done.stderr.decode(), job["status"], living(seconds)) == (said, "stopped", [])


def test_job_with_an_unread_id_is_stopped() -> None:
    seconds = unique_seconds()
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = anyshell(
            "run", "--background", "--", f"sleep {seconds}", stdout=writes, stderr=subprocess.PIPE
        )
    finally:
        os.close(writes)
    assert done.returncode == 141
    assert done.stderr.endswith(b" was stopped\n")
    assert living(seconds) == []


def test_tail_past_the_end_of_a_log_is_empty() -> None:
    id_ = background("echo one")
    assert ended(id_)["output"] == "one\n"
    done = anyshell("jobs", "tail", "--since", "9" * 30, id_)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_stdin_of_a_background_command_is_refused() -> None:
    done = anyshell("run", "--background", "--", "cat", input=b"lost otherwise")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"add '< /dev/null'" in done.stderr


@pytest.mark.parametrize("quiet", [False, True])
def test_next_steps_are_printed_unless_quiet(quiet: bool) -> None:
    own, child = pty.openpty()
    try:
        options = ["--quiet"] if quiet else []
        process = start("run", "--background", *options, "--", "true", stderr=child)
        id_ = read_line(process.stdout)
        assert process.wait(20) == 0
        os.write(child, b"the end\n")
        said = ""
        while not said.endswith("the end\r\n"):
            said += os.read(own, 4096).decode()
        assert (f"anyshell jobs tail -f {id_}" in said) is not quiet
        process.stdout.close() if process.stdout else None
    finally:
        os.close(own)
        os.close(child)


def test_the_shell_completes_ids(asleep: tuple[str, str]) -> None:
    id_, _ = asleep
    assert f"plain,{id_}" in completed("bash", "jobs", "stop", id_[:2])
    assert completed("bash", "jobs", "stop", "--host", "web", id_[:2]) == []


def test_a_job_on_a_host_survives_the_connection(
    ssh_host: Callable[[str], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ssh_host("asyncssh")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(server.config("web").read_text())
    (tmp_path / ".ssh" / "config").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    seconds = unique_seconds()
    id_ = background(f"echo begun; exec sleep {seconds}", "--host", "web")
    try:
        wait_asleep(seconds)
        assert anyshell("jobs", "tail", "--host", "web", id_).stdout == b"begun\n"
        job = json.loads(anyshell("jobs", "show", "--host", "web", "--json", id_).stdout)
        assert is_alive(job["pid"])
    finally:
        assert anyshell("jobs", "stop", "--host", "web", id_).returncode == 0
        assert living(seconds) == []
        shutil.rmtree(Path(job["log"]).parent)
