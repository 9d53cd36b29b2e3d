"""The network of a command whose reach has host names: its server, and its use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .._exceptions import ReachUnavailable
from .._waits import to_the_end
from .._wrapped import Wrapped

if TYPE_CHECKING:
    from .._types import Network, Outcome, Spawn
    from ..abc import Process, Spawner
    from ..reach import Gate


def serving(spawner: Spawner, spawn: Spawn) -> Spawner:
    """Return a spawner that serves the network of its program until the program is closed."""
    return spawner if spawn.gate is None else _ServingSpawner(spawner, spawn.gate)


class _ServingSpawner:
    """A spawner that starts a program by another spawner, and serves the program's network by a gate."""

    def __init__(self, spawner: Spawner, gate: Gate) -> None:
        self._spawner = spawner
        self._gate = gate

    async def spawn(self, spawn: Spawn) -> Process:
        """Start the program."""
        try:
            await self._gate.open(self._spawner)
            return _Served(await self._spawner.spawn(spawn), self._gate)
        except BaseException:
            await to_the_end(self._gate.aclose(), stop=lambda: None)
            raise


class _Served(Wrapped):
    """A program whose network is served until the program is closed."""

    def __init__(self, process: Process, gate: Gate) -> None:
        super().__init__(process)
        self._gate = gate

    async def aclose(self) -> None:
        try:
            await self._process.aclose()
        finally:
            await to_the_end(self._gate.aclose(), stop=lambda: None)


def network_of(spawn: Spawn) -> Network | None:
    """Return the network requests of a program so far; ``None`` if its network is not served."""
    network: Network | None = None if spawn.gate is None else spawn.gate.network()
    return network


def with_network(outcome: Outcome, spawn: Spawn) -> Outcome:
    """Add the network requests of a command to its outcome."""
    return outcome if spawn.gate is None else replace(outcome, network=network_of(spawn))


def require_none(spawn: Spawn, what: str) -> None:
    """Refuse a served network for a program that outlives this process.

    Raises:
        ReachUnavailable: The network of the program would have to be served by this process.
    """
    if spawn.gate is not None:
        raise ReachUnavailable(
            f"a network of named hosts for {what}: this program serves that network, and may end before",
            "ask for network=False or network=True, or start a job of the environment",
        )
