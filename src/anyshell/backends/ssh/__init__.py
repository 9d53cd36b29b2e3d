"""Hosts that are reached by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .options import SSHOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...abc import Backend, Launcher


def connect(host: str | SSHOptions, launcher: Callable[[str], Launcher]) -> Backend:
    """Make the backend for a host.

    Raises:
        InvalidCommand: The address is malformed.
    """
    from .backend import SSHBackend  # asyncssh takes a quarter of a second to import

    return SSHBackend(SSHOptions.parse(host) if isinstance(host, str) else host, launcher)
