"""asyncssh's own server, as a program: ``python -m tests.asyncssh_server DIRECTORY PORT [OPTION...]``.

It is what a server other than OpenSSH is like: the channel closes when the command itself ends, whoever still
holds its output, and a session's process is a child of this one.

Options: ``no-sftp``; ``cmd.exe`` or ``PowerShell`` to answer as a Windows host's login shell does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from functools import partial
from pathlib import Path

assert sys.platform != "win32"

import pwd

import asyncssh

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
    """Answer as a shell of Windows does: it knows ``echo`` alone, and replaces its own kind of variable."""
    word, _, rest = (process.command or "").partition(" ")
    if word == "echo":
        rest = rest.replace("%OS%" if shell == "cmd.exe" else "$env:OS", "Windows_NT")
        process.stdout.write(f"{rest}\r\n".encode())
        process.exit(0)
    else:
        process.stderr.write(NOT_RECOGNIZED[shell].format(word=word).encode())
        process.exit(1)


async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run a command by the user's login shell, as sshd does, and say how it ended."""
    account = pwd.getpwuid(os.geteuid())
    names = ("LANG", "PATH", "ANYSHELL_TEST_SHELL")
    env = {name: os.environ[name] for name in names if name in os.environ}
    home = os.environ.get("ANYSHELL_TEST_HOME", account.pw_dir)
    env |= {"HOME": home, "USER": account.pw_name, "LOGNAME": account.pw_name}
    env["SHELL"] = os.environ.get("ANYSHELL_TEST_SHELL", account.pw_shell)
    child = await asyncio.create_subprocess_exec(
        env["SHELL"],
        "-c",
        process.command or "",
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
    copies = [
        asyncio.ensure_future(_copy(child.stdout, process.stdout)),
        asyncio.ensure_future(_copy(child.stderr, process.stderr)),
    ]
    while child.returncode is None:  # wait() would come with the end of the output
        await asyncio.sleep(0.002)
    await asyncio.wait(copies, timeout=0.05)
    for task in (feeding, *copies):
        task.cancel()
    if child.returncode < 0:
        process.exit_with_signal(signal.Signals(-child.returncode).name.removeprefix("SIG"))
    else:
        process.exit(child.returncode)


async def _feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()


async def _copy(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()


async def main(directory: Path, port: int, options: list[str]) -> None:
    """Serve until killed."""
    windows = next((name for name in NOT_RECOGNIZED if name in options), None)
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[directory / "host_key"],
        authorized_client_keys=str(directory / "client_key.pub"),
        process_factory=serve if windows is None else partial(serve_windows, shell=windows),
        encoding=None,
        sftp_factory=None if "no-sftp" in options else True,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
