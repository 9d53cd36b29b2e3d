"""Hosts that are reached by SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...abc import Backend, Launcher
    from .connection.options import SSHOptions


def connect(host: SSHOptions, launcher: Callable[[str], Launcher]) -> Backend:
    """Make the backend for a host."""
    from .backend import SSHBackend  # asyncssh takes a quarter of a second to import

    return SSHBackend(host, launcher)
