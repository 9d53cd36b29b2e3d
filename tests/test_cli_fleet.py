"""``anyshell fleet``: in a pipe, for programs, on a terminal, and on signals."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

assert sys.platform != "win32"  # on other systems mypy skips the code below

from anyshell import ConnectionFailed, HostKeyUntrusted, Outcome
from anyshell._types import Terminal
from anyshell.abc import ProcessInfo
from anyshell.cli.commands.fleet.command import LARGEST_STDIN
from anyshell.cli.commands.fleet.folding import Folding, describe
from anyshell.cli.commands.fleet.roster import Roster, chosen, paint
from anyshell.output import TerminalOutput
from anyshell.types import HostOutcome, HostProgress, Output

from .cli_program import anyshell, lines, read_line, script, start, within
from .conftest import missing
from .fleet_hosts import Hosts, another, each_session, many
from .processes import STARTED, living, unique_seconds, wait_living
from .ssh_server import SSHD, free_port
from .test_cli_pty import pane as pane
from .test_cli_pty import terminals as terminals
from .test_cli_ssh import home as home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from . import tmux

COUNT = 50

COLOUR = r"\x1b\[(?:[0-9;]*;)?[34][0-7](?:;[0-9;]*)?m"
"""The sequence that sets one of the eight terminal colours."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with many(COUNT) as started:
        yield started


@pytest.fixture
def names(hosts: Hosts, home: Path) -> list[str]:
    """Fifty aliases, and an alias of a port without a listener."""
    ports = {f"h{number:02}": port for number, port in enumerate(hosts.ports)}
    hosts.config(home / ".ssh" / "config", {**ports, "closed": free_port()})
    return list(ports)


def events(data: bytes, kind: str) -> list[dict[str, Any]]:
    """The printed objects of one kind."""
    return [event for event in map(json.loads, data.splitlines()) if event["event"] == kind]


# --- in a pipe ------------------------------------------------------------------------------------------------


def test_piped_output_has_host_names_and_a_folded_summary(names: list[str], hosts: Hosts) -> None:
    """Each line follows the name of its host. The summary joins hosts with equal endings and equal output."""
    odd = names[7]
    done = anyshell(
        "fleet", "--hosts", ",".join(names), "--hosts", "closed, local", "--",
        f"case $SSH_CONNECTION in '') ;; *\\ {hosts.ports[7]}) echo odd; printf no-newline; exit 3;; *) echo even;; esac",
    )  # fmt: skip
    assert done.returncode == 1
    assert sorted(lines(done.stdout)) == sorted(
        [f"{name}: even" for name in names if name != odd] + [f"{odd}: odd", f"{odd}: no-newline"]
    )
    said = lines(done.stderr)
    assert len(said) == 5
    assert re.fullmatch(r"anyshell: (h\d\d, ){48}h\d\d \(49 hosts\): exit code 0", said[0])
    assert said[1] == "anyshell: local: exit code 0"
    assert f"anyshell: {odd}: exit code 3" in said
    assert any(
        line.startswith("anyshell: closed: no answer") and "Connection refused" in line for line in said
    )
    assert re.fullmatch(r"anyshell: 52 hosts: 50 done, 2 failed; [\d.]+ s", said[-1])


def test_exit_code_is_0_when_every_host_succeeds(names: list[str]) -> None:
    done = anyshell("fleet", "--hosts", ",".join(names[:3]), "--cwd", "/", "--env", "A=x y", "--", "sh", "-c",
                    'echo "$A" "$1" "$PWD"; cat', "sh", "it's")  # fmt: skip
    assert done.returncode == 0
    assert sorted(lines(done.stdout)) == [f"{name}: x y it's /" for name in names[:3]]
    assert re.fullmatch(r"anyshell: (h0\d, ){2}h0\d \(3 hosts\): exit code 0", lines(done.stderr)[0])


def test_output_of_a_host_cannot_disturb_the_lines(names: list[str]) -> None:
    done = anyshell(
        "fleet",
        "--hosts",
        names[0],
        "--",
        r"printf 'a\033[2J\rb\xe2\x80\xaec\n\n'; head -c 70000 /dev/zero | tr '\0' x",
    )
    text = done.stdout.decode()
    assert "\x1b" not in text
    assert "\u202e" not in text
    shown = text.splitlines()
    assert shown[0] == f"{names[0]}: b\\u202ec"
    assert shown[1] == f"{names[0]}: "
    assert "".join(line.removeprefix(f"{names[0]}: ") for line in shown[2:]) == "x" * 70000


