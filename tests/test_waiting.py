"""Whether a program waits for input, where no host is asked: what the rule makes of what a host would say."""

from __future__ import annotations

import asyncio
import time

import pytest

from anyshell._types import Foreground, ProcessInfo
from anyshell.terminal.waiting import UNPROMPTED, InputWatch

pytestmark = pytest.mark.anyio


class Silent:
    """A terminal that shows nothing any more, of a host that cannot tell what its program sleeps in."""

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


async def test_on_an_untelling_host_silence_behind_a_prompt_is_enough() -> None:
    waiting = await InputWatch(Silent("name: "), tells=False).wait(UNPROMPTED / 2)
    assert waiting is not None
    assert (waiting.certainty, waiting.prompt) == ("likely", "name: ")


async def test_on_an_untelling_host_silence_without_a_prompt_may_be_a_slow_start() -> None:
    assert await InputWatch(Silent(""), tells=False).wait(UNPROMPTED / 2) is None
    waiting = await InputWatch(Silent(""), tells=False).wait(None)
    assert waiting is not None
    assert waiting.certainty == "likely"
