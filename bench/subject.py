"""The subject: an environment of this machine, in an event loop that stays the same between rounds."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

from anyshell import Environment
from anyshell.shells import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyshell.types import Redaction

SHELL = "bash"


@contextmanager
def subject(
    shell: str = SHELL, *, redact: Redaction | bool = False
) -> Iterator[tuple[asyncio.Runner, Environment]]:
    """Open an environment on a new event loop, and yield both."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        environment = runner.run(stack.enter_async_context(Environment.detect(shell=shell, redact=redact)))
        try:
            yield runner, environment
        finally:
            runner.run(stack.aclose())


def argv(environment: Environment, command: str) -> tuple[str, ...]:
    """Return exactly the words that anyshell starts for a command, so that a floor starts the same program."""
    return SHELLS[environment.shell.kind].launch(environment.shell, command).argv
