"""The check of a working directory of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand

if TYPE_CHECKING:
    from ..abc import Backend


async def check_directory(backend: Backend, path: str) -> None:
    """Refuse a path that is not a directory of the host.

    Raises:
        InvalidCommand: The path is not a directory, or cannot be used.
    """
    try:
        stat = await backend.files.stat(path)
    except OSError as error:
        raise InvalidCommand(f"cwd {path!r} cannot be used: {error.strerror}") from error
    if stat.kind != "directory":
        raise InvalidCommand(f"cwd {path!r} is not a directory")