def test_quiet_prints_only_output_and_failures(names: list[str]) -> None:
    done = anyshell("fleet", "-q", "--hosts", f"{names[0]},closed", "--", "echo out")
    assert (done.returncode, done.stdout) == (1, f"{names[0]}: out\n".encode())
    assert [line[:16] for line in lines(done.stderr)] == ["anyshell: closed"]


def test_processes_left_behind_are_stopped_and_reported_once_for_all_hosts(names: list[str]) -> None:
    seconds = unique_seconds()
    done = anyshell("fleet", "--hosts", ",".join(names[:3]), "--", f"sleep {seconds} >&- 2>&- & {STARTED}")
    told = b"h00, h01, h02 (3 hosts): exit code 0; left behind, and stopped: sleep\n"
    assert (done.returncode, told in done.stderr) == (0, True), done.stderr
    assert living(seconds) == []


def test_stdin_is_read_only_on_request(names: list[str]) -> None:
    for options, expected in ((["--stdin"], b"abc\n"), ([], b"")):
        done = anyshell("fleet", *options, "--hosts", f"{names[0]},local", "--", "cat", input=b"abc\n")
        assert done.returncode == 0
        assert done.stdout.count(b": abc\n") == (2 if expected else 0)


def test_oversized_stdin_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb+") as file:
        file.truncate(LARGEST_STDIN + 1)
        done = anyshell("fleet", "--stdin", "--hosts", "local", "--", "cat", stdin=file)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"anyshell cp" in done.stderr


def test_output_of_each_host_is_written_to_a_file_of_its_name(names: list[str], tmp_path: Path) -> None:
    place, hosts = tmp_path / "new" / "logs", ",".join([names[0], f"ssh://{names[1]}/tmp", "closed"])
    done = anyshell("fleet", "--hosts", hosts, "-o", str(place), "printf", r"a\r\n%s\0", "b c")
    assert {file.name: file.read_bytes() for file in place.iterdir()} == {
        names[0]: b"a\r\nb c\0",
        f"ssh%3A%2F%2F{names[1]}%2Ftmp": b"a\r\nb c\0",
    }
    assert done.returncode == 1
    assert (
        within("fleet", "--hosts", "local", "--output-dir", str(next(place.iterdir())), "true").returncode
        == 2
    )


