"""Questions of a tool to a host about a call."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

import anyio

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from .._environment import Environment

HOST_BOUND = 5.0
"""Seconds for a question about the host's files, apart from the command; without an answer the safe answer counts."""


async def no_directory(env: Environment, path: str) -> str:
    """Say why a path cannot be a command's directory: missing, not a directory, or below a file.

    The check precedes the approver: a person need not judge a command that cannot run. The answer is empty for an existing
    directory, and when the host does not answer in time.
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
            pass  # the command itself will report the problem
    return ""


async def can_enter(env: Environment, path: str) -> bool:
    """Whether a path is a directory that can be entered: only then can the host see the path's ``.`` entry."""
    with anyio.move_on_after(HOST_BOUND):
        try:
            return await env.files.is_dir(posixpath.join(path, "."))
        except (OSError, AnyshellError):
            pass  # the command itself will report the problem
    return False
