"""Floors: the least work that runs another program and reads its output."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

READ_SIZE = 64 * 1024
"""Bytes of one read at most; a Linux pipe holds the same number."""

_END = b"-- the end --\n"


def run(argv: tuple[str, ...]) -> int:
    """Spawn a program, read both channels from one pipe until the end, and reap: no time limit, tree, thread or event loop.

    Returns:
        The number of bytes read.

    Raises:
        RuntimeError: The program failed.
    """
    if sys.platform == "win32":
        raise RuntimeError("the floor is posix_spawn, which Windows does not have")
    read, write = os.pipe()
    try:
        pid = os.posix_spawn(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, write, 1),
                (os.POSIX_SPAWN_DUP2, write, 2),
            ],
            setsigdef=[signal.SIGPIPE],  # Python ignores SIGPIPE; a child would inherit that disposition
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    total = 0
    while data := os.read(read, READ_SIZE):
        total += len(data)
    os.close(read)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        raise RuntimeError(f"{argv} ended with {code}")
    return total


def run_unheard(argv: tuple[str, ...]) -> None:
    """Spawn and reap a program on any system, without a pipe, since under Wine the end of a pipe may never come.

    Raises:
        RuntimeError: The program failed.
    """
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW  # PowerShell needs a console
    null = subprocess.DEVNULL
    code = subprocess.run(
        argv, stdin=null, stdout=null, stderr=null, creationflags=flags, check=False
    ).returncode
    if code != 0:
        raise RuntimeError(f"{argv} ended with {code}")


async def run_asyncio(argv: Sequence[str]) -> bytes:
    """Run a program with plain asyncio, and return the output of both channels.

    Raises:
        RuntimeError: The program failed.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{argv} ended with {process.returncode}")
    return output


@contextmanager
def persistent(shell: str) -> Iterator[Callable[[str], bytes]]:
    """Start a persistent shell between two pipes, and yield a function that runs a command in the shell.

    A fixed line of output marks the end of a command. The function has no exit code and no time limit. A command that
    prints the same line, or reads stdin, breaks the function.
    """
    with subprocess.Popen([shell], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write, read = process.stdin.fileno(), process.stdout.fileno()

        def take(command: str) -> bytes:
            text = f"{command}\necho '{_END.decode().rstrip()}'\n".encode()
            while text:
                text = text[os.write(write, text) :]
            output = b""
            while not output.endswith(_END):
                data = os.read(read, READ_SIZE)
                if not data:
                    raise RuntimeError(f"{shell} ended before its command did")
                output += data
            return output.removesuffix(_END)

        yield take
