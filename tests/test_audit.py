from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anyshell import AnyshellError, Audit, Environment, InvalidCommand, Outcome
from anyshell.cli.program import main
from anyshell.policy.audit import LONGEST_TEXT, entries, files, verify
from anyshell.types import Redaction

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="needs permission bits, or the commands are of a POSIX shell"
)


def filled(directory: Path, requests: int = 3, *, file_size: int = 10_000_000, max_files: int = 64) -> Path:
    audit = Audit(directory, file_size=file_size, max_files=max_files)
    for number in range(requests):
        request = audit.requested(
            f"echo {number}", tool="shell", call=f"call-{number}", host="local", cwd="/x"
        )
        audit.decided(request, "allow", by="policy", rule="read-only/echo")
        audit.started(request, pid=number)
        audit.ended(request, Outcome(status="exited", exit_code=0, duration=0.5))
    audit.close()
    return directory


def problems(directory: Path) -> list[tuple[int, str]]:
    return [(problem.line, problem.text) for problem in verify(directory)]


def rewritten(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def test_every_step_of_a_request_is_a_line(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "a" / "b")
    request = audit.requested(
        "rm -rf x", tool="shell", call="c1", host="web-1", cwd="/srv", env={"B": "1", "A": "2"}
    )
    audit.decided(request, "ask", by="policy", rule="workspace/delete", reason="rm deletes x")
    audit.decided(request, "allow", by="terminal", command="rm -r x")
    audit.started(request, pid=12)
    audit.ended(request, Outcome(status="exited", exit_code=1, duration=1.25))
    audit.close()
    found = list(entries(tmp_path / "a" / "b"))
    assert [entry["event"] for entry in found] == [
        "opened",
        "requested",
        "decided",
        "decided",
        "started",
        "ended",
        "closed",
    ]
    assert {entry["request"] for entry in found[1:-1]} == {request}
    own = {"line", "time", "event", "request", "before", "hash", "file"}
    facts = [{name: value for name, value in entry.items() if name not in own} for entry in found]
    assert facts[1:-1] == [
        {
            "command": "rm -rf x",
            "tool": "shell",
            "call": "c1",
            "host": "web-1",
            "cwd": "/srv",
            "env": ["A", "B"],
        },
        {"action": "ask", "by": "policy", "rule": "workspace/delete", "reason": "rm deletes x"},
        {"action": "allow", "by": "terminal", "command": "rm -r x"},
        {"pid": 12},
        {"status": "exited", "exit_code": 1, "duration": 1.25, "output_bytes": 0, "masked": 0},
    ]
    assert verify(tmp_path / "a" / "b") == []


@posix
def test_files_and_directory_are_private(tmp_path: Path) -> None:
    directory = filled(tmp_path / "audit")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(directory)} == {0o600}


@posix
def test_directory_writable_by_others_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "audit"
    directory.mkdir()
    directory.chmod(0o777)
    audit = Audit(directory, required=True)
    with pytest.raises(AnyshellError, match="others may write to it"):
        audit.requested("ls")
    assert files(directory) == []


def test_secrets_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    audit = Audit(tmp_path)
    token = "ghp_" + "a1" * 18
    request = audit.requested(
        f"curl -u me:hunter2hunter2 {token} the other",
        env={"X_KEY": "the other"},
        cwd=f"/{token}",
        call=token,
    )
    audit.decided(request, "deny", by="policy", reason=f"{token} is a secret")
    audit.ended(request, error=f"no {token}")
    audit.close()
    text = "".join(path.read_text() for path in files(tmp_path))
    assert "[secret]" in text
    assert not [each for each in ("hunter2", token, "the other") if each in text]
    plain = Audit(tmp_path / "plain", redaction=None)
    plain.requested("hunter2hunter2")
    assert [entry.get("command") for entry in entries(tmp_path / "plain")] == [None, "hunter2hunter2"]