def test_full_disk_is_reported_and_stops_the_command() -> None:
    seconds = unique_seconds()
    with open("/dev/full", "wb") as full:
        done = anyshell(
            "fleet",
            "--hosts",
            "local",
            "--",
            f"echo out; sleep {seconds}",
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 125
    assert b"cannot write to stdout: No space left on device" in done.stderr
    assert living(seconds) == []


def test_closed_reader_stops_the_fleet(names: list[str]) -> None:
    seconds = unique_seconds()
    with start(
        "fleet", "--hosts", ",".join(names[:3]), "--grace", "0.3", "--", f"echo out; sleep {seconds}"
    ) as program:
        assert read_line(program.stdout).endswith(": out")
        wait_living(f"sleep {seconds}", 3)
        assert program.stdout is not None
        program.stdout.close()
        assert program.wait(30) == 141
    assert living(seconds) == []


# --- the hosts ------------------------------------------------------------------------------------------------


def test_hosts_file_may_have_comments_and_blank_lines(names: list[str], tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text(f"# the web\n\n  {names[0]}  # first\r\n\t{names[1]}\t#second\n#{names[2]}\nlocal")
    done = anyshell("fleet", "--hosts-file", str(file), "--json", "--", "true")
    assert {event["host"] for event in events(done.stdout, "result")} == {*names[:2], "local"}
    done = anyshell("fleet", "--hosts-file", "-", "--", "echo x", input=b"local\n")
    assert done.stdout == b"local: x\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"web-1\n-oProxyCommand=x\n", "hosts.txt, line 2: the host '-oProxyCommand=x' begins with -"),
        (b"web-1\n\nssh://me:s3cret@web-2\n", "hosts.txt, line 3: the address holds a password"),
        (
            b"web-1\nweb-2\nssh://web-1\n",
            "hosts.txt, line 3: ssh://web-1 is listed already (hosts.txt, line 1)",
        ),
        (b"docker://x\n", "hosts.txt, line 1: no backend knows 'docker' addresses"),
        (b"web-1 web-2\n", "hosts.txt, line 1: the host 'web-1 web-2' holds ' '"),
        (b"a\n\xff\n", "hosts.txt, line 2: it is not UTF-8 text"),
        (b"# nobody\n", "there are no hosts"),
    ],
)
def test_bad_line_of_a_hosts_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.txt").write_bytes(text)
    done = within("fleet", "--hosts-file", "hosts.txt", "--", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in " ".join(done.stderr.decode().split())
    assert b"s3cret" not in done.stderr


def test_unreadable_hosts_file_is_reported(tmp_path: Path) -> None:
    done = anyshell("fleet", "--hosts-file", "nowhere", "--", "true", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        125, b"anyshell: cannot read the hosts in nowhere: No such file or directory\n"
    )  # fmt: skip
    (tmp_path / "big").write_bytes(b"#" * (1024 * 1024 + 1))
    done = anyshell("fleet", "--hosts-file", "big", "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert b"is it a list of hosts?" in done.stderr
    done = script("anyshell fleet --hosts-file - -- true <&-")
    assert (done.returncode, done.stderr) == (
        125,
        b"anyshell: cannot read the hosts in stdin: it is closed\n",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name them by --hosts"),
        (["--hosts", ""], "host 1 is empty"),
        (["--hosts", "a,,b"], "host 2 is empty"),
        (["--hosts", "a,a"], "a is listed already (--hosts, host 1)"),
        (["--hosts", "a", "--parallel", "0"], "--parallel"),
        (["--hosts", "a", "--batch", "x"], "--batch"),
        (["--hosts", "a", "--connect-timeout", "0"], "--connect-timeout"),
        (["--hosts-file", "-", "--stdin"], "stdin is read once"),
        (["--hosts-file", "-", "--hosts-file", "-"], "stdin is read once"),
    ],
)
def test_wrong_usage_is_reported_before_any_connection(options: list[str], said: str) -> None:
    done = within("fleet", *options, "--", "true")
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in " ".join(done.stderr.decode().split())


def test_blank_command_is_wrong_usage() -> None:
    assert within("fleet", "--hosts", "local", "--", "  ").returncode == 2
    assert within("fleet", "--hosts", "local").returncode == 2


# --- for programs ---------------------------------------------------------------------------------------------


def test_json_has_results_and_states_of_hosts(names: list[str]) -> None:
    names = names[:12]
    done = anyshell(
        "fleet", "--json", "--hosts", ",".join([*names, "closed"]), "--", "echo out; echo err >&2"
    )
    results = {event["host"]: event for event in events(done.stdout, "result")}
    assert results.keys() == {*names, "closed"}
    for name in names:
        assert results[name]["state"] == "done"
        assert results[name]["outcome"]["output"]["text"] == "out\nerr\n"
        assert results[name]["error"] is None
    assert results["closed"]["outcome"] is None
    assert results["closed"]["error"]["type"] == "ConnectionFailed"
    states = [(event["host"], event["state"]) for event in events(done.stdout, "state")]
    assert sorted(states) == sorted(
        [(name, state) for name in names for state in ("connecting", "running")] + [("closed", "connecting")]
    )
    (end,) = events(done.stdout, "end")
    assert json.loads(done.stdout.splitlines()[-1]) == end
    assert {name: end[name] for name in ("hosts", "done", "failed", "not_started", "exit_code")} == {
        "hosts": 13, "done": 12, "failed": 1, "not_started": 0, "exit_code": 1
    }  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")


def test_batches_run_in_order_until_a_failure(names: list[str], hosts: Hosts) -> None:
    six = names[:6]
    command = f"[ ${{SSH_CONNECTION##* }} != {hosts.ports[3]} ]"
    done = anyshell("fleet", "--json", "--batch", "2", "--fail-fast", "--hosts", ",".join(six), "--", command)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    results = {event["host"]: event["state"] for event in told if event["event"] == "result"}
    assert results == dict(
        zip(six, ["done", "done", "done", "failed", "not_started", "not_started"], strict=True)
    )
    places = {
        (event["host"], event["state"]): place for place, event in enumerate(told) if event["event"] != "end"
    }
    assert max(places[name, "done"] for name in six[:2]) < min(
        places[name, "connecting"] for name in six[2:4]
    )
    assert done.returncode == 1


def test_timeout_is_reported(names: list[str]) -> None:
    seconds = unique_seconds()
    options = ("--timeout", "3", "--grace", "0.2")
    done = anyshell(
        "fleet", *options, "--hosts", ",".join(names[:2]), "--", f"setsid sleep {seconds} & sleep {seconds}"
    )
    assert done.returncode == 1
    assert re.fullmatch(r"anyshell: h0\d, h0\d: timed out after 3 s", lines(done.stderr)[0])
    assert living(seconds) == []


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_every_tree_on_twenty_hosts(names: list[str]) -> None:
    """Waiting hosts are never started."""
    seconds = unique_seconds()
    command = f"echo ready; setsid sleep {seconds} & sleep {seconds}"
    options = ("--parallel", "15", "--grace", "1", "--hosts", ",".join(names[:20]))
    with start("fleet", *options, "--", command, stderr=subprocess.PIPE) as program:
        ready = {read_line(program.stdout) for _ in range(15)}
        assert ready == {f"{name}: ready" for name in names[:15]}
        wait_living(f"sleep {seconds}", 30, seconds=40)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=50)
    assert program.returncode == 130
    assert living(seconds) == []
    assert re.search(r"\(15 hosts\): stopped\n", said.decode())
    assert re.search(r"\(5 hosts\): not started\n", said.decode())
    assert b"20 hosts: 0 done, 15 failed, 5 not started" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_stop_a_fleet(names: list[str], number: signal.Signals) -> None:
    seconds = unique_seconds()
    with start(
        "fleet", "--json", "--grace", "0.3", "--hosts", ",".join(names[:2]), "--", f"sleep {seconds}; true"
    ) as program:
        wait_living(f"sleep {seconds}", 4)
        program.send_signal(number)
        told, _ = program.communicate(timeout=30)
    assert program.returncode == 128 + number
    assert [event["outcome"]["status"] for event in events(told, "result")] == ["cancelled"] * 2
    assert events(told, "end")[0]["exit_code"] == 128 + number
    assert living(seconds) == []


