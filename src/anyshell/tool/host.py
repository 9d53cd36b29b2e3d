"""Questions of a tool to a host about a call."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

import anyio

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from .._environment import Environment

HOST_BOUND = 5.0
"""Seconds for a question to the host's files, beside the command; without an answer the safe one is taken."""


async def no_directory(env: Environment, path: str) -> str:
    """Say why a path cannot be a command's directory: it is missing, or is no directory.

    Asked before the approver, so that a person does not judge a command that cannot run. Empty when the directory is there,
    and when the host does not tell in time.
    """
    with anyio.move_on_after(HOST_BOUND):
        try:
            if (await env.files.stat(path)).kind != "directory":
                return f"cwd {path!r} is not a directory"
        except FileNotFoundError:
            return f"cwd {path!r} does not exist"
        except NotADirectoryError as error:
            return f"cwd {path!r} cannot be used: {error.strerror}"
        except (OSError, AnyshellError):
            pass  # then the command itself meets whatever is wrong
    return ""


async def can_enter(env: Environment, path: str) -> bool:
    """Whether a path is a directory, and one that may be entered: only then is there something below it."""
    with anyio.move_on_after(HOST_BOUND):
        try:
            return await env.files.is_dir(posixpath.join(path, "."))
        except (OSError, AnyshellError):
            pass  # then the command itself meets whatever is wrong
    return False
