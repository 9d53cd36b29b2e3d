"""What the configuration of ``ssh`` says of a host.

asyncssh reads such files too, but not as ssh does: it has no StrictHostKeyChecking and no HashKnownHosts, gives up
at a comment behind a value, at ``ConnectTimeout 1m`` and at a token that it does not know, includes files in no
order, takes ``UserKnownHostsFile none`` as leave not to check, and sends what SendEnv and SetEnv name. So the files
are read here, once and for everything, after ssh_config(5) and OpenSSH's ``readconf.c``, and asyncssh is given none.
"""

from __future__ import annotations

import getpass
import glob
import hashlib
import os
import re
import socket
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import psutil

from ...._exceptions import InvalidCommand
from .options import Hop, check_host, check_user, parse_hops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .options import SSHOptions

KeyPolicy = Literal["refuse", "ask", "accept-new"]

SYSTEM_CONFIG = "/etc/ssh/ssh_config"

SSH_PORT = 22
"""Port of an SSH server, unless given (RFC 4253, 4.1)."""

MAX_INCLUDES = 16
"""Files of a configuration that include each other, as in OpenSSH; more is an error."""

MATCH_EXEC_SECONDS = 5.0
"""Seconds for a command of ``Match exec``; then it does not match."""

CONNECT_SECONDS = 10.0
"""Seconds for finding the host's address and connecting, unless `connect_timeout=` or ConnectTimeout says otherwise."""
KEEPALIVE_SECONDS = 15.0
"""Seconds of silence before a server is probed, unless `keepalive_interval=` or ServerAliveInterval says otherwise."""
KEEPALIVE_COUNT = 2
"""Questions of that kind in a row that a server may owe the answer to, unless `keepalive_count=` or ServerAliveCountMax
says otherwise; then the connection counts as lost."""

DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")

METHODS = ("publickey", "keyboard-interactive", "password")
"""How one can log in here, in the order in which it is tried."""

_UNHEEDED = {
    "sendenv": ("SendEnv", "no variable of this machine is sent to a host"),
    "setenv": ("SetEnv", "give variables with env="),
    "remotecommand": ("RemoteCommand", "commands are run as they are given"),
    "requesttty": ("RequestTTY", "commands have no terminal"),
    "knownhostscommand": ("KnownHostsCommand", "host keys are read from known_hosts files alone"),
    "pkcs11provider": ("PKCS11Provider", "load the token's keys into an agent"),
    "canonicalizehostname": ("CanonicalizeHostname", "write the whole name of the host"),
}
"""What a person who wrote it into his own file should know is not heeded, and what holds instead."""

_HARMLESS = {("requesttty", "no"), ("requesttty", "auto"), ("canonicalizehostname", "no")}

_ACCUMULATED = {"identityfile", "certificatefile"}
_RAW = {"proxycommand", "proxyjump", "remotecommand", "knownhostscommand"}
"""Keywords whose value is the rest of the line, as it stands."""

_SYNONYMS = {
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms",
    "dsaauthentication": "pubkeyauthentication",
    "globalknownhostsfile2": "globalknownhostsfile",
    "userknownhostsfile2": "userknownhostsfile",
}

