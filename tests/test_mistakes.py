"""Messages of the library and the command line for mistakes: reviewed and bounded. ``ANYSHELL_UPDATE_SNAPSHOTS=1`` writes the snapshots again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import cli_mistakes, mistakes

pytestmark = pytest.mark.anyio
SNAPSHOTS = Path(__file__).parent / "snapshots"
LONGEST = 240
"""Characters of a message: two lines of a wide terminal."""
PYTHONS_OWN = (
    "FileNotFoundError: ",
    "TypeError: ShellTool.__init__() missing",
    "TypeError: anyshell.run() takes",
    "TypeError: an Outcome is neither",
    "AttributeError: the env",
    "AttributeError: an Outcome has no",
)
"""Exceptions raised by Python, or with the type that Python raises: every other exception is anyshell's."""


async def test_library_messages_are_short_and_reviewed() -> None:
    said = await mistakes.messages()
    assert len(said) >= 90
    assert [mistake for mistake, text in said.items() if not text] == []  # a mistake without a message
    assert [text for text in said.values() if text.count("\n") > 1 or len(text) > LONGEST] == []
    foreign = [text for text in said.values() if not text.startswith(("anyshell.", *PYTHONS_OWN))]
    assert foreign == []
    assert_reviewed(mistakes.report(said), SNAPSHOTS / "mistakes.txt")


@pytest.mark.skipif(os.name != "posix", reason="each is a fork of one process")
def test_command_line_messages_are_short_and_reviewed(tmp_path: Path) -> None:
    said = cli_mistakes.messages(tmp_path)
    assert len(said) >= 46
    assert [line for line, (code, text) in said.items() if code not in (1, 2, 125) or not text] == []
    assert [text for _, text in said.values() if text.count("\n") > 1 or len(text) > LONGEST] == []
    assert_reviewed(cli_mistakes.report(said), SNAPSHOTS / "cli_mistakes.txt")


def assert_reviewed(report: str, snapshot: Path) -> None:
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS") == "1":
        snapshot.write_text(report, encoding="utf-8", newline="\n")
    assert report == snapshot.read_text(encoding="utf-8")
