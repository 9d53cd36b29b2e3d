"""The masking of secrets in the output of one run, before anything else sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .._wrapped import Wrapped
from ..output.masked import MaskedStream
from ..policy.redaction import Masker

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream

    from .._types import ExitStatus, Outcome
    from ..abc import Process
    from ..policy.redaction import Masks

HOLD_SECONDS = 0.05
"""Seconds for which output is held back that may be the beginning of a secret (``redact=``), after the last of it. Less than
the rest of an output has, so that nothing of it is lost."""

LIKELY_SECONDS = 3.0
"""Seconds for which so much of a value or a token that it is no chance is held back, while the command runs."""


class Masking:
    """Masks the output of one program.

    Args:
        masks: Say where secrets stand.
    """

    def __init__(self, masks: Masks) -> None:
        self._stdout = Masker(masks)
        self._stderr = Masker(masks)

    def take(self, process: Process) -> Process:
        """Take the program that was started, and give what stands for it."""
        return _MaskedProcess(process, self._stdout, self._stderr)

    def count(self, outcome: Outcome) -> Outcome:
        """Have an outcome say how many secrets are masked in it."""
        if not self._stdout.count and not self._stderr.count:
            return outcome
        stderr = outcome.stderr and replace(outcome.stderr, masked=self._stderr.count)
        return replace(outcome, output=replace(outcome.output, masked=self._stdout.count), stderr=stderr)


class _MaskedProcess(Wrapped):
    """A program whose output is masked."""

    def __init__(self, process: Process, stdout: Masker, stderr: Masker) -> None:
        self._ended = False
        self._streams = [self._masked(process.stdout, stdout)]
        if process.stderr is not None:
            self._streams.append(self._masked(process.stderr, stderr))
        super().__init__(
            process, stdout=self._streams[0], stderr=self._streams[1] if len(self._streams) > 1 else None
        )

    def _masked(self, stream: ByteReceiveStream, masker: Masker) -> MaskedStream:
        return MaskedStream(
            stream,
            masker,
            seconds=HOLD_SECONDS,
            longer=LIKELY_SECONDS,
            likely=lambda: masker.likely and not self._ended,
        )

    async def wait(self) -> ExitStatus:
        ended = await super().wait()
        # Processes that were left behind may keep the stream open, and for the rest there is little time.
        self._ended = True
        return ended

    async def aclose(self) -> None:
        for stream in self._streams:
            stream.stop()
        await super().aclose()
