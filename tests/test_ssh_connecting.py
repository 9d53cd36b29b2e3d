"""Connections by SSH: addresses, the configuration, host keys, authentication, and every kind of failure."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import asyncssh
import psutil
import pytest

from anyshell._exceptions import ConnectionFailed, HostKeyUntrusted, InvalidCommand
from anyshell.backends.ssh import without_compilers
from anyshell.backends.ssh.connection.connecting import find_route, open_connection
from anyshell.backends.ssh.connection.credentials import Keys, Secrets
from anyshell.backends.ssh.connection.hostkeys import (
    PRINT_FINGERPRINTS,
    HostKey,
    KnownHost,
    look_up,
    read_key,
    record,
)
from anyshell.backends.ssh.connection.login import GATHERED, Gathered, LoginClient, choose_algorithms
from anyshell.backends.ssh.connection.options import Hop, SSHOptions, describe_address, parse_hops
from anyshell.backends.ssh.connection.proxy import ProxyCommand
from anyshell.backends.ssh.connection.settings import read_settings

from .conftest import missing
from .processes import unique_seconds, wait_living, wait_none
from .ssh_server import HOST, SSHD, WORKER, Server, account, accounts, embedded, free_port, openssh

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

assert sys.platform != "win32"  # else mypy checks the code below on every platform

pytestmark = pytest.mark.anyio

ME = pwd.getpwuid(os.geteuid()).pw_name
SECRET = "s3cret-Word"
LOGIN_NAME = f"anyshell-login{WORKER}"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without keys, configuration, agent or known hosts."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """OpenSSH's server, which accepts one key."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(ME) as running:
        yield running


def set_password(user: str) -> None:
    with accounts(change=True):
        subprocess.run(["chpasswd"], input=f"{user}:{SECRET}", text=True, check=True)


