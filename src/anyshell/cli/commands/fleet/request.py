"""The request that the command line of ``fleet`` makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ....reach import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """The options of the command line, by name."""

    lists: tuple[str, ...]
    files: tuple[str, ...]
    parallel: int | None
    batch: int | None
    fail_fast: bool
    connect_timeout: float | None
    timeout: float | None
    silence: float | None
    grace: float
    shell: str | None
    cwd: str | None
    variables: tuple[tuple[str, str], ...]
    reads_stdin: bool
    interactive: bool
    snapshot: bool
    prefix: str | None
    reach: Preset | None
    left_behind: Literal["stop", "keep"]
    directory: str | None
    as_json: bool
    quiet: bool
    command: tuple[str, ...]
