"""Views of a fleet's run: lines as they come, a roster, or events for programs."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Protocol

from ...failure import Failure
from ...printing import mention, printable, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...._types import Channel
    from ....output import LineDecoder
    from ....types import FleetRun, HostOutcome, HostProgress
    from ...process.descriptors import DescriptorWriter
    from .request import FleetRequest
    from .roster import Roster

_STDOUT = 1  # no bound: a descriptor


class Out:
    """Writes to stdout for all hosts, one whole piece after the other.

    Attributes:
        writer: The writer to the terminal.
        on_broken: Called once, when nothing can be written any more.
    """

    def __init__(self, writer: DescriptorWriter) -> None:
        self.writer = writer
        self.on_broken: Callable[[], object] = lambda: None
        self._turn = asyncio.Lock()
        self._was_broken = False

    async def write(self, data: bytes) -> None:
        """Write a piece, when it is its turn."""
        async with self._turn:
            await self.writer.write(data)
        if self.writer.error is not None and not self._was_broken:
            self._was_broken = True
            self.on_broken()

    def hurry(self) -> None:
        """From now on wait for no slow reader."""
        self.writer.hurry()

    @property
    def is_deserted(self) -> bool:
        """Whether writing failed because stdout has no reader any more."""
        return isinstance(self.writer.error, BrokenPipeError)

    def check(self) -> None:
        """Raise what went wrong, but for a reader that has gone."""
        if self.writer.error is not None and not self.is_deserted:
            raise Failure(f"cannot write to stdout: {self.writer.error.strerror}")

    def close(self) -> None:
        """End the thread that writes."""
        self.writer.close()


class FleetView(Protocol):
    """Shows a run: to a person, or as JSON to a program."""

    @property
    def failed(self) -> bool:
        """Whether it did not go well on every host."""

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Take a piece of a host's output."""

    def observe(self, host: HostProgress) -> None:
        """Take note that a host's state has changed."""

    def begin(self, run: FleetRun) -> None:
        """Begin to show it."""

    async def add(self, result: HostOutcome) -> None:
        """Take what became of a host."""

    async def stop(self) -> None:
        """Show nothing that changes any more."""

    async def end(self, took: float, code: int) -> None:
        """Show how it went, after so many seconds."""


class _Summing:
    """Folds hosts together that ended alike and printed the same. Held of an output is what tells it from others."""

    def __init__(self, request: FleetRequest, hosts: Sequence[str], out: Out, *, shows_output: bool) -> None:
        from .folding import Folding

        self.request = request
        self.out = out
        self.folding = Folding(hosts, timeout=request.timeout, shows_output=shows_output)
        self.notices: dict[str, None] = {}
        self._hashes: dict[str, hashlib.blake2b] = {}

    @property
    def failed(self) -> bool:
        """Whether it did not go well on every host."""
        return self.folding.failed

    def observe(self, host: HostProgress) -> None:
        """Do nothing: the drawing reads the progress itself."""

    def begin(self, run: FleetRun) -> None:
        """Do nothing: the first output begins the display."""

    async def stop(self) -> None:
        """Do nothing: no frame changes by itself."""

    def digest(self, host: str, data: bytes) -> None:
        """Take a piece of a host's output."""
        if host not in self._hashes:
            self._hashes[host] = hashlib.blake2b(digest_size=16)
        self._hashes[host].update(data)

    def fold(self, result: HostOutcome) -> None:
        """Take what became of a host."""
        found = self._hashes.pop(result.host, None)
        self.folding.add(result, b"" if found is None else found.digest())
        for notice in result.notices:
            self.notices[f"{result.host}: {notice}"] = None