@pytest.fixture(scope="module")
def password_server() -> Iterator[Server]:
    """A server that asks for a password, in both ways, for a user with a password."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if os.geteuid() != 0:
        pytest.skip("only root can make a user with a password")
    with account(LOGIN_NAME, "/bin/sh") as user:
        set_password(user)
        with openssh(
            user, "UsePAM yes\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes"
        ) as running:
            yield running


@contextlib.asynccontextmanager
async def connected(
    options: SSHOptions, told: list[str] | None = None, secrets: Secrets | None = None
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    tell = (lambda _: None) if told is None else told.append
    connection = await open_connection(options, tell=tell, secrets=secrets)
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


async def refused(options: SSHOptions, told: list[str] | None = None) -> Any:
    """The error that ends a connection; nothing is left over after it."""
    before = held()
    with pytest.raises((ConnectionFailed, HostKeyUntrusted)) as caught:
        async with connected(options, told):
            pass
    await nothing_left(before)
    assert SECRET not in str(caught.value)
    return caught.value


@dataclass
class Held:
    """The resources of this process that must not be left over."""

    tasks: set[asyncio.Task[Any]]
    files: int
    children: int


def held() -> Held:
    me = psutil.Process()
    return Held(asyncio.all_tasks(), me.num_fds(), len(me.children(recursive=True)))


async def nothing_left(before: Held) -> None:
    """Wait until there are no more tasks, descriptors and children than before."""
    async with asyncio.timeout(20):
        while (
            (now := held()).tasks - before.tasks or now.files > before.files or now.children > before.children
        ):
            await asyncio.sleep(0.01)


def to(server: Server, **more: Any) -> SSHOptions:
    """Options that reach a server without any configuration."""
    given: dict[str, Any] = {
        "host": HOST, "port": server.port, "user": server.user, "config": "", "known_hosts": server.known_hosts,
        "keys": [server.key], "agent": False,
    }  # fmt: skip
    return SSHOptions(**(given | more))


async def said(connection: asyncssh.SSHClientConnection, command: str) -> str:
    """The output of a command, in a session opened as by the backend."""
    done = await connection.run(command, encoding=None, env=None, send_env=None, request_pty=False)
    assert isinstance(done.stdout, bytes)
    return done.stdout.decode().strip()


# --- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web-1", SSHOptions(host="web-1")),
        ("deploy@web-1", SSHOptions(host="web-1", user="deploy")),
        ("a@b@web-1", SSHOptions(host="web-1", user="a@b")),
        ("::1", SSHOptions(host="::1")),
        ("[::1]", SSHOptions(host="::1")),
        ("ssh://h", SSHOptions(host="h")),
        ("SSH://h", SSHOptions(host="h")),
        ("ssh://h/", SSHOptions(host="h", directory="/")),
        ("ssh://h/src", SSHOptions(host="h", directory="/src")),
        ("ssh://h/~/src", SSHOptions(host="h", directory="~/src")),
        ("ssh://h/~", SSHOptions(host="h", directory="~")),
        ("ssh://h/~src", SSHOptions(host="h", directory="/~src")),
        ("ssh://h/a%20b", SSHOptions(host="h", directory="/a b")),
        ("ssh://me%40corp@h:2222/src", SSHOptions(host="h", user="me@corp", port=2222, directory="/src")),
        ("ssh://[::1]:2222/", SSHOptions(host="::1", port=2222, directory="/")),
        ("ssh://[fe80::1%25eth0]", SSHOptions(host="fe80::1%eth0")),
        ("ssh://CORP%5Cme@h", SSHOptions(host="h", user="CORP\\me")),
    ],
)
def test_an_address_is_read(text: str, expected: SSHOptions) -> None:
    assert SSHOptions.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("", "empty"),
        ("@h", "user is empty"),
        ("ssh://", "host is empty"),
        ("ssh:///src", "host is empty"),
        ("-oProxyCommand=x", "begins with -"),
        ("ssh://-oProxyCommand=x/", "begins with -"),
        ("-x@h", "user '-x'"),
        ("a b", "holds ' '"),
        ("a\tb", "holds"),
        ("ssh://a%0Ab/", "holds"),
        ("ssh://a%60id%60/", "holds"),
        ("a$(id)", "holds"),
        ("a;id", "holds"),
        ("ssh://x%3Bid@h", "holds"),
        ("a\0b", "NUL"),
        ("h:22", "ssh://host:port"),
        ("h:/src", "ssh://host:port"),
        ("ssh://h:0", "1 to 65535"),
        ("ssh://h:65536", "1 to 65535"),
        ("ssh://h:²", "1 to 65535"),
        ("ssh://h:", "1 to 65535"),
        ("ssh://::1", "brackets"),
        ("ssh://[::1", "brackets"),
        ("ssh://h?x=1", "%3F"),
    ],
)
def test_a_malformed_address_is_refused_with_the_reason(text: str, culprit: str) -> None:
    with pytest.raises(InvalidCommand, match=re.escape(culprit)):
        SSHOptions.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"ssh://me:{SECRET}@h",
        f"me:{SECRET}@h",
        f"ssh://me:{SECRET}/x@h",
        f"ssh://me:{SECRET}@h:99999",
        f"ssh://h:{SECRET}",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidCommand) as caught:
        SSHOptions.parse(text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": ""}, {"host": "-x"}, {"host": "a`b"}, {"user": "a b"}, {"user": ""}, {"user": "x\\"}, {"port": 0},
        {"port": 70000}, {"port": True}, {"directory": "src"}, {"keys": "/key"}, {"password": 1}, {"jump": "-x"},
        {"jump": "a,,b"}, {"jump": "u:pw@a"}, {"host_key_policy": "no"}, {"connect_timeout": 0},
        {"login_timeout": float("nan")}, {"login_timeout": None}, {"keepalive_interval": -1}, {"keepalive_count": 0},
        {"max_connections": 0}, {"config": "a\0b"},
    ],
)  # fmt: skip
def test_options_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand):
        SSHOptions(**({"host": "h"} | wrong))


def test_options_show_no_secret() -> None:
    options = SSHOptions(host="h", user="me", port=22, password=SECRET, passphrase=SECRET)
    assert SECRET not in repr(options)
    assert describe_address(options) == "me@h:22"
    assert describe_address(SSHOptions(host="::1", port=2222)) == "[::1]:2222"
    assert describe_address(SSHOptions(host="web-1")) == "web-1"


def test_jump_hosts_are_read() -> None:
    hops = (Hop("a", "u", 23), Hop("::1", None, 24), Hop("c"), Hop("d"))
    assert parse_hops("u@a:23, [::1]:24,ssh://c,d") == hops
    assert parse_hops("none") == ()


# --- the configuration ----------------------------------------------------------------------------------------

CONFIG = """
IgnoreUnknown Unheard*
Include {include}/*.conf
Host a b !c  # a comment
  HostName %h.example.com # another
  Port=2222
  User "bob x"
  IdentityFile ~/.ssh/one
  ConnectTimeout 1m30s
  PubkeyAuthentication unbound
  UnheardOf word
Host a
  User later
  IdentityFile "~/.ssh/two words"
  UserKnownHostsFile /tmp/k1 "/tmp/k 2"
Match host *.example.com user bob*
  ServerAliveInterval 7
Match exec "test %n = d" originalhost d
  Port 99
Match !exec "test %n = d" originalhost d
  Port 98
Match final host a.example.com
  ProxyJump u@j1:23,j2
Host p
  ProxyCommand nc -X "5" %h %p # not a comment
Host !p *
  ProxyJump none
  StrictHostKeyChecking accept-new
  HashKnownHosts yes
  ProxyCommand never
"""


@pytest.mark.parametrize("alias", ["a", "b", "c", "d", "p", "q", "included"])
def test_configuration_is_read_as_by_ssh(alias: str, tmp_path: Path) -> None:
    ssh = shutil.which("ssh")
    if ssh is None:
        missing("OpenSSH's client", "install openssh-client")
    (tmp_path / "1.conf").write_text("Host a\n ServerAliveCountMax 8\nHost included\n Port 7")
    (tmp_path / "2.conf").write_text("Host a\n ServerAliveCountMax 9\nHost included\n Port 8")
    config = tmp_path / "config"
    config.write_text(CONFIG.format(include=tmp_path))
    done = subprocess.run([ssh, "-G", "-F", str(config), alias], capture_output=True, text=True, check=True)
    theirs: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        keyword, _, value = line.partition(" ")
        theirs.setdefault(keyword, []).append(value)
    ours = read_settings(SSHOptions(host=alias, config=config))
    assert [ours.host] == theirs["hostname"]
    assert [str(ours.port)] == theirs["port"]
    assert [ours.user] == theirs["user"]
    assert [ours.host_key_policy] == theirs["stricthostkeychecking"]
    assert ["yes" if ours.hash_known_hosts else "no"] == theirs["hashknownhosts"]
    if ours.keys_named:
        assert list(ours.keys) == [os.path.expanduser(path) for path in theirs["identityfile"]]
    if alias == "a":
        assert theirs["userknownhostsfile"] == [" ".join(ours.known_hosts)]
        assert theirs["serveralivecountmax"] == [str(ours.keepalive_count)]
    assert theirs["connecttimeout"] == ["90" if ours.connect_timeout == 90 else "none"]
    assert ours.proxy_command == ('nc -X "5" p 22 # not a comment' if alias == "p" else None)
    assert ("proxyjump" in theirs) == bool(ours.jumps)


def settings(tmp_path: Path, text: str, alias: str = "web", **more: Any) -> Any:
    path = tmp_path / "config"
    path.write_text(text)
    return read_settings(SSHOptions(host=alias, config=path, **more))


def test_unheeded_settings_are_reported_once(tmp_path: Path) -> None:
    text = (
        "Host *\n SendEnv LANG LC_*\n SendEnv MORE\n SetEnv A=b\n RemoteCommand tmux\n RequestTTY force\n"
        " StrictHostKeyChecking no\n"
    )
    notices = settings(tmp_path, text).notices
    assert len(notices) == 5
    for keyword in ("SendEnv", "SetEnv", "RemoteCommand", "RequestTTY", "StrictHostKeyChecking no"):
        assert sum(notice.startswith(keyword) for notice in notices) == 1
    assert settings(tmp_path, "RequestTTY auto\nRemoteCommand none\nHost other\n SendEnv X").notices == ()
    assert settings(tmp_path, "StrictHostKeyChecking no").host_key_policy == "accept-new"
    assert settings(tmp_path, "StrictHostKeyChecking yes").host_key_policy == "refuse"
    assert settings(tmp_path, "StrictHostKeyChecking yes", host_key_policy="ask").host_key_policy == "ask"


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        ("Port many", "line 2: port must be"),
        ("ConnectTimeout soon", "line 2: connecttimeout must be a time"),
        ("StrictHostKeyChecking perhaps", "line 2: StrictHostKeyChecking must be"),
        ('User "open', "line 2: a quote is not closed"),
        ("User", "line 2: user has no value"),
        ("IdentityFile %q", "line 2: %q"),
        ("IdentityFile ${ANYSHELL_NOT_THERE}/key", "line 2: there is no variable"),
        ("ProxyJump -oX", "line 2: the host '-oX'"),
        ("Match host", "line 2: Match host has no pattern"),
        ("Include config", "more than 16 deep"),
        ("AddressFamily inet9", "line 2: AddressFamily"),
    ],
)
def test_unusable_configuration_error_names_its_line(
    line: str, culprit: str, tmp_path: Path, home: Path
) -> None:
    (home / ".ssh").mkdir()
    path = home / ".ssh" / "config"
    path.write_text(f"# the first line\n{line}\n")
    with pytest.raises(InvalidCommand, match=re.escape(culprit)):
        read_settings(SSHOptions(host="web", config=path))


def test_values_known_to_ssh_alone_break_nothing(tmp_path: Path) -> None:
    text = (
        "IgnoreUnknown X*\nXyzzy %%\nControlPath ~/.ssh/%C\nMatch version x\n Port 1\nMatch all\n"
        "GSSAPIAuthentication yes\nAddKeysToAgent confirm 5m\nRekeyLimit 1G 1h\nLocalCommand echo %q\n"
        "Ciphers +aes128-cbc\nIdentityAgent $NOT_THERE\nServerAliveInterval 1m\nCompression yes\nPort 7 # seven\n"
    )
    found = settings(tmp_path, text)
    assert (found.port, found.keepalive_interval, found.agent) == (7, 60, "")


def test_configuration_writable_by_others_is_not_read(home: Path) -> None:
    (home / ".ssh").mkdir()
    path = home / ".ssh" / "config"
    path.write_text("Port 7")
    path.chmod(0o620)
    with pytest.raises(InvalidCommand, match="chmod go-w"):
        read_settings(SSHOptions(host="web"))
    path.chmod(0o600)
    assert read_settings(SSHOptions(host="web")).port == 7
    assert read_settings(SSHOptions(host="web", config="")).port == 22


def test_named_configuration_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidCommand, match="does not exist"):
        read_settings(SSHOptions(host="web", config=tmp_path / "none"))
    with pytest.raises(InvalidCommand, match="cannot be read"):
        read_settings(SSHOptions(host="web", config=tmp_path))


def test_match_exec_runs_only_after_matching_criteria(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f'Match host other exec "touch {mark}"\n Port 1\nMatch exec "test %h = web && exit 3"\n Port 2\n'
    assert settings(tmp_path, text).port == 22
    assert not mark.exists()


async def test_route_includes_the_jump_hosts_of_jump_hosts(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "Host target\n ProxyJump b,c\nHost b\n ProxyJump a\nHost c\n ProxyJump x\nHost loop1\n ProxyJump loop2\n"
        "Host loop2\n ProxyJump loop1\nHost *\n ProxyJump bastion\n"
    )
    way = [each.alias for each in await find_route(SSHOptions(host="target", config=path))]
    assert way == ["bastion", "a", "b", "c", "target"]
    way = [each.alias for each in await find_route(SSHOptions(host="target", config=path, jump="none"))]
    assert way == ["target"]
    with pytest.raises(InvalidCommand, match="more than 10 hosts"):
        await find_route(SSHOptions(host="loop1", config=path))


def test_algorithms_are_chosen_as_by_ssh() -> None:
    possible, default = ["a1", "a2", "b1", "old"], ["a1", "b1"]
    assert choose_algorithms("+old,unknown", possible, default) == ["a1", "b1", "old"]
    assert choose_algorithms("-a*", possible, default) == ["b1"]
    assert choose_algorithms("^old", possible, default) == ["old", "a1", "b1"]
    assert choose_algorithms("b1,a?", possible, default) == ["b1", "a1", "a2"]


# --- host keys ------------------------------------------------------------------------------------------------


def new_key(kind: str = "ssh-ed25519") -> HostKey:
    key = read_key(asyncssh.generate_private_key(kind).export_public_key().decode())
    assert key is not None
    return key


def keygen(*arguments: str) -> str:
    path = shutil.which("ssh-keygen")
    if path is None:
        missing("ssh-keygen", "install openssh-client")
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout


def test_a_fingerprint_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    for kind in ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256"):
        key = new_key(kind)
        path = tmp_path / "key.pub"
        path.write_text(str(key))
        assert keygen("-l", "-f", str(path)).split()[1] == key.fingerprint


def test_recorded_key_is_found_by_ssh_and_anyshell(tmp_path: Path) -> None:
    for number, (host, port) in enumerate(
        [("web", 22), ("web", 2222), ("::1", 22), ("::1", 2222), ("WEB", 23)]
    ):
        for hashed in (False, True):
            file = tmp_path / f"known-{number}-{hashed}"
            known = look_up(host, port, None, [str(file)])
            key = new_key()
            assert known.judge(key) == "unknown"
            record(str(file), known.name, key, hashed=hashed)
            assert look_up(host, port, None, [str(file)]).judge(key) == "trusted"
            assert look_up("else", port, None, [str(file)]).judge(key) == "unknown"
            assert keygen("-F", known.name, "-f", str(file)).strip().endswith(str(key).split()[1])
            assert (known.name not in file.read_text()) == hashed


def test_entries_that_ssh_hashed_are_found(tmp_path: Path) -> None:
    file = tmp_path / "known"
    keys = [new_key(), new_key()]
    file.write_text(f"web,10.0.0.1 {keys[0]}\n[web]:2222 {keys[1]}\n")
    keygen("-H", "-f", str(file))
    assert "web" not in file.read_text()
    assert look_up("web", 22, None, [str(file)]).judge(keys[0]) == "trusted"
    assert look_up("10.0.0.1", 22, None, [str(file)]).judge(keys[0]) == "trusted"
    assert look_up("web", 2222, None, [str(file)]).judge(keys[1]) == "trusted"
    assert look_up("web", 2222, None, [str(file)]).judge(keys[0]) == "changed"


def judged(
    tmp_path: Path, text: str, key: HostKey, host: str = "web", port: int = 22, alias: str | None = None
) -> str:
    file = tmp_path / "known"
    file.write_text(text)
    return look_up(host, port, alias, [str(tmp_path / "none"), str(file)]).judge(key)


def test_key_is_judged_by_all_known_entries(tmp_path: Path) -> None:
    key, other, rsa = new_key(), new_key(), new_key("ssh-rsa")
    assert judged(tmp_path, f"web {key}\n", key) == "trusted"
    assert judged(tmp_path, f"web {other}\nweb {key}\n", key) == "trusted"
    assert judged(tmp_path, f"web {other}\n", key) == "changed"
    assert judged(tmp_path, f"web {rsa}\n", key) == "changed"
    assert judged(tmp_path, f"*.net,we? {key} a comment\n", key) == "trusted"
    assert judged(tmp_path, f"*,!web {key}\n", key) == "unknown"
    assert judged(tmp_path, f"WEB {key}\n", key, host="Web") == "trusted"
    assert judged(tmp_path, f"web {key}\n@revoked * {key}\n", key) == "revoked"
    assert judged(tmp_path, f"@cert-authority web {other}\n", key) == "unknown"
    assert judged(tmp_path, f"@whatever web {key}\n", key) == "unknown"
    assert judged(tmp_path, f"web {key}\n", key, port=2222) == "trusted"
    assert judged(tmp_path, f"web {other}\n", key, port=2222) == "unknown"
    assert judged(tmp_path, f"[web]:2222 {other}\nweb {key}\n", key, port=2222) == "changed"
    assert judged(tmp_path, f"alias {key}\n", key, port=2222, alias="alias") == "trusted"
    assert judged(tmp_path, f"[web]:2222 {key}\n", key, alias="alias") == "unknown"


def test_malformed_lines_of_known_hosts_are_ignored(tmp_path: Path) -> None:
    key = new_key()
    noise = (
        "\n#\nweb\n|1|x|y ssh-rsa A\n|2|a|b|c\n@revoked\n\x00\xff garbage\nweb 1024 35 12345\n"
        + "x" * 9999
        + "\n"
    )
    assert judged(tmp_path, noise + f"web {key}\n", key) == "trusted"
    assert judged(tmp_path, noise, key) == "unknown"
    assert judged(tmp_path, noise + "web ssh-ed25519 AAAAgarbled!\n", key) == "unreadable"
    assert judged(tmp_path, noise + f"web ssh-rsa {str(key).split()[1]}\n", key) == "unreadable"
    assert judged(tmp_path, f"web ssh-future {str(key).split()[1]}\nweb {key}", key) == "trusted"


def test_known_hosts_that_cannot_be_read_trust_no_key(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="cannot be read"):
        look_up("web", 22, None, [str(tmp_path)])


def test_a_revocation_list_is_heeded(tmp_path: Path) -> None:
    key, path = new_key(), tmp_path / "revoked"
    path.write_text(f"# keys\n{key} old\n")
    assert look_up("web", 22, None, [], str(path)).judge(key) == "revoked"
    path.write_bytes(b"SSHKRL\n\0\0")
    with pytest.raises(ConnectionFailed, match="binary"):
        look_up("web", 22, None, [], str(path))
    with pytest.raises(ConnectionFailed, match="cannot be read"):
        look_up("web", 22, None, [], str(tmp_path / "none"))


def test_a_file_without_a_last_line_end_is_not_spoilt(home: Path) -> None:
    first, second = new_key(), new_key()
    file = home / ".ssh" / "known_hosts"
    record(str(file), "one", first)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text(file.read_text().rstrip("\n"))
    record(str(file), "two", second)
    assert file.read_text() == f"one {first}\ntwo {second}\n"


def test_concurrent_recorders_do_not_mix_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "known"
    code = (
        "import sys\nfrom anyshell.backends.ssh.connection.hostkeys import HostKey, KnownHost, record\n"
        "for i in range(200): record(sys.argv[1], sys.argv[2] + str(i), HostKey('ssh-rsa', sys.argv[2].encode() * 400))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    # A reader may see half of a line that is being written, and begin a new one: empty lines mean nothing.
    lines = [line for line in file.read_text().splitlines() if line]
    assert len({line.split()[0] for line in lines}) == len(lines) == 600
    assert len({len(line.split()[2]) for line in lines}) == 1


async def test_unknown_key_is_refused_with_instructions_to_trust_the_key(
    server: Server, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "known"
    error = await refused(to(server, known_hosts=known_hosts))
    assert isinstance(error, HostKeyUntrusted)
    assert not error.changed
    assert error.fingerprint == keygen("-l", "-f", str(server.host_key)).split()[1]
    assert error.fingerprint in str(error)
    assert error.line in str(error)
    # The printed command works on a server with several keys.
    assert PRINT_FINGERPRINTS in str(error)
    keygen("-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "ssh_host_ecdsa_key"))
    shutil.copy(f"{server.host_key}.pub", tmp_path / "ssh_host_ed25519_key.pub")
    print_them = PRINT_FINGERPRINTS.replace("/etc/ssh/", f"{tmp_path}/")
    printed = subprocess.run(["sh", "-c", print_them], capture_output=True, text=True, check=True).stdout
    assert len(printed.splitlines()) == 2
    assert error.fingerprint in printed
    assert (error.host, error.key_type) == (f"[{HOST}]:{server.port}", "ssh-ed25519")
    assert not known_hosts.exists()
    Path(error.known_hosts).write_text(error.line + "\n")
    async with connected(to(server, known_hosts=known_hosts)) as connection:
        assert await said(connection, "echo in") == "in"


async def test_new_key_is_recorded_on_request(server: Server, home: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("StrictHostKeyChecking accept-new\nHashKnownHosts yes\n")
    told: list[str] = []
    async with connected(to(server, known_hosts=None, config=config), told):
        pass
    recorded = (home / ".ssh" / "known_hosts").read_text()
    assert recorded.startswith("|1|")
    assert "recorded" in told[0]
    async with connected(to(server, known_hosts=None, config=config), told):
        pass
    assert (home / ".ssh" / "known_hosts").read_text() == recorded
    assert len(told) == 1


async def test_failure_to_record_a_key_is_reported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    async with connected(
        to(server, known_hosts=tmp_path / "file" / "known", host_key_policy="accept-new"), told
    ):
        pass
    assert "could not be recorded" in told[0]
    async with connected(to(server, known_hosts="/dev/null", host_key_policy="accept-new"), told):
        pass
    assert "was recorded in /dev/null" in told[1]


async def test_a_person_may_trust_an_unknown_key(server: Server, tmp_path: Path) -> None:
    known_hosts, asked = tmp_path / "known", []

    async def trust(text: str) -> bool:
        asked.append(text)
        return len(asked) > 1

    options = to(server, known_hosts=known_hosts, trust=trust)
    error = await refused(options)
    assert "its key was not accepted" in str(error)
    async with connected(options):
        pass
    async with connected(options):
        pass
    assert len(asked) == 2
    assert error.fingerprint in asked[0]
    assert str(server.port) in asked[0]
    assert known_hosts.read_text() == error.line + "\n"


async def test_simultaneous_connections_ask_about_a_key_once(server: Server, tmp_path: Path) -> None:
    asked = []

    async def trust(text: str) -> bool:
        asked.append(text)
        return True

    secrets = Secrets()
    options = to(server, known_hosts=tmp_path / "known", trust=trust)
    connections = await asyncio.gather(
        *(open_connection(options, tell=print, secrets=secrets) for _ in range(3))
    )
    for connection in connections:
        connection.abort()
        await connection.wait_closed()
    assert len(asked) == 1
    assert len((tmp_path / "known").read_text().splitlines()) == 1


async def test_strict_checking_asks_no_question(server: Server, tmp_path: Path) -> None:
    async def trust(text: str) -> bool:
        raise AssertionError

    config = tmp_path / "config"
    config.write_text("StrictHostKeyChecking yes\n")
    error = await refused(to(server, known_hosts=tmp_path / "known", trust=trust, config=config))
    assert isinstance(error, HostKeyUntrusted)


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa"])
async def test_changed_key_is_refused_under_every_policy(kind: str, server: Server, tmp_path: Path) -> None:
    async def trust(text: str) -> bool:
        raise AssertionError

    known_hosts, old = tmp_path / "known", new_key(kind)
    known_hosts.write_text(f"# one\n[{HOST}]:{server.port} {old}\n")
    for policy in ("ask", "accept-new"):
        error = await refused(to(server, known_hosts=known_hosts, host_key_policy=policy, trust=trust))
        assert isinstance(error, HostKeyUntrusted)
        assert error.changed
        assert f"{known_hosts}, line 2" in str(error)
        assert "CHANGED" in str(error)
        assert f'ssh-keygen -f "{known_hosts}" -R "[{HOST}]:{server.port}"' in str(error)
    keygen("-f", str(known_hosts), "-R", f"[{HOST}]:{server.port}")
    known_hosts.write_text(known_hosts.read_text() + error.line + "\n")
    async with connected(to(server, known_hosts=known_hosts)):
        pass


async def test_revoked_key_is_refused(server: Server, tmp_path: Path) -> None:
    known_hosts = tmp_path / "known"
    line = server.known_hosts.read_text()
    known_hosts.write_text(line + f"@revoked * {line.split(maxsplit=1)[1]}")
    error = await refused(to(server, known_hosts=known_hosts, host_key_policy="accept-new"))
    assert isinstance(error, HostKeyUntrusted)
    assert "revoked" in str(error)


async def test_known_key_among_several_host_keys_is_used(tmp_path: Path) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    for kind, option in (("rsa", "ssh-rsa"), ("ecdsa", "ecdsa-sha2-nistp256")):
        path = tmp_path / kind
        asyncssh.generate_private_key(option).write_private_key(path)
        path.chmod(0o600)
    more = f"HostKey {tmp_path}/rsa\nHostKey {tmp_path}/ecdsa"
    with openssh(ME, more) as several:
        for kind in ("rsa", "ecdsa"):
            public = asyncssh.read_private_key(tmp_path / kind).export_public_key().decode()
            (tmp_path / "known").write_text(f"[{HOST}]:{several.port} {public}")
            async with connected(to(several, known_hosts=tmp_path / "known")) as connection:
                key = connection.get_server_host_key()
                assert key is not None
                assert key.export_public_key().decode().split()[1] == public.split()[1]


@pytest.fixture(scope="module")
def certified() -> Iterator[tuple[Server, asyncssh.SSHKey]]:
    """A server with a certificate for its key, and the key that signed the certificate."""
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    authority = asyncssh.generate_private_key("ssh-ed25519")
    with contextlib.ExitStack() as stack:
        port = free_port()
        place = stack.enter_context(
            openssh(ME, port=port)
        ).directory  # for the directory and keys of the server
        public = asyncssh.read_public_key(place / "host_key.pub")
        certificate = authority.generate_host_certificate(public, "host", principals=[HOST])
        certificate.write_certificate(place / "host_key-cert.pub")
        certificate = authority.generate_user_certificate(
            asyncssh.read_public_key(place / "client_key.pub"), "me", principals=[ME]
        )
        (place / "user-cert.pub").write_bytes(certificate.export_certificate())
        (place / "ca.pub").write_bytes(authority.export_public_key())
        more = (
            f"HostKey {place}/host_key\nHostCertificate {place}/host_key-cert.pub\n"
            f"TrustedUserCAKeys {place}/ca.pub\nAuthorizedKeysFile none"
        )
        second = stack.enter_context(openssh(ME, more))
        shutil.copy(place / "client_key", second.directory / "client_key")
        shutil.copy(place / "client_key.pub", second.directory / "client_key.pub")
        shutil.copy(place / "user-cert.pub", second.directory / "user-cert.pub")
        shutil.copy(place / "host_key.pub", second.directory / "host_key.pub")
        yield second, authority


async def test_host_and_user_certificates_are_accepted(
    certified: tuple[Server, asyncssh.SSHKey], tmp_path: Path
) -> None:
    running, authority = certified
    key = tmp_path / "key"
    shutil.copy(running.key, key)
    known_hosts = tmp_path / "known"
    known_hosts.write_text(f"@cert-authority [{HOST}]:* {authority.export_public_key().decode()}")
    options = to(running, known_hosts=known_hosts, keys=[key])
    error = await refused(options)
    assert error.stage == "authenticate"  # the host's certificate was accepted; the user's is missing
    config = tmp_path / "config"
    config.write_text(f"CertificateFile {running.directory}/user-cert.pub\n")
    async with connected(replace(options, config=config)):
        pass
    shutil.copy(running.directory / "user-cert.pub", tmp_path / "key-cert.pub")
    async with connected(options):
        pass


async def test_without_a_good_certificate_the_plain_key_decides(
    certified: tuple[Server, asyncssh.SSHKey], tmp_path: Path
) -> None:
    running, _ = certified
    shutil.copy(running.key, tmp_path / "key")
    shutil.copy(running.directory / "user-cert.pub", tmp_path / "key-cert.pub")
    known_hosts = tmp_path / "known"
    stranger = f"@cert-authority [{HOST}]:* {new_key()}\n"
    known_hosts.write_text(stranger)
    options = to(running, known_hosts=known_hosts, keys=[tmp_path / "key"])
    assert isinstance(await refused(options), HostKeyUntrusted)
    plain = (running.directory / "host_key.pub").read_text()
    known_hosts.write_text(f"{stranger}[{HOST}]:{running.port} {plain}")
    async with connected(options):
        pass


# # --- authentication -------------------------------------------------------------------------------------------


async def test_nothing_of_this_environment_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    monkeypatch.setenv("LC_ANYSHELL", "from here")
    monkeypatch.setenv("ANYSHELL_SENT", "from here")
    with openssh(ME, "AcceptEnv *\nLogLevel DEBUG2") as generous:
        config = tmp_path / "config"
        config.write_text(
            "SendEnv LC_* ANYSHELL_*\nSetEnv ANYSHELL_SET=1\nRequestTTY force\nRemoteCommand false\n"
        )
        told: list[str] = []
        async with connected(to(generous, config=config), told) as connection:
            assert "ANYSHELL" not in await said(connection, "env")
            assert await said(connection, "tty; :") == "not a tty"
            done = await connection.run(
                "env", encoding=None
            )  # nor does a session without settings request one
            assert b"ANYSHELL" not in (done.stdout or b"")
        assert "request exec" in generous.log
        assert "request env" not in generous.log
        assert "request pty-req" not in generous.log
        assert "x11-req" not in generous.log
        assert "auth-agent-req" not in generous.log
        assert len(told) == 4


async def test_refused_key_is_named_with_the_accepted_methods(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "other"
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(path)
    path.chmod(0o600)
    error = await refused(to(server, keys=[path, tmp_path / "none"]))
    assert (type(error), error.stage) == (ConnectionFailed, "authenticate")
    assert f"{path} ({key.get_fingerprint()})" in str(error)
    assert "it takes publickey" in str(error)
    assert f"{tmp_path}/none cannot be read: No such file or directory" in str(error)
    assert ME in str(error)
    assert isinstance(error.__cause__, asyncssh.PermissionDenied)
    path.chmod(0o644)
    assert "chmod 600" in str(await refused(to(server, keys=[path])))


def encrypt(server: Server, path: Path, form: str) -> Path:
    key = asyncssh.read_private_key(server.key)
    if form == "openssh":
        shutil.copy(server.key, path)
        keygen("-q", "-p", "-f", str(path), "-N", SECRET, "-a", "1")
    else:
        key.write_private_key(path, form, SECRET)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("form", ["pkcs8-pem", "openssh"])
async def test_an_encrypted_key_is_opened(form: str, server: Server, tmp_path: Path) -> None:
    if form == "openssh" and importlib.util.find_spec("bcrypt") is None:
        missing("bcrypt", "pip install bcrypt")
    path = encrypt(server, tmp_path / "key", form)
    async with connected(to(server, keys=[path], passphrase=SECRET)):
        pass
    asked: list[str] = []

    async def passphrase(text: str) -> str | None:
        asked.append(text)
        return SECRET if len(asked) > 1 else "wrong"

    secrets = Secrets()
    options = to(server, keys=[path], passphrase=passphrase)
    async with connected(options, secrets=secrets):
        assert asked == [str(path)] * 2
    async with connected(options, secrets=secrets):
        assert len(asked) == 2
    asked = []

    async def never(text: str) -> str | None:
        asked.append(text)
        return "wrong"

    error = await refused(to(server, keys=[path], passphrase=never))
    assert len(asked) == 3
    assert "none of the given passphrases opens it" in str(error)
    error = await refused(to(server, keys=[path], passphrase="wrong"))
    assert "none of the given passphrases opens it" in str(error)
    error = await refused(to(server, keys=[path]))
    assert f"{path} is encrypted, and there is no passphrase" in str(error)


async def test_unwanted_key_asks_for_no_passphrase(server: Server, tmp_path: Path) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    stranger.write_private_key(tmp_path / "stranger", "pkcs8-pem", SECRET)
    (tmp_path / "stranger").chmod(0o600)
    stranger.write_public_key(tmp_path / "stranger.pub")

    async def passphrase(text: str) -> str | None:
        raise AssertionError(text)

    async with connected(to(server, keys=[tmp_path / "stranger", server.key], passphrase=passphrase)):
        pass


@pytest.mark.parametrize("kind", ["ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521", "ssh-ed25519"])
async def test_keys_of_every_kind_are_accepted(kind: str, server: Server, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key(kind)
    key.write_private_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o600)
    with (server.directory / "authorized_keys").open("ab") as authorized:
        authorized.write(key.export_public_key())
    async with connected(to(server, keys=[tmp_path / "key"])):
        pass


async def test_encrypted_default_key_is_skipped(server: Server, home: Path) -> None:
    (home / ".ssh").mkdir()
    encrypt(server, home / ".ssh" / "id_rsa", "pkcs8-pem")
    shutil.copy(server.key, home / ".ssh" / "id_ed25519")
    async with connected(to(server, keys=None)):
        pass


@pytest.fixture
def agent(server: Server, tmp_path: Path) -> Iterator[str]:
    """An agent with the right key among others."""
    program, add = shutil.which("ssh-agent"), shutil.which("ssh-add")
    if program is None or add is None:
        missing("ssh-agent", "install openssh-client")
    path = str(tmp_path / "agent")
    process = subprocess.Popen([program, "-D", "-a", path], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        while not os.path.exists(path):
            assert process.poll() is None
        for number in range(8):
            other = tmp_path / f"other{number}"
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(other)
            other.chmod(0o600)
            subprocess.run([add, "-q", str(other)], env={"SSH_AUTH_SOCK": path}, check=True)
        subprocess.run([add, "-q", str(server.key)], env={"SSH_AUTH_SOCK": path}, check=True)
        yield path
    finally:
        process.terminate()
        process.wait()


async def test_key_of_an_agent_is_accepted(
    agent: str,
    server: Server,
    certified: tuple[Server, asyncssh.SSHKey],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    public = tmp_path / "key.pub"
    shutil.copy(f"{server.key}.pub", public)
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    error = await refused(to(server, keys=None, agent=True))
    assert "Too many authentication failures" in str(error)
    assert "of the agent (SHA256:" in str(error)
    for name in ("key.pub", "key"):  # a public key chooses one of the agent's keys
        async with connected(to(server, keys=[tmp_path / name], agent=True)):
            pass
    running, _ = certified
    shutil.copy(running.directory / "user-cert.pub", tmp_path / "signed-cert.pub")
    shutil.copy(running.directory / "client_key.pub", tmp_path / "signed.pub")
    (tmp_path / "copy").write_bytes(running.key.read_bytes())
    (tmp_path / "copy").chmod(0o600)  # not "signed", which only the agent has
    subprocess.run(
        ["ssh-add", "-q", str(tmp_path / "copy")], env=os.environ | {"SSH_AUTH_SOCK": agent}, check=True
    )
    known_hosts = running.directory / "host_key.pub"
    (tmp_path / "known").write_text(f"[{HOST}]:{running.port} {known_hosts.read_text()}")
    async with connected(to(running, keys=[tmp_path / "signed"], agent=True, known_hosts=tmp_path / "known")):
        pass
    config = tmp_path / "config"
    config.write_text(f"IdentityFile {public}\nIdentitiesOnly yes\nIdentityAgent {agent}\n")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    async with connected(to(server, keys=None, agent=True, config=config)):
        pass
    assert "no key or password to try" in str(
        await refused(to(server, keys=[public], agent=False, config=config))
    )


async def test_missing_or_silent_agent_is_reported(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert "cannot be asked" in str(await refused(to(server, keys=[], agent=True)))
    monkeypatch.setattr("anyshell.backends.ssh.connection.credentials.AGENT_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        deaf.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "deaf"))
        async with connected(to(server, agent=True)):
            pass
        assert "did not answer" in str(await refused(to(server, keys=[], agent=True)))


METHODS = pytest.mark.parametrize("method", ["password", "keyboard-interactive"])


def only(method: str, tmp_path: Path) -> Path:
    config = tmp_path / "config"
    config.write_text(f"PreferredAuthentications {method}\n")
    return config


@METHODS
async def test_password_is_accepted(method: str, password_server: Server, tmp_path: Path) -> None:
    options = to(password_server, keys=[], config=only(method, tmp_path), password=SECRET)
    async with connected(options) as connection:
        assert await said(connection, "id -un") == LOGIN_NAME
    error = await refused(replace(options, password=f"not-{SECRET}"))
    assert error.stage == "authenticate"
    assert f"the password ({method})" in str(error)


@METHODS
async def test_a_person_is_asked_for_a_password_three_times(
    method: str, password_server: Server, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def password(text: str) -> str | None:
        asked.append(text)
        return SECRET if len(asked) == right else "wrong"

    right = 2
    secrets = Secrets()
    options = to(password_server, keys=[], config=only(method, tmp_path), password=password)
    async with connected(options, secrets=secrets):
        assert len(asked) == 2
    async with connected(options, secrets=secrets):
        assert len(asked) == 2
    assert f"{LOGIN_NAME}@{HOST}" in asked[0]
    right, asked = -1, []
    await refused(options)
    assert len(asked) == 3
    right, asked = -1, []

    async def silent(text: str) -> str | None:
        asked.append(text)
        return None

    error = await refused(replace(options, password=silent))
    assert len(asked) == 1
    assert "no key or password to try" in str(error)


async def test_questions_are_answered(password_server: Server, tmp_path: Path) -> None:
    asked: list[tuple[str, Sequence[tuple[str, bool]]]] = []

    async def answer(text: str, prompts: Sequence[tuple[str, bool]]) -> Sequence[str] | None:
        asked.append((text, prompts))
        return answers

    options = to(password_server, keys=[], config=only("keyboard-interactive", tmp_path), answer=answer)
    answers: list[str] | None = [SECRET]
    async with connected(options):
        pass
    assert [prompt for prompt, _ in asked[0][1]] == ["Password: "]
    assert asked[0][1][0][1] is False
    answers, asked = ["wrong"], []
    await refused(options)
    assert len(asked) == 3
    answers = None
    await refused(options)
    answers = ["a", "b"]
    with pytest.raises(InvalidCommand, match="1 answers, not 2"):
        await open_connection(options, tell=print)


async def test_several_factors_are_passed(tmp_path: Path) -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    if os.geteuid() != 0:
        pytest.skip("only root can make a user with a password")
    more = "PasswordAuthentication yes\nAuthenticationMethods publickey,password"
    with account(f"{LOGIN_NAME}2", "/bin/sh") as user:
        set_password(user)
        with openssh(user, more) as both:
            async with connected(to(both, password=SECRET)):
                pass
            assert "password" in str(await refused(to(both)))


async def test_login_timeout_pauses_during_a_question(password_server: Server, tmp_path: Path) -> None:
    clocks: list[float | None] = []

    async def password(text: str) -> str | None:
        clocks.append(clock.when())
        return None

    options = to(password_server, password=password)
    found = read_settings(options)
    async with asyncio.timeout(100) as clock:
        before = clock.when()
        login = LoginClient(found, options, KnownHost("web"), Secrets(), certificates=False)
        login.begin(clock, Keys(found, options, Secrets(), login.ask))
        await login.ask(lambda: password(""))
        after = clock.when()
    assert clocks == [None]
    assert before is not None
    assert after is not None
    assert after >= before


async def test_packets_of_one_step_are_written_together_and_in_order() -> None:
    written: list[bytes] = []

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))

        def abort(self) -> None:
            written.append(b"aborted")

    gathered = Gathered(Wire())
    for packet in (b"a", b"b"):
        gathered.write(packet)
    await asyncio.sleep(0)
    for packet in (b"c", bytes(GATHERED), b"d"):
        gathered.write(packet)
    gathered.abort()
    assert written == [b"ab", b"c" + bytes(GATHERED), b"d", b"aborted"]


def test_unknown_library_is_not_searched_with_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("elsewhere the search is another")
    from ctypes import util

    (tmp_path / "gcc").write_text(f"#!/bin/sh\n: >{tmp_path}/started\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delitem(sys.modules, "asyncssh")
    find = util.find_library
    with without_compilers():
        assert util.find_library("oqs-of-nowhere") is None
        assert util.find_library("c") == find("c")
        assert not (tmp_path / "started").exists()
        util.find_library("of-nowhere")
        assert (tmp_path / "started").exists()
    assert util.find_library is find


async def test_hangup_of_the_server_during_a_question_is_reported() -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    ends: list[str] = []

    async def password(text: str) -> str | None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(text)
        return None

    with openssh(ME, "LoginGraceTime 5\nPasswordAuthentication yes") as hasty:
        error = await refused(to(hasty, keys=[], password=password))
    assert error.stage == "authenticate"
    assert "the server hung up while an answer was awaited" in str(error)
    assert len(ends) == 1


@pytest.mark.parametrize("where", ["password", "passphrase", "trust"])
async def test_exceptions_of_a_callers_function_propagate(
    where: str, password_server: Server, server: Server, tmp_path: Path
) -> None:
    async def fails(text: str) -> Any:
        raise LookupError(where)

    if where == "password":
        options = to(password_server, keys=[], password=fails)
    elif where == "passphrase":
        options = to(server, keys=[encrypt(server, tmp_path / "key", "pkcs8-pem")], passphrase=fails)
    else:
        options = to(server, known_hosts=tmp_path / "known", trust=fails)
    before = held()
    with pytest.raises(LookupError, match=where):
        await open_connection(options, tell=print)
    await nothing_left(before)


async def test_a_password_is_not_given_to_a_jump_host(
    password_server: Server, server: Server, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "known"
    known_hosts.write_text(server.known_hosts.read_text() + password_server.known_hosts.read_text())
    jump = f"{password_server.user}@{HOST}:{password_server.port}"
    options = SSHOptions(
        host="localhost", port=server.port, user=ME, config="", known_hosts=known_hosts, keys=[], jump=jump,
        password=SECRET, agent=False,
    )  # fmt: skip
    error = await refused(options)
    assert error.stage == "authenticate"
    assert "the password" not in str(error)
    assert LOGIN_NAME in str(error)


# # --- the route ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def second(server: Server) -> Iterator[Server]:
    """Another server, which accepts the same key."""
    with openssh(ME) as running:
        (running.directory / "authorized_keys").write_text(Path(f"{server.key}.pub").read_text())
        yield running


async def test_jump_hosts_are_used_and_their_keys_checked(
    server: Server, second: Server, tmp_path: Path
) -> None:
    config, known_hosts = tmp_path / "config", tmp_path / "known"
    config.write_text(
        f"Host *\n User {ME}\n IdentityFile {server.key}\n HostName {HOST}\n UserKnownHostsFile {known_hosts}\n"
        f"Host one\n Port {server.port}\nHost two\n Port {second.port}\n ProxyJump one\n"
        f"Host three\n Port {server.port}\n ProxyJump one,two\n"
    )
    both = server.known_hosts.read_text() + second.known_hosts.read_text()
    known_hosts.write_text(both)
    before = held()
    for host in ("two", "three"):
        async with connected(SSHOptions(host=host, config=config)) as connection:
            assert await said(connection, "echo there") == "there"
    await nothing_left(before)
    for known, wanted in ((second, server), (server, second)):
        known_hosts.write_text(known.known_hosts.read_text())
        error = await refused(SSHOptions(host="two", config=config))
        assert isinstance(error, HostKeyUntrusted)
        assert error.host == f"[{HOST}]:{wanted.port}"
    known_hosts.write_text("")
    async with connected(SSHOptions(host="two", config=config, host_key_policy="accept-new")):
        pass
    assert sorted(known_hosts.read_text().splitlines()) == sorted(
        " ".join(line.split()[:3]) for line in both.splitlines()
    )
    error = await refused(SSHOptions(host="two", config=config, port=free_port()))
    assert error.stage == "connect"
    assert isinstance(error.__cause__, asyncssh.ChannelOpenError)


def relay(tmp_path: Path) -> str:
    """A ProxyCommand that also prints to the terminal and may be part of a pipe."""
    program = tmp_path / "relay.py"
    program.write_text(
        "import os, socket, sys, threading\n"
        "sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "print('noise', file=sys.stderr, flush=True)\n"
        "def up():\n"
        "    while data := os.read(0, 65536): sock.sendall(data)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=up).start()\n"
        "while data := sock.recv(65536): os.write(1, data)\n"
    )
    return f"ProxyCommand {sys.executable} {program} %h %p"


async def test_connection_uses_a_proxy_command_and_ends_the_command(server: Server, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(relay(tmp_path))
    before = held()
    async with connected(to(server, config=config)) as connection:
        assert await said(connection, "echo through") == "through"
        # Servers of other tests may be children as well, and zombies, which have no command line.
        lines = [child.as_dict(["cmdline"])["cmdline"] or [] for child in psutil.Process().children()]
        assert [line[1] for line in lines if len(line) > 1].count(str(tmp_path / "relay.py")) == 1
    await nothing_left(before)
    config.write_text(relay(tmp_path) + " | cat\n")
    async with connected(to(server, config=config)) as connection:
        assert await said(connection, "echo through") == "through"
    await nothing_left(before)


@pytest.mark.parametrize(
    ("command", "stage", "words"),
    [
        ("sh -c 'echo no such place >&2; exit 3'", "connect", "exit code 3 and said: no such place"),
        ("/no/such/program", "connect", "exit code 127"),
        ("sleep 300", "handshake", "did not finish the SSH handshake"),
        (
            "sh -c 'trap \"\" HUP TERM; sleep 300 | sleep 300'",
            "handshake",
            "did not finish the SSH handshake",
        ),
    ],
)
async def test_failing_proxy_command_is_reported(
    command: str, stage: str, words: str, server: Server, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(f"ProxyCommand {command}\n")
    seconds = 0.5 if stage == "handshake" else 20
    error = await refused(to(server, config=config, login_timeout=seconds))
    assert (error.stage, words in str(error)) == (stage, True), str(error)


async def test_second_cancellation_waits_for_the_end_of_the_proxy_command(tmp_path: Path) -> None:
    """The command ignores requests to end, so that only the kill ends it."""
    seconds = unique_seconds()
    config = tmp_path / "config"
    config.write_text(f"ProxyCommand sh -c 'trap \"\" HUP; while sleep {seconds}; do :; done'\n")
    connecting = asyncio.create_task(
        open_connection(SSHOptions(host="web", user="me", config=config), tell=print)
    )
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
    while not connecting.done():
        connecting.cancel()
        await asyncio.sleep(0.01)
    assert connecting.cancelled()
    await wait_none(seconds)  # a killed process needs a processor to end


async def test_cancelled_proxy_command_stops_its_children() -> None:
    for turns in range(8):  # turns of the loop, until the command is connected
        seconds = unique_seconds()
        starting = asyncio.create_task(ProxyCommand.start(f"sh -c 'sleep {seconds} & wait'"))
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns > 2:  # the command has been started
            wait_living(f"sleep {seconds}", 2)
        starting.cancel()
        with anyio.fail_after(20):
            await asyncio.wait([starting])
        if not starting.cancelled():
            ours, proxy = starting.result()
            proxy.close()
            await proxy.wait_closed()
            ours.close()
        await wait_none(
            seconds
        )  # the child is signalled with its shell; only the end of the shell is awaited


async def test_cancellation_during_a_failing_start_of_a_proxy_command_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, failing = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def start(*_: object) -> ProxyCommand:
        begun.set()
        proxy: ProxyCommand = await failing
        return proxy

    monkeypatch.setattr(ProxyCommand, "_start", start)
    starting = asyncio.create_task(ProxyCommand.start("true"))
    await begun.wait()
    starting.cancel()
    asyncio.get_running_loop().call_soon(failing.set_exception, OSError("no more processes"))
    with anyio.fail_after(20):
        await asyncio.wait([starting])
    assert starting.cancelled()


@pytest.mark.parametrize("way", ["address", "proxy command", "encrypted key"])
def test_connection_without_a_thread_raises_one_exception(
    way: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any thread of a connection may be the one that cannot be started."""
    config, key = tmp_path / "config", tmp_path / "key"
    config.write_text(relay(tmp_path) if way == "proxy command" else "")
    options = to(server, config=config)
    if way == "encrypted key":
        asyncssh.read_private_key(server.key).write_private_key(key, passphrase=SECRET)
        key.chmod(0o600)
        options = replace(options, keys=[key], passphrase=SECRET)
    start, left = threading.Thread.start, 0

    def scarce(thread: threading.Thread) -> None:
        nonlocal left
        if left == 0:
            raise RuntimeError("can't start new thread")
        left -= 1
        start(thread)

    async def reach() -> str:
        """The message of the failure."""
        nonlocal left
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", scarce)
            try:
                connection = await open_connection(options, tell=print)
            except ConnectionFailed as error:
                return str(error)
            finally:
                left = -1
        connection.abort()
        await connection.wait_closed()
        return ""

    told: list[str] = []
    while not told or told[-1]:
        left = len(told)
        told.append(asyncio.run(reach()))
        assert len(told) < 60
    assert len(told) > 3
    assert all("no thread can be started: too many processes (ulimit -u)" in why for why in told[:-1]), told


async def test_unusable_user_name_is_refused() -> None:
    async with answering(_read) as options:
        error = await outcome(replace(options, user="me\u0627\u0031x"))
    assert "cannot be used" in str(error)


async def test_host_without_an_address_is_reported() -> None:
    error = await refused(SSHOptions(host="no-such-host.invalid", user="me", config=""))
    assert (error.stage, "no-such-host.invalid" in str(error)) == ("address", True)
    error = await refused(SSHOptions(host="a" * 300, user="me", config=""))
    assert error.stage == "address"


async def test_port_without_a_listener_is_reported() -> None:
    port = free_port()
    error = await refused(SSHOptions(host=HOST, port=port, user="me", config=""))
    assert (error.stage, str(port) in str(error)) == ("connect", True)
    assert isinstance(error.__cause__, ConnectionRefusedError)
    error = await refused(SSHOptions(host="localhost", port=port, user="me", config=""))
    assert error.stage == "connect"


async def test_unresponsive_host_is_given_up() -> None:
    """A full queue of connections is like a black hole on loopback."""
    with socket.socket() as deaf, contextlib.ExitStack() as waiting:
        deaf.bind((HOST, 0))
        deaf.listen(0)
        for _ in range(4):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(deaf.getsockname())
        options = SSHOptions(host=HOST, port=deaf.getsockname()[1], user="me", config="", connect_timeout=0.3)
        error = await refused(options)
    assert (error.stage, "did not answer within 0.3 s" in str(error)) == ("connect", True)


@contextlib.asynccontextmanager
async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[SSHOptions]:
    """A listener that is not an SSH server."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await answer(reader, writer)
        writer.close()

    listener = await asyncio.start_server(serve, HOST, 0)
    try:
        port = listener.sockets[0].getsockname()[1]
        yield SSHOptions(host=HOST, port=port, user="me", config="", keys=[], login_timeout=5)
    finally:
        listener.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def outcome(options: SSHOptions) -> ConnectionFailed:
    with pytest.raises(ConnectionFailed) as caught:
        await open_connection(options, tell=print)
    return caught.value


@pytest.mark.parametrize(
    "junk",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"220 mail ESMTP\r\n" * 200,
        b"\0" * 100_000,
        b"SSH-1.5-old\r\n",
        b"",
    ],
    ids=["http", "mail", "zeros", "ssh1", "nothing"],
)
async def test_server_without_ssh_is_reported(junk: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(junk)
        await writer.drain()

    async with answering(answer) as options:
        error = await outcome(options)
    assert error.stage == "handshake"


async def test_a_silent_server_is_given_up() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-")
        await reader.read()
        await reader.read()

    async with answering(answer) as options:
        error = await outcome(replace(options, login_timeout=0.3))
    assert (error.stage, "handshake" in str(error)) == ("handshake", True)


async def test_lack_of_a_common_algorithm_is_reported(server: Server, tmp_path: Path) -> None:
    with openssh(ME, "KexAlgorithms ecdh-sha2-nistp256") as old:
        config = tmp_path / "config"
        config.write_text("KexAlgorithms curve25519-sha256\n")
        error = await refused(to(old, config=config))
        assert (error.stage, "algorithm" in str(error)) == ("handshake", True)
        config.write_text("KexAlgorithms +ecdh-sha2-nistp256,unheard-of\n")
        async with connected(to(old, config=config)):
            pass


async def test_server_other_than_openssh_is_reached() -> None:
    with embedded() as running:
        async with connected(to(running)) as connection:
            assert await said(connection, "echo hi") == "hi"
        assert (await refused(to(running, keys=[]))).stage == "authenticate"


@pytest.mark.parametrize("way", ["straight", "through a proxy", "through a host", "with an agent"])
async def test_a_cancellation_at_any_moment_leaves_nothing(
    way: str, server: Server, second: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The connection is cancelled after each of the first hundred or so turns of the loop, until it is complete."""
    options = to(server)
    if way == "through a proxy":
        (tmp_path / "config").write_text(relay(tmp_path))
        options = to(server, config=tmp_path / "config")
    elif way == "through a host":
        (tmp_path / "known").write_text(server.known_hosts.read_text() + second.known_hosts.read_text())
        jump = f"{ME}@{HOST}:{second.port}"
        options = to(server, known_hosts=tmp_path / "known", jump=jump)
    elif way == "with an agent":
        (tmp_path / "config").write_text(f"IdentityAgent {request.getfixturevalue('agent')}\n")
        options = to(server, config=tmp_path / "config", agent=True)
    before = held()
    cancelled = 0
    for turns in (0, 1, 2, 3, 5, 8, 12, 17, 23, 30, 38, 47, 57, 68, 80, 93):
        task = asyncio.ensure_future(open_connection(options, tell=print))
        for _ in range(turns):
            await asyncio.sleep(0.001)
        task.cancel()
        try:
            connection = await task
        except asyncio.CancelledError:
            cancelled += 1
        else:
            connection.abort()
            await connection.wait_closed()
        await nothing_left(before)
    assert cancelled


async def test_simultaneous_connections_record_a_key_once(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    options = server.options(known_hosts=file, host_key_policy="accept-new")
    connections = await asyncio.gather(*(open_connection(options, tell=lambda _: None) for _ in range(8)))
    for connection in connections:
        connection.close()
        await connection.wait_closed()
    assert len(file.read_text().splitlines()) == 1


@pytest.mark.parametrize("line", ["HostName -x", "User -x", "User x$(touch${IFS}here)", "HostName a;b"])
async def test_names_of_the_configuration_are_checked(tmp_path: Path, line: str) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host web\n  ProxyCommand echo %h %r\n  {line}\n")
    config.chmod(0o600)
    with pytest.raises(InvalidCommand):
        await open_connection(SSHOptions(host="web", config=config), tell=lambda _: None)
