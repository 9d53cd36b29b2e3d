"""Every implementation of a host's files, on a host that shares the file system of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import getpass
import os
import shlex
import shutil
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from anyshell._waits import outlast
from anyshell.backends.local.files import LocalFiles

from .conftest import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import asyncssh

    from anyshell.abc import Files

    from .ssh_server import Server

REMOTE = ["sftp", "sftp-asyncssh", "no-sftp", "dash", "busybox"]
IMPLEMENTATIONS = ["local", *(REMOTE if sys.platform != "win32" else [])]


def _links_are_made() -> bool:
    with tempfile.TemporaryDirectory() as directory:
        link = os.path.join(directory, "link")
        with contextlib.suppress(OSError):
            os.symlink("target", link)
        return os.path.lexists(link)


needs_links = pytest.mark.skipif(
    not _links_are_made(),
    reason="links cannot be made here: not under Wine 8, and not by every user of Windows",
)


@functools.cache
def server(kind: str) -> Server:
    """A server that runs until the end of the tests."""
    import atexit

    from . import ssh_server

    if ssh_server.SSHD is None and kind == "sftp":
        missing("sshd", "apt-get install openssh-server")
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    if kind == "sftp":
        return stack.enter_context(ssh_server.openssh(getpass.getuser()))
    return stack.enter_context(ssh_server.embedded(*(["no-sftp"] if kind == "no-sftp" else [])))


async def connected(to: Server) -> asyncssh.SSHClientConnection:
    """A connection to a server of the tests."""
    import asyncssh

    return await asyncssh.connect(
        "127.0.0.1",
        to.port,
        username=to.user,
        client_keys=[str(to.key)],
        known_hosts=str(to.known_hosts),
        config=None,
    )


@contextlib.asynccontextmanager
async def reached(kind: str) -> AsyncIterator[Files]:
    """An implementation by its name, ready for use."""
    if kind == "local":
        yield LocalFiles()
    elif kind in ("dash", "busybox"):
        from anyshell.backends.ssh.files.shell import ShellFiles

        yield ShellFiles(functools.partial(run_here, kind))
    else:
        from anyshell.backends.ssh.files.either import SSHFiles

        async with await connected(server(kind)) as connection:

            async def run(
                argv: Sequence[str], stdin: bytes | None, most: int
            ) -> tuple[int | None, bytes, bytes]:
                line = b" ".join(shlex.quote(word).encode("utf-8", "surrogateescape") for word in argv)
                command = line.decode("utf-8", "surrogateescape")
                process = await connection.create_process(command, encoding=None)
                try:
                    stdout, stderr = await process.communicate(stdin or b"")
                finally:
                    process.close()
                assert isinstance(stdout, bytes)
                assert isinstance(stderr, bytes)
                return process.exit_status, stdout[:most], stderr

            files = SSHFiles(connection.start_sftp_client, run)
            yield files
            await files.aclose()


async def run_here(
    shell: str, argv: Sequence[str], stdin: bytes | None, most: int, user: int | None = None
) -> tuple[int | None, bytes, bytes]:
    """Run a text by another shell than the shell of this machine, and optionally as another user."""
    path = shutil.which(shell)
    if path is None:
        missing(shell, f"apt-get install {shell}")
    assert argv[0] == "/bin/sh"
    command = [path, *(["sh"] if shell == "busybox" else []), *argv[1:]]
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": _userland(shell)},
            user=user,
            start_new_session=True,
        )
    )
    # asyncio stops reading and hangs on a full pipe if it is cancelled during the start of a program or the wait for
    # its end: https://github.com/python/cpython/issues/119710. So asyncio is not cancelled; the program is killed instead.
    cancelled = await outlast(starting, lambda: None)
    process = starting.result()

    def kill() -> None:
        if sys.platform != "win32" and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)

    if cancelled is not None:
        kill()
    ending = asyncio.create_task(process.communicate(stdin))
    cancelled = await outlast(ending, kill) or cancelled
    if cancelled is not None:
        raise cancelled
    stdout, stderr = ending.result()
    return process.returncode, stdout[:most], stderr


@functools.cache
def _userland(shell: str) -> str:
    """A PATH with only busybox's programs for the shell of busybox; otherwise the PATH of this machine."""
    if shell != "busybox":
        return os.environ["PATH"]
    import atexit
    import tempfile

    directory = tempfile.mkdtemp(prefix="anyshell-busybox-")
    os.chmod(directory, 0o755)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    names = [
        "stat",
        "dd",
        "head",
        "tail",
        "mv",
        "rm",
        "rmdir",
        "mkdir",
        "ls",
        "cat",
        "ln",
        "readlink",
        "chmod",
        "date",
        "touch",
    ]
    for name in [*names, "chown", "chgrp"]:
        os.symlink(busybox, os.path.join(directory, name))
    return directory
