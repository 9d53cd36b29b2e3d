"""Many hosts on loopback, each a port with a real server behind it or something that is none.

A process of OpenSSH's listens at up to sixteen ports, so fifty hosts are four processes. A command knows which of them it
is on by ``SSH_CONNECTION``, whose last word is the server's port.
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
"""At so many does OpenSSH's server listen at most (sshd.c, MAX_LISTEN_SOCKS)."""

USER = "root" if is_root() else own_name()


@dataclass
class Hosts:
    """Ports of this machine, and what a client needs for them.

    Attributes:
        server: Whose keys all of them have.
        known_hosts: A file in which their keys are known.
        ports: Those at which a server listens.
    """

    server: Server
    known_hosts: Path
    ports: list[int] = field(default_factory=list)

    def options(self, port: int, **more: Any) -> SSHOptions:
        """What reaches one of them, and nothing of the machine's own configuration."""
        return self.server.options(port=port, known_hosts=self.known_hosts, **more)

    def learn(self, port: int, key: str | None = None) -> None:
        """Write down the key of a port: its own, or another."""
        public = key or (self.server.directory / "host_key.pub").read_text()
        with self.known_hosts.open("a") as file:
            file.write(f"[{HOST}]:{port} {public.rstrip()}\n")

    def config(self, path: Path, ports: dict[str, int]) -> None:
        """Write a client's configuration in which ports have names."""
        path.write_text(
            "".join(f"Host {alias}\n  Port {port}\n" for alias, port in ports.items())
            + f"Host *\n  HostName {HOST}\n  User {self.server.user}\n  IdentityFile {self.server.key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
        )
        path.chmod(0o600)


@contextlib.contextmanager
def many(count: int) -> Iterator[Hosts]:
    """So many real servers, which let the same key in, show the same key, and take all logins at once."""
    with contextlib.ExitStack() as stack:
        first: Server | None = None
        hosts: Hosts | None = None
        while hosts is None or len(hosts.ports) < count:
            wanted = min(PORTS, count - (0 if hosts is None else len(hosts.ports)))
            ports: list[int] = []
            while len(ports) < wanted:  # a port without a listener may be given twice
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
    """One more real server, with processes of its own, that a test may freeze or kill."""
    first = hosts.server
    lines = f"HostKey {first.host_key}\nAuthorizedKeysFile {first.directory}/authorized_keys\n"
    with openssh(USER, lines) as server:
        hosts.learn(server.port)
        yield server.port, server


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.listen(16)
        yield sock.getsockname()[1]


def each_session(server: Server, act: Callable[[psutil.Process], None]) -> None:
    """Do something to the processes of a server's connections, and then to the one that listens."""
    for pid in (*sessions(server.pid), server.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            act(psutil.Process(pid))
