"""The masking of secrets in the output of one run, before any other reader."""

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
"""Seconds for which output that may begin a secret (``redact=``) is held back, after its last byte. Less than the time for
draining an output, so no output is lost.
"""

LIKELY_SECONDS = 3.0
"""Seconds for which a likely part of a secret, too long for a coincidence, is held back while the command runs."""


class Masking:
    """The masking of one program's output.

    Args:
        masks: The masks that find secrets.
    """

    def __init__(self, masks: Masks) -> None:
        self._stdout = Masker(masks)
        self._stderr = Masker(masks)

    def take(self, process: Process) -> Process:
        """Wrap the started process, and return the wrapper."""
        return _MaskedProcess(process, self._stdout, self._stderr)

    def count(self, outcome: Outcome) -> Outcome:
        """Add the number of masked secrets to an outcome."""
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
        # Processes that were left behind may keep the stream open; the time for draining is short.
        self._ended = True
        return ended

    async def aclose(self) -> None:
        for stream in self._streams:
            stream.stop()
        await super().aclose()
