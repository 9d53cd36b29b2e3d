"""An environment for the trials of harbor."""

from __future__ import annotations

import asyncio
import codecs
import os
import posixpath
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import shells
from .._environment import Environment as Host
from .._exceptions import AnyshellError
from . import needs
from .whole import TIMED_OUT, run_whole

with needs("harbor", "harbor"):
    from harbor.environments.base import BaseEnvironment, ExecResult

if TYPE_CHECKING:
    from .._types import Channel
    from ..abc import Backend
    from ..backends import SSHOptions


class Environment(BaseEnvironment):
    """A host on which one trial of harbor runs at a time.

    Nothing is built and nothing is isolated: the host must already be like the task's image. Processes that a command leaves
    behind go on until `stop`.

    Args:
        args: The arguments of harbor.
        host: As for `anyshell.Environment.detect`. The trial's start connects to the host.
        shell: As for `anyshell.Environment.detect`.
        directory: As ``cwd`` of `anyshell.Environment.detect`, for tasks without a working directory of their own.
        named: The keyword arguments of harbor.
    """

    def __init__(
        self,
        *args: Any,
        host: str | SSHOptions | Backend,
        shell: str | None = None,
        directory: str | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self._detection = partial(Host.detect, host, shell=shell, cwd=directory)
        self._env: Host | None = None
        self._users: list[str] = []

    @staticmethod
    def type() -> str:
        """Return the name of this environment type in harbor."""
        return "anyshell"

    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ValueError("this task needs several containers, and an environment of anyshell is one host")

    async def start(self, force_build: bool) -> None:
        """Connect to the host, and make the directories that harbor expects."""
        await self.stop(delete=True)
        self._env = await self._detection().__aenter__()
        try:
            self._users = (await self._env.run("id -un; id -u")).output.text.split()
            if self.task_env_config.workdir:
                await self._env.files.mkdir(self.task_env_config.workdir, parents=True, exist_ok=True)
            await self.ensure_dirs(self._mount_targets(writable_only=True))
            await self._upload_environment_dir_after_start()
        except BaseException:
            await self.stop(delete=True)
            raise

    async def stop(self, delete: bool) -> None:
        """Stop the remaining processes, and close the connections. Files stay."""
        env, self._env = self._env, None
        if env is not None:
            await env.aclose()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a command; a timeout gives the exit code 124.

        Raises:
            RuntimeError: Nothing ran, or the end of the command is unknown.
        """
        variables = self._merge_env(env)
        emit = self._output_callback()
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

        async def tell(channel: Channel, data: bytes) -> None:
            if text := decoders[channel].decode(data):
                await emit(text, channel)

        try:
            whole = await run_whole(
                self._started,
                self._as(self._resolve_user(user), command, variables or {}),
                cwd=cwd or self.task_env_config.workdir,
                variables=variables,
                timeout=timeout_sec or None,
                listener=tell if emit else None,
                stop=False,
            )
        except AnyshellError as error:
            raise RuntimeError(f"nothing ran: {error}") from error
        stdout, stderr = (data.decode(errors="replace") for data in (whole.stdout, whole.stderr))
        outcome = whole.outcome
        if whole.too_much:  # the start and the end, with a note on the missing part
            stdout, stderr = outcome.output.text, outcome.stderr.text if outcome.stderr else ""
            self.logger.warning("An output was too long, and is shown in part%s", whole.kept)
        if outcome.status == "timed_out":
            said = f"Command timed out after {timeout_sec} seconds{whole.alive}"
            return ExecResult(stdout=stdout, stderr=f"{stderr}\n{said}".lstrip(), return_code=TIMED_OUT)
        if whole.exit_code is None:
            raise RuntimeError(f"the command was {outcome.status}, and may have run")
        return ExecResult(stdout=stdout, stderr=stderr, return_code=whole.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file of this machine to the host, and make the target's parent directories."""
        await self._make_above(target_path)
        await self._started.files.upload(source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Merge a directory of this machine into a directory of the host, and make the target's parent directories."""
        await self._make_above(target_dir)
        await self._started.files.upload(source_dir, target_dir, into=False)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file to this machine, and make the target's parent directories."""
        await asyncio.to_thread(os.makedirs, Path(target_path).parent, exist_ok=True)
        await self._started.files.download(source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Merge a directory of the host into a directory of this machine, and make the target's parent directories."""
        await asyncio.to_thread(os.makedirs, Path(target_dir).parent, exist_ok=True)
        await self._started.files.download(source_dir, target_dir, into=False)

    @property
    def _started(self) -> Host:
        if self._env is None:
            raise RuntimeError("the environment is not started")
        return self._env

    async def _make_above(self, path: str) -> None:
        above = posixpath.dirname(path.rstrip("/")) or "."
        await self._started.files.mkdir(above, parents=True, exist_ok=True)

    def _as(self, user: str | int | None, command: str, variables: dict[str, str]) -> str:
        """Return a command that runs as another user: root uses su, other users need a sudo without a password."""
        if user is None or str(user) in self._users:
            return command
        shell = self._started.shell
        join = shells.SHELLS[shell.kind].join
        name = f'"$(id -nu {int(user)})"' if str(user).isdigit() else join([str(user)])
        if "0" in self._users:
            return f"su {name} -s {join([shell.path, '-c', command])}"
        keep = join([f"--preserve-env={','.join(variables)}"])
        return f"sudo -n {keep} -u {name} {join([shell.path, '-c', command])}"
