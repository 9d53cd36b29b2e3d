"""asyncssh's own server, as a program: ``python -m tests.asyncssh_server DIRECTORY PORT [OPTION...]``.

It stands for servers other than OpenSSH: the channel closes at the end of the command itself, even if other processes
still hold the output, and the process of a session is a child of this server.

Options: ``no-sftp``; ``cmd.exe`` or ``PowerShell`` to answer as a Windows host's login shell does;
``one-session`` to take no second session on a connection before the first has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

assert sys.platform != "win32"

import fcntl
import pwd
import termios

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LAST_BYTES = 512 * 1024
"""Bytes of each stream that are still copied after the end of a command: more than its pipe and the buffers here can hold."""

LAST_SECONDS = 5.0
"""Seconds after the end of a command in which a client that takes no output is waited for."""

NOT_RECOGNIZED = {
    "cmd.exe": (
        "'{word}' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n"
    ),
    "PowerShell": (
        "{word}: The term '{word}' is not recognized as a name of a cmdlet, function, script file, or executable "
        "program.\r\nCheck the spelling of the name, or if a path was included, verify that the path is correct "
        "and try again.\r\n"
    ),
}


async def serve_windows(process: asyncssh.SSHServerProcess[bytes], shell: str) -> None:
    """Answer like a shell of Windows, which knows only ``echo``, and expands its own kind of variable."""
    word, _, rest = (process.command or "").partition(" ")
    if word == "echo":
        rest = rest.replace("%OS%" if shell == "cmd.exe" else "$env:OS", "Windows_NT")
        process.stdout.write(f"{rest}\r\n".encode())
        process.exit(0)
    else:
        process.stderr.write(NOT_RECOGNIZED[shell].format(word=word).encode())
        process.exit(1)


async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run a command by the user's login shell, like sshd, and report its exit."""
    account = pwd.getpwuid(os.geteuid())
    names = ("LANG", "PATH", "ANYSHELL_NO_PROC", "ANYSHELL_TEST_SHELL")
    env = {name: os.environ[name] for name in names if name in os.environ}
    home = os.environ.get("ANYSHELL_TEST_HOME", account.pw_dir)
    env |= {"HOME": home, "USER": account.pw_name, "LOGNAME": account.pw_name}
    env["SHELL"] = os.environ.get("ANYSHELL_TEST_SHELL", account.pw_shell)
    argv = (env["SHELL"], "-c", process.command or "")
    if process.term_type is not None:
        await serve_on_terminal(process, argv, account.pw_dir, {**env, "TERM": process.term_type})
        return
    child = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=account.pw_dir,
        env=env,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.ensure_future(_feed(process.stdin, child.stdin))
    copies = Copy(child.stdout, process.stdout), Copy(child.stderr, process.stderr)
    await end(process, child, feeding, *(copy.task for copy in copies), rest=lambda: map(Copy.rest, copies))


async def serve_on_terminal(
    process: asyncssh.SSHServerProcess[bytes], argv: tuple[str, ...], cwd: str, env: dict[str, str]
) -> None:
    """The same on a terminal, which closes at the end of the command itself."""
    master, slave = os.openpty()
    resize(master, *process.term_size[:2])
    if process.term_modes.get(asyncssh.PTY_IUTF8):
        settings = termios.tcgetattr(slave)
        settings[0] |= 0x4000
        termios.tcsetattr(slave, termios.TCSANOW, settings)
    child = await asyncio.create_subprocess_exec(
        *argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=env,
        start_new_session=True,
        preexec_fn=partial(fcntl.ioctl, slave, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    loop = asyncio.get_running_loop()
    typing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(master), "wb", 0)
    )
    keys = asyncio.StreamWriter(typing, protocol, None, loop)
    feeding = asyncio.ensure_future(_type(process.stdin, keys, master))
    await end(process, child, feeding, asyncio.ensure_future(_show(master, process.stdout)))
    typing.abort()
    os.close(master)


def resize(fd: int, columns: int, rows: int) -> None:
    """Give a terminal a size."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def end(
    process: asyncssh.SSHServerProcess[bytes],
    child: asyncio.subprocess.Process,
    feeding: asyncio.Future[None],
    *copies: asyncio.Future[None],
    rest: Callable[[], Iterable[Callable[[], bool]]] = tuple,
) -> None:
    """Wait for the end of a command, and report its exit; what it has printed itself is sent before."""
    if sys.platform == "linux":  # not polled every 2 ms: some sessions last as long as their connection
        with contextlib.suppress(ProcessLookupError), open(os.pidfd_open(child.pid), "rb") as exited:
            await _wait_readable(exited.fileno())
    while child.returncode is None:  # wait() would return only at the end of the output
        await asyncio.sleep(0.002)
    sending, give_up = [*rest()], time.monotonic() + LAST_SECONDS
    await asyncio.wait(copies, timeout=0.05)
    while any(each() for each in sending) and time.monotonic() < give_up:
        await asyncio.wait(copies, timeout=0.05)
    for task in (feeding, *copies):
        task.cancel()
    if child.returncode < 0:
        process.exit_with_signal(signal.Signals(-child.returncode).name.removeprefix("SIG"))
    else:
        process.exit(child.returncode)


async def _wait_readable(fd: int) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)


async def _feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()


async def _type(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter, master: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            try:
                data = await source.read(65536)
            except asyncssh.TerminalSizeChanged as size:
                resize(master, size.width, size.height)
                continue
            if not data:
                return
            target.write(data)
            await target.drain()


async def _show(master: int, target: asyncssh.SSHWriter[bytes]) -> None:
    with contextlib.suppress(OSError):  # the channel is closed
        while True:
            await _wait_readable(master)
            target.write(os.read(master, 65536))
            await target.drain()


class Copy:
    """The copy of a stream of a command to the channel."""

    def __init__(self, source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
        self._count = 0
        self._sending = False
        self.task = asyncio.ensure_future(self._work(source, target))

    async def _work(self, source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                self._sending = True
                target.write(data)
                await target.drain()
                self._count += len(data)
                self._sending = False

    def rest(self) -> Callable[[], bool]:
        """Return a function that tells whether the copy has gone on since the last call, and may not have reached the end."""
        seen, last = self._count, self._count + LAST_BYTES

        def going_on() -> bool:
            nonlocal seen
            moved, seen = seen != self._count, self._count
            return not self.task.done() and (self._sending or moved) and self._count < last

        return going_on


class OneSession(asyncssh.SSHServer):
    """A connection that takes one session at a time."""

    def __init__(self) -> None:
        self._taken = False

    def session_requested(self) -> Any:
        """Accept or refuse the session."""
        if self._taken:
            return False
        self._taken = True
        return asyncssh.SSHServerProcess(self._serve, None, 3, False)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        try:
            await serve(process)
        finally:
            self._taken = False


async def main(directory: Path, port: int, options: list[str]) -> None:
    """Serve until killed."""
    windows = next((name for name in NOT_RECOGNIZED if name in options), None)
    one = "one-session" in options
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[directory / "host_key"],
        authorized_client_keys=str(directory / "client_key.pub"),
        server_factory=OneSession if one else None,
        process_factory=None if one else serve if windows is None else partial(serve_windows, shell=windows),
        encoding=None,
        line_editor=False,
        sftp_factory=None if one or "no-sftp" in options else True,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
