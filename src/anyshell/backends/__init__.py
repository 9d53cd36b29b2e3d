"""Ways to reach a host. This is the only place that names one; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import BackendUnavailable
from .._types import LONGEST_NAME
from .ssh.connection.options import SSHOptions, describe_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..abc import Backend, Files, Launcher

__all__ = ["SSHOptions", "connect", "describe_address", "here", "read_address"]


def connect(
    host: str | SSHOptions | None = None, *, launcher: Callable[[str], Launcher] | None = None
) -> Backend:
    """Make the backend for a host. Nothing is contacted before it is first used.

    Args:
        host: ``None`` or ``local`` for this machine; ``ssh://[user@]host[:port][/directory]``, a name or an alias
            of ``~/.ssh/config``, or `SSHOptions`, for a host that is reached by SSH.
        launcher: What writes for the login shell of an SSH host, given its path.

    Raises:
        BackendUnavailable: No backend for that kind of address; the message names those that there are.
        InvalidCommand: The address is malformed.
    """
    host = None if host is None else host if isinstance(host, SSHOptions) else read_address(host)
    if host is None:
        from . import local

        return local.connect()
    from . import ssh

    if launcher is None:
        raise BackendUnavailable("a host that is reached by SSH needs a launcher for its login shell")
    return ssh.connect(host, launcher)


def read_address(address: str) -> SSHOptions | None:
    """Read the address of a host; ``None`` is this machine.

    Raises:
        BackendUnavailable: No backend knows that kind of address; the message names those that there are.
        InvalidCommand: It is malformed. A password in it is not repeated.
    """
    if address == "local":
        return None
    scheme, colon, _ = address.partition("://")
    if colon and scheme.lower() != "ssh":
        raise BackendUnavailable(
            f"no backend knows {scheme[:LONGEST_NAME]!r} addresses; give 'local', a host's name, or "
            "'ssh://user@host'"
        )
    return SSHOptions.parse(address)


def here() -> Files:
    """The files of this machine: the near side of every copy."""
    from .local.files import LocalFiles

    return LocalFiles()
