"""Ways to reach a host. This is the only place that names one; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import BackendUnavailable

if TYPE_CHECKING:
    from ..abc import Backend


def connect(host: str | None = None) -> Backend:
    """Make the backend for a host. Nothing is contacted before it is first used.

    Args:
        host: ``None`` or ``local`` for this machine.

    Raises:
        BackendUnavailable: There is none for that host; the message names those that there are.
    """
    if host is None or host == "local":
        from . import local

        return local.connect()
    raise BackendUnavailable(f"no backend can reach {host!r}; this version knows 'local' alone")
