"""The options of a connection to a host by SSH, as a value."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from ...._exceptions import InvalidCommand
from ...._types import check_choice, check_count, check_port, check_seconds, check_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ...._types.checks import Seconds

HostKeyPolicy = Literal["ask", "accept-new"]

_SCHEME = "ssh://"

_BAD_IN_HOST = re.compile(r"[\x00-\x20\x7f-\xa0'`\"$\\;&<>|(){}@/,]|\s")
"""Matches a character that a host name may not hold: the name is put into the commands of ProxyCommand and Match, which
a shell reads.

The list is that of OpenSSH's own ``valid_hostname``, since CVE-2023-51385, with the characters that would make an
address ambiguous."""

_BAD_IN_USER = re.compile(r"[\x00-\x20\x7f-\xa0'`\";&<>|(){}]|\s|\\\Z|\$(?!\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHOptions:
    """A host, and the options to reach it.

    An option that is ``None`` is as ``~/.ssh/config`` says, and then as OpenSSH's default.

    Attributes:
        host: A name, an address, or an alias of the configuration.
        user: The user to log in as.
        port: 1 to 65535.
        directory: The directory in which commands run: an absolute directory of the host, or one that begins with
            ``~``, which is the user's home; ``None`` is the directory in which a login starts.
        keys: Private key files that are tried instead of those of the configuration.
        password: The password, tried where the server asks for one; or a function that is called for it with the text
            to show, and returns ``None`` without a password. A string is for the host itself and is never sent to a
            jump host.
        passphrase: Opens encrypted key files; or a function that is called for it with the file's path, and returns
            ``None`` without a passphrase.
        answer: A function that is called for keyboard-interactive authentication with the instructions and the
            prompts, each prompt with whether the typed text may be shown. Returns one answer for each prompt, or
            ``None``.
        agent: Whether the agent of ``SSH_AUTH_SOCK`` is asked for keys.
        jump: Hosts to go through, as ``ssh -J`` takes them; ``none`` means no jump, whatever the configuration says.
        config: The configuration file, read instead of ``~/.ssh/config`` and the system-wide file; ``None`` is those
            two files, if they exist; an empty string means no file.
        known_hosts: The file that host keys are checked against and recorded in, besides the system-wide file;
            ``None`` is the configuration's file, and by default ``~/.ssh/known_hosts``.
        host_key_policy: The treatment of an unknown host key: ``ask`` asks `trust`, and refuses without it;
            ``accept-new`` records the key. A key that differs from the known one is refused under either policy.
        trust: A function that is called with the text to show, and returns whether an unknown host key is trusted; a
            trusted key is recorded.
        connect_timeout: Seconds for finding the address and connecting; 10 by default.
        login_timeout: Seconds for handshake and authentication. The time that a function of the caller takes to
            answer is not counted.
        keepalive_interval: Seconds of silence after which the server is asked whether it still answers; 15 by
            default, 0 is never.
        keepalive_count: Times in a row that the server may owe the answer before the connection counts as lost, 1 or
            more; 2 by default.
        max_connections: Connections that are open at the same time, at most; 1 or more.

    Raises:
        InvalidCommand: A host or user that is empty, begins with ``-``, or holds spaces, control characters or
            characters that a shell would interpret; a number out of its range; a value of another type.
    """

    host: str = field(kw_only=False)
    user: str | None = None
    port: int | None = None
    directory: str | None = None
    keys: Sequence[str | PathLike[str]] | None = None
    password: str | Callable[[str], Awaitable[str | None]] | None = field(default=None, repr=False)
    passphrase: str | Callable[[str], Awaitable[str | None]] | None = field(default=None, repr=False)
    answer: Callable[[str, Sequence[tuple[str, bool]]], Awaitable[Sequence[str] | None]] | None = field(
        default=None, repr=False
    )
    agent: bool = True
    jump: str | None = None
    config: str | PathLike[str] | None = None
    known_hosts: str | PathLike[str] | None = None
    host_key_policy: HostKeyPolicy | None = None
    trust: Callable[[str], Awaitable[bool]] | None = field(default=None, repr=False)
    connect_timeout: float | None = None
    login_timeout: float = 30.0
    keepalive_interval: float | None = None
    keepalive_count: int | None = None
    max_connections: int = 12

    if TYPE_CHECKING:  # the constructor takes more types than the fields have afterwards

        def __init__(
            self,
            host: str,
            *,
            user: str | None = None,
            port: int | None = None,
            directory: str | None = None,
            keys: Sequence[str | PathLike[str]] | None = None,
            password: str | Callable[[str], Awaitable[str | None]] | None = None,
            passphrase: str | Callable[[str], Awaitable[str | None]] | None = None,
            answer: Callable[[str, Sequence[tuple[str, bool]]], Awaitable[Sequence[str] | None]]
            | None = None,
            agent: bool = True,
            jump: str | None = None,
            config: str | PathLike[str] | None = None,
            known_hosts: str | PathLike[str] | None = None,
            host_key_policy: HostKeyPolicy | None = None,
            trust: Callable[[str], Awaitable[bool]] | None = None,
            connect_timeout: Seconds | None = None,
            login_timeout: Seconds = 30.0,
            keepalive_interval: Seconds | None = None,
            keepalive_count: int | None = None,
            max_connections: int = 12,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_host(self.host)
        if self.user is not None:
            check_user(self.user)
        if self.port is not None:
            check_port(self.port)
        if self.directory is not None:
            check_text("directory", self.directory)
            if not self.directory.startswith(("/", "~")):
                raise InvalidCommand(f"directory must be absolute or begin with ~, not {self.directory!r}")
        if isinstance(self.keys, str | bytes | PathLike):
            raise InvalidCommand("keys must be a sequence of paths, not one path: put it into a list")
        for path in self.keys or ():
            check_text("a path of keys", fspath(path))
        for name in ("password", "passphrase"):
            secret = getattr(self, name)
            if isinstance(secret, str):
                check_text(name, secret)
            elif secret is not None and not callable(secret):
                raise InvalidCommand(f"{name} must be a string or a function, not {type(secret).__name__}")
        if self.jump is not None:
            parse_hops(self.jump)
        for name in ("config", "known_hosts"):
            path = getattr(self, name)
            if path is not None:
                check_text(name, fspath(path) if isinstance(path, PathLike) else path)
        if self.host_key_policy is not None:
            check_choice("host_key_policy", self.host_key_policy, ("ask", "accept-new"))
        for name in ("connect_timeout", "login_timeout", "keepalive_interval"):
            zero, none = name == "keepalive_interval", name != "login_timeout"
            object.__setattr__(self, name, check_seconds(name, getattr(self, name), zero=zero, none=none))
        if self.keepalive_count is not None:
            check_count("keepalive_count", self.keepalive_count)
        check_count("max_connections", self.max_connections)

    @classmethod
    def parse(cls, text: str) -> SSHOptions:
        """Parse ``ssh://[user@]host[:port][/directory]``, or the argument of ``ssh``: ``[user@]host``.

        In a URL, text behind a ``%`` is decoded, an IPv6 address is in brackets, ``/~/src`` is below the user's home,
        and ``/src`` is not. An alias has neither port nor directory: the configuration of ssh sets the port.

        Raises:
            InvalidCommand: The text holds a password, which the message does not repeat; a port that is not a number
                from 1 to 65535; a value that `SSHOptions` refuses.
        """
        check_text("the address", text)
        if text[: len(_SCHEME)].lower() != _SCHEME:
            user, host = _split_user(text)
            if host.startswith("[") and host.endswith("]"):
                host = host[1:-1]
            elif "/" in host or (":" in host and not _is_ipv6(host)):
                raise InvalidCommand("an alias has no port and no directory; write ssh://host:port/directory")
            return cls(host=host, user=user)
        authority, slash, path = text[len(_SCHEME) :].partition("/")
        if "?" in text or "#" in text:
            raise InvalidCommand("an ssh:// address has no ? and no #; write them as %3F and %23")
        if ":" in authority and "@" not in authority and "@" in path:
            raise InvalidCommand(_REFUSED)
        user, place = _split_user(authority)
        host, port = _split_port(place)
        directory = unquote(slash + path) if slash else None
        if directory is not None and (directory == "/~" or directory.startswith("/~/")):
            directory = directory[1:]
        return cls(
            host=unquote(host),
            user=None if user is None else unquote(user),
            port=port,
            directory=directory,
        )


def describe_address(options: SSHOptions) -> str:
    """Format a host for people: ``user@host``, with the port if one is given. The result holds no secret."""
    host = f"[{options.host}]" if ":" in options.host and options.port is not None else options.host
    user = "" if options.user is None else f"{options.user}@"
    return user + host + ("" if options.port is None else f":{options.port}")


@dataclass(frozen=True, slots=True)
class Hop:
    """A host to go through, as ``ssh -J`` and ProxyJump name it."""

    host: str
    user: str | None = None
    port: int | None = None


def parse_hops(text: str) -> tuple[Hop, ...]:
    """Parse ``[user@]host[:port],…``, also with ``ssh://`` before each host; ``none`` is an empty list.

    Raises:
        InvalidCommand: As for `SSHOptions.parse`.
    """
    check_text("jump", text)
    if text.strip().lower() == "none":
        return ()
    hops = []
    for each in text.split(","):
        place = each.strip()
        if place[: len(_SCHEME)].lower() == _SCHEME:
            place = place[len(_SCHEME) :].rstrip("/")
        user, place = _split_user(place)
        host, port = (place, None) if _is_ipv6(place) else _split_port(place)
        check_host(host)
        if user is not None:
            check_user(user)
        hops.append(Hop(host, user, port))
    return tuple(hops)


def check_host(host: object) -> None:
    """Refuse a value that is not a host name, or that would mean more than a host name in a command line.

    Raises:
        InvalidCommand: The message names the host and the fault.
    """
    _check_name("host", host, _BAD_IN_HOST)


def check_user(user: object) -> None:
    """Refuse a value that is not a user name, or that would mean more than a user name in a command line.

    Raises:
        InvalidCommand: The message names the user and the fault.
    """
    _check_name("user", user, _BAD_IN_USER)


def _check_name(what: str, name: object, bad: re.Pattern[str]) -> None:
    check_text(f"the {what}", name)
    assert isinstance(name, str)
    if not name:
        raise InvalidCommand(
            f"the {what} is empty: an address is 'local', a host's name, or 'ssh://user@host'"
        )
    if name.startswith("-"):
        raise InvalidCommand(f"the {what} {name!r} begins with -, so it would be taken for an option")
    if (found := bad.search(name)) is not None:
        raise InvalidCommand(f"the {what} {name!r} holds {found[0]!r}, which a name of a {what} cannot")


_REFUSED = (
    "the address holds a password, which logs and other programs can see; take it out and give it as "
    "SSHOptions(password=...)"
)


def _split_user(text: str) -> tuple[str | None, str]:
    """Split at the last ``@``, as ssh does: a user name may hold one."""
    user, at, host = text.rpartition("@")
    if not at:
        return None, host
    if ":" in user:
        raise InvalidCommand(_REFUSED)
    return user, host


def _split_port(place: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([^:]*))?", place)
    if found is None:
        raise InvalidCommand("an IPv6 address in an address stands in brackets: [::1], [::1]:2222")
    host = found[1] if found[2] is None else found[2]
    if found[3] is None:
        return host, None
    # The text is not repeated: if the @ was forgotten, the text is a password.
    if not re.fullmatch(r"[0-9]{1,5}", found[3]) or not 1 <= int(found[3]) <= 65535:
        raise InvalidCommand("the port of an address must be a number from 1 to 65535")
    return host, int(found[3])


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
