"""The settings for one host: the caller's options over the configuration of ``ssh`` over OpenSSH's defaults."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...._exceptions import InvalidCommand
from .config import SSH_PORT, ConfigLine, HostConfig, expand, split_words
from .options import Hop, check_host, check_user, parse_hops

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .options import SSHOptions

KeyPolicy = Literal["refuse", "ask", "accept-new"]

CONNECT_SECONDS = 10.0
"""Seconds for finding the host's address and connecting, unless `connect_timeout=` or ConnectTimeout says otherwise."""
KEEPALIVE_SECONDS = 15.0
"""Seconds of silence before a server is probed, unless `keepalive_interval=` or ServerAliveInterval says otherwise."""
KEEPALIVE_COUNT = 2
"""Keepalive questions in a row that a server may owe the answer to, unless `keepalive_count=` or ServerAliveCountMax
says otherwise; then the connection counts as lost."""

DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")

METHODS = ("publickey", "keyboard-interactive", "password")
"""The methods of a login, in the order of trying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings for one host: the caller's options over the configuration over OpenSSH's defaults.

    Attributes:
        alias: The host as it was asked for.
        host: The name or address to connect to.
        port: The port on which the host listens.
        user: The user to log in as.
        family: The address family to use; 0 is any.
        bind_address: The address of this machine to connect from.
        tcp_keepalive: Whether the system keeps watch over the connection as well.
        proxy_command: The shell command that runs instead of connecting, with its tokens expanded.
        jumps: The hosts to go through, in order.
        keys: Private key files.
        keys_named: Whether the user named the keys; otherwise they are the default keys.
        certificates: Certificates besides those next to the key files.
        identities_only: Whether an agent's other keys are left out.
        agent: The agent's socket; an empty string means no agent.
        known_hosts: The files in which host keys are looked up; new keys are recorded in the first file.
        system_known_hosts: Further files in which host keys are looked up.
        host_key_alias: The name under which the host's key is known.
        host_key_policy: The treatment of an unknown key: ``refuse`` never asks.
        hash_known_hosts: Whether a recorded name is hashed.
        revoked_keys: A file of host keys that are refused.
        methods: The usable methods of `METHODS`, in order.
        prompts: The number of questions to a person, 1 to 3.
        connect_timeout: Seconds.
        keepalive_interval: Seconds; 0 is never.
        keepalive_count: 1 or more.
        algorithms: Lists of algorithms, by their keyword in lower case, as in the configuration.
        notices: Facts for a person about the configuration, one sentence each.
    """

    alias: str
    host: str
    port: int
    user: str
    family: int
    bind_address: str | None
    tcp_keepalive: bool
    proxy_command: str | None
    jumps: tuple[Hop, ...]
    keys: tuple[str, ...]
    keys_named: bool
    certificates: tuple[str, ...]
    identities_only: bool
    agent: str
    known_hosts: tuple[str, ...]
    system_known_hosts: tuple[str, ...]
    host_key_alias: str | None
    host_key_policy: KeyPolicy
    hash_known_hosts: bool
    revoked_keys: str | None
    methods: tuple[str, ...]
    prompts: int
    connect_timeout: float
    keepalive_interval: float
    keepalive_count: int
    algorithms: Mapping[str, str]
    notices: tuple[str, ...]

    @property
    def login(self) -> str:
        """The user and the host of the login, for a question to a person. Different logins never have the same text."""
        port = "" if self.port == SSH_PORT else f":{self.port}"
        return f"{self.user}@{self.alias}{port}"

    @property
    def address(self) -> str:
        """The host and its port, for a message."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"{host} port {self.port}"
        return place if self.host == self.alias else f"{self.alias} ({place})"


def read_settings(options: SSHOptions, hop: Hop | None = None) -> Settings:
    """Read the settings for a host. Blocks, since reading may involve files and commands of ``Match exec``.

    Args:
        options: The options of the caller.
        hop: A host on the route to the caller's host. The hop's name, user and port replace the caller's.

    Raises:
        InvalidCommand: A file cannot be read, or can be written by other users; or a value cannot be used. The
            message names the file and the line.
    """
    target = hop or Hop(options.host, options.user, options.port)
    config = HostConfig(target)
    config.read(options)
    settings = _settings(config, options, is_target=hop is None)
    # The configuration's host and user are checked too: a ProxyCommand passes both to a shell.
    check_host(settings.host)
    check_user(settings.user if " -" in settings.user else settings.user.replace(" ", ""))  # as ssh does
    return settings


def _settings(config: HostConfig, options: SSHOptions, *, is_target: bool) -> Settings:
    first = config.first
    notices = list(config.notices.values())

    def value(keyword: str) -> str | None:
        line = first.get(keyword)
        return None if line is None or line.word.lower() == "none" else line.word

    def flag(keyword: str, default: bool) -> bool:
        line = first.get(keyword)
        return default if line is None else _flag(keyword, line)

    def number(keyword: str, default: int, least: int, most: int) -> int:
        line = first.get(keyword)
        if line is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", line.word) or not least <= int(line.word) <= most:
            raise InvalidCommand(
                f"{line.where}: {keyword} must be a number from {least} to {most}, not {line.word!r}"
            )
        return int(line.word)

    def seconds(keyword: str, default: float) -> float:
        line = first.get(keyword)
        return default if line is None or line.word.lower() == "none" else _seconds(keyword, line)

    def paths(keyword: str, default: tuple[str, ...]) -> tuple[str, ...]:
        line = first.get(keyword)
        if line is None:
            return default
        return tuple(
            _path(ConfigLine((word,), line.where), tokens) for word in line.words if word.lower() != "none"
        )

    tokens = config.tokens()
    port = number("port", SSH_PORT, 1, 65535)
    user = config.user
    if not user:
        raise InvalidCommand("no user name: give user=, or write user@host")

    # Precedence of every value below: an option of the caller, then ssh_config, then the default of
    # ssh_config(5). The caller's jump hosts are for the target alone: otherwise a jump host would be reached
    # through itself.
    jumps, command = _proxy(config, options if is_target else None, tokens)
    keys, named = _keys(config, options, tokens)
    policy, notice = _policy(first.get("stricthostkeychecking"))
    if options.host_key_policy is not None:
        policy, notice = options.host_key_policy, None
    notices += [notice] if notice is not None else []
    own_known_hosts = paths("userknownhostsfile", _home("known_hosts", "known_hosts2"))
    if options.known_hosts is not None:
        own_known_hosts = (os.path.expanduser(os.fspath(options.known_hosts)),)
    interval, count = options.keepalive_interval, options.keepalive_count
    if interval is None:
        interval = seconds("serveraliveinterval", KEEPALIVE_SECONDS)
    if count is None:
        count = max(1, number("serveralivecountmax", KEEPALIVE_COUNT, 0, 2**31))
    timeout = options.connect_timeout or seconds("connecttimeout", CONNECT_SECONDS) or CONNECT_SECONDS

    return Settings(
        alias=config.alias,
        host=config.host,
        port=port,
        user=user,
        family=_family(first.get("addressfamily")),
        bind_address=value("bindaddress"),
        tcp_keepalive=flag("tcpkeepalive", True),
        proxy_command=command,
        jumps=jumps,
        keys=keys,
        keys_named=named,
        certificates=tuple(_path(line, tokens) for line in _without_none(config.several["certificatefile"])),
        identities_only=flag("identitiesonly", False),
        agent=_agent(first.get("identityagent"), tokens) if options.agent else "",
        known_hosts=own_known_hosts,
        system_known_hosts=paths(
            "globalknownhostsfile", ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
        ),
        host_key_alias=value("hostkeyalias"),
        host_key_policy=policy,
        hash_known_hosts=flag("hashknownhosts", False),
        revoked_keys=next(iter(paths("revokedhostkeys", ())), None),
        methods=_methods(value("preferredauthentications"), flag),
        prompts=max(1, min(3, number("numberofpasswordprompts", 3, 0, 2**31))),
        connect_timeout=timeout,
        keepalive_interval=interval,
        keepalive_count=count,
        algorithms={
            keyword: first[keyword].word
            for keyword in (
                "casignaturealgorithms",
                "ciphers",
                "hostkeyalgorithms",
                "kexalgorithms",
                "macs",
                "pubkeyacceptedalgorithms",
            )
            if keyword in first
        },
        notices=tuple(notices),
    )


def _proxy(
    config: HostConfig, options: SSHOptions | None, tokens: Mapping[str, str]
) -> tuple[tuple[Hop, ...], str | None]:
    if options is not None and options.jump is not None:
        return parse_hops(options.jump), None
    if config.proxy is None or config.proxy[1].word.lower() == "none":
        return (), None
    keyword, line = config.proxy
    if keyword == "proxycommand":
        return (), expand(line, tokens)
    try:
        hops = parse_hops(split_words(line.word, line.where)[0])
    except InvalidCommand as error:
        raise InvalidCommand(f"{line.where}: {error}") from None
    # A ProxyJump under `Host *` is meant for all other hosts.
    itself = len(hops) == 1 and hops[0].host == config.alias and hops[0].port in (None, int(tokens["p"]))
    return (() if itself else hops), None


def _keys(config: HostConfig, options: SSHOptions, tokens: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    if options.keys is not None:
        return tuple(os.path.expanduser(os.fspath(path)) for path in options.keys), True
    lines = config.several["identityfile"]
    if lines:
        return tuple(_path(line, tokens) for line in _without_none(lines)), True
    return _home(*DEFAULT_KEYS), False


def _policy(line: ConfigLine | None) -> tuple[KeyPolicy, str | None]:
    word = "ask" if line is None else line.word.lower()
    if word == "ask":
        return "ask", None
    if word in ("yes", "true"):
        return "refuse", None
    if word == "accept-new":
        return "accept-new", None
    assert line is not None
    if word in ("no", "off", "false"):
        return "accept-new", (
            f"StrictHostKeyChecking {word} of {line.where}, is taken as accept-new: a host key that has changed is "
            "refused."
        )
    raise InvalidCommand(
        f"{line.where}: StrictHostKeyChecking must be yes, no, ask or accept-new, not {line.word!r}"
    )


def _methods(preferred: str | None, flag: Callable[[str, bool], bool]) -> tuple[str, ...]:
    allowed = {
        "publickey": "pubkeyauthentication",
        "keyboard-interactive": "kbdinteractiveauthentication",
        "password": "passwordauthentication",
    }
    order = METHODS if preferred is None else [word.strip() for word in preferred.split(",")]
    return tuple(method for method in order if method in allowed and flag(allowed[method], True))


def _agent(line: ConfigLine | None, tokens: Mapping[str, str]) -> str:
    word = "SSH_AUTH_SOCK" if line is None else line.word
    if word == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    if word.lower() == "none":
        return ""
    if re.fullmatch(r"\$\w+", word):
        return os.environ.get(word[1:], "")
    assert line is not None
    return _path(line, tokens)


def _family(line: ConfigLine | None) -> int:
    families = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
    if line is None:
        return socket.AF_UNSPEC
    if line.word.lower() not in families:
        raise InvalidCommand(f"{line.where}: AddressFamily must be any, inet or inet6, not {line.word!r}")
    return families[line.word.lower()]


def _flag(keyword: str, line: ConfigLine) -> bool:
    word = line.word.lower()
    if keyword == "pubkeyauthentication" and word in ("unbound", "host-bound"):
        return True
    if word not in ("yes", "true", "no", "false"):
        raise InvalidCommand(f"{line.where}: {keyword} must be yes or no, not {line.word!r}")
    return word in ("yes", "true")


def _seconds(keyword: str, line: ConfigLine) -> float:
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([0-9]{1,9})([smhdw]?)", line.word.lower())
    if not parts or "".join(map("".join, parts)) != line.word.lower():
        raise InvalidCommand(f"{line.where}: {keyword} must be a time such as 30 or 1m30s, not {line.word!r}")
    return float(sum(int(count) * units[unit] for count, unit in parts))


def _path(line: ConfigLine, tokens: Mapping[str, str]) -> str:
    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidCommand(f"{line.where}: there is no variable {found[1]}")
        return os.environ[found[1]]

    text = expand(line, tokens)
    return os.path.expanduser(re.sub(r"\$\{([^}]*)\}", variable, text))


def _without_none(lines: list[ConfigLine]) -> list[ConfigLine]:
    return [line for line in lines if line.word.lower() != "none"]


def _home(*names: str) -> tuple[str, ...]:
    return tuple(os.path.join(os.path.expanduser("~/.ssh"), name) for name in names)
