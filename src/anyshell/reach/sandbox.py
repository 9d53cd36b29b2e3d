"""The interface of sandboxes, which wrap the program of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from .._types import Spawn


@runtime_checkable
class Sandbox(Protocol):
    """A wrapper that confines a program, such as by a restricted view of the file system."""

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the wrapping program to start instead of a program.

        The wrapping program ends as the confined program does: with its exit code, or by its signal. The wrapping program
        stays the ancestor of every process that the confined program starts, until the last of these processes has ended.

        Raises:
            InvalidCommand: The program cannot be confined, for instance in a directory that it would not see.
        """


class _None:
    """A sandbox that confines nothing."""

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the same program."""
        return spawn

    def __repr__(self) -> str:
        return "NONE"


NONE: Sandbox = _None()
"""No sandbox: a command may do anything that its user may."""
