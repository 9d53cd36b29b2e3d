"""The part of an environment that detached jobs need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .._files import HostFiles
    from .runner import Runner


class Surroundings(Protocol):
    """The part of an `Environment` that detached jobs need.

    Attributes:
        runner: The runner, which starts commands on the host.
    """

    runner: Runner

    @property
    def files(self) -> HostFiles:
        """The files of the host."""