def test_ctrl_c_does_not_wait_for_a_blocked_reader(names: list[str]) -> None:
    seconds = unique_seconds()
    with start(
        "fleet", "--grace", "0.3", "--hosts", ",".join(names[:3]), "--", f"yes | tee /dev/null; sleep {seconds}",
        stderr=subprocess.PIPE,
    ) as program:  # fmt: skip
        wait_living(f"sleep {seconds}", 3)
        assert read_line(program.stdout).endswith(": y")
        program.send_signal(signal.SIGINT)
        assert program.wait(40) == 130
        assert program.stderr is not None
        assert b"stopped" in program.stderr.read()
    assert living(seconds) == []


def test_a_second_ctrl_c_skips_the_grace(names: list[str]) -> None:
    seconds = unique_seconds()
    with start(
        "fleet", "--grace", "1000", "--hosts", ",".join(names[:3]), "--",
        f"trap 'echo asked' TERM; echo ready; while :; do sleep {seconds}; done", stderr=subprocess.PIPE,
    ) as program:  # fmt: skip
        for said in ("ready", "asked"):
            waiting = {f"{name}: {said}" for name in names[:3]}
            while waiting:  # bash also prints that each sleep was terminated
                waiting.discard(read_line(program.stdout))
            wait_living(f"sleep {seconds}", 6)  # each shell, and its sleep
            program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)
    assert program.returncode == 130
    assert living(seconds) == []


def test_unconfirmed_stop_of_a_host_is_reported(names: list[str], hosts: Hosts, home: Path) -> None:
    seconds = unique_seconds()
    with another(hosts) as (port, server):
        hosts.config(home / ".ssh" / "config", {"well": hosts.ports[0], "frozen": port})
        with start(
            "fleet", "--grace", "0.3", "--hosts", "well,frozen", "--", f"echo ready; sleep {seconds}",
            stderr=subprocess.PIPE,
        ) as program:  # fmt: skip
            for _ in range(2):
                assert read_line(program.stdout).endswith("ready")
            wait_living(f"sleep {seconds}", 2)
            each_session(server, psutil.Process.suspend)
            program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=50)
        assert program.returncode == 130
        assert re.search(
            r"^anyshell: frozen: lost: .*; may still run there: \w+ \(pid \d+\)$", said.decode(), re.MULTILINE
        )
        assert b"anyshell: well: stopped\n" in said
        assert living(seconds)
        for line in living(seconds):
            psutil.Process(int(line.split()[0])).kill()


