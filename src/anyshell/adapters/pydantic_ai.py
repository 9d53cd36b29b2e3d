"""An environment as a workspace of Pydantic AI."""

from __future__ import annotations

import posixpath
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand
from . import needs
from .whole import list_whole, run_whole

with needs("pydantic_ai", "pydantic-ai"):
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        SupportsCommands,
        SupportsFilesystem,
        SupportsRealpath,
        WorkspaceBackend,
        WorkspaceError,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
    from pydantic_ai.workspaces import Workspace as Facade

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from pydantic_ai.workspaces import WorkspaceCommand

    from .._environment import Environment

PREVIEW = 64 * 1024
"""Characters from the start of each channel in the error for a command that printed too much; the rest is left out."""


class _Commands(WorkspaceBackend, SupportsCommands):
    """The commands of an environment; Pydantic AI's own code uses commands to resolve links."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ref: WorkspaceRef | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        """The host and the directory; ``None`` before the first operation."""
        return self._ref

    async def working_dir(self) -> str:
        """Return the directory in which commands run, as it was given."""
        return self._env.directory

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command, and return its whole output."""
        if isinstance(command, str) != shell:
            raise TypeError("a text needs shell=True, and a program with its arguments shell=False")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout must be a positive number of seconds or None, not {timeout}")
        async with self._operation():
            try:
                whole = await run_whole(
                    self._env, command, variables=env, timeout=timeout, left_behind="keep"
                )
            except InvalidCommand:
                await self._check_directory()  # a missing directory may be the cause
                raise
            await self._check_directory()  # a command can succeed although its directory is gone
        stdout, stderr = (data.decode(errors="replace") for data in (whole.stdout, whole.stderr))
        if whole.too_much:
            raise WorkspaceOutputLimitError(
                f"the command was stopped: it printed more than {whole.limit} bytes. Redirect its output to a file and "
                f"read parts of that{whole.kept}",
                limit=whole.limit,
                stdout=stdout[:PREVIEW],
                stderr=stderr[:PREVIEW],
            )
        if whole.outcome.status == "timed_out":
            message = f"the command was stopped after {timeout:g} s{whole.alive}"
            raise WorkspaceTimeoutError(message, stdout=stdout, stderr=stderr)
        if whole.outcome.status != "exited" or whole.exit_code is None:
            raise WorkspaceError(
                f"the command was {whole.outcome.status}, and may have run: look at what it did before you run it again"
            )
        return CommandResult(exit_code=whole.exit_code, stdout=stdout, stderr=stderr)

    @asynccontextmanager
    async def _operation(self) -> AsyncGenerator[None]:
        """Return a context for an operation; it tells a missing file from a missing environment."""
        if self._env.closed:
            raise WorkspaceUnavailableError(f"the environment of {self._env.host} is closed")
        self._ref = self._ref or WorkspaceRef(
            provider="anyshell", id=f"{self._env.host}:{self._env.directory}"
        )
        try:
            yield
        except FileNotFoundError:
            await self._check_directory()
            raise

    async def _check_directory(self) -> None:
        if not await self._env.files.is_dir("."):
            raise WorkspaceUnavailableError(
                f"{self._env.directory} on {self._env.host} is not a directory any more"
            )


class Workspace(_Commands, SupportsFilesystem, SupportsRealpath):
    """The commands and files of an environment, for ``Agent.run(workspace=...)``.

    A process that a command leaves behind goes on, as Pydantic AI requires; the caller must stop the process.

    Args:
        env: An environment of a POSIX host and shell; its directory is the workspace. The caller closes the environment.
    """

    async def working_dir(self) -> str:
        """Return the directory of the environment, with links resolved."""
        async with self._operation():
            await self._check_directory()
            return await self.realpath(self._env.directory)

    async def realpath(self, path: str) -> str:
        """Resolve the links in a path; parts that do not exist stay unchanged."""
        async with self._operation():
            return await Facade(_Commands(self._env)).realpath(path)

    async def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        async with self._operation():
            return await self._env.files.read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file, and make its parent directories."""
        async with self._operation():
            try:
                await self._env.files.write(path, data)
            except FileNotFoundError:
                await self._check_directory()  # a missing workspace is an error: never make it anew
                await self._env.files.mkdir(posixpath.dirname(path), parents=True, exist_ok=True)
                await self._env.files.write(path, data)

    async def stat(self, path: str) -> FileEntry:
        """Describe a file or directory."""
        async with self._operation():
            stat = await self._env.files.stat(path)
        is_dir = stat.kind == "directory"
        name = posixpath.basename(path)
        return FileEntry(name=name, path=path, is_dir=is_dir, size=None if is_dir else stat.size)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Return the entries of a directory, without sizes."""
        async with self._operation():
            found = await list_whole(self._env, path)
        return [
            FileEntry(name=name, path=posixpath.join(path, name), is_dir=is_dir, size=None)
            for name, is_dir in found
        ]

    async def make_dir(self, path: str) -> None:
        """Make a directory and its parent directories."""
        async with self._operation():
            await self._check_directory()
            await self._env.files.mkdir(path, parents=True, exist_ok=True)

    async def remove(self, path: str) -> None:
        """Remove a file or a tree, but never the workspace or a directory above the workspace."""
        directory = await self.working_dir()
        above, name = posixpath.split(path)
        if name in ("", ".", ".."):  # such a path names a directory, never a link to a directory
            real = await self.realpath(path)
        else:
            real = posixpath.join(await self.realpath(above), name)
        if f"{directory}/".startswith(f"{real.rstrip('/')}/"):
            raise ValueError(f"{path} is the directory of the workspace, or above it: it is not removed")
        async with self._operation():
            await self._env.files.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        """Whether a file or directory exists at a path."""
        async with self._operation():
            if not await self._env.files.exists(path):
                await self._check_directory()
                return False
        return True
