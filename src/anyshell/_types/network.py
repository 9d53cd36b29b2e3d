"""The network use of a command that a proxy serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Contact = Literal["allowed", "refused", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The connections of a command to one name and port that went the same way.

    Attributes:
        name: The name of the host, in lower case and without a final dot; or an address. Safe to print.
        port: The port there.
        verdict: ``allowed``; ``refused`` by the reach; ``failed`` when the reach allows it and the host could not be reached.
        why: Why it was not made, in a few words; empty if it was.
        connections: The number of connections.
        sent: Bytes that the command sent there.
        received: Bytes that it was sent.
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
    """The network requests of a command through the proxy of its reach. Without the proxy it has no network.

    Attributes:
        destinations: In the order of the first connection to each.
        unlisted: Connections that are in none of these, since there were too many destinations, or to none: no proxy's request.
    """

    destinations: tuple[Destination, ...] = ()
    unlisted: int = 0
