"""The backend for this machine. Only this package distinguishes between the operating systems of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._exceptions import BackendUnavailable

if TYPE_CHECKING:
    from ...abc import Backend


def connect() -> Backend:
    """Make the backend for this machine.

    Raises:
        BackendUnavailable: This process is out of descriptors.
    """
    from .backend import LocalBackend

    try:
        return LocalBackend()
    except OSError as error:  # out of descriptors, usually
        raise BackendUnavailable(f"this process cannot look at its own machine: {error.strerror}") from error
