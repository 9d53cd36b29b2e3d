"""Ways to reach a host. This is the only place that names one; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import BackendUnavailable
from .._lazy import importer
from .._types import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeIs

    from ..abc import Backend, Files, Launcher
    from .ssh.connection.options import SSHOptions as SSHOptions
    from .ssh.connection.options import describe_address as describe_address
else:
    __getattr__ = importer(__name__, {"ssh.connection.options": "SSHOptions describe_address"})

__all__ = ["SSHOptions", "connect", "describe_address", "here", "is_address", "read_address"]


def connect(
    host: str | SSHOptions | None = None, *, launcher: Callable[[str], Launcher] | None = None
) -> Backend:
    """Make the backend for a host. Nothing is contacted before it is first used.

    Args:
        host: ``None`` or ``local`` for this machine; ``ssh://[user@]host[:port][/directory]``, a name or an alias
            of ``~/.ssh/config``, or `SSHOptions`, for a host that is reached by SSH.
        launcher: The launcher, which writes for the login shell of an SSH host, given its path.

    Raises:
        BackendUnavailable: No backend for that kind of address; the message names those that there are.
        InvalidCommand: The address is malformed.
    """
    if isinstance(host, str):
        host = read_address(host)
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
    from .ssh.connection.options import SSHOptions

    return SSHOptions.parse(address)


def is_address(target: object) -> TypeIs[str | SSHOptions | None]:
    """Whether a value is what `connect` takes, and no backend."""
    if target is None or isinstance(target, str):
        return True
    from .ssh.connection.options import SSHOptions

    return isinstance(target, SSHOptions)


def here() -> Files:
    """The files of this machine: the near side of every copy."""
    from .local.files import LocalFiles

    return LocalFiles()