def test_long_command_is_cut_with_a_note(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.requested("\udcff\n" * LONGEST_TEXT)
    (entry,) = [each for each in entries(tmp_path) if each["event"] == "requested"]
    assert len(entry["command"]) < LONGEST_TEXT + 200
    assert f"({2 * LONGEST_TEXT} characters, SHA-256 " in entry["command"]
    assert verify(tmp_path) == []


def test_changed_line_is_detected(tmp_path: Path) -> None:
    (path,) = files(filled(tmp_path))
    rewritten(path, path.read_bytes().replace(b'"echo 1"', b'"echo 2"').splitlines(keepends=True))
    assert problems(tmp_path) == [(6, "was changed: its hash is another")]


@pytest.mark.parametrize("line", range(1, 13))
def test_removed_line_is_detected(tmp_path: Path, line: int) -> None:
    (path,) = files(filled(tmp_path))
    lines = path.read_bytes().splitlines(keepends=True)
    rewritten(path, lines[: line - 1] + lines[line:])
    ((at, text),) = problems(tmp_path)
    assert at == line
    assert "taken out" in text


def test_moved_or_duplicated_lines_are_detected(tmp_path: Path) -> None:
    (path,) = files(filled(tmp_path))
    lines = path.read_bytes().splitlines(keepends=True)
    rewritten(path, [*lines[:3], lines[4], lines[3], *lines[5:]])
    assert problems(tmp_path)[0][0] == 4
    rewritten(path, [*lines[:3], lines[2], *lines[3:]])
    assert problems(tmp_path)[0][0] == 4
    rewritten(path, [*lines[:3], b"no entry\n", b"\xff\n", *lines[3:]])
    assert problems(tmp_path)[0] == (4, "is not a line of an audit, or was cut")


def test_missing_file_of_the_chain_is_detected(tmp_path: Path) -> None:
    found = files(filled(tmp_path, 30, file_size=2000))
    assert len(found) > 5
    assert verify(tmp_path) == []
    kept = found[2].read_bytes()
    found[2].unlink()
    assert {text.split()[0] for _, text in problems(tmp_path)} == {"follows", "says"}
    lines = kept.splitlines(keepends=True)
    rewritten(found[2], lines[:-1])
    assert [text for _, text in problems(tmp_path) if "has another last line now" in text]
    rewritten(found[2], lines)
    found[-1].unlink()
    assert [text for _, text in problems(tmp_path)] == ["says that it is continued, and no file follows it"]


def test_oldest_files_are_removed_and_the_rest_verifies(tmp_path: Path) -> None:
    found = files(filled(tmp_path, 60, file_size=1000, max_files=4))
    assert len(found) == 4
    assert verify(tmp_path) == []
    assert all(path.stat().st_size < 2000 for path in found)


def test_processes_and_threads_share_a_directory(tmp_path: Path) -> None:
    program = (
        "import sys, threading; from anyshell import Audit; audit = Audit(sys.argv[1], file_size=5000)\n"
        "def work():\n    for n in range(50): audit.ended(audit.requested(f'echo {n}'), status='exited')\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]; audit.close()"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert verify(tmp_path) == []
    assert sum(entry["event"] == "requested" for entry in entries(tmp_path)) == 450


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_writes_its_own_file(tmp_path: Path) -> None:
    program = (
        "import os, sys; from anyshell import Audit; audit = Audit(sys.argv[1]); audit.requested('a')\n"
        "child = os.fork()\naudit.requested('b'); audit.close()\nchild and os.waitpid(child, 0)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    assert len(files(tmp_path)) == 2
    assert verify(tmp_path) == []


def test_unwritable_audit_stops_a_command_only_when_required(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    audit = Audit(tmp_path / "file" / "audit")
    audit.ended(audit.requested("ls"), status="exited")
    assert audit.error is not None
    assert "cannot be written" in audit.error
    required = Audit(tmp_path / "file" / "audit", required=True)
    with pytest.raises(AnyshellError, match="nothing runs without a record"):
        required.requested("ls")
    required.ended("0", status="exited")  # the command has run


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_an_error_and_the_next_line_begins_a_file(tmp_path: Path) -> None:
    audit = Audit(tmp_path, required=True)
    audit.requested("before")
    os.dup2(full := os.open("/dev/full", os.O_WRONLY), audit._fd)
    os.close(full)
    with pytest.raises(AnyshellError, match="No space left on device"):
        audit.requested("lost")
    audit.requested("after")
    assert audit.error is None
    commands = [entry["command"] for entry in entries(tmp_path) if entry["event"] == "requested"]
    assert commands == ["before", "after"]
    assert verify(tmp_path) == []


def test_full_disk_removes_no_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = files(filled(tmp_path))
    audit = Audit(tmp_path, max_files=2)
    with monkeypatch.context() as patch:
        patch.setattr(Audit, "_append", _full)
        for _ in range(3):
            audit.requested("lost")
    assert audit.error is not None
    assert files(tmp_path) == kept
    audit.requested("after")
    audit.close()
    assert kept[0] in files(tmp_path)
    assert verify(tmp_path) == []


def _full(audit: Audit, entry: object) -> None:
    audit._close()
    audit._name = ""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_bounds_out_of_range_are_refused(tmp_path: Path) -> None:
    for bad in ({"file_size": 0}, {"max_files": 1}):
        with pytest.raises(InvalidCommand):
            Audit(tmp_path, **bad)  # type: ignore[arg-type]  # bad input is the point


@posix
async def test_environment_records_its_commands(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    async with Environment.detect(audit=audit, redact=Redaction(values=("hidden value",))) as env:
        await env.run("echo hidden value; exit 3")
        async with env.session() as session:
            await session.run("echo in a session")
        job = await env.start("echo a job")
        await job.wait()
        with pytest.raises(InvalidCommand):
            await env.run("ls", cwd="/there/is/no/such/directory")
    audit.close()
    assert verify(tmp_path) == []
    found = list(entries(tmp_path))
    asked = {entry["request"]: entry["command"] for entry in found if entry["event"] == "requested"}
    assert list(asked.values()) == ["echo hidden value; exit 3", "echo in a session", "echo a job", "ls"]
    ended = {asked[entry["request"]]: entry for entry in found if entry["event"] == "ended"}
    assert ended["echo hidden value; exit 3"]["exit_code"] == 3
    assert ended["echo hidden value; exit 3"]["masked"] == 1
    assert ended["ls"]["error"] == "InvalidCommand"
    assert sum(entry["event"] == "started" for entry in found) == 3


@posix
async def test_command_needs_its_required_record(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with Environment.detect(audit=Audit(tmp_path / "file", required=True)) as env:
        with pytest.raises(AnyshellError, match="nothing runs"):
            await env.run(f"touch {tmp_path}/ran")
    assert not (tmp_path / "ran").exists()


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["audit", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_the_command_line_shows_greps_and_verifies(tmp_path: Path) -> None:
    filled(tmp_path)
    here = ("--directory", tmp_path)
    code, text = run("show", *here)
    assert code == 0
    assert "command=echo 1" in text
    assert len(text.splitlines()) == 14
    assert json.loads(run("show", *here, "--json")[1].splitlines()[0])["event"] == "opened"
    assert len(run("grep", "echo [12]", *here)[1].splitlines()) == 2
    assert run("grep", "nothing", *here) == (1, "")
    assert run("grep", "(", *here)[0] == 2
    assert run("verify", *here) == (0, "")
    (path,) = files(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    rewritten(path, lines[:3] + lines[4:])
    code, text = run("verify", *here)
    assert code == 1
    assert text.startswith(f"{path}:4: ")
    for command in (("show",), ("grep", "x"), ("verify",)):  # the name may be wrong: verification fails
        assert run(*command, "--directory", tmp_path / "none") == (125, "")


def test_shown_records_cannot_move_the_cursor(tmp_path: Path) -> None:
    Audit(tmp_path).requested("echo \x1b[2J\nb")
    text = run("show", "--directory", tmp_path)[1]
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2
