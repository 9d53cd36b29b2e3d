"""Environments as sandboxes of Inspect, which finds this module by an entry point."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from anyio import CancelScope
from pydantic import BaseModel

from .._environment import Environment
from .._exceptions import AnyshellError, InvalidCommand
from . import needs
from .whole import run_whole, write_whole

with needs("inspect_ai", "inspect-ai"):
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )

if TYPE_CHECKING:
    from .._environment.detection import Detection

CANNOT_RUN = 126  # no bound: an exit code
"""The exit code of a shell for a program that exists but cannot be run."""

REMOVE_SECONDS = 60
"""Seconds for the removal of a sample's directory; then the removal is given up with a warning."""


class Host(BaseModel, frozen=True):
    """The host of samples: ``SandboxEnvironmentSpec("anyshell", Host(address="ssh://ann@build.example"))``.

    Attributes:
        address: As `Environment.detect` takes it; ``None`` is this machine.
        shell: Likewise. It and the host have to be of POSIX.
    """

    address: str | None = None
    shell: str | None = None

    def detect(self) -> Detection[Environment]:
        """Detect an environment on the host; a subclass may reach the host in another way."""
        return Environment.detect(self.address, shell=self.shell)


@dataclass
class _Reached:
    """A host that tasks share: samples need no login of their own."""

    env: Environment
    users: frozenset[str]
    tasks: int = 0
    samples: set[Environment] = field(default_factory=set)

    async def remove(self, directory: str) -> None:
        # rm cannot empty a directory without write permission, such as a module cache: grant the permission first.
        command = ["sh", "-c", 'chmod -R u+rwX "$1"; rm -rf "$1"', "sh", directory]
        whole = await run_whole(self.env, command, timeout=REMOVE_SECONDS)
        if whole.exit_code != 0:
            logging.getLogger(__name__).warning("%s is not removed: %r", directory, whole.stderr)


_reached: dict[tuple[asyncio.AbstractEventLoop, Host], _Reached] = {}


class ExecTimeoutError(TimeoutError):
    """A command was stopped after its timeout.

    Attributes:
        truncated_output: The output so far, which Inspect tells a model.
    """

    def __init__(self, message: str, truncated_output: str) -> None:
        super().__init__(message)
        self.truncated_output = truncated_output


