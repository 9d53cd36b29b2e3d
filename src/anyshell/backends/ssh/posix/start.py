"""The start of a command: the text for its login shell, and the report that the command has begun."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from ...._answers import LARGEST_PID, whole
from ...._exceptions import InvalidCommand, SpawnError
from ...._types import one_line
from ...._waits import shielded
from ..channel import noise_words

if TYPE_CHECKING:
    from ...._types import LoginCommand, Spawn
    from ..channel import Channel

START_SECONDS = 30.0
"""Seconds for a login shell to begin a command; its startup files run first."""

LONGEST_TOTAL = 2_000_000
"""Bytes of all arguments and variables together; more is an error. Linux allows slightly more by default (execve(2), a
quarter of the stack's limit). Where a host allows less, its shell reports so and exits with 126."""

LONGEST_STRING = 128 * 1024 - 1
"""Bytes of one argument or variable, its end not counted; more is an error (execve(2), MAX_ARG_STRLEN)."""

SEND_SIZE = 1024 * 1024
"""Bytes of a long text that are written to a host at once."""

_REASONS = {
    "missing": "No such file or directory",
    "denied": "Permission denied",
    "refused": "the login shell cannot change to it (cd failed)",
}

_WHY_NOT_BEGUN = "does a startup file end it, or a ForceCommand hand the text to another shell?"


def check_sizes(spawn: Spawn) -> None:
    """Refuse arguments and variables that are too large for hosts.

    Raises:
        SpawnError: The arguments and variables are too large.
    """
    variables = {**spawn.settings, **spawn.env}
    texts = (*spawn.argv, *variables, *variables.values())
    if 4 * sum(map(len, texts)) + len(variables) <= LONGEST_STRING:  # a character has four bytes at most
        return
    total = 0
    for text in (*spawn.argv, *(f"{name}={value}" for name, value in variables.items())):
        size = len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))
        total += size
        if size > LONGEST_STRING or total > LONGEST_TOTAL:
            raise SpawnError(
                f"cannot start {one_line(spawn.argv[0])}: the arguments and variables are too large for a host together; "
                "pass big values by stdin or a file"
            )


async def begin(channel: Channel, start: LoginCommand, spawn: Spawn, host: str) -> int | None:
    """Send the text that starts a command, and wait for the report that the command has begun.

    Args:
        channel: The open channel of the command's session.
        start: The text for the login shell.
        spawn: The command.
        host: The host's name, for messages.

    Returns:
        The command's pid; ``None`` when the connection was lost meanwhile, and the command may have begun.

    Raises:
        InvalidCommand: The directory does not exist, or is not a directory.
        SpawnError: The command did not begin, or the login shell did not report so in time.
        Nonsense: The reported pid is not a pid.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            await _send(channel, start.sent)
            for part in start.when_ready:
                await channel.ready.wait()
                if channel.said.done():
                    break
                channel.ready.clear()
                await _send(channel, part)
            said = await shielded(channel.said)
    except TimeoutError:
        raise SpawnError(
            f"the login shell on {host} did not say within {START_SECONDS:g} s that what it was given has begun, and it may "
            f"have run; do its startup files wait for something?{noise_words(channel.noise)}"
        ) from None
    match said:
        case ["started", pid, *_]:
            return whole("a pid", pid, 1, LARGEST_PID)
        case ["cwd", "file"]:
            raise InvalidCommand(f"cwd {spawn.cwd!r} is not a directory")
        case ["cwd", reason] if reason in _REASONS:
            raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: {_REASONS[reason]}")
        case ["program"]:
            raise SpawnError(
                f"cannot start {one_line(spawn.argv[0])}: it does not exist, or may not be executed"
            )
        case ["script"]:
            raise SpawnError(f"{host} has no room for a temporary file (mktemp failed)")
        case ["terminal"]:
            raise SpawnError(f"input for a terminal on {host} cannot be hidden (stty failed); is stty there?")
        case [_, *_]:
            raise SpawnError(
                f"the login shell on {host} did not begin the command: it took the text for something else; "
                f"{_WHY_NOT_BEGUN}{noise_words(channel.noise)}"
            )
    if channel.broken or not channel.over:
        # The connection was lost meanwhile, perhaps with the report: an end can overtake printed output. The
        # mark shows later whether the command has begun.
        return None
    raise SpawnError(
        f"the login shell on {host} ended before the command began; {_WHY_NOT_BEGUN}{noise_words(channel.noise)}"
    )


async def _send(channel: Channel, data: bytes) -> None:
    with suppress(anyio.BrokenResourceError):
        for at in range(0, len(data), SEND_SIZE):
            await channel.write(data[at : at + SEND_SIZE])
