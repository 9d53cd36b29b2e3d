"""The backends: ways to reach a host. Only this module names a backend; each backend is imported at its first use."""

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
    """Make the backend for a host. The backend contacts nothing before its first use.

    Args:
        host: ``None`` or ``local`` for this machine; ``ssh://[user@]host[:port][/directory]``, a name or an alias
            of ``~/.ssh/config``, or `SSHOptions`, for a host that is reached by SSH.
        launcher: A function from the path of an SSH host's login shell to the launcher that writes for this shell.
            SSH hosts need one.

    Raises:
        BackendUnavailable: No backend knows that kind of address; the message names the known kinds. Or an SSH host has
            no `launcher`, or this process is out of descriptors.
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
        BackendUnavailable: No backend knows that kind of address; the message names the known kinds.
        InvalidCommand: The address is malformed. The message does not repeat a password in the address.
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
    """Whether a value is an address that `connect` takes, not a backend."""
    if target is None or isinstance(target, str):
        return True
    from .ssh.connection.options import SSHOptions

    return isinstance(target, SSHOptions)


def here() -> Files:
    """Return the files of this machine: the near side of every copy."""
    from .local.files import LocalFiles

    return LocalFiles()
