"""The program on another host: ``--host``, questions to a person during the connection, and the steps of the doctor."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import psutil
import pytest

from anyshell.cli.host.person import _harmless
from anyshell.tool.unconfined import NO_SANDBOX

from .cli_program import anyshell, read_line, start, wait_until, wait_written, within
from .conftest import bubblewrap, missing
from .processes import living, unique_seconds, wait_living
from .ssh_server import HOST, SSHD, WORKER, Server, account, embedded, free_port, openssh, sessions, wait_open
from .test_cli import completed

assert sys.platform != "win32"  # on other systems mypy skips the code below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without keys, configuration, agent or known hosts."""
    path = tmp_path / "home"
    (path / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return path


@pytest.fixture
def server(ssh_host: Callable[[str], Server]) -> Server:
    """asyncssh's server, which runs commands as the user of the tests."""
    return ssh_host("asyncssh")


@pytest.fixture
def web(server: Server, home: Path) -> str:
    """An alias of the server, whose key is known."""
    return named(server, home)


def named(server: Server, home: Path, more: str = "", alias: str = "web") -> str:
    """Give a server an alias in the configuration."""
    config = home / ".ssh" / "config"
    text = config.read_text() if config.exists() else ""
    config.write_text(text + server.config(alias, more).read_text())
    config.chmod(0o600)
    return alias


def address(server: Server) -> str:
    """The address of a server whose key is not known."""
    return f"ssh://{server.user}@{HOST}:{server.port}"


def test_undo_reverts_changes_on_the_host(home: Path, tmp_path: Path) -> None:
    require_openssh()
    with openssh(ME, variables=f"HOME={tmp_path}") as server:
        take_back(named(server, home), tmp_path)
    assert (tmp_path / ".local/state/anyshell/checkpoints").is_dir()


def take_back(web: str, tmp_path: Path) -> None:
    """Undo a command on a host, and check the result."""
    (tmp_path / "tree").mkdir()
    kept = tmp_path / "tree" / "kept"
    kept.write_text("a\n")
    there = ("--host", web, "--cwd", str(tmp_path / "tree"))
    nothing = anyshell("undo", *there, "--yes")
    assert (nothing.returncode, b"nothing to undo" in nothing.stderr) == (1, True)
    done = anyshell("run", *there, "--checkpoint", "--", "echo b >> kept; echo x > made; exit 3")
    assert done.returncode == 3
    assert len(anyshell("undo", *there, "--list").stdout.splitlines()) == 2
    undone = anyshell("undo", *there, "--yes")
    assert (undone.returncode, undone.stderr.splitlines()[:4]) == (
        0,
        [
            b"anyshell: the command made, changed or removed: kept",
            b"anyshell: the command made, changed or removed: made",
            b"anyshell: as before: kept",
            b"anyshell: removed: made",
        ],
    )
    assert [path.read_text() for path in (tmp_path / "tree").iterdir()] == ["a\n"]
    assert anyshell("run", *there, "--checkpoint", "--", 'rm -r "$PWD"').returncode == 0
    assert anyshell("undo", *there, "--yes").returncode == 0
    assert kept.read_text() == "a\n"


# --- commands on a host ---------------------------------------------------------------------------------------


def test_a_command_runs_on_the_host(web: str, home: Path) -> None:
    done = anyshell("run", "--host", web, "--", "pwd; echo err >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, b"err\n")
    assert done.stdout.decode().strip() != str(home)  # the home directory of this process, not of the account


def test_local_is_this_machine(tmp_path: Path) -> None:
    done = anyshell("run", "--host", "local", "--", "pwd", cwd=tmp_path)
    assert done.stdout.decode() == f"{tmp_path}\n"


def test_arguments_variables_and_the_directory_reach_the_host(web: str, tmp_path: Path) -> None:
    words = ["two words", "it's", "$HOME", "a\nb", "", "ü"]
    done = anyshell(
        "run", "--host", web, "--cwd", str(tmp_path), "--env", "A=x=y",
        "--", "sh", "-c", 'printf "%s\\0" "$PWD" "$A" "$@"', "sh", *words,
    )  # fmt: skip
    assert done.stdout.decode().split("\0")[:-1] == [str(tmp_path), "x=y", *words]


def test_commands_run_in_the_directory_of_the_address(server: Server, home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    (home / ".ssh" / "id_ed25519").write_bytes(server.key.read_bytes())
    (home / ".ssh" / "id_ed25519").chmod(0o600)
    done = anyshell("run", "--host", f"{address(server)}{tmp_path}", "--", "pwd")
    assert (done.stdout.decode(), done.stderr) == (f"{tmp_path}\n", b"")


def test_stdin_passes_through(web: str) -> None:
    data = os.urandom(300_000)
    done = anyshell("run", "--host", web, "--", "cat", input=data)
    assert (done.returncode, done.stdout) == (0, data)


def test_a_file_as_stdin_passes_through(web: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc\n")
    with (tmp_path / "in").open("rb") as file:
        assert anyshell("run", "--host", web, "--", "cat", stdin=file).stdout == b"abc\n"


def test_timeout_exits_with_124(web: str) -> None:
    done = anyshell("run", "--host", web, "--timeout", "3", "--grace", "0.3", "--", "sleep 300")
    assert done.returncode == 124
    assert b"timed out" in done.stderr


def test_json_has_the_exit_code(web: str) -> None:
    done = anyshell("run", "--host", web, "--json", "--", "echo a; exit 7")
    assert done.returncode == 7
    assert json.loads(done.stdout)["exit_code"] == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_tree_on_the_host(web: str, number: signal.Signals) -> None:
    seconds = unique_seconds()
    command = f"setsid sleep {seconds} & sleep {seconds} & echo ready; wait"
    with start("run", "--host", web, "--grace", "0.3", "--", command, stderr=subprocess.PIPE) as program:
        assert read_line(program.stdout) == "ready"
        wait_living(f"sleep {seconds}", 2)
        program.send_signal(number)
        _, said = program.communicate(timeout=20)
        assert (program.returncode, said) == (128 + number, b"")
        assert living(seconds) == []


def test_detect_describes_the_host(web: str, home: Path) -> None:
    facts = json.loads(anyshell("detect", "--host", web, "--json").stdout)
    assert facts["is_this_machine"] is False
    assert facts["home"] != str(home)
    assert facts["directory"] == facts["home"]
    text = within("detect", "--host", web).stdout.decode()
    assert re.search(rf"^host +\S+ \({web}\)$", text, re.MULTILINE)
    assert facts["home"] in within("describe", "--host", web).stdout.decode()
    assert facts["home"] in within("schema", "--host", web).stdout.decode()


def test_a_call_runs_on_the_host(web: str) -> None:
    facts = json.loads(within("detect", "--host", web, "--json").stdout)
    done = anyshell("call", "--host", web, "--approve-all", '{"command": "pwd"}')
    assert done.returncode == 0
    assert done.stderr.startswith(f"anyshell: {NO_SANDBOX}".encode())
    assert done.stderr.count(b"\n") == 1
    assert json.loads(done.stdout)["output"] == facts["home"] + "\n"


def test_missing_directory_of_the_host_is_reported(web: str) -> None:
    done = anyshell("run", "--host", web, "--cwd", "/nowhere/at all", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"/nowhere/at all" in done.stderr


@pytest.mark.parametrize("command", [["run", "true"], ["detect"], ["describe"], ["call", "{}"], ["doctor"]])
@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=true", "web:22", "ssh://me:s3cret@web", "ssh://web:0", "a b"]
)
def test_a_malformed_address_is_wrong_usage(command: list[str], host: str) -> None:
    done = within(command[0], f"--host={host}", *command[1:])
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    assert b"s3cret" not in done.stderr


def test_unsupported_address_is_wrong_usage() -> None:
    for command in (["run", "--host", "docker://x", "true"], ["doctor", "--host", "docker://x"]):
        done = within(*command)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"no backend knows 'docker'" in done.stderr


def test_run_without_a_host_does_not_import_ssh() -> None:
    code = (
        "import sys\nfrom anyshell.cli import main\n"
        "main(['run', 'true'], standalone_mode=False)\nprint('asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- what goes wrong on the way -------------------------------------------------------------------------------


def failed(*arguments: str, **how: object) -> str:
    """The single line that a failure prints."""
    done = anyshell(*arguments, start_new_session=True, **how)
    assert (done.returncode, done.stdout) == (125, b"")
    text = done.stderr.decode()
    assert text.startswith("anyshell: ")
    assert text.count("\n") == 1
    return text


def test_unreachable_host_is_reported() -> None:
    text = failed("run", "--host", f"ssh://me@{HOST}:{free_port()}", "true")
    assert "no answer" in text
    assert "check" in text


def test_unresolvable_host_name_is_reported(home: Path) -> None:
    assert "no address" in failed("detect", "--host", "me@nowhere.invalid")
    (home / ".ssh" / "config").write_text("Host nowhere-1.invalid\n  User me\n")
    said = failed("detect", "--host", "nowhere-2.invalid")
    assert "did you mean 'nowhere-1.invalid'?" in said
    # The given name is the configured alias itself.
    assert "did you mean" not in failed("detect", "--host", "nowhere-1.invalid")


def test_unknown_key_without_a_terminal_is_refused_with_advice(server: Server, home: Path) -> None:
    text = failed("run", "--host", address(server), "true")
    assert "SHA256:" in text
    assert f"append this line to {home}/.ssh/known_hosts" in text
    assert not (home / ".ssh" / "known_hosts").exists()


def test_refused_login_is_reported(server: Server, home: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text(server.known_hosts.read_text())
    assert "the login of" in failed("run", "--host", address(server), "true")


def test_invalid_configuration_is_reported(home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host web\n  Port many\n")
    (home / ".ssh" / "config").chmod(0o600)
    assert "line 2" in failed("run", "--host", "web", "true")


@contextlib.contextmanager
def silent_listener() -> Iterator[tuple[int, socket.socket]]:
    """A server that accepts a connection and sends no data."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1], listener


@pytest.mark.parametrize(
    "command", ["run --host {} true", "detect --host {}", "doctor --host {}", "cp {}/a b"]
)
def test_ctrl_c_while_connecting_ends_at_once(command: str) -> None:
    with contextlib.ExitStack() as stack:
        port, listener = stack.enter_context(silent_listener())
        words = command.format(f"ssh://me@{HOST}:{port}").split()
        program = stack.enter_context(start(*words, stderr=subprocess.PIPE))
        listener.settimeout(20)
        for _ in range(2 if "doctor" in words else 1):  # the doctor checks the port first
            stack.enter_context(listener.accept()[0])
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=20) == (b"", b"")
        assert program.returncode == 130


def test_ctrl_c_while_a_name_is_looked_up_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "def getaddrinfo(*arguments, **more):\n"
        f"    print('here', file=open({str(tmp_path / 'here')!r}, 'w'), flush=True)\n"
        "    time.sleep(300)\n"
        "socket.getaddrinfo = getaddrinfo\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    with start("run", "--host", "me@web", "true", env=env, stderr=subprocess.PIPE) as program:
        wait_written(tmp_path / "here")
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=20)
    assert (program.returncode, said) == (130, b"")


def test_lost_connection_exits_with_255(home: Path) -> None:
    with embedded() as server:
        web = named(server, home, "  ConnectTimeout 1")
        seconds = unique_seconds()
        with start("run", "--host", web, "--", f"echo a; sleep {seconds}", stderr=subprocess.PIPE) as program:
            assert read_line(program.stdout) == "a"
            os.kill(server.pid, signal.SIGKILL)
            _, said = program.communicate(timeout=50)
            assert program.returncode == 255
            assert said.startswith(b"anyshell: lost: the connection to web broke")
            assert b"Traceback" not in said
        for line in living(seconds):
            os.kill(int(line.split()[0]), signal.SIGKILL)


def test_command_of_a_broken_connection_is_stopped_on_the_host(home: Path) -> None:
    require_openssh()
    seconds = unique_seconds()
    with openssh(ME) as server:
        web = named(server, home)
        with start(
            "run", "--host", web, "--", f"echo a; sleep {seconds}; :", stderr=subprocess.PIPE
        ) as program:
            assert read_line(program.stdout) == "a"
            for pid in sessions(server.pid):
                os.kill(pid, signal.SIGKILL)
            _, said = program.communicate(timeout=50)
        assert program.returncode == 255
        assert said.startswith(b"anyshell: lost: the connection to web broke")
        if b"; what still ran there was stopped" not in said:
            # The machine was too busy for anyshell to confirm the stop: the host stops the command by itself.
            wait_until(lambda: living(seconds) == [], "the command is stopped")
        assert living(seconds) == []


# --- notices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["run", "true"],
        ["run", "--json", "true"],
        ["detect"],
        ["describe"],
        ["call", "--approve-all", '{"command": ":"}'],
    ],
    ids=" ".join,
)
def test_unheeded_settings_are_reported_once_on_stderr(
    command: list[str], server: Server, home: Path
) -> None:
    web = named(server, home, "  SetEnv A=b\n  RemoteCommand top")
    done = anyshell(command[0], "--host", web, *command[1:])
    assert done.returncode == 0
    lines = [line for line in done.stderr.decode().splitlines() if NO_SANDBOX not in line]
    assert len(lines) == 2
    assert all(line.startswith("anyshell: ") and "not heeded" in line for line in lines)


def test_unwritable_notice_of_a_host_changes_no_exit_code(server: Server, home: Path) -> None:
    web = named(server, home, "  SetEnv A=b")
    with open("/dev/full", "wb") as full:
        done = anyshell("run", "--host", web, "exit 3", stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 3


# --- what a person is asked -----------------------------------------------------------------------------------

SECRET = "s3cret-Word"
LOGIN_NAME = f"anyshell-asked{WORKER}"


_LIKE_A_SHELL = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    for name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGTSTP", "SIGTTOU"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
_, status = os.waitpid(child, 0)
os._exit(os.waitstatus_to_exitcode(status) % 256)
"""
"""Runs a program like a shell: in the foreground of a terminal, and not as session leader, because a leader cannot be suspended."""


class Terminal:
    """The program on its own terminal, and the person at that terminal."""

    def __init__(self, *words: str, stdin: Path | None = None, all_of_it: bool = False) -> None:
        leader, self._terminal = os.openpty()
        self._keyboard = leader
        self.shown = b""
        arguments = ["-m", "anyshell", *words]
        if stdin is not None:  # once the terminal is the controlling terminal
            code = "import os, sys; os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0); os.execv(sys.executable, sys.argv[2:])"
            arguments = ["-c", code, str(stdin), sys.executable, *arguments]
        self.program = subprocess.Popen(
            [sys.executable, "-c", _LIKE_A_SHELL, *arguments],
            stdin=self._terminal,
            stdout=self._terminal if all_of_it else subprocess.PIPE,
            stderr=self._terminal if all_of_it else subprocess.PIPE,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.kill()
        self.program.wait()
        for stream in (self.program.stdout, self.program.stderr):
            if stream is not None:
                stream.close()
        os.close(self._terminal)
        os.close(self._keyboard)

    @property
    def echoes(self) -> bool:
        """Whether the terminal echoes typed keys."""
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def asks(self, text: bytes) -> None:
        """Wait for a new question."""
        while text not in self.shown:
            self.shown += os.read(self._keyboard, 1000)
        self.shown = self.shown.partition(text)[2]

    def type(self, text: bytes) -> None:
        os.write(self._keyboard, text)

    def rest(self) -> bytes:
        """The rest of the output that the test has not examined, after the end of the program."""
        os.set_blocking(self._keyboard, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.shown += os.read(self._keyboard, 1000)
        return self.shown

    def ends(self) -> tuple[int, bytes, bytes]:
        """Wait for the end: the exit code, stdout and stderr."""
        output, said = self.program.communicate(timeout=30)
        return self.program.returncode, output, said


def test_an_unknown_key_is_asked_about(server: Server, home: Path) -> None:
    web = unknown(server, home)
    with Terminal("run", "--host", web, "--", "echo out") as terminal:
        terminal.asks(b"The authenticity of host")
        terminal.asks(b"ED25519 key fingerprint is SHA256:")
        terminal.asks(b"(yes/no/[fingerprint])")
        terminal.type(b"y\n")
        terminal.asks(b"Please type 'yes', 'no' or the fingerprint:")
        terminal.type(b"yes\n")
        code, output, said = terminal.ends()
    assert (code, output) == (0, b"out\n")
    assert re.fullmatch(rb"anyshell: The host key of .* was recorded in .*\n", said)
    assert anyshell("run", "--host", web, "true").stderr == b""


def test_quiet_option_hides_notices_of_the_host(server: Server, home: Path) -> None:
    web = named(server, home, "  SetEnv A=b")
    assert b"anyshell: SetEnv" in anyshell("run", "--host", web, "true").stderr
    assert anyshell("run", "--quiet", "--host", web, "true").stderr == b""


def test_fingerprint_accepts_the_key(server: Server, home: Path) -> None:
    shown = failed("run", "--host", unknown(server, home), "true")
    fingerprint = re.search(r"SHA256:[\w+/]+", shown)
    assert fingerprint is not None
    with Terminal("run", "--host", "web", "true") as terminal:
        terminal.asks(b"[fingerprint])")
        terminal.type(b"SHA256:AAAA\n")
        terminal.asks(b"Please type")
        terminal.type(fingerprint[0].encode() + b"\n")
        assert terminal.ends()[0] == 0


@pytest.mark.parametrize("typed", [b"no\n", b"\x04"])
def test_answer_no_refuses_the_host(server: Server, home: Path, typed: bytes) -> None:
    with Terminal("run", "--host", unknown(server, home), "true") as terminal:
        terminal.asks(b"[fingerprint])")
        terminal.type(typed)
        code, output, said = terminal.ends()
    assert (code, output) == (125, b"")
    assert b"its key was not accepted" in said


def unknown(server: Server, home: Path) -> str:
    """An alias of a server whose key is not known."""
    named(server, home)
    config = home / ".ssh" / "config"
    config.write_text(config.read_text().replace(str(server.known_hosts), str(home / "known_hosts")))
    return "web"


def test_question_does_not_read_stdin_of_the_command(server: Server, home: Path, tmp_path: Path) -> None:
    """stdin is a file for the command; the question goes to the terminal."""
    (tmp_path / "in").write_text("yes\n")
    web = unknown(server, home)
    with Terminal("run", "--host", web, "cat", stdin=tmp_path / "in") as terminal:
        terminal.asks(b"[fingerprint])")
        terminal.type(b"yes\n")
        assert terminal.ends()[:2] == (0, b"yes\n")


@pytest.fixture(scope="module")
def password_server() -> Iterator[Server]:
    """A server that asks for a password, by both methods, and a user with a password."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if os.geteuid() != 0:
        pytest.skip("only root can make a user with a password")
    with account(LOGIN_NAME, "/bin/sh") as user:
        subprocess.run(["chpasswd"], input=f"{user}:{SECRET}", text=True, check=True)
        with openssh(
            user, "UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes"
        ) as running:
            yield running


def by(method: str, server: Server, home: Path) -> str:
    return named(server, home, f"  PreferredAuthentications {method}\n  PubkeyAuthentication no")


METHODS = pytest.mark.parametrize("method", ["password", "keyboard-interactive"])


@METHODS
def test_a_password_is_asked_for_and_not_shown(method: str, password_server: Server, home: Path) -> None:
    with Terminal("run", "--host", by(method, password_server, home), "--", "echo out; id -un") as terminal:
        terminal.asks(b"assword: ")
        assert not terminal.echoes
        terminal.type(b"wrong\n")
        terminal.asks(b"assword: ")
        terminal.type(SECRET.encode() + b"\n")
        code, output, said = terminal.ends()
        assert terminal.echoes
        assert (code, output, said) == (0, f"out\n{LOGIN_NAME}\n".encode(), b"")
        assert SECRET.encode() not in terminal.shown


@METHODS
def test_ctrl_c_at_a_question_restores_the_terminal(method: str, password_server: Server, home: Path) -> None:
    with Terminal("run", "--host", by(method, password_server, home), "true") as terminal:
        terminal.asks(b"assword: ")
        assert not terminal.echoes
        terminal.type(b"\x03")
        assert terminal.ends() == (130, b"", b"")
        assert terminal.echoes


def test_password_is_not_asked_for_without_a_terminal(password_server: Server, home: Path) -> None:
    text = failed(
        "run", "--host", by("password", password_server, home), "true", input=SECRET.encode() + b"\n"
    )
    assert "the login of" in text


def test_the_doctor_asks_for_a_password_once(password_server: Server, home: Path) -> None:
    with Terminal("doctor", "--host", by("password", password_server, home), "--json") as terminal:
        terminal.asks(b"assword: ")
        terminal.type(SECRET.encode() + b"\n")
        code, output, _ = terminal.ends()
    assert code == 0
    assert json.loads(output)["usable"] is True


def test_doctor_asks_once_for_a_keyboard_interactive_login(password_server: Server, home: Path) -> None:
    """An accepted answer is not asked for again, and no wrong answer is tried: that would be a failed login."""
    web = by("keyboard-interactive", password_server, home)
    before = password_server.log.count("Failed")
    with Terminal("doctor", "--host", web, "--json") as terminal:
        terminal.asks(b"assword: ")
        terminal.type(SECRET.encode() + b"\n")
        code, output, _ = terminal.ends()
    assert code == 0
    (limits,) = (each for each in json.loads(output)["findings"] if each["name"] == "limits")
    assert limits["verdict"] == "ok"
    assert password_server.log.count("Failed") == before


def test_a_passphrase_is_asked_for(server: Server, home: Path) -> None:
    web = named(server, home)
    key = asyncssh.read_private_key(server.key)
    (home / "locked").write_bytes(key.export_private_key("pkcs8-pem", passphrase=SECRET))
    (home / "locked").chmod(0o600)
    config = home / ".ssh" / "config"
    config.write_text(config.read_text().replace(str(server.key), str(home / "locked")))
    with Terminal("run", "--host", web, "--", "echo out") as terminal:
        terminal.asks(b"Passphrase of the key " + os.fsencode(home / "locked") + b": ")
        assert not terminal.echoes
        terminal.type(SECRET.encode() + b"\n")
        assert terminal.ends() == (0, b"out\n", b"")


def test_suspended_question_hides_input_again(password_server: Server, home: Path) -> None:
    """Ctrl-Z restores the terminal for the shell that has started the program."""
    with Terminal("run", "--host", by("password", password_server, home), "--", "echo out") as terminal:
        terminal.asks(b"assword: ")
        terminal.type(b"\x1a")
        (program,) = psutil.Process(terminal.program.pid).children()
        wait_until(lambda: program.status() == psutil.STATUS_STOPPED, "Ctrl-Z stops it")
        assert terminal.echoes
        program.resume()
        terminal.asks(b"assword: ")
        assert not terminal.echoes
        terminal.type(SECRET.encode() + b"\n")
        assert terminal.ends() == (0, b"out\n", b"")


_TWO_QUESTIONS = """
import asyncio, sys
import asyncssh
from tests.asyncssh_server import serve

class Asks(asyncssh.SSHServer):
    def kbdint_auth_supported(self):
        return True
    def get_kbdint_challenge(self, username, lang, submethods):
        return "", "Two things\\x1b[2J.", "", [("Word: ", True), ("Code: ", False)]
    def validate_kbdint_response(self, username, responses):
        return list(responses) == ["one", "two"]

async def main():
    server = await asyncssh.listen(
        "127.0.0.1", int(sys.argv[2]), server_factory=Asks, server_host_keys=[sys.argv[1]], process_factory=serve,
        encoding=None,
    )
    await server.wait_closed()

asyncio.run(main())
"""


def test_questions_of_a_server_are_asked_in_order(server: Server, home: Path) -> None:
    """Several questions come with a second factor. Each question specifies whether the answer is echoed."""
    asking = replace(server, port=free_port())
    (home / "known_hosts").write_text(
        server.known_hosts.read_text().replace(str(server.port), str(asking.port))
    )
    config = home / ".ssh" / "config"
    named(asking, home, "  PreferredAuthentications keyboard-interactive")
    config.write_text(config.read_text().replace(str(server.known_hosts), str(home / "known_hosts")))
    program = subprocess.Popen(
        [sys.executable, "-c", _TWO_QUESTIONS, str(server.host_key), str(asking.port)],
        cwd=Path(__file__).parents[1],
    )
    try:
        wait_open(asking.port)
        with Terminal("run", "--host", "web", "--", "echo out") as terminal:
            terminal.asks(b"Two things\\x1b[2J.\r\nWord: ")
            assert terminal.echoes
            terminal.type(b"one\n")
            terminal.asks(b"Code: ")
            assert not terminal.echoes
            terminal.type(b"two\n")
            assert terminal.ends() == (0, b"out\n", b"")
    finally:
        program.kill()
        program.wait()


def test_text_of_a_server_cannot_control_the_terminal() -> None:
    assert _harmless("Code\x1b[2J\x07:\r\nsecond\u202e ") == "Code\\x1b[2J\\x07:\nsecond\\u202e "


# --- the doctor -----------------------------------------------------------------------------------------------

STEPS = ["name", "port", "key", "auth", "shell", "terminal", "sftp", "limits"]


def examined(host: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of the doctor, and its finding for each step."""
    done = anyshell("doctor", "--host", host, "--json", start_new_session=True)
    assert done.stderr == b""
    report = json.loads(done.stdout)
    steps = {each["name"]: each for each in report["findings"] if each["topic"] == "host"}
    assert list(steps) == STEPS
    for finding in report["findings"]:
        assert finding["verdict"] == "ok" or finding["advice"], finding
    assert report["usable"] is (done.returncode == 0)
    return done.returncode, steps


def assert_fails_at(step: str, host: str, *words: str) -> dict[str, str]:
    code, steps = examined(host)
    assert code == 1
    at = STEPS.index(step)
    verdicts = [steps[name]["verdict"] for name in STEPS]
    assert verdicts == ["ok"] * at + ["problem"] + ["skipped"] * (len(STEPS) - at - 1)
    for word in words:
        assert word in steps[step]["detail"]
    return steps[step]


def test_the_doctor_finds_a_usable_host_step_by_step(web: str) -> None:
    code, steps = examined(web)
    assert code == 0
    assert {each["verdict"] for each in steps.values()} == {"ok"}
    assert "SHA256:" in steps["key"]["detail"]
    done = anyshell("doctor", "--host", web)
    assert re.search(rb"^ok +limits +10 or more sessions", done.stdout, re.MULTILINE)
    assert re.search(rb"^(ok|missing) +sandbox ", done.stdout, re.MULTILINE)
    assert b"orphans" not in done.stdout
    assert b"ANYSHELL_STATE_DIR" not in done.stdout


def test_the_doctor_names_the_step_that_fails(server: Server, home: Path) -> None:
    assert_fails_at("name", "me@nowhere.invalid", "no address")
    assert_fails_at("port", f"ssh://me@{HOST}:{free_port()}", "no answer")
    row = assert_fails_at("key", address(server), "SHA256:")
    assert len(row["detail"]) < 120
    subprocess.run(["sh", "-c", row["command"]], check=True)  # the lines to paste
    assert_fails_at("auth", address(server), "the login of")


def test_doctor_reports_a_login_shell_without_commands(home: Path) -> None:
    require_openssh()
    with openssh(ME, 'ForceCommand echo "no commands here"') as server:
        assert_fails_at("shell", named(server, home), "runs no commands", "no commands here")


def test_doctor_reports_missing_sftp(home: Path) -> None:
    with embedded("no-sftp") as server:
        code, steps = examined(named(server, home))
    assert (code, steps["sftp"]["verdict"]) == (0, "missing")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_doctor_counts_available_sessions(home: Path, most: int) -> None:
    require_openssh()
    with openssh(ME, f"MaxSessions {most}") as server:
        code, steps = examined(named(server, home))
    assert code == 0
    assert f"{most} session" in steps["limits"]["detail"]
    assert steps["limits"]["verdict"] == ("problem" if most == 1 else "ok")


def test_doctor_counts_sessions_despite_a_slow_startup_file(home: Path, tmp_path: Path) -> None:
    """Sessions of an earlier step have ended before sessions are counted."""
    require_openssh()
    startup = tmp_path / "startup"
    startup.write_text(
        '#!/bin/sh\ncase "$SSH_ORIGINAL_COMMAND" in internal-sftp) exit;; esac\n'
        "trap '' HUP; sleep 3\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n"
    )
    startup.chmod(0o755)
    with openssh(ME, f"ForceCommand {startup}") as server:
        code, steps = examined(named(server, home))
    assert (code, steps["limits"]["detail"].partition(" sessions")[0]) == (0, "10 or more")


def require_openssh() -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")


# --- completion -----------------------------------------------------------------------------------------------

CONFIG = """
Host web-1 "web-2" *.example.com !bad  # not-this
host=db
  HostName web-9
Match host web-8
Include more/*.conf nowhere "unclosed
Host w?b
"""


def test_aliases_are_completed(home: Path) -> None:
    config = home / ".ssh" / "config"
    config.write_text(CONFIG)
    (home / ".ssh" / "more").mkdir()
    (home / ".ssh" / "more" / "a.conf").write_text("Host web-3\nInclude ~/.ssh/config\n")
    for command in ("run", "detect", "describe", "call", "doctor", "schema"):
        assert completed("bash", command, "--host", "web") == ["plain,web-1", "plain,web-2", "plain,web-3"]
    assert completed("bash", "run", "--host", "me@d") == ["plain,me@db"]
    assert completed("bash", "run", "--host=d") == ["plain,--host=db"]
    assert completed("bash", "run", "--host", "web-1", "--cwd", "/") == []
    assert completed("bash", "run", "--host", "local", "--cwd", "/") == ["dir,/"]
    assert completed("bash", "run", "--host", "web-1", "--", "ls", "s") == []
    assert completed("bash", "run", "--host", "web-1", "s") == []


@pytest.mark.parametrize("config", [None, b"\xff\0\nHost \xfe\n", b"Include [\nInclude *\nHost\n", b'Host "'])
def test_completion_never_fails(home: Path, config: bytes | None) -> None:
    path = home / ".ssh" / "config"
    if config is None:
        path.mkdir()
    else:
        path.write_bytes(config)
    assert completed("bash", "run", "--host", "web") == []


def test_trial_runs_on_the_host(web: str, tmp_path: Path) -> None:
    bubblewrap()
    (tmp_path / "tree").mkdir()
    tried = ("run", "--host", web, "--cwd", str(tmp_path / "tree"), "--trial")
    shown = anyshell(*tried, "--discard", "--", "echo new > a")
    assert b"\n+new\n" in shown.stderr
    assert not (tmp_path / "tree" / "a").exists()
    assert anyshell(*tried, "--commit", "--", "echo new > a; exit 3").returncode == 3
    assert (tmp_path / "tree" / "a").read_text() == "new\n"


# --- a program that is killed ---------------------------------------------------------------------------------

_HELLO = {"id": 1, "method": "hello", "params": {"version": 1}}
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def _to_rpc(command: str) -> list[object]:
    return [_HELLO, {"id": 2, "method": "run", "params": {"command": command}}]


def _to_mcp(command: str) -> list[object]:
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "shell", "arguments": {"command": command}},
        },
    ]


def sleeping(seconds: str) -> list[int]:
    lines = (line.partition(" ") for line in living(seconds))
    return [int(pid) for pid, _, words in lines if words == f"sleep {seconds}"]


@pytest.mark.skipif(sys.platform != "linux", reason="the watcher needs /proc")
@pytest.mark.parametrize("door", ["run", "rpc", "mcp"])
def test_killed_program_leaves_no_command_on_the_host(door: str, home: Path) -> None:
    """The watcher on the host stops the command, including processes outside its session and processes that ignore SIGTERM; a daemon lives on."""
    require_openssh()
    rules = home / "rules.toml"
    rules.write_text('preset = "trusted"\n')
    seconds, daemon = unique_seconds(), unique_seconds()
    command = home / "command"
    command.write_text(
        f"#!/bin/sh\n(trap '' TERM; sleep {seconds}) & setsid sleep {seconds} & sleep {seconds}; true\n"
    )
    command.chmod(0o755)
    words = {
        "run": ["--", str(command)],
        "rpc": [],
        "mcp": ["--cwd", str(home), "--policy", str(rules)],
    }[door]
    lines = {"run": [], "rpc": _to_rpc(str(command)), "mcp": _to_mcp("./command")}[door]
    with openssh(ME) as server:
        host = named(server, home)
        anyshell(
            "run", "--host", host, "--left-behind", "keep", "--", f"setsid sleep {daemon} >/dev/null 2>&1 &"
        )
        with subprocess.Popen(
            [sys.executable, "-m", "anyshell", door, "--host", host, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        ) as program:
            assert program.stdin is not None
            program.stdin.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            program.stdin.flush()
            wait_until(lambda: len(sleeping(seconds)) == 3, "the command's processes")
            program.kill()
        wait_until(lambda: not sleeping(seconds), "the end of the command's processes")
        (pid,) = sleeping(daemon)
        os.kill(pid, signal.SIGKILL)
