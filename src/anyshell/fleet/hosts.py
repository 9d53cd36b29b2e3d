"""The hosts of a fleet: the parsed list of unique names and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import AnyshellError, InvalidCommand
from ..backends import SSHOptions, describe_address, read_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..abc import Backend

    Target = SSHOptions | Backend | None
    """A target for `Environment.detect`; ``None`` is this machine."""

MAX_HOSTS = 10_000
"""Hosts in one fleet; more hosts are an error."""


def read_hosts(hosts: Iterable[str | SSHOptions | Backend]) -> dict[str, Target]:
    """Return each host's name, with the target that reaches the host.

    Raises:
        InvalidCommand, BackendUnavailable: As for `Fleet`.
    """
    if isinstance(hosts, str | bytes | SSHOptions):
        raise InvalidCommand("hosts must be a list of hosts, not one host: put it into a list")
    if not hasattr(hosts, "__iter__"):
        raise InvalidCommand(
            f"hosts must be a list of hosts, such as ['web-1', 'local'], not {type(hosts).__name__}"
        )
    found: dict[str, Target] = {}
    same_name: dict[str, list[Target]] = {}
    for number, host in enumerate(hosts, 1):
        if number > MAX_HOSTS:
            raise InvalidCommand(f"there are more than {MAX_HOSTS} hosts: make several fleets of them")
        name, target = _read_host(host, number)
        others = same_name.setdefault(_identity(target), [])
        if any(_is_same(target, other) for other in others):
            raise InvalidCommand(
                f"host {number}, {name!r}, is in the list twice: a command runs once on a host"
            )
        others.append(target)
        own, count = name, 1
        while own in found:
            count += 1
            own = f"{name} ({count})"
        found[own] = target
    if not found:
        raise InvalidCommand("there are no hosts: give one or more")
    return found


def _read_host(host: object, number: int) -> tuple[str, Target]:
    if isinstance(host, str):
        try:
            target = read_address(host)
        except AnyshellError as error:
            raise type(error)(f"host {number}: {error}") from None
        return host, target
    if isinstance(host, SSHOptions):
        return describe_address(host), host
    if not hasattr(host, "spawn"):
        raise InvalidCommand(
            f"host {number} must be an address, SSHOptions or a backend, not {type(host).__name__}; this machine is 'local'"
        )
    backend: Backend = host  # type: ignore[assignment]  # as far as can be seen
    return backend.name, backend


def _identity(target: Target) -> str:
    """Return a key for a host: two entries for the same host have the same key."""
    if target is None:
        return ""
    return describe_address(target) if isinstance(target, SSHOptions) else f"backend {id(target)}"


def _is_same(one: Target, other: Target) -> bool:
    return one is other or (isinstance(one, SSHOptions) and one == other)
