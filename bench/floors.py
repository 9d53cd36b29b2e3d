"""Floors: the least that a program can do to run another and have its output."""

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
"""Bytes asked for at once; a Linux pipe holds as many."""

_END = b"-- the end --\n"


def run(argv: tuple[str, ...]) -> int:
    """Spawn, read both channels from one pipe until its end, reap. No time limit, no tree, no thread, no loop.

    Returns:
        How many bytes were read.

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
            setsigdef=[signal.SIGPIPE],  # Python ignores it, and a child would inherit that
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
    """Spawn and reap, on any system: with no pipe, whose end under Wine may never come.

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
    """The same with what asyncio brings, and nothing else.

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
    """A shell that lasts, between two pipes, and what runs a command in it: the end is a line of its output.

    It knows no exit code, has no time limit, and a command that prints that line, or reads stdin, deceives it.
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
