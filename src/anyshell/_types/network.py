"""The network use of a command that a proxy serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Contact = Literal["allowed", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The connections of a command to one name and port with the same verdict.

    Attributes:
        name: The name of the host, in lower case and without a final dot; or an address. Safe to print.
        port: The port on that host.
        verdict: ``allowed``; ``refused`` by the reach, the approver or a policy; ``failed`` when the connection was
            allowed and the host could not be reached.
        why: Why the connections failed, in a few words; empty for ``allowed``.
        connections: The number of connections.
        sent: Bytes that the command sent to the host.
        received: Bytes that the command received from the host.
    """

    name: str
    port: int
    verdict: Contact
    why: str = ""
    connections: int = 1
    sent: int = 0
    received: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The network requests of a command through the proxy of its reach. Without the proxy the command has no network.

    Attributes:
        destinations: The destinations, in the order of the first connection to each.
        unlisted: Connections that no destination counts: there were too many destinations, or the connection named none
            since it was no proxy request.
    """

    destinations: tuple[Destination, ...] = ()
    unlisted: int = 0