@sandboxenv(name="anyshell")
class Sandbox(SandboxEnvironment):
    """An environment in a new directory of a host, for one sample: ``Task(sandbox="anyshell")``.

    The sandbox confines nothing: commands reach everything that the user of the host reaches. At the end of the sample, every
    process that its commands left behind is stopped, and the directory is removed.
    """

    def __init__(self, env: Environment, users: frozenset[str]) -> None:
        super().__init__()
        self.env = env
        self._users = users

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Return the default number of samples at once: as many as for Inspect's own Docker sandboxes."""
        return 2 * (os.cpu_count() or 1)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the host that a log describes."""
        return Host(**config)

    @classmethod
    async def task_init(cls, task_name: str, config: BaseModel | str | None) -> None:
        """Connect to the host, unless another task has done so."""
        host = _host(config)
        key = (asyncio.get_running_loop(), host)
        if key not in _reached:
            env = await host.detect().__aenter__()
            whole = await run_whole(env, "id -un; id -u")
            _reached[key] = _Reached(env, frozenset(whole.stdout.decode().split()))
        _reached[key].tasks += 1

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Make a temporary directory on the host, and an environment in that directory."""
        host = _host(config)
        reached = _reached[asyncio.get_running_loop(), host]
        made = await run_whole(reached.env, 'mktemp -d "${TMPDIR:-/tmp}/anyshell-XXXXXXXXXX"')
        directory = made.stdout.decode().rstrip("\n")
        if made.exit_code != 0:
            raise SandboxUnavailableError(f"no directory was made: {made.stderr.decode(errors='replace')}")
        backend = reached.env.runner.backend
        try:
            env = await Environment.detect(backend, shell=host.shell, cwd=directory).__aenter__()
        except BaseException:
            with CancelScope(shield=True):
                await reached.remove(directory)
            raise
        reached.samples.add(env)
        return {"default": cls(env, reached.users)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """Stop the sample's remaining processes, and remove its directory."""
        reached = _reached[asyncio.get_running_loop(), _host(config)]
        for each in environments.values():
            env = each.as_type(cls).env
            await env.aclose()
            reached.samples.discard(env)
            await reached.remove(env.directory)

    @classmethod
    async def task_cleanup(cls, task_name: str, config: BaseModel | str | None, cleanup: bool) -> None:
        """Leave the host after its last task. Samples without cleanup keep their directories, but no process."""
        key = (asyncio.get_running_loop(), _host(config))
        _reached[key].tasks -= 1
        if _reached[key].tasks:
            return
        reached = _reached.pop(key)
        for env in (*reached.samples, reached.env):
            await env.aclose()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - Inspect's name
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a program with its arguments. A program that timed out is never run again, since a part may be done.

        Raises:
            ExecTimeoutError: The program timed out, and its whole tree was stopped; the error has the output.
            OutputLimitExceededError: A channel exceeded Inspect's limit, and the program was stopped.
            SandboxUnavailableError: Nothing ran.
            SandboxUserUnsupportedError: Another user was asked for.
            PermissionError, FileNotFoundError: The program cannot be run; the directory does not exist.
        """
        if user is not None and user not in self._users:
            raise SandboxUserUnsupportedError(
                f"commands run as {' '.join(sorted(self._users))}, not {user!r}"
            )
        variables = dict(env or {})
        if cmd and posixpath.basename(cmd[0]) == "inspect-sandbox-tools":
            # Inspect's helper puts its server into this directory: each sample on a host then has a server of its own.
            variables["INSPECT_SANDBOX_TOOLS_DIR"] = posixpath.join(self.env.directory, ".sandbox-tools")
        try:
            whole = await run_whole(
                self.env,
                cmd,
                cwd=cwd,
                variables=variables,
                stdin=input.encode() if isinstance(input, str) else input,
                timeout=timeout,
                max_output=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            )
        except InvalidCommand as error:
            if any("\0" in text for text in (*cmd, cwd or "", *variables, *variables.values())):
                raise ValueError("embedded null byte") from error  # the message that Inspect recognises
            if cwd is not None and not await self.env.files.is_dir(cwd):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), cwd) from error
            raise
        except AnyshellError as error:
            raise SandboxUnavailableError(str(error)) from error
        stdout, stderr = (data.decode(errors="replace") for data in (whole.stdout, whole.stderr))
        said = whole.stopped(timeout)
        if whole.too_much:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                f"{stdout}{stderr}\n[anyshell] The command was {said}.",
            )
        if whole.outcome.status == "timed_out":
            raise ExecTimeoutError(f"the command was {said}", stdout + stderr)
        if said or whole.exit_code is None:
            raise AnyshellError(f"the command was {said}")
        if whole.exit_code == CANNOT_RUN and "permission denied" in stderr.lower():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), cmd[0])
        return ExecResult(whole.exit_code == 0, whole.exit_code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Replace a file, and make its parent directories."""
        await write_whole(self.env, file, contents.encode() if isinstance(contents, str) else contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a file.

        Raises:
            OutputLimitExceededError: The file exceeds Inspect's limit.
            UnicodeDecodeError: A text was asked for, and the file is not UTF-8.
        """
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        data = await self.env.files.read(file, length=limit + 1)
        if len(data) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode() if text else data


def _host(config: BaseModel | str | None) -> Host:
    if config is None:
        return Host()
    if not isinstance(config, Host):
        raise TypeError(
            f'the sandbox "anyshell" takes a Host of anyshell.adapters.inspect_ai, not {config!r}'
        )
    return config