class LinesView(_Summing):
    """Each line as it comes, behind the name of its host; how it went stands on stderr."""

    def __init__(self, request: FleetRequest, hosts: Sequence[str], out: Out) -> None:
        super().__init__(request, hosts, out, shows_output=False)
        self._decoders: dict[str, LineDecoder] = {}

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Print the lines that a piece completes."""
        self.digest(host.host, data)
        decoder = self._decoders.get(host.host)
        if decoder is None:
            from ....output import LineDecoder, Page

            page = None if host.info is None else Page.of(host.info.code_page)
            decoder = self._decoders[host.host] = LineDecoder(page)
        await self._print(host.host, [line.text for line in decoder.feed(data)])

    async def add(self, result: HostOutcome) -> None:
        """Print the last line, if nothing ended it."""
        decoder = self._decoders.pop(result.host, None)
        if decoder is not None:
            await self._print(result.host, [line.text for line in decoder.flush()])
        self.fold(result)

    async def _print(self, host: str, lines: list[str]) -> None:
        from ....policy import printable as harmless

        if not lines:
            return
        name = printable(host)
        text = harmless("\n".join(lines)).replace("\n", f"\n{name}: ")
        await self.out.write(f"{name}: {text}\n".encode("utf-8", "backslashreplace"))

    async def end(self, took: float, code: int) -> None:
        """Say how it went, on stderr."""
        _say_notices(self)
        groups = [group for group in self.folding.groups() if not (group.ok and self.request.quiet)]
        for group in groups:
            mention(group.head)
        if not self.request.quiet:
            mention(self.folding.total(took))


class RosterView(_Summing):
    """A line for each host while they run; then what they printed, with those in one that printed the same."""

    def __init__(self, request: FleetRequest, hosts: Sequence[str], out: Out) -> None:
        super().__init__(request, hosts, out, shows_output=True)
        self._roster: Roster | None = None

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Take what tells its output from others; the last line is looked at when it is drawn."""
        self.digest(host.host, data)

    def begin(self, run: FleetRun) -> None:
        """Begin to draw."""
        from .roster import Roster

        self._roster = Roster(run, self.out.writer, _STDOUT)
        self._roster.start()

    async def add(self, result: HostOutcome) -> None:
        """Fold it in."""
        self.fold(result)

    async def stop(self) -> None:
        """Take away what was drawn."""
        if self._roster is not None:
            await self._roster.stop()

    async def end(self, took: float, code: int) -> None:
        """Print every different output once, below whose it is."""
        from .roster import paint

        _say_notices(self)
        await self.out.write(paint(self.folding.groups(), self.folding.total(took)))


def _say_notices(view: _Summing) -> None:
    if not view.request.quiet:
        mention(*map(printable, view.notices))


class EventsView:
    """A JSON object a line, for programs."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._counts = {"done": 0, "failed": 0, "not_started": 0}
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def failed(self) -> bool:
        """Whether it did not go well on every host."""
        return self._counts["failed"] + self._counts["not_started"] > 0

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Do nothing: a result has the output, bounded."""

    def observe(self, host: HostProgress) -> None:
        """Tell of a host that begins; how one ends is told with its result."""
        if host.state in ("connecting", "running"):
            task = asyncio.ensure_future(self._write(event="state", host=host.host, state=host.state))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    def begin(self, run: FleetRun) -> None:
        """Do nothing: no event is due yet."""

    async def add(self, result: HostOutcome) -> None:
        """Tell what became of a host."""
        self._counts[result.state] += 1
        error = result.error
        await self._write(
            event="result",
            host=result.host,
            state=result.state,
            outcome=result.outcome,
            error=None if error is None else {"type": type(error).__name__, "message": str(error)},
            survivors=result.survivors,
            notices=result.notices,
            duration=result.duration,
        )

    async def stop(self) -> None:
        """Wait until all is written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    async def end(self, took: float, code: int) -> None:
        """Tell that this was all."""
        hosts = sum(self._counts.values())
        await self._write(event="end", hosts=hosts, **self._counts, duration=took, exit_code=code)

    async def _write(self, **event: object) -> None:
        await self._out.write(to_json(event, one_line=True))