# --- on a terminal --------------------------------------------------------------------------------------------


_COUNT = itertools.count(1)


def typed(pane: tmux.Pane, directory: Path, options: str, command: str, variables: str = "") -> str:
    """Run the program in a terminal. Return the mark that precedes the exit code on the screen after the end."""
    end = f"end-{next(_COUNT)}="
    line = f"{variables} \"$PYTHON\" -m anyshell fleet {options} -- '{command}'"
    (directory / "fleet").write_text(f'trap : INT\nclear\necho before\n{line}\necho "{end}$?"\n')
    pane.type("sh fleet")
    pane.press("Enter")
    return end


def test_more_hosts_than_rows_are_summarized_and_erased(
    pane: tmux.Pane, names: list[str], tmp_path: Path
) -> None:
    """Fifty hosts on 24 rows, then on fewer and narrower rows; after Ctrl-C no row of the frame remains."""
    seconds = unique_seconds()
    command = f"echo working on it; sleep {seconds}"
    end = typed(pane, tmp_path, f"--parallel 30 --grace 0.5 --hosts {','.join(names)}", command)
    wait_living(f"sleep {seconds}", 30, seconds=40)
    pane.wait_until(
        lambda: "… 30 more" in pane.screen() or "… 31 more" in pane.screen(), "the others are counted"
    )
    pane.wait_until(lambda: pane.screen().count("working on it") >= 20, "lines of those that run")
    shown = pane.screen()
    assert re.search(r"h00 +running +[\d.]+ s +working on it", shown)
    assert re.search(r"… 3\d more .*running.*waiting", shown)
    assert "0/50" in shown
    assert "before" in shown
    pane.resize(50, 12)
    pane.wait_until(lambda: "… 4" in pane.screen() and "0/50" in pane.screen(), "a smaller frame")
    pane.wait_until(lambda: pane.screen().count("0/50") == 1, "one frame alone")
    pane.resize(100, 40)
    pane.wait_until(lambda: pane.screen().count("working on it") >= 30, "all that run")
    pane.press("C-c")
    after = pane.wait(f"{end}130")
    assert living(seconds) == []
    assert "0/50" not in after
    assert not re.search(r"h00 +running", after), "the echoed ^C made a row more"
    assert "(30 hosts): stopped" in " ".join(after.split())
    assert "20 hosts): not started" in " ".join(after.split())
    assert "50 hosts: 0 done, 30 failed, 20 not started" in " ".join(after.split())


def test_equal_outputs_are_folded_at_the_end(pane: tmux.Pane, names: list[str], tmp_path: Path) -> None:
    end = typed(pane, tmp_path, f"--hosts {','.join(names[:5])},closed", "echo uno; printf due")
    shown = pane.wait(f"{end}1")
    assert re.search(r"(h0\d, ){4}h0\d \(5 hosts\): exit code 0\nuno\ndue\nclosed: no answer", shown)
    assert re.search(r"6 hosts: 5 done, 1 failed; [\d.]+ s\nend-", shown)
    assert shown.count("uno") == 1
    assert "━" not in shown


def test_ctrl_z_suspends_the_fleet_until_fg(pane: tmux.Pane, names: list[str], tmp_path: Path) -> None:
    """Text that the shell prints meanwhile stays."""
    pane.type("exec bash --norc -i")
    pane.press("Enter")
    pane.wait("bash-")
    gate = tmp_path / "gate"
    command = f"\"$PYTHON\" -m anyshell fleet --hosts {names[0]},{names[1]} -- 'until [ -e {gate} ]; do sleep 0.1; done'"
    (tmp_path / "fleet").write_text(command + "\n")
    pane.type("clear; . ./fleet; echo left=$?")
    pane.press("Enter")
    pane.wait_until(lambda: pane.screen().count("running") == 2, "both run")
    pane.press("C-z")
    pane.wait("Stopped")
    pane.type("echo the shell; fg")
    pane.press("Enter")
    pane.wait_until(lambda: pane.screen().count("running") == 4, "a frame below")
    shown = pane.screen()
    assert shown.index("Stopped") < shown.index("\nthe shell\n") < shown.rindex("running")
    gate.touch()
    shown = pane.wait("2 hosts: 2 done")
    assert shown.count("running") == 2  # the frame at the time of Ctrl-Z
    assert "\nthe shell\n" in shown


