"""An environment as a sandbox of Deep Agents."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from .._environment.descriptions import TIMEOUT
from .._exceptions import AnyshellError, InvalidCommand
from .._types import check_seconds
from . import needs
from .bridge import Bridge
from .whole import TIMED_OUT, run_whole, write_whole

with needs("deepagents", "deepagents"):
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox

if TYPE_CHECKING:
    from .._environment import Environment
    from .._types.checks import Seconds

_ERRORS = {
    errno.ENOENT: "file_not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "invalid_path",
}


class Backend(BaseSandbox):
    """The commands and files of an environment, for ``create_deep_agent(backend=...)``.

    The backend confines nothing: commands reach everything that the environment reaches.

    Args:
        env: An environment of a POSIX host and shell with python3, which Deep Agents uses to read and edit files. The caller
            closes the environment.
        timeout: Seconds of a command for which the agent asks for no timeout; ``None`` means no bound.
    """

    def __init__(self, env: Environment, *, timeout: Seconds | None = TIMEOUT) -> None:
        self._env = env
        self._timeout = check_seconds("timeout", timeout)
        self._bridge = Bridge()

    @property
    def id(self) -> str:
        """The host and the directory."""
        return f"{self._env.host}:{self._env.directory}"

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command; the output also tells a failure."""
        seconds = self._timeout if timeout is None else timeout or None
        try:
            whole = await run_whole(self._env, command, timeout=seconds, split_stderr=False)
        except AnyshellError as error:
            return ExecuteResponse(f"[anyshell] nothing ran: {error}")
        output = whole.stdout.decode(errors="replace")
        said = whole.stopped(seconds)
        if not said:
            return ExecuteResponse(output, exit_code=whole.exit_code)
        code = TIMED_OUT if whole.outcome.status == "timed_out" else whole.exit_code
        return ExecuteResponse(
            f"{output}\n[anyshell] The command was {said}.", exit_code=code, truncated=whole.too_much
        )

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command, from another thread than that of the event loop."""
        return self._bridge.wait(self.aexecute(command, timeout=timeout))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, and make the parent directories of each."""
        return [FileUploadResponse(path, error=await self._write(path, data)) for path, data in files]

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Do as `aupload_files`, from another thread than that of the event loop."""
        return self._bridge.wait(self.aupload_files(files))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files."""
        return [await self._read(path) for path in paths]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Do as `adownload_files`, from another thread than that of the event loop."""
        return self._bridge.wait(self.adownload_files(paths))

    async def _write(self, path: str, data: bytes) -> str | None:
        try:
            await write_whole(self._env, path, data)
        except (OSError, InvalidCommand) as error:
            return _named(error)
        return None

    async def _read(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path, content=await self._env.files.read(path))
        except (OSError, InvalidCommand) as error:
            return FileDownloadResponse(path, error=_named(error))


def _named(error: OSError | InvalidCommand) -> str:
    if isinstance(error, InvalidCommand):
        return "invalid_path"
    return _ERRORS.get(error.errno or 0, str(error))
