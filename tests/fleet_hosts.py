"""Many hosts on loopback, each a port with a real server or with a faulty substitute.

An OpenSSH process listens at up to sixteen ports, so fifty hosts are four processes. A command knows its host by
``SSH_CONNECTION``, whose last word is the server's port.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from .ssh_server import HOST, Server, free_port, is_root, openssh, own_name, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from anyshell import SSHOptions

PORTS = 16
"""The most ports of one OpenSSH server (sshd.c, MAX_LISTEN_SOCKS)."""

USER = "root" if is_root() else own_name()


@dataclass
class Hosts:
    """Ports of this machine, and the files that a client needs.

    Attributes:
        server: The server whose keys all hosts have.
        known_hosts: A file with the keys of the hosts.
        ports: The ports with a listening server.
    """

    server: Server
    known_hosts: Path
    ports: list[int] = field(default_factory=list)

    def options(self, port: int, **more: Any) -> SSHOptions:
        """Options that reach one host, without the configuration of the machine."""
        return self.server.options(port=port, known_hosts=self.known_hosts, **more)

    def learn(self, port: int, key: str | None = None) -> None:
        """Record a key for a port: the right key, or another key."""
        public = key or (self.server.directory / "host_key.pub").read_text()
        with self.known_hosts.open("a") as file:
            file.write(f"[{HOST}]:{port} {public.rstrip()}\n")

    def config(self, path: Path, ports: dict[str, int]) -> None:
        """Write a client's configuration with names for ports."""
        path.write_text(
            "".join(f"Host {alias}\n  Port {port}\n" for alias, port in ports.items())
            + f"Host *\n  HostName {HOST}\n  User {self.server.user}\n  IdentityFile {self.server.key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
        )
        path.chmod(0o600)


@contextlib.contextmanager
def many(count: int) -> Iterator[Hosts]:
    """A number of real servers that accept one client key, show one host key, and accept all logins at once."""
    with contextlib.ExitStack() as stack:
        first: Server | None = None
        hosts: Hosts | None = None
        while hosts is None or len(hosts.ports) < count:
            wanted = min(PORTS, count - (0 if hosts is None else len(hosts.ports)))
            ports: list[int] = []
            while len(ports) < wanted:  # a free port may be returned twice
                if (port := free_port()) not in ports:
                    ports.append(port)
            lines = "".join(f"Port {port}\n" for port in ports[1:]) + "MaxStartups 500\n"
            if first is not None:
                lines += f"HostKey {first.host_key}\nAuthorizedKeysFile {first.directory}/authorized_keys\n"
            server = stack.enter_context(openssh(USER, lines, ports[0]))
            if first is None or hosts is None:
                first = server
                hosts = Hosts(server, server.directory / "known_hosts_of_all")
            hosts.ports += ports
            for port in ports:
                hosts.learn(port)
        yield hosts


@contextlib.contextmanager
def another(hosts: Hosts) -> Iterator[tuple[int, Server]]:
    """A further real server, with its own processes, which a test may freeze or kill."""
    first = hosts.server
    lines = f"HostKey {first.host_key}\nAuthorizedKeysFile {first.directory}/authorized_keys\n"
    with openssh(USER, lines) as server:
        hosts.learn(server.port)
        yield server.port, server


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port that accepts connections and never sends data."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.listen(16)
        yield sock.getsockname()[1]


def each_session(server: Server, act: Callable[[psutil.Process], None]) -> None:
    """Apply a function to the processes of a server's connections, and then to the listening process."""
    for pid in (*sessions(server.pid), server.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            act(psutil.Process(pid))
