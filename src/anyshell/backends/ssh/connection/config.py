"""The configuration of ``ssh`` for a host.

asyncssh reads such files too, but not as ssh does: it lacks StrictHostKeyChecking and HashKnownHosts, and includes
files in no order. asyncssh fails at a comment behind a value, at ``ConnectTimeout 1m`` and at an unknown token.
asyncssh also takes ``UserKnownHostsFile none`` as permission not to check, and sends the variables that SendEnv and
SetEnv name. So this module reads the files, once and for every use, after ssh_config(5) and OpenSSH's ``readconf.c``,
and asyncssh is given no file.
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
from typing import TYPE_CHECKING

from ...._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .options import Hop, SSHOptions

SYSTEM_CONFIG = "/etc/ssh/ssh_config"

SSH_PORT = 22
"""Port of an SSH server, unless given (RFC 4253, 4.1)."""

MAX_INCLUDES = 16
"""Files of a configuration that include each other, as in OpenSSH; more is an error."""

MATCH_EXEC_SECONDS = 5.0
"""Seconds for a command of ``Match exec``; then the section does not match."""

_UNHEEDED = {
    "sendenv": ("SendEnv", "no variable of this machine is sent to a host"),
    "setenv": ("SetEnv", "give variables with env="),
    "remotecommand": ("RemoteCommand", "commands are run as they are given"),
    "requesttty": ("RequestTTY", "commands have no terminal"),
    "knownhostscommand": ("KnownHostsCommand", "host keys are read from known_hosts files alone"),
    "pkcs11provider": ("PKCS11Provider", "load the token's keys into an agent"),
    "canonicalizehostname": ("CanonicalizeHostname", "write the whole name of the host"),
}
"""Settings that are not heeded, each with the name and the advice for a notice to the author of the file."""

_HARMLESS = {("requesttty", "no"), ("requesttty", "auto"), ("canonicalizehostname", "no")}

_ACCUMULATED = {"identityfile", "certificatefile"}
_RAW = {"proxycommand", "proxyjump", "remotecommand", "knownhostscommand"}
"""The keywords whose value is the rest of the line, unchanged."""

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
class ConfigLine:
    """The value of a keyword, and the place of its line."""

    words: tuple[str, ...]
    where: str

    @property
    def word(self) -> str:
        """The value of a keyword that has a single value."""
        return self.words[0]


class HostConfig:
    """The configuration of one host: the first value of each keyword.

    Args:
        target: The requested host. The target's user and port take precedence over those of the files.

    Attributes:
        alias: The host's name.
        first: The value of each keyword.
        several: The values of keywords that add up.
        proxy: ``proxycommand`` or ``proxyjump``, whichever comes first, and its value.
        notices: Facts for a person about the configuration, one sentence each.
    """

    def __init__(self, target: Hop) -> None:
        self.alias = target.host
        self.first: dict[str, ConfigLine] = {}
        self.several: dict[str, list[ConfigLine]] = {name: [] for name in _ACCUMULATED}
        self.proxy: tuple[str, ConfigLine] | None = None
        self.notices: dict[str, str] = {}
        self.local_user = _local_user()
        if target.user is not None:
            self.first["user"] = ConfigLine((target.user,), "the options")
        if target.port is not None:
            self.first["port"] = ConfigLine((str(target.port),), "the options")
        self._final = False
        self._final_wanted = False

    def read(self, options: SSHOptions) -> None:
        """Read the files; a second time if a section matches only at the end (``Match final``)."""
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
                active = _any_matches(self.alias, split_words(found[2], where))
            elif keyword == "match":
                active = self._matches(split_words(found[2], where), where)
            elif active and keyword == "include":
                for each in self._included(split_words(found[2], where), own):
                    self._file(each, own=own, check=check, depth=depth + 1)
            elif active:
                self._keep(keyword, found[2], where, own)

    def _included(self, patterns: tuple[str, ...], own: bool) -> Iterator[str]:
        """Yield the files of an Include, in the order of their names.

        A relative path starts at ``~/.ssh`` for a file of the user, and at ``/etc/ssh`` for a file of the system.
        """
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
            return  # one of ssh's many other keywords, or perhaps a keyword that this ssh does not know
        words = (rest,) if keyword in _RAW and rest else split_words(rest, where)
        if not words or not words[0]:
            raise InvalidCommand(f"{where}: {keyword} has no value")
        line = ConfigLine(words, where)
        word = words[0].lower()
        if keyword in _UNHEEDED and own and word != "none" and (keyword, word) not in _HARMLESS:
            name, instead = _UNHEEDED[keyword]
            self.notices.setdefault(keyword, f"{name} of {where}, is not heeded: {instead}.")
        if keyword in ("proxycommand", "proxyjump"):
            self.proxy = self.proxy or (
                keyword,
                line,
            )  # the first of the two counts, even with the value none
        elif keyword in _ACCUMULATED:
            if line.words not in [each.words for each in self.several[keyword]]:
                self.several[keyword].append(line)
        elif keyword == "hostname":
            if keyword not in self.first:
                name = expand(line, {"%": "%", "h": self.alias})
                self.first[keyword] = ConfigLine((name,), where)
        else:
            self.first.setdefault(keyword, line)

    # --- matching ---

    @property
    def host(self) -> str:
        """The name to connect to, as far as it is known."""
        return self.first["hostname"].word if "hostname" in self.first else self.alias

    @property
    def user(self) -> str:
        """The user to log in as, as far as it is known."""
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
                # The conditions behind a failed condition are not evaluated: a condition may run a command.
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
            command = expand(ConfigLine((value,), where), self.tokens())
            return _succeeds(command)
        notice = f"Match {name} of {where}, is not known here, and its block is left out."
        self.notices.setdefault(f"match {name}", notice)
        return False

    def tokens(self) -> dict[str, str]:
        """Return the values of ``%`` tokens, as far as they are known."""
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


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for this uid, and no variable either
        return ""


def _check_owner(path: str, status: os.stat_result) -> None:
    """Refuse a file that other users can write, as ssh does: the file can hold commands that are run."""
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
        import psutil  # here, since few configurations run a program, and hardly any program takes so long

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


def expand(line: ConfigLine, tokens: Mapping[str, str]) -> str:
    """Replace each ``%`` token by its value.

    Raises:
        InvalidCommand: A token has no value here.
    """

    def token(found: re.Match[str]) -> str:
        if found[1] not in tokens:
            raise InvalidCommand(f"{line.where}: %{found[1]} stands for nothing here; a % is written %%")
        return tokens[found[1]]

    return re.sub(r"%(.?)", token, line.word, flags=re.DOTALL)


def match_list(name: str, patterns: str) -> bool:
    """Whether a name matches one of the patterns, separated by commas, and no pattern that begins with ``!``."""
    return _any_matches(name, [each.strip() for each in patterns.split(",")])


def _any_matches(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    found = False
    for pattern in patterns:
        if match_pattern(name, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def match_pattern(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern in which ``*`` is any text and ``?`` is one character."""
    if "*" not in pattern and "?" not in pattern:  # as in nearly every line of known_hosts
        return name == pattern
    # A run of stars means the same as one star, and would cost much more.
    parts = (
        ".*" if part == "*" else "." if part == "?" else re.escape(part)
        for part in re.sub(r"\*+", "*", pattern)
    )
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None
