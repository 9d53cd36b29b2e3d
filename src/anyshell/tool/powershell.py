"""PowerShell's own parser in a lasting process on the host: the parser tells the commands of a text and runs none.

On a Windows host over SSH, the same process tells the facts of the host that a policy needs.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import anyio

from .._exceptions import AnyshellError
from .._types import Spawn
from .._waits import to_the_end
from ..policy.parse import MAX_TEXT, Parsed, parse
from ..policy.parse.powershell_answers import (
    MALFORMED,
    answered,
    host_answers,
    question,
    question_about_host,
    script,
    unasked_because,
)
from ..shells.powershell import PWSH, WINDOWS_POWERSHELL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._environment import Environment
    from .._types import ShellInfo
    from ..abc import Process

_T = TypeVar("_T")

START_SECONDS = 20.0
"""Seconds for PowerShell to start as a parser and to give the first answer; then the text is not understood."""

ANSWER_SECONDS = 5.0
"""Seconds for a later answer of the PowerShell parser; then the process is ended, and the text is not understood."""

LONGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer of the PowerShell parser; with more the process is ended, and the text is not understood."""

MOST_STARTS = 5
"""Times that a tool starts the PowerShell parser; afterwards texts of PowerShell are not understood."""

MOST_TEXTS = 1000
"""Questions that one process of the PowerShell parser answers; then a new process takes over, which counts as no start."""


class PowerShellParser:
    """The host's PowerShell as a parser of texts, one text at a time.

    A failed, late or cancelled question ends the process: a later question must never get the earlier answer.

    Args:
        env: The environment of the parser. The end of the environment ends the parser.
        shell: The PowerShell of the texts.
    """

    def __init__(self, env: Environment, shell: ShellInfo) -> None:
        self._env = env
        self._shell = shell
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._asked = 0
        self._starts = 0
        self._closed = False
        env.runner.helpers.append(self)

    async def parse(self, text: str) -> Parsed:
        """Return the commands of a text; a hint, marked as not understood, if the host does not answer. No text raises."""
        kind = self._shell.kind
        hint = parse(text, kind)
        if len(text) > MAX_TEXT:
            return hint
        if why := unasked_because(text):
            return Parsed(text, kind, hint.commands, (why,))

        def read(number: int, line: bytes) -> Parsed | None:
            parsed = answered(number, text, kind, line)
            return None if MALFORMED in parsed.unknown else parsed

        parsed = await self._put(lambda number: question(number, text), read) or hint
        info = self._env.info
        if info.is_this_machine and info.os == "windows" and os.environ.get("HOME"):
            # git uses HOME as the home directory, PowerShell does not: treat the text as 5.1, where ~ is unknown.
            parsed = replace(parsed, shell="powershell")  # noqa: S604 - a kind of shell
        return parsed

    async def tell(self, words: Sequence[str]) -> list[str | None]:
        """Return facts of a Windows host, one answer for each pair of a kind and an argument; ``None`` is unknown."""
        unknown: list[str | None] = [None] * (len(words) // 2)
        try:
            "".join(words).encode()
        except UnicodeEncodeError:
            return unknown
        said = await self._put(
            lambda number: question_about_host(number, words),
            lambda number, line: host_answers(number, len(unknown), line),
        )
        return said or unknown

    async def _put(self, ask: Callable[[int], bytes], read: Callable[[int, bytes], _T | None]) -> _T | None:
        """Put a question, as a line with its number, and read the answer; ``None`` if the answer is not understood."""
        async with self._turn:
            warm = self._process is not None
            said = await self._ask(ask, read)
            if said is None and warm:  # the process may have ended since the last question
                said = await self._ask(ask, read)
        return said

    async def _ask(self, ask: Callable[[int], bytes], read: Callable[[int, bytes], _T | None]) -> _T | None:
        self._asked += 1
        try:
            line = await self._answer(ask(self._asked))
        except (
            OSError,
            AnyshellError,
            anyio.EndOfStream,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            await self._end()
            return None
        except BaseException:
            await self._end()
            raise
        said = read(self._asked, line)
        if said is None:
            await self._end()
            return None
        if self._asked % MOST_TEXTS == 0:
            self._starts -= 1
            await self._end()
        return said

    async def _answer(self, asked: bytes) -> bytes:
        seconds = ANSWER_SECONDS
        if self._process is None:
            await self._start()
            seconds = START_SECONDS
        process = self._process
        if process is None or process.stdin is None:
            raise AnyshellError("there is no parser")
        answer = bytearray()
        async with asyncio.timeout(seconds):
            await process.stdin.send(asked)
            while not answer.endswith(b"\n"):
                answer += await process.stdout.receive()
                if len(answer) > LONGEST_ANSWER:
                    raise AnyshellError("the answer is too long")
        return bytes(answer)

    async def _start(self) -> None:
        """Start the parser's process; the backend bounds the time of the start."""
        if self._closed or self._starts >= MOST_STARTS:
            raise AnyshellError("no parser is started any more")
        self._starts += 1
        dialect = WINDOWS_POWERSHELL if self._shell.kind == "powershell" else PWSH
        spawn = Spawn(
            argv=dialect.argv(self._shell, script()), cwd=self._env.directory, unset=dialect.unset, stdin=True
        )
        self._process = await self._env.runner.backend.spawn(spawn)
        if self._closed:
            await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await to_the_end(process.aclose(), lambda: None)

    async def aclose(self) -> None:
        """End the parser for good; a waiting question gets no answer."""
        if not self._closed:
            self._closed = True
            self._env.runner.helpers.remove(self)
        await self._end()
