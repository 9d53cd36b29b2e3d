"""The rule for waiting programs, applied to fixed observations without a host."""

from __future__ import annotations

import asyncio
import time

import pytest

from anyshell._types import Foreground, ProcessInfo
from anyshell.terminal.waiting import UNPROMPTED, InputWatch

pytestmark = pytest.mark.anyio


class Silent:
    """A silent terminal, on a host that cannot tell the system call of its program."""

    def __init__(self, prompt: str) -> None:
        self.last_heard = self.last_typed = time.monotonic()
        self.ended = False
        self._prompt = prompt

    async def changed(self, seconds: float | None = None) -> bool:
        assert seconds is not None
        await asyncio.sleep(seconds)
        return False

    async def foreground(self) -> Foreground:
        return Foreground(processes=(ProcessInfo(7, "program", 0.0),), cpu=1.0)

    def prompt(self) -> str:
        return self._prompt


async def test_silence_after_a_prompt_suffices_on_a_host_without_system_calls() -> None:
    waiting = await InputWatch(Silent("name: "), tells=False).wait(UNPROMPTED / 2)
    assert waiting is not None
    assert (waiting.certainty, waiting.prompt) == ("likely", "name: ")


async def test_silence_without_a_prompt_may_be_a_slow_start() -> None:
    assert await InputWatch(Silent(""), tells=False).wait(UNPROMPTED / 2) is None
    waiting = await InputWatch(Silent(""), tells=False).wait(None)
    assert waiting is not None
    assert waiting.certainty == "likely"