_HEEDED = {
    "addressfamily", "bindaddress", "casignaturealgorithms", "ciphers", "connecttimeout", "globalknownhostsfile",
    "hashknownhosts", "hostkeyalgorithms", "hostkeyalias", "hostname", "identitiesonly", "identityagent",
    "kbdinteractiveauthentication", "kexalgorithms", "macs", "numberofpasswordprompts", "passwordauthentication",
    "port", "preferredauthentications", "pubkeyacceptedalgorithms", "pubkeyauthentication", "revokedhostkeys",
    "serveralivecountmax", "serveraliveinterval", "stricthostkeychecking", "tag", "tcpkeepalive", "user",
    "userknownhostsfile",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """The value of a keyword, and where it stands."""

    words: tuple[str, ...]
    where: str

    @property
    def word(self) -> str:
        """The value, of a keyword that has one."""
        return self.words[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for one host: the caller's options over the configuration over OpenSSH's defaults.

    Attributes:
        alias: The host as it was asked for.
        host: The name or address to connect to.
        port: Where it listens.
        user: Who to log in as.
        family: The address family to use; 0 is any.
        bind_address: The address of this machine to connect from.
        tcp_keepalive: Whether the system keeps watch over the connection as well.
        proxy_command: What to run instead of connecting, for a shell; its tokens are put in.
        jumps: The hosts to go through, the first of them first.
        keys: Private key files.
        keys_named: Whether somebody named them; otherwise they are the default ones.
        certificates: Certificates beside those that lie beside their keys.
        identities_only: Whether an agent's other keys are left out.
        agent: The agent's socket; an empty string is none.
        known_hosts: Where host keys are looked up; new ones are recorded in the first.
        system_known_hosts: Where they are looked up as well.
        host_key_alias: The name under which the host's key is known.
        host_key_policy: What becomes of an unknown key: ``refuse`` asks nobody.
        hash_known_hosts: Whether a recorded name is hashed.
        revoked_keys: A file of host keys that are refused.
        methods: Of `METHODS`, those that may be used, in order.
        prompts: How often a person is asked, 1 to 3.
        connect_timeout: Seconds.
        keepalive_interval: Seconds; 0 is never.
        keepalive_count: 1 or more.
        algorithms: Lists of algorithms, by their keyword in lower case, as they are written.
        notices: What a person should know of it, one sentence each.
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
        """Who logs in where, for a question to a person. Two that differ are never the same."""
        port = "" if self.port == SSH_PORT else f":{self.port}"
        return f"{self.user}@{self.alias}{port}"

    @property
    def address(self) -> str:
        """The host and its port, for a message."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"{host} port {self.port}"
        return place if self.host == self.alias else f"{self.alias} ({place})"


def read_settings(options: SSHOptions, hop: Hop | None = None) -> Settings:
    """Find out what holds for a host. Blocks, since it reads files and may run commands of ``Match exec``.

    Args:
        options: What the caller said.
        hop: A host on the way to the caller's. Its name, user and port count instead of the caller's.

    Raises:
        InvalidCommand: A file that cannot be read, or that other users can write; a value that cannot be used. Names
            the file and the line.
    """
    target = hop or Hop(options.host, options.user, options.port)
    reader = _Reader(target)
    reader.read(options)
    settings = _settings(reader, options, is_target=hop is None)
    # Those of the configuration too: a ProxyCommand hands them to a shell.
    check_host(settings.host)
    check_user(settings.user if " -" in settings.user else settings.user.replace(" ", ""))  # as ssh does
    return settings


class _Reader:
    """Goes through the files and keeps the first value of each keyword."""

    def __init__(self, target: Hop) -> None:
        self.alias = target.host
        self.first: dict[str, Line] = {}
        self.several: dict[str, list[Line]] = {name: [] for name in _ACCUMULATED}
        self.proxy: tuple[str, Line] | None = None
        self.notices: dict[str, str] = {}
        self.local_user = _local_user()
        if target.user is not None:
            self.first["user"] = Line((target.user,), "the options")
        if target.port is not None:
            self.first["port"] = Line((str(target.port),), "the options")
        self._final = False
        self._final_wanted = False

    def read(self, options: SSHOptions) -> None:
        """Read what there is to be read; a second time when something matches at the end only."""
        if options.config is None:
            self._pass(os.path.expanduser("~/.ssh/config"), SYSTEM_CONFIG)
        elif path := os.fspath(options.config):
            self._pass(os.path.expanduser(path), None, needed=True)

    def _pass(self, own: str, system: str | None, *, needed: bool = False) -> None:
        for self._final in (False, True):
            self._file(own, own=True, needed=needed, check=not needed)
            if system is not None:
                self._file(system, own=False)
            if not self._final_wanted:
                return

    # --- files and lines ---

    def _file(
        self, path: str, *, own: bool, needed: bool = False, check: bool = False, depth: int = 0
    ) -> None:
        if depth > MAX_INCLUDES:
            raise InvalidCommand(f"{path}: files include each other more than {MAX_INCLUDES} deep")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                if check:
                    _check_owner(path, os.fstat(file.fileno()))
                lines = file.read().splitlines()
        except FileNotFoundError:
            if needed:
                raise InvalidCommand(f"{path} does not exist; config= names the configuration file") from None
            return
        except OSError as error:
            raise InvalidCommand(f"{path} cannot be read: {error.strerror}") from error
        active = True
        for number, line in enumerate(lines, 1):
            where = f"{path}, line {number}"
            found = re.match(r'[ \t]*"?([^\s="#]+)"?[ \t]*=?[ \t]*(.*?)[ \t\f\r]*\Z', line, re.DOTALL)
            if found is None:
                continue
            keyword = found[1].lower()
            keyword = _SYNONYMS.get(keyword, keyword)
            if keyword == "host":
                active = _host_matches(self.alias, split_words(found[2], where))
            elif keyword == "match":
                active = self._matches(split_words(found[2], where), where)
            elif active and keyword == "include":
                for each in self._included(split_words(found[2], where), own):
                    self._file(each, own=own, check=check, depth=depth + 1)
            elif active:
                self._keep(keyword, found[2], where, own)

    def _included(self, patterns: tuple[str, ...], own: bool) -> Iterator[str]:
        """The files of an Include, in the order of their names; relative ones lie where the including kind does."""
        for pattern in patterns:
            path = os.path.expanduser(pattern) if own else pattern
            if not os.path.isabs(path):
                path = os.path.join(
                    os.path.expanduser("~/.ssh") if own else os.path.dirname(SYSTEM_CONFIG), path
                )
            yield from (each for each in sorted(glob.glob(path)) if not os.path.isdir(each))

    def _keep(self, keyword: str, rest: str, where: str, own: bool) -> None:
        known = keyword in _HEEDED or keyword in _ACCUMULATED or keyword in _RAW or keyword in _UNHEEDED
        if not known:
            return  # of the many things that ssh can do besides; one that this ssh does not know, perhaps
        words = (rest,) if keyword in _RAW and rest else split_words(rest, where)
        if not words or not words[0]:
            raise InvalidCommand(f"{where}: {keyword} has no value")
        line = Line(words, where)
        word = words[0].lower()
        if keyword in _UNHEEDED and own and word != "none" and (keyword, word) not in _HARMLESS:
            name, instead = _UNHEEDED[keyword]
            self.notices.setdefault(keyword, f"{name} of {where}, is not heeded: {instead}.")
        if keyword in ("proxycommand", "proxyjump"):
            self.proxy = self.proxy or (keyword, line)  # whichever comes first, even with none
        elif keyword in _ACCUMULATED:
            if line.words not in [each.words for each in self.several[keyword]]:
                self.several[keyword].append(line)
        elif keyword == "hostname":
            if keyword not in self.first:
                name = expand(line, {"%": "%", "h": self.alias})
                self.first[keyword] = Line((name,), where)
        else:
            self.first.setdefault(keyword, line)

    # --- matching ---

    @property
    def host(self) -> str:
        """The name to connect to, as far as it is known."""
        return self.first["hostname"].word if "hostname" in self.first else self.alias

    @property
    def user(self) -> str:
        """Who to log in as, as far as it is known."""
        return self.first["user"].word if "user" in self.first else self.local_user

    def _matches(self, words: tuple[str, ...], where: str) -> bool:
        result = True
        if not words:
            raise InvalidCommand(f"{where}: Match has no condition")
        rest = list(words)
        while rest:
            condition, equals, value = rest.pop(0).partition("=")
            negated = condition.startswith("!")
            name = condition.removeprefix("!").lower()
            if name == "all":
                found = True
            elif name == "canonical":
                found = False  # names are not made canonical here
            elif name == "final":
                self._final_wanted = True
                found = self._final
            else:
                if not equals:
                    if not rest:
                        raise InvalidCommand(f"{where}: Match {name} has no pattern")
                    value = rest.pop(0)
                # What comes behind a condition that does not hold is not looked at: it may be a command.
                found = result and self._holds(name, value, where)
            if found == negated:
                result = False
        return result

    def _holds(self, name: str, value: str, where: str) -> bool:
        if name == "host":
            return match_list(self.host.lower(), value.lower())
        if name == "originalhost":
            return match_list(self.alias, value)
        if name == "user":
            return match_list(self.user, value)
        if name == "localuser":
            return match_list(self.local_user, value)
        if name == "tagged":
            return match_list(self.first["tag"].word if "tag" in self.first else "", value)
        if name == "exec":
            command = expand(Line((value,), where), self.tokens())
            return _succeeds(command)
        notice = f"Match {name} of {where}, is not known here, and its block is left out."
        self.notices.setdefault(f"match {name}", notice)
        return False

    def tokens(self) -> dict[str, str]:
        """What a ``%`` stands for, as far as it is known."""
        port = self.first["port"].word if "port" in self.first else str(SSH_PORT)
        node = socket.gethostname()
        alias = self.first["hostkeyalias"].word if "hostkeyalias" in self.first else self.alias
        jump = self.proxy[1].word if self.proxy is not None and self.proxy[0] == "proxyjump" else ""
        jump = "" if jump.lower() == "none" else jump
        told = (node + self.host + port + self.user + jump).encode(errors="surrogateescape")
        return {
            "%": "%",
            "C": hashlib.sha1(told, usedforsecurity=False).hexdigest(),
            "L": node.partition(".")[0],
            "d": os.path.expanduser("~"),
            "h": self.host,
            "i": str(os.getuid()) if hasattr(os, "getuid") else "",
            "j": jump,
            "k": alias,
            "l": node,
            "n": self.alias,
            "p": port,
            "r": self.user,
            "u": self.local_user,
        }


def _settings(reader: _Reader, options: SSHOptions, *, is_target: bool) -> Settings:
    first = reader.first
    notices = list(reader.notices.values())

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
            _path(Line((word,), line.where), tokens) for word in line.words if word.lower() != "none"
        )

    tokens = reader.tokens()
    port = number("port", SSH_PORT, 1, 65535)
    user = reader.user
    if not user:
        raise InvalidCommand("nobody knows who to log in as: say user=, or write user@host")

    jumps, command = _proxy(reader, options if is_target else None, tokens)
    keys, named = _keys(reader, options, tokens)
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
        alias=reader.alias,
        host=reader.host,
        port=port,
        user=user,
        family=_family(first.get("addressfamily")),
        bind_address=value("bindaddress"),
        tcp_keepalive=flag("tcpkeepalive", True),
        proxy_command=command,
        jumps=jumps,
        keys=keys,
        keys_named=named,
        certificates=tuple(_path(line, tokens) for line in _without_none(reader.several["certificatefile"])),
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
    reader: _Reader, options: SSHOptions | None, tokens: Mapping[str, str]
) -> tuple[tuple[Hop, ...], str | None]:
    if options is not None and options.jump is not None:
        return parse_hops(options.jump), None
    if reader.proxy is None or reader.proxy[1].word.lower() == "none":
        return (), None
    keyword, line = reader.proxy
    if keyword == "proxycommand":
        return (), expand(line, tokens)
    try:
        hops = parse_hops(split_words(line.word, line.where)[0])
    except InvalidCommand as error:
        raise InvalidCommand(f"{line.where}: {error}") from None
    # `Host *` with a ProxyJump is meant for all others.
    itself = len(hops) == 1 and hops[0].host == reader.alias and hops[0].port in (None, int(tokens["p"]))
    return (() if itself else hops), None


def _keys(reader: _Reader, options: SSHOptions, tokens: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    if options.keys is not None:
        return tuple(os.path.expanduser(os.fspath(path)) for path in options.keys), True
    lines = reader.several["identityfile"]
    if lines:
        return tuple(_path(line, tokens) for line in _without_none(lines)), True
    return _home(*DEFAULT_KEYS), False


def _policy(line: Line | None) -> tuple[KeyPolicy, str | None]:
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


def _agent(line: Line | None, tokens: Mapping[str, str]) -> str:
    word = "SSH_AUTH_SOCK" if line is None else line.word
    if word == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    if word.lower() == "none":
        return ""
    if re.fullmatch(r"\$\w+", word):
        return os.environ.get(word[1:], "")
    assert line is not None
    return _path(line, tokens)


def _family(line: Line | None) -> int:
    families = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
    if line is None:
        return socket.AF_UNSPEC
    if line.word.lower() not in families:
        raise InvalidCommand(f"{line.where}: AddressFamily must be any, inet or inet6, not {line.word!r}")
    return families[line.word.lower()]


def _flag(keyword: str, line: Line) -> bool:
    word = line.word.lower()
    if keyword == "pubkeyauthentication" and word in ("unbound", "host-bound"):
        return True
    if word not in ("yes", "true", "no", "false"):
        raise InvalidCommand(f"{line.where}: {keyword} must be yes or no, not {line.word!r}")
    return word in ("yes", "true")


def _seconds(keyword: str, line: Line) -> float:
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([0-9]{1,9})([smhdw]?)", line.word.lower())
    if not parts or "".join(map("".join, parts)) != line.word.lower():
        raise InvalidCommand(f"{line.where}: {keyword} must be a time such as 30 or 1m30s, not {line.word!r}")
    return float(sum(int(count) * units[unit] for count, unit in parts))


def _path(line: Line, tokens: Mapping[str, str]) -> str:
    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidCommand(f"{line.where}: there is no variable {found[1]}")
        return os.environ[found[1]]

    text = expand(line, tokens)
    return os.path.expanduser(re.sub(r"\$\{([^}]*)\}", variable, text))


def _without_none(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.word.lower() != "none"]


def _home(*names: str) -> tuple[str, ...]:
    return tuple(os.path.join(os.path.expanduser("~/.ssh"), name) for name in names)


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for this uid, and no variable either
        return ""


def _check_owner(path: str, status: os.stat_result) -> None:
    """Refuse a file that somebody else can write, as ssh does: it can hold commands that are run."""
    if not hasattr(os, "getuid") or not stat.S_ISREG(status.st_mode):
        return
    if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o022:
        raise InvalidCommand(f"{path} can be written by other users, and is not read; run chmod go-w on it")


def _succeeds(command: str) -> bool:
    try:
        program = subprocess.Popen(
            [os.environ.get("SHELL") or "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        return program.wait(MATCH_EXEC_SECONDS) == 0
    except subprocess.TimeoutExpired:
        with suppress(psutil.Error):
            for child in psutil.Process(program.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        program.kill()
        program.wait()
        return False


def split_words(text: str, where: str) -> tuple[str, ...]:
    """Split a line as ssh does: at spaces outside of quotes, up to a ``#`` that begins a word.

    Raises:
        InvalidCommand: A quote is not closed.
    """
    words: list[str] = []
    at, end = 0, len(text)
    while at < end:
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            break
        word, quote = "", ""
        while at < end:
            this, following = text[at], text[at + 1 : at + 2]
            if this == "\\" and following and (following in "'\"\\" or (following == " " and not quote)):
                word += following
                at += 1
            elif not quote and this in " \t":
                break
            elif not quote and this in "'\"":
                quote = this
            elif quote and this == quote:
                quote = ""
            else:
                word += this
            at += 1
        if quote:
            raise InvalidCommand(f"{where}: a quote is not closed")
        words.append(word)
    return tuple(words)


def expand(line: Line, tokens: Mapping[str, str]) -> str:
    """Put in what each ``%`` stands for.

    Raises:
        InvalidCommand: There is no such token here.
    """

    def token(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise InvalidCommand(f"{line.where}: %{found[1]} stands for nothing here; a % is written %%")
        return tokens[found[1]]

    return re.sub(r"%(.?)", token, line.word, flags=re.DOTALL)


def match_list(name: str, patterns: str) -> bool:
    """Whether one of the patterns, between commas, is that of a name, and none that begins with ``!``."""
    return _any_matches(name, [each.strip() for each in patterns.split(",")])


def _host_matches(alias: str, patterns: tuple[str, ...]) -> bool:
    return _any_matches(alias, patterns)


def _any_matches(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    found = False
    for pattern in patterns:
        if match_pattern(name, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def match_pattern(name: str, pattern: str) -> bool:
    """Whether a name is that of a pattern in which ``*`` is anything and ``?`` is one character."""
    # Runs of stars mean one, and cost much more.
    parts = (
        ".*" if part == "*" else "." if part == "?" else re.escape(part)
        for part in re.sub(r"\*+", "*", pattern)
    )
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None
