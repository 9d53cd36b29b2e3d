"""What the library says of mistakes: reviewed once, and bounded. ``ANYSHELL_UPDATE_SNAPSHOTS=1`` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import mistakes

pytestmark = pytest.mark.anyio
SNAPSHOT = Path(__file__).parent / "snapshots" / "mistakes.txt"
LONGEST = 240
"""Characters of a message: two lines of a wide terminal."""
PYTHONS_OWN = (
    "FileNotFoundError: ",
    "TypeError: ShellTool.__init__() missing",
    "ValueError: budget",
    "AttributeError: the env",
)
"""What is raised by Python, or as Python raises it: every other message is of an exception of anyshell's."""


async def test_each_mistake_is_told_in_two_lines_as_was_reviewed() -> None:
    said = await mistakes.messages()
    assert len(said) >= 90
    assert [mistake for mistake, text in said.items() if not text] == []  # nothing is said of it
    assert [text for text in said.values() if text.count("\n") > 1 or len(text) > LONGEST] == []
    foreign = [text for text in said.values() if not text.startswith(("anyshell.", *PYTHONS_OWN))]
    assert foreign == []
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS") == "1":
        SNAPSHOT.write_text(mistakes.report(said), encoding="utf-8", newline="\n")
    assert mistakes.report(said) == SNAPSHOT.read_text(encoding="utf-8")
