"""Real SSH servers on loopback, started and stopped by the tests: Debian's OpenSSH, and asyncssh's own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import asyncssh
import psutil

from anyshell.backends.ssh.connection.options import SSHOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:" + os.environ.get("PATH", ""))

HOST = "127.0.0.1"

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "") + os.environ.get("PYTEST_XDIST_TESTRUNUID", "")[:4]
"""The suffix of user names, so that each worker of pytest-xdist has its own users, and each of two concurrent runs."""


@dataclass
class Server:
    """A running server, and the files that a client needs."""

    directory: Path
    port: int
    user: str
    pid: int = 0
    address: str = HOST
    command: tuple[str, ...] = ()

    @property
    def key(self) -> Path:
        """The client's private key."""
        return self.directory / "client_key"

    @property
    def known_hosts(self) -> Path:
        """A file with the server's key."""
        return self.directory / "known_hosts"

    @property
    def host_key(self) -> Path:
        """The server's private key."""
        return self.directory / "host_key"

    def restart(self) -> None:
        """Start the server again at the same port after a kill."""
        (self.directory / "pid").unlink(missing_ok=True)
        subprocess.run(self.command, check=True, stdin=subprocess.DEVNULL)
        self.pid = _read_pid(self.directory / "pid")

    @property
    def log(self) -> str:
        """The log of the server."""
        return (self.directory / "log").read_text(errors="replace")

    def options(self, **more: Any) -> SSHOptions:
        """Options that reach the server, without the configuration of the machine."""
        given = {
            "host": self.address,
            "port": self.port,
            "user": self.user,
            "keys": [self.key],
            "known_hosts": self.known_hosts,
            "config": "",
            "agent": False,
            **more,
        }
        return SSHOptions(**given)

    def config(self, alias: str = "testhost", more: str = "") -> Path:
        """Write a client's configuration with a name for the server."""
        path = self.directory / f"config-{alias}"
        path.write_text(
            f"Host {alias}\n  HostName {HOST}\n  Port {self.port}\n  User {self.user}\n"
            f"  IdentityFile {self.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n{more}\n"
        )
        path.chmod(0o600)
        return path


def is_root() -> bool:
    """Whether the tests run as root."""
    return sys.platform != "win32" and os.geteuid() == 0


def own_name() -> str:
    """The user who runs the tests."""
    return psutil.Process().username()


def home(user: str) -> Path:
    """The home of a user; not an absolute path if no user has that name."""
    return Path(f"~{user}").expanduser() if os.path.expanduser(f"~{user}") != f"~{user}" else Path(user)


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def wait_open(port: int, address: str = HOST) -> None:
    """Wait until a port has a listener."""
    give_up = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        assert time.monotonic() < give_up, "the server never listened"
        time.sleep(0.02)


def _keys(directory: Path, port: int, address: str = HOST) -> None:
    for name in ("client_key", "host_key"):
        if not (directory / name).exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            key.write_private_key(directory / name)
            key.write_public_key(directory / f"{name}.pub")
            (directory / name).chmod(0o600)
    public = (directory / "host_key.pub").read_text()
    (directory / "known_hosts").write_text(f"[{address}]:{port} {public}")


def directories(user: str) -> set[Path]:
    """The directories of sessions that a user has on this machine as a host."""
    found = set()
    for path in Path("/tmp").glob("anyshell-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == home(user).stat().st_uid and "sshd" not in path.name:
                found.add(path)
    return found


async def wait_removed(user: str, before: set[Path]) -> None:
    """Wait until the directories of a user's later sessions are removed."""
    with anyio.fail_after(30):
        while directories(user) - before:
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="anyshell-sshd-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def openssh(
    user: str,
    more: str = "",
    port: int | None = None,
    *,
    address: str = HOST,
    through: tuple[str, ...] = (),
    variables: str = "",
) -> Iterator[Server]:
    """OpenSSH's server with its default limits, which accepts one client key.

    The server becomes a daemon, so that it does not count among the children of a test.

    Args:
        user: The user who logs in.
        more: Lines of sshd_config, placed first, because the first value of a keyword counts.
        port: The port to listen at; by default a free port.
        address: The same.
        through: A program with arguments that starts the server.
        variables: Variables of every login, as ``NAME=VALUE`` words.
    """
    assert SSHD is not None
    with _place() as directory:
        port = port or free_port()
        _keys(directory, port, address)
        (directory / "authorized_keys").write_text((directory / "client_key.pub").read_text())
        pid_file = directory / "pid"
        (directory / "sshd_config").write_text(
            f"{more}\nPort {port}\nListenAddress {address}\nHostKey {directory}/host_key\nPidFile {pid_file}\n"
            f"AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\n"
            # PAM takes a fifth of the cost of a connection, and decides nothing here.
            f"UsePAM {'yes' if _is_locked(user) else 'no'}\n"
            # So are root's startup files: Debian's bash reads them below sshd, but only at the first shell level.
            f"{variables and 'SetEnv ' + variables}\nMatch User root\n  SetEnv SHLVL=2 {variables}\n"
        )
        if is_root():
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        command = (*through, SSHD, "-f", str(directory / "sshd_config"), "-E", str(directory / "log"))
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        try:
            wait_open(port, address)
            yield Server(directory, port, user, _read_pid(pid_file), address, command)
        finally:
            _end(_read_pid(pid_file))


