"""The part of an environment that detached jobs take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .._files import HostFiles
    from .runner import Runner


class Surroundings(Protocol):
    """The part of an `Environment` that detached jobs take.

    Attributes:
        runner: Knows how a command is started there.
    """

    runner: Runner

    @property
    def files(self) -> HostFiles:
        """The host's files."""
