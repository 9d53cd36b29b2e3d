"""The condition under which a job counts as ready."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError, InvalidCommand
from .._types import check_port, check_seconds
from ..output import expression

if TYPE_CHECKING:
    from .job import Job

Ready = str | re.Pattern[str] | int | tuple[str | re.Pattern[str], int]
"""A regular expression, a TCP port, or both."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The condition under which a job is ready.

    Attributes:
        pattern: The pattern that the job's output matches.
        port: The port that accepts connections.
        seconds: Seconds for the whole condition; ``None`` means no bound.
    """

    pattern: re.Pattern[str] | None
    port: int | None
    seconds: float | None

    @classmethod
    def of(cls, ready: object, seconds: float | None) -> Readiness:
        """Parse the value that a caller gave.

        Raises:
            InvalidCommand: The value is of another type, or a number is out of its range.
        """
        check_seconds("ready_timeout", seconds, zero=True)
        pattern, port = None, None
        for part in ready if isinstance(ready, tuple) else (ready,):
            if isinstance(part, int):
                check_port(part)
                port = part
            elif part is not None:
                pattern = expression(part)
        if isinstance(ready, tuple) and (len(ready) != 2 or pattern is None or port is None):
            raise InvalidCommand("ready must be a pattern, a port, or a tuple of one of each")
        return cls(pattern, port, seconds)

    async def wait(self, job: Job, *, taken: bool) -> None:
        """Wait until a job is ready, and record the result in the job. An error here never harms the job.

        Args:
            job: The job.
            taken: Whether another process accepted connections at the port before the job began.
        """
        pattern, port, seconds = self.pattern, self.port, self.seconds
        if pattern is None and port is None:
            return
        if taken:
            job.ready = False
            job.notice = f"port {port} was in use before the job began, so a connection does not show whether the job is ready"
            return
        began = time.monotonic()
        missing = ""
        try:
            if pattern is not None and await job.wait_for(pattern, timeout=seconds) is None:
                missing = "it did not print the awaited text"
            elif port is not None:
                left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
                if not await job.wait_for(port=port, timeout=left):
                    missing = f"nothing accepted connections at port {port}"
        except AnyshellError as error:
            missing = str(error)
        job.ready = not missing
        if missing and job.status == "running":
            job.notice = f"not ready after {time.monotonic() - began:.1f} s: {missing}; the job goes on"
        elif missing:
            job.notice = f"it ended before it was ready ({job.status}): {missing}"
