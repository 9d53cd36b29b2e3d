"""This machine. What differs between systems is chosen here and below, and nowhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..._exceptions import BackendUnavailable

if TYPE_CHECKING:
    from ...abc import Backend


def connect() -> Backend:
    """Make the backend for this machine.

    Raises:
        BackendUnavailable: There is none for this system, or this process is out of descriptors.
    """
    if sys.platform != "win32":
        from .backend import LocalBackend

        try:
            return LocalBackend()
        except OSError as error:  # out of descriptors, usually
            raise BackendUnavailable(
                f"this process cannot look at its own machine: {error.strerror}"
            ) from error
    raise BackendUnavailable("this version does not run commands on Windows itself; use it inside WSL")