def test_colour_and_cursor_movement_are_left_out_on_request(
    pane: tmux.Pane, names: list[str], tmp_path: Path
) -> None:
    options = f"--hosts {names[0]}"
    end = typed(pane, tmp_path, options, "echo hi")
    pane.wait(f"{end}0")
    assert re.search(COLOUR, pane.screen(colours=True))
    end = typed(pane, tmp_path, options, "echo hi; sleep 3", "NO_COLOR=1")
    pane.wait("running")
    assert not re.search(COLOUR, pane.screen(colours=True))
    pane.wait(f"{end}0")
    assert not re.search(COLOUR, pane.screen(colours=True))
    for variables, more in (("TERM=dumb", ""), ("", "--quiet")):
        end = typed(pane, tmp_path, f"{more} {options}", "echo hi", variables)
        assert f"{names[0]}: hi\n" in pane.wait(f"{end}0")


def test_escape_sequences_of_a_host_do_not_reach_the_terminal(
    pane: tmux.Pane, names: list[str], tmp_path: Path
) -> None:
    end = typed(
        pane,
        tmp_path,
        f"--hosts {names[0]}",
        r"printf \"\\033]0;title\\007\\033[41mred\\033[m\\033[2J\"; sleep 3",
    )
    pane.wait("running")
    pane.wait("red")
    pane.wait(f"{end}0")
    assert "\x1b[41m" not in pane.screen(colours=True)
    assert "before" in pane.screen()


# --- frames ---------------------------------------------------------------------------------------------------


class _Run:
    """The attributes of a run that are drawn."""

    def __init__(self, *hosts: HostProgress) -> None:
        self.hosts = hosts


def host(name: str, state: str, output: bytes = b"") -> HostProgress:
    made = HostProgress(name)
    made._state = state  # type: ignore[assignment]  # one of them
    made._began, made._ended = 1.0, 3.5
    made._hear(output)
    return made


def drawn(roster: Roster, columns: int, rows: int, screen: TerminalOutput | None = None) -> list[str]:
    """The rows of a terminal after a frame, without trailing blank rows."""
    screen = screen or TerminalOutput(Terminal(columns=columns, rows=rows))
    screen.feed(roster.frame(columns, rows).replace(b"\n", b"\r\n"))
    found = [row.rstrip() for row in screen.screen.rows]
    while found and not found[-1]:
        found.pop()
    return found


def test_frame_fits_the_terminal() -> None:
    run = _Run(
        host("web-1", "running", "名".encode() * 200),
        host("a-very-long-name-of-a-host.example.org", "failed", b"bad\tthing\x1b[31m\n"),
        *(host(f"h{number}", "waiting") for number in range(40)),
    )
    for columns, rows in ((80, 24), (30, 8), (12, 4), (200, 60)):
        roster = Roster(run, None, 1)  # type: ignore[arg-type]  # nothing is written
        screen = TerminalOutput(Terminal(columns=columns, rows=rows))
        first = drawn(roster, columns, rows, screen)
        assert len(first) < rows
        assert drawn(roster, columns, rows, screen) == first, "a frame does not cover the one before"
        assert first[-1].endswith("1/42, 1 failed") or columns < 20
        screen.feed(b"^C^C")  # the terminal echoes keys at the cursor
        assert drawn(roster, columns, rows, screen) == first, "an echo moves the frame"
    shown = drawn(Roster(run, None, 1), 100, 50)  # type: ignore[arg-type]  # as above
    assert re.match(r"web-1 +running +2\.5 s +名+ ?…", shown[0])
    assert re.match(r"a-very-long-name-of-a-host\.e… +failed +2\.5 s +bad\\tthing", shown[1])


def test_running_hosts_are_shown_before_hosts_that_are_counted() -> None:
    hosts = [host(f"d{number}", "done") for number in range(5)]
    hosts += [host("slow", "running"), host("bad", "failed"), host("new", "connecting"), host("w", "waiting")]
    shown, rest = chosen(hosts, 4)
    assert [each.host for each in shown] == ["slow", "bad", "new"]
    assert rest == {"done": 5, "waiting": 1}
    assert chosen(hosts, 9) == (hosts, {})


