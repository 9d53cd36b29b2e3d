"""Three parsers agree: anyshell's, bash itself with programs that report that they ran, and shfmt.

``python -m tests.policy_lines 20000`` compares as many lines as the issue wants, in some minutes.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from . import policy_lines
from .conftest import missing

COUNT = int(os.environ.get("ANYSHELL_POLICY_LINES", "2000"))


@pytest.mark.timeout(1800)
def test_bash_and_shfmt_find_no_program_missed_by_the_parser() -> None:
    if not shutil.which("bash"):
        missing("bash", "install bash")
    if not (Path(sys.executable).parent / "shfmt").exists():
        missing("shfmt", "pip install shfmt-py")
    lines, numbers = policy_lines.compared(COUNT, 16)
    assert not lines, numbers
