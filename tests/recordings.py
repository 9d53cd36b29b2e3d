"""Recordings for tests, made without the code under test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def v2(path: Path, *events: tuple[float, str] | tuple[float, str, str], **header: object) -> Path:
    """Write a recording of version 2. An event is its time, its text, and a code unless the event is output."""
    lines: list[object] = [{"version": 2, "width": 80, "height": 24, **header}]
    lines += [[event[0], event[2] if len(event) == 3 else "o", event[1]] for event in events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