def test_summary_shows_markup_literally_and_escapes_controls() -> None:
    folding = Folding(["a", "b", "c", "d\x1b[2J"], timeout=None, shows_output=True)
    outcome = Outcome(
        status="exited", exit_code=0, output=Output(text="[bold]not markup[/]\x1b[2J :smile:\n")
    )
    for name in ("c", "a", "b"):
        folding.add(HostOutcome(host=name, state="done", outcome=outcome), b"same")
    folding.add(HostOutcome(host="d\x1b[2J", state="not_started"), b"")
    text = paint(folding.groups(), folding.total(1.0)).decode()
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert plain == (
        "a, b, c (3 hosts): exit code 0\n[bold]not markup[/]\\x1b[2J :smile:\nd\\x1b[2J: not started\n"
        "4 hosts: 3 done, 1 not started; 1.0 s\n"
    )


def test_hosts_with_one_cause_of_failure_share_a_line() -> None:
    def refused(place: str) -> ConnectionFailed:
        return ConnectionFailed(f"no answer at {place}: Connection refused; check the port")

    def untrusted(name: str, fingerprint: str) -> HostKeyUntrusted:
        return HostKeyUntrusted(
            "many words",
            host=name,
            key_type="ssh-ed25519",
            fingerprint=fingerprint,
            line="a line",
            known_hosts="/known",
        )

    errors: dict[str, Exception] = {
        "web-1": refused("web-1 (10.0.0.1 port 22)"),
        "me@web-2": refused("web-2 (10.0.0.2 port 22)"),
        "ssh://me@10.0.0.3:22": refused("10.0.0.3 port 22"),
        "db-1": ConnectionFailed("'db-1' has no address (why)", stage="address"),
        "db-2": ConnectionFailed("'db-2.lan' has no address (why)", stage="address"),
        "new-1": untrusted("new-1", "SHA256:one"),
        "new-2": untrusted("new-2", "SHA256:two"),
    }

    def heads(*names: str) -> list[str]:
        folding = Folding(names, timeout=None, shows_output=False)
        for name in names:
            folding.add(HostOutcome(host=name, state="failed", error=errors[name]), b"")
        return [group.head for group in folding.groups()]

    assert heads(*errors) == [
        "web-1, me@web-2, ssh://me@10.0.0.3:22 (3 hosts): no answer: Connection refused; check the port",
        "db-1, db-2: no address (why)",
        "new-1, new-2: its key is not trusted; 'anyshell doctor --host HOST' says what to do",
    ]
    assert heads("web-1") == ["web-1: no answer at 10.0.0.1 port 22: Connection refused; check the port"]
    assert heads("db-2") == ["db-2: 'db-2.lan' has no address (why)"]  # the address that ~/.ssh/config gives
    assert heads("new-1") == [
        "new-1: its key is not trusted (ssh-ed25519 SHA256:one); 'anyshell doctor --host new-1' says what to do"
    ]


def test_end_of_a_host_is_described_in_words() -> None:
    def said(**fields: Any) -> str:
        return describe(HostOutcome(host="a", state="failed", outcome=Outcome(**fields)), 5)

    alive = (ProcessInfo(7, "sleep", 1.0), ProcessInfo(8, "sh", 1.0, alive=False))
    assert said(status="timed_out") == "timed out after 5 s"
    assert said(status="exited", signal="SIGKILL") == "ended by SIGKILL"
    assert said(status="cancelled", started=False) == "stopped before it was started"
    assert said(status="lost", started=None) == "lost: it may have run"
    assert said(status="lost", left_behind=alive).endswith("; may still run there: sleep (pid 7)")
    left = said(status="exited", exit_code=0, left_behind=alive)
    assert left == "exit code 0; left: sleep (pid 7); left behind, and stopped: sh"
    error = HostOutcome(host="a", state="failed", error=RuntimeError("a\nb"))
    assert describe(error, None) == "a b"


def test_piped_fleet_imports_no_drawing_library() -> None:
    program = (
        "import sys\nfrom anyshell.cli import main\n"
        "main(['fleet', '--hosts', 'local', '--', 'true'], standalone_mode=False)\n"
        "print([name for name in ('rich', 'textual', 'asyncssh') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.stdout == "[]\n", done.stderr
