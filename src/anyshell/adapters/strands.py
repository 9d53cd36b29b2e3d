"""An environment as a sandbox of Strands Agents."""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
from typing import TYPE_CHECKING, Any

from .._exceptions import AnyshellError, InvalidCommand
from .._waits import outlast
from . import needs
from .bridge import Bridge
from .whole import list_whole, run_whole, write_whole

with needs("strands", "strands"):
    from strands import SandboxPathNotFoundError, SandboxTimeoutError
    from strands.sandbox import LANGUAGE_PATTERN, ExecutionResult, FileInfo, StreamChunk
    from strands.sandbox import Sandbox as StrandsSandbox
    from strands.vended_tools import make_file_editor, make_shell

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from strands.types.tools import AgentTool

    from .._environment import Environment
    from .._types import Channel


class Sandbox(StrandsSandbox):
    """The commands and files of an environment, for ``Agent(sandbox=...)``.

    The sandbox confines nothing: commands reach everything that the environment reaches. Make the sandbox in the event loop of
    the environment; an agent may use it from another event loop, as the agent's blocking calls do.

    Args:
        env: An environment; the caller closes it.
        max_output: Bytes of each channel that a command may print; a command that prints more is stopped. ``None`` is 10 MiB,
            all of which Strands' own tool ``shell`` passes on to the model.
    """

    def __init__(self, env: Environment, *, max_output: int | None = None) -> None:
        self._env = env
        self._max_output = max_output
        self._bridge = Bridge()

    def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run a command in the environment's shell; yield each piece of output at once, then the result.

        Raises:
            SandboxTimeoutError: The command was stopped after its timeout, with its whole tree; the error has the output.
            AnyshellError: Nothing ran, or the command did not end by itself.
        """
        return self._stream(command, None, timeout, cwd, env)

    def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run a program that reads its source from stdin, as `execute_streaming` runs a command."""
        if not LANGUAGE_PATTERN.fullmatch(language):
            raise InvalidCommand(f"language must be the name of a program, not {language!r}")
        return self._stream([language], code.encode(), timeout, cwd, env)

    async def _stream(
        self,
        command: str | Sequence[str],
        stdin: bytes | None,
        timeout: float | None,
        cwd: str | None,
        variables: Mapping[str, str] | None,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[tuple[Channel, bytes] | None] = asyncio.Queue()  # bounded by max_output
        decoders: dict[Channel, codecs.IncrementalDecoder] = {
            "stdout": codecs.getincrementaldecoder("utf-8")("replace"),
            "stderr": codecs.getincrementaldecoder("utf-8")("replace"),
        }

        async def hear(channel: Channel, data: bytes) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, (channel, data))

        running = asyncio.ensure_future(
            self._bridge.run(
                run_whole(
                    self._env,
                    command,
                    cwd=cwd,
                    variables=variables,
                    stdin=stdin,
                    timeout=timeout,
                    max_output=self._max_output,
                    listener=hear,
                )
            )
        )
        running.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (piece := await heard.get()) is not None:
                channel, data = piece
                if text := decoders[channel].decode(data):
                    yield StreamChunk(text, channel)
            for channel, decoder in decoders.items():
                if text := decoder.decode(b"", final=True):  # an incomplete character at the end
                    yield StreamChunk(text, channel)
            whole = await running
        finally:  # also for a caller that stops reading early
            running.cancel()
            await outlast(running, lambda: None)
        stdout, stderr = (data.decode(errors="replace") for data in (whole.stdout, whole.stderr))
        if whole.outcome.status == "timed_out":
            late = SandboxTimeoutError(timeout, stdout, stderr)
            late.args = (f"{late}{whole.alive}",)
            raise late
        if (said := whole.stopped(timeout)) or whole.exit_code is None:
            raise AnyshellError(f"the command was {said}")
        yield ExecutionResult(whole.exit_code, stdout, stderr)

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Read a file."""
        return await self._bridge.run(self._env.files.read(path))

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Replace a file, and make its parent directories."""
        await self._bridge.run(write_whole(self._env, path, content))

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        """Remove a file or a link; a directory raises `IsADirectoryError`."""
        stat = await self._bridge.run(self._env.files.stat(path, follow=False))
        if stat.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        await self._bridge.run(self._env.files.remove(path))

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a directory, without sizes."""
        try:
            return [FileInfo(*each) for each in await self._bridge.run(list_whole(self._env, path))]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SandboxPathNotFoundError(path) from error

    def get_tools(self) -> list[AgentTool]:
        """Return Strands' own tools for commands and files, as sandboxes of Strands do for an agent."""
        there = f"on {self._env.host}, in {self._env.directory}"
        command = f"Runs a command in {self._env.shell.kind} {there}. Each call has a fresh shell."
        files = f"Views, creates and edits files {there}, by absolute paths."
        return [
            make_file_editor(sandbox=self, name="sandbox_file_editor", description=files),
            make_shell(sandbox=self, name="sandbox_shell", description=command),
        ]
