"""Network destinations by name: the syntax of an entry, and the list of a reach."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

WEB = (80, 443)  # no bound
"""The ports of a name without a port."""

LONGEST_NAME = 253
"""Characters of the name of a host, as DNS has it; a longer one is invalid."""

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)

_SPECIAL = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("168.63.129.16"))
"""Addresses for protocols alone, which not every Python knows; and the host of an Azure machine, at a public-looking address."""

_CARRIERS = (
    # The IPv6 network, and the number of bits below the embedded IPv4 address.
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""IPv6 networks whose addresses embed an IPv4 address."""


def host_of(text: str) -> str | Address:
    """Parse a host as a proxy's client or a person writes it.

    A host whose last part is a number must be an address in its full form: a resolver would take ``127.1``, ``0177.0.0.1``
    and ``2130706433`` for addresses as well.

    Raises:
        ValueError: The text is neither a name nor an address, with the reason.
    """
    if ":" in text:
        if "%" in text:
            raise ValueError("an address with a zone is not a destination")
        return ipaddress.IPv6Address(text)
    name = text.lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode().lower()
        except UnicodeError:
            raise ValueError("not a name of a host") from None
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return ipaddress.IPv4Address(name)
    if len(name) > LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("not a name of a host")
    return name


def is_public(address: Address) -> bool:
    """Whether an address is on the internet, not on this machine, its networks, or its provider's metadata service."""
    if isinstance(address, ipaddress.IPv6Address):
        for network, above in _CARRIERS:
            if address in network:
                return is_public(ipaddress.IPv4Address((int(address) >> above) & 0xFFFFFFFF))
        if address.teredo is not None or address.is_site_local:
            return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _SPECIAL)
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    host: str | Address
    below: bool
    ports: tuple[int, ...]  # empty: every port

    def covers(self, host: str | Address, port: int) -> bool:
        if self.ports and port not in self.ports:
            return False
        if self.below:
            return isinstance(host, str) and isinstance(self.host, str) and host.endswith(f".{self.host}")
        return host == self.host


@dataclass(frozen=True)
class Names:
    """The destinations of a reach.

    Args:
        given: Entries. ``example.org`` is that name alone; ``*.example.org`` is every name below ``example.org``. An entry can
            also be an address; an IPv6 address stands in brackets. ``:PORT`` or ``:*`` (every port) may follow. An entry
            without a port has 80 and 443.

    Raises:
        InvalidCommand: An entry is invalid; the message names the entry and the reason.
    """

    given: tuple[str, ...]

    def __post_init__(self) -> None:
        self._entries  # noqa: B018 - it checks them

    @cached_property
    def _entries(self) -> tuple[_Entry, ...]:
        return tuple(map(_entry, self.given))

    def allow(self, host: str | Address, port: int) -> bool:
        """Whether an entry covers a destination."""
        return any(entry.covers(host, port) for entry in self._entries)

    def cover(self, others: Iterable[str]) -> bool:
        """Whether every destination of the other entries is covered by one of these entries."""
        return all(any(_within(_entry(other), entry) for entry in self._entries) for other in others)

    @property
    def here(self) -> bool:
        """Whether an entry is ``localhost`` or an address that is not public: then even local names go through the proxy."""
        return any(
            entry.host == "localhost" or not (isinstance(entry.host, str) or is_public(entry.host))
            for entry in self._entries
        )


def _within(inner: _Entry, outer: _Entry) -> bool:
    ports = not outer.ports or bool(inner.ports and set(inner.ports) <= set(outer.ports))
    if not inner.below:
        return ports and outer.covers(inner.host, outer.ports[0] if outer.ports else 1)
    same = inner.host == outer.host or str(inner.host).endswith(f".{outer.host}")
    return ports and outer.below and same


def _entry(text: str) -> _Entry:
    host = text
    ports: tuple[int, ...] = WEB
    found = re.fullmatch(r"(?P<host>\[.*\]|[^:]*):(?P<port>[^:]*)", text, re.DOTALL)
    if found is not None:
        host, port = found["host"], found["port"]
        if port != "*" and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise _invalid(text, "a port is a number from 1 to 65535, or *")
        ports = () if port == "*" else (int(port),)
    bracketed = host.startswith("[") and host.endswith("]")
    below = host.startswith("*.")
    try:
        read = host_of(host[1:-1] if bracketed else host[2:] if below else host)
    except ValueError:
        hint = "an address or a name such as example.org, *.example.org or example.org:22, without a scheme and a path"
        raise _invalid(text, f"an entry is {hint}") from None
    if bracketed != (isinstance(read, ipaddress.IPv6Address)):
        raise _invalid(text, "an address of version 6 stands in brackets, and nothing else does")
    if below and not isinstance(read, str):
        raise _invalid(text, "an address has nothing below it")
    here = read == "localhost" or not (isinstance(read, str) or is_public(read))
    if here and found is None:
        raise _invalid(text, f"this is not on the internet: name its port as well, such as {host}:8080")
    if below and "." not in str(read):
        raise _invalid(text, "this would be every name below a top-level domain")
    return _Entry(read, below, ports)


def _invalid(text: str, why: str) -> InvalidCommand:
    return InvalidCommand(f"network: {text[:100]!r}: {why}")