def _is_locked(user: str) -> bool:
    """Whether a user can log in by a key only with PAM."""
    return is_root() and f"\n{user}:!" in f"\n{Path('/etc/shadow').read_text()}"


def _read_pid(path: Path) -> int:
    give_up = time.monotonic() + 20
    while not (path.exists() and (text := path.read_text())):
        assert time.monotonic() < give_up, "the server never wrote its pid"
        time.sleep(0.01)
    return int(text)


def sessions(pid: int) -> list[int]:
    """The processes of a server's connections."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True) if child.name() == "sshd"]
    return []


def _end(pid: int) -> None:
    """End a server and its connections, but never the commands in these connections: the tests examine those."""
    for each in (*sessions(pid), pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(each)
            process.resume()
            process.terminate() if each == pid else process.kill()


@contextlib.contextmanager
def embedded(*arguments: str, module: str = "tests.asyncssh_server") -> Iterator[Server]:
    """asyncssh's own server in a process of its own; it runs commands as the user of the tests."""
    with _place() as directory:
        port = free_port()
        _keys(directory, port)
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, str(directory), str(port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=Path(__file__).parents[1],
            )
        try:
            wait_open(port)
            yield Server(directory, port, own_name(), process.pid)
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def accounts(*, change: bool = False) -> Iterator[None]:
    """Keep other tests from adding or removing an account meanwhile: that replaces the files of all accounts, which a reach may hide.

    Args:
        change: Whether the caller changes accounts: only one caller may do so at a time.
    """
    if sys.platform == "win32" or not is_root():
        yield
        return
    import fcntl

    with open("/run/anyshell-tests-accounts", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if change else fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def account(name: str, shell: str) -> Iterator[str]:
    """An ordinary user with a login shell, added by root for the tests and removed afterwards."""
    made = not home(name).is_absolute()
    if made:
        with accounts(change=True):
            subprocess.run(
                ["useradd", "--create-home", "--shell", shell, "--password", "*", name], check=True
            )
    try:
        yield name
    finally:
        if made:
            with accounts(change=True):
                subprocess.run(["userdel", "--force", "--remove", name], check=False, capture_output=True)


@contextlib.contextmanager
def ordinary_user() -> Iterator[str]:
    """An ordinary user who can log in: the user of the tests, or a user that root adds for the tests."""
    if not is_root():
        yield own_name()
        return
    with account(f"anyshell-user{WORKER}", "/bin/bash") as name:
        yield name


@contextlib.contextmanager
def startup_file(server: Server, name: str, text: str) -> Iterator[None]:
    """Put a startup file into the home of a server's user temporarily."""
    path = home(server.user) / name
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


class Link:
    """A TCP proxy before a server, which delays bytes, and can hold back the answers of the server.

    Args:
        server: The server behind the proxy.
        delay: Seconds that bytes need each way.
        others: Ports of servers with the same key; connections alternate between all servers.
    """

    def __init__(self, server: Server, *, delay: float = 0.0, others: Sequence[int] = ()) -> None:
        self._server = server
        self._ports = itertools.cycle((server.port, *others))
        self._delay = delay
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.deaf = False
        """Whether later answers of the server never arrive."""

    async def __aenter__(self) -> Link:
        self._listening = await asyncio.start_server(self._join, HOST)
        self.port: int = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def options(self, **more: Any) -> SSHOptions:
        """Options that reach the server through the proxy."""
        known = self._server.directory / f"known_hosts-{self.port}"
        known.write_text(f"[{HOST}]:{self.port} {(self._server.directory / 'host_key.pub').read_text()}")
        return self._server.options(port=self.port, known_hosts=known, **more)

    async def _join(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection(HOST, next(self._ports))
        self._writers |= {to_near, to_far}
        for source, target, back in ((near, to_far, False), (far, to_near, True)):
            task = asyncio.create_task(self._carry(source, target, back=back))
            self._tasks.add(task)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, back: bool) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not (back and self.deaf):
                    loop.call_later(self._delay, target.write, data)
        loop.call_later(self._delay, target.close)
