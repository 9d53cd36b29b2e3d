"""A server like OpenSSH for Windows, in front of a Windows under Wine: ``python -m tests.windows_server DIRECTORY PORT SHELL``.

It follows the source of that server (contrib/win32/win32compat/w32-doexec.c of openssh-portable 9.8): the
command goes to ``cmd.exe /c "COMMAND"``, or to ``SHELL -c COMMAND`` where ``DefaultShell`` is PowerShell; the session
begins in the user's home; there are no signals; a channel that is closed, and a connection that is lost, end nothing,
but close the command's stdin; paths of SFTP are like ``/C:/users/somebody``.

SHELL is ``cmd`` or ``pwsh``. Options after SHELL: ``no-sftp``; ``kills`` to end all processes of a session with its channel, as
other servers do; ``no-powershell`` to keep PowerShell off the PATH; ``full``, so that a written file can have at most
`ROOM` bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import partial
from pathlib import Path

import asyncssh

from .wine import windows

DRAIN_SECONDS = 5.0
"""Seconds to wait for output after the end of a command."""

ROOM = 60_000
"""The most bytes of a file on the full disk: enough for the files that PowerShell itself writes."""

SHELLS = {"cmd": (r"C:\windows\system32\cmd.exe", "/c"), "pwsh": (windows.POWERSHELL, "-c")}


async def serve(process: asyncssh.SSHServerProcess[bytes], *, shell: str, options: list[str]) -> None:
    """Run a command by the login shell, and report its exit."""
    found = windows.find()
    path = {} if "no-powershell" in options else {"WINEPATH": windows.POWERSHELL.rpartition("\\")[0]}
    child = await asyncio.create_subprocess_exec(
        *found.command(*SHELLS[shell], process.command or ""),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=home(found),
        env=found.environment(path),
        restore_signals=False,  # SIGXFSZ stays ignored, as Python has it: a write beyond the limit fails
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.ensure_future(_feed(process.stdin, child.stdin))
    copies = [
        asyncio.ensure_future(_copy(child.stdout, process.stdout)),
        asyncio.ensure_future(_copy(child.stderr, process.stderr)),
    ]
    if "kills" in options:
        feeding.add_done_callback(lambda _: _kill(child))
    code = await child.wait()
    await asyncio.wait(copies, timeout=DRAIN_SECONDS)
    for task in (feeding, *copies):
        task.cancel()
    process.exit(code)


async def _feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def _copy(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()


def _kill(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.kill()  # and the job of console.exe ends with it


def home(found: windows.Windows) -> Path:
    """The user's home, on this machine."""
    users = found.prefix / "drive_c" / "users"
    return next(path for path in sorted(users.iterdir()) if path.name != "Public")


def _fill_up() -> None:
    """Limit files of this process and its children to `ROOM` bytes."""
    if sys.platform != "win32":  # Wine, and so this server, runs on POSIX
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


class Files(asyncssh.SFTPServer):
    """The files of that Windows, by their names in OpenSSH for Windows."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
        super().__init__(channel)
        self._found = windows.find()

    def map_path(self, path: bytes) -> bytes:
        """The path of the file on this machine."""
        text = os.fsdecode(path)
        if not text.startswith("/"):
            return os.fsencode(home(self._found) / text)
        drive, rest = text[1:3].lower(), text[3:]
        if drive == "c:":
            return os.fsencode(f"{self._found.prefix}/drive_c{rest}")
        return os.fsencode(rest if drive == "z:" else f"/nonexistent{text}")

    def reverse_map_path(self, path: bytes) -> bytes:
        """The Windows name of a file on this machine."""
        text = os.fsdecode(path)
        drive = f"{self._found.prefix}/drive_c"
        return os.fsencode(f"/C:{text.removeprefix(drive)}" if text.startswith(drive) else f"/Z:{text}")


async def main(directory: Path, port: int, shell: str, options: list[str]) -> None:
    """Serve until killed."""
    if "full" in options:
        _fill_up()
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[directory / "host_key"],
        authorized_client_keys=str(directory / "client_key.pub"),
        process_factory=partial(serve, shell=shell, options=options),
        encoding=None,
        line_editor=False,
        server_version="OpenSSH_for_Windows_9.5",
        sftp_factory=None if "no-sftp" in options else Files,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
