"""The seam between a command and its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .._types import Spawn


@runtime_checkable
class Sandbox(Protocol):
    """Stands before a program that is to be started, such as one that builds a view of the file system for it."""

    def wrap(self, spawn: Spawn) -> Spawn:
        """Say what to start instead.

        The program that is started ends as the confined one does: with its exit code, or by its signal. It has all that
        the confined one starts below it, until the last of these has ended.

        Raises:
            InvalidCommand: It cannot be confined as it stands, such as in a directory that it would not see.
        """


class _None:
    """Confines nothing."""

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the same."""
        return spawn

    def __repr__(self) -> str:
        return "NONE"


NONE: Sandbox = _None()
"""No sandbox: a command may do what its user may."""
