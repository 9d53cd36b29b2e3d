"""The request that the command line of ``run`` or ``console`` makes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...options import load_reach

if TYPE_CHECKING:
    from .... import Environment
    from ...._environment import Detection
    from ....reach import Preset
    from ....types import Recording, Scan
    from ...host.reach import Target


class RunRequest(NamedTuple):
    """The options of the command line, by name."""

    host: str | None
    shell: str | None
    cwd: str | None
    variables: tuple[tuple[str, str], ...]
    timeout: float | None
    silence: float | None
    grace: float
    snapshot: bool
    prefix: str | None
    reach: Preset | None
    record: str | None
    command: tuple[str, ...]
    interactive: bool = False
    unattended: bool = False
    pty: bool = False
    columns: int | None = None
    rows: int | None = None
    left_behind: Literal["stop", "keep"] = "stop"
    background: bool = False
    quiet: bool = False
    record_format: Literal["v3", "v2"] | None = None
    record_input: bool = False
    as_json: bool = False
    limit: int | None = None
    effects: bool = False
    diff: bool = False
    split_stderr: bool = False
    trial: bool = False
    commit: bool | None = None
    checkpoint: bool = False

    def detect(self, target: Target, **options: Any) -> Detection[Environment]:
        """Detect the host of the command; `options` are further arguments of `Environment.detect`."""
        from .... import Environment

        detection = Environment.detect(
            target.options,
            shell=self.shell,
            cwd=self.cwd,
            interactive=self.interactive or ("watched" if self.is_watched else False),
            snapshot=self.snapshot,
            prefix=self.prefix,
            reach=load_reach(self.reach),
            **options,
        )
        more = self.pty or self.background or self.scan or self.record or self.trial or self.checkpoint
        return detection if more else detection.brief()

    @property
    def times(self) -> dict[str, Any]:
        """The time limits of the command, as keyword arguments of `Environment.run`."""
        return {"timeout": self.timeout, "silence": self.silence, "grace": self.grace}

    @property
    def is_watched(self) -> bool:
        """Whether a person sees the output on this program's terminal."""
        return not (self.unattended or self.background) and (os.isatty(1) or os.isatty(2))

    @property
    def held(self) -> bool:
        """Whether nothing is shown before the command has ended."""
        return self.as_json or self.limit is not None

    @property
    def scan(self) -> Scan | None:
        """The scan of files for effects; ``None`` without ``--effects`` and ``--diff``."""
        if not (self.effects or self.diff):
            return None
        from ....types import Scan

        return Scan(diff=self.diff)

    @property
    def recording(self) -> Recording | None:
        """The recording of the command; ``None`` without ``--record``."""
        if self.record is None:
            return None
        from ....types import Recording

        return Recording(self.record, version=2 if self.record_format == "v2" else 3, input=self.record_input)
