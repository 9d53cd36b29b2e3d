"""The shell tool, and an environment as a sandbox, for the OpenAI Agents SDK."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError
from . import needs
from .whole import run_whole

with needs("agents", "openai-agents"):
    from agents import ShellCallOutcome, ShellCommandOutput, ShellResult
    from agents import ShellTool as AgentsShellTool
    from agents.sandbox.errors import (
        ExecTimeoutError,
        ExecTransportError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
    )
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import BaseSandboxSession, SandboxSessionState
    from agents.sandbox.session.workspace_payloads import coerce_write_payload
    from agents.sandbox.snapshot import NoopSnapshot
    from agents.sandbox.types import ExecResult

if TYPE_CHECKING:
    from agents import ShellCommandRequest
    from agents.sandbox.types import User

    from .._environment import Environment
    from ..tool import ShellResult as Result
    from ..tool import ShellTool

NOT_STARTED = 126  # no bound: an exit code
"""The exit code of a command that did not run, since the SDK needs a number; a shell gives 126 for a program that cannot run."""

UNKNOWN = 1  # no bound: an exit code
"""The exit code, for the SDK, of a command that ran but has no exit code, such as a cancelled command."""


def shell_tool(tool: ShellTool) -> AgentsShellTool:
    """Make the SDK's own tool ``shell`` from a `ShellTool`, whose approver and limits hold.

    The commands of one call run one after the other. After a command that did not end by itself, no further command runs.
    """

    async def execute(request: ShellCommandRequest) -> ShellResult:
        call, action = request.data.call_id, request.data.action
        outputs = []
        for number, command in enumerate(action.commands, 1):
            params: dict[str, object] = {"command": command}
            if action.timeout_ms is not None:
                params["timeout"] = action.timeout_ms / 1000
            result = await tool(params, call_id=call if len(action.commands) == 1 else f"{call}/{number}")
            outputs.append(_output(command, result))
            if result.details.status != "exited":
                break
        if action.max_output_length is not None:
            _shorten(outputs, action.max_output_length)
        return ShellResult(outputs, max_output_length=action.max_output_length)

    return AgentsShellTool(executor=execute)


def _output(command: str, result: Result) -> ShellCommandOutput:
    details = result.details
    code = details.exit_code
    if code is None and result.is_error:
        code = NOT_STARTED if details.started is False else UNKNOWN
    timed_out = details.status == "timed_out"
    return ShellCommandOutput(
        stdout=result.text,
        outcome=ShellCallOutcome("timeout") if timed_out else ShellCallOutcome("exit", exit_code=code),
        command=command,
        provider_data={"anyshell": details.model_dump(mode="json", exclude={"command"})},
    )


def _shorten(outputs: list[ShellCommandOutput], room: int) -> None:
    """Leave out the middle of texts that together have more than `room` characters.

    The SDK itself would cut the end, which holds the cause of a failure and the tool's own sentences.
    """
    for number, output in enumerate(outputs):
        share, text = room // (len(outputs) - number), output.stdout
        if len(text) > share:
            note = f"\n[... {len(text) - share:,} characters and more left out: max_output_length ...]\n"
            start = max(0, share - len(note)) // 4
            end = share - start - len(note)
            text = f"{text[:start]}{note}{text[-end:]}" if end > 0 else text[len(text) - share :]
            output.stdout = text
        room -= len(text)


class Sandbox(BaseSandboxSession):
    """An environment as a sandbox session: ``RunConfig(sandbox=SandboxRunConfig(session=Sandbox(env)))``.

    The sandbox confines nothing: commands reach everything that the environment reaches. The environment's directory is the
    workspace.

    Args:
        env: An environment of a POSIX host and shell; the caller closes it.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.state = SandboxSessionState(
            type="anyshell",
            snapshot=NoopSnapshot(id="anyshell"),
            manifest=Manifest(root=env.directory),
            workspace_root_ready=True,
        )

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        try:
            whole = await run_whole(self._env, [str(word) for word in command], timeout=timeout)
        except Exception as error:
            raise ExecTransportError(command=command, cause=error, message=str(error)) from error
        printed = {"stdout": whole.stdout, "stderr": whole.stderr}
        if whole.outcome.status == "timed_out":
            told = {**printed, "anyshell": whole.stopped(timeout)}
            raise ExecTimeoutError(command=command, timeout_s=timeout, context=told)
        if (said := whole.stopped(timeout)) or whole.exit_code is None:
            context = None if whole.too_much else printed
            message = f"the command was {said}"
            raise ExecTransportError(command=command, message=message, context=context, retryable=False)
        return ExecResult(stdout=whole.stdout, stderr=whole.stderr, exit_code=whole.exit_code)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Read a file."""
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        try:
            return io.BytesIO(await self._env.files.read(self.normalize_path(path)))
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except (OSError, AnyshellError) as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Replace a file, and make its parent directories."""
        stream = coerce_write_payload(path=path, data=data).stream
        there = self.normalize_path(path, for_write=True)
        if user is not None:
            await self._check_write_with_exec(path, user=user)
        try:
            await self._env.files.mkdir(there.parent, parents=True, exist_ok=True)
            await self._env.files.write(there, stream.read())
        except (OSError, AnyshellError) as error:
            raise WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def running(self) -> bool:
        """Whether commands can be run."""
        return not self._env.closed

    async def persist_workspace(self) -> io.IOBase:
        """Refuse: the directory does not belong to this session, and stays in its place."""
        raise WorkspaceArchiveReadError(path=Path(self._env.directory), context={"reason": "not_supported"})

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Refuse, as `persist_workspace` does."""
        raise WorkspaceArchiveWriteError(path=Path(self._env.directory), context={"reason": "not_supported"})
