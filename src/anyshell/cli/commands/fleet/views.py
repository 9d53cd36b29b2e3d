"""Views of a fleet's run: live lines, a roster, or events for programs."""

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
    """The writer to stdout for all hosts, which writes one whole piece after the other.

    Attributes:
        writer: The writer to the descriptor.
        on_broken: Called once, when writing has failed and no further output is possible.
    """

    def __init__(self, writer: DescriptorWriter) -> None:
        self.writer = writer
        self.on_broken: Callable[[], object] = lambda: None
        self._turn = asyncio.Lock()
        self._was_broken = False

    async def write(self, data: bytes) -> None:
        """Write a piece, after all earlier pieces."""
        async with self._turn:
            await self.writer.write(data)
        if self.writer.error is not None and not self._was_broken:
            self._was_broken = True
            self.on_broken()

    def hurry(self) -> None:
        """From now on, do not wait for a slow reader."""
        self.writer.hurry()

    @property
    def is_deserted(self) -> bool:
        """Whether writing failed because stdout has no reader any more."""
        return isinstance(self.writer.error, BrokenPipeError)

    def check(self) -> None:
        """Raise a `Failure` if writing has failed for another reason than the loss of the reader."""
        if self.writer.error is not None and not self.is_deserted:
            raise Failure(f"cannot write to stdout: {self.writer.error.strerror}")

    def close(self) -> None:
        """End the thread that writes."""
        self.writer.close()


class FleetView(Protocol):
    """The view of a run: for a person, or as JSON for a program."""

    @property
    def failed(self) -> bool:
        """Whether any host has failed, or was not started."""

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Handle a piece of a host's output."""

    def observe(self, host: HostProgress) -> None:
        """Handle a change of a host's state."""

    def begin(self, run: FleetRun) -> None:
        """Begin to show the run."""

    async def add(self, result: HostOutcome) -> None:
        """Add the outcome of a host."""

    async def stop(self) -> None:
        """Stop the live display."""

    async def end(self, took: float, code: int) -> None:
        """Show the summary of the run, which took `took` seconds and has the exit code `code`."""


class _Summing:
    """The base of views that group hosts with the same ending and output. A view holds only a hash of each output."""

    def __init__(self, request: FleetRequest, hosts: Sequence[str], out: Out, *, shows_output: bool) -> None:
        from .folding import Folding

        self.request = request
        self.out = out
        self.folding = Folding(hosts, timeout=request.timeout, shows_output=shows_output)
        self.notices: dict[str, None] = {}
        self._hashes: dict[str, hashlib.blake2b] = {}

    @property
    def failed(self) -> bool:
        """Whether any host has failed, or was not started."""
        return self.folding.failed

    def observe(self, host: HostProgress) -> None:
        """Do nothing: the drawing reads the progress itself."""

    def begin(self, run: FleetRun) -> None:
        """Do nothing: the first output begins the display."""

    async def stop(self) -> None:
        """Do nothing: no frame changes by itself."""

    def digest(self, host: str, data: bytes) -> None:
        """Add a piece of a host's output to the host's hash."""
        if host not in self._hashes:
            self._hashes[host] = hashlib.blake2b(digest_size=16)
        self._hashes[host].update(data)

    def fold(self, result: HostOutcome) -> None:
        """Add the outcome of a host, with the hash of the host's output."""
        found = self._hashes.pop(result.host, None)
        self.folding.add(result, b"" if found is None else found.digest())
        for notice in result.notices:
            self.notices[f"{result.host}: {notice}"] = None


class LinesView(_Summing):
    """A view that prints each line at once, behind the name of its host, and the summary on stderr."""

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
        """Print the host's last line if the line has no line end, and add the outcome of the host."""
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
        """Print the summary on stderr."""
        _say_notices(self)
        groups = [group for group in self.folding.groups() if not (group.ok and self.request.quiet)]
        for group in groups:
            mention(group.head)
        if not self.request.quiet:
            mention(self.folding.total(took))


class RosterView(_Summing):
    """A view with a live line for each host; at the end, hosts with the same output are shown together."""

    def __init__(self, request: FleetRequest, hosts: Sequence[str], out: Out) -> None:
        super().__init__(request, hosts, out, shows_output=True)
        self._roster: Roster | None = None

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Add the piece to the host's hash; the drawing reads the host's last line itself."""
        self.digest(host.host, data)

    def begin(self, run: FleetRun) -> None:
        """Begin to draw."""
        from .roster import Roster

        self._roster = Roster(run, self.out.writer, _STDOUT)
        self._roster.start()

    async def add(self, result: HostOutcome) -> None:
        """Add the outcome of a host."""
        self.fold(result)

    async def stop(self) -> None:
        """Erase the live lines."""
        if self._roster is not None:
            await self._roster.stop()

    async def end(self, took: float, code: int) -> None:
        """Print every different output once, below the names of its hosts."""
        from .roster import paint

        _say_notices(self)
        await self.out.write(paint(self.folding.groups(), self.folding.total(took)))


def _say_notices(view: _Summing) -> None:
    if not view.request.quiet:
        mention(*map(printable, view.notices))


class EventsView:
    """A view for programs: one JSON object a line."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._counts = {"done": 0, "failed": 0, "not_started": 0}
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def failed(self) -> bool:
        """Whether any host has failed, or was not started."""
        return self._counts["failed"] + self._counts["not_started"] > 0

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Do nothing: the result of a host contains the bounded output."""

    def observe(self, host: HostProgress) -> None:
        """Write an event for a host that begins; the result of a host reports the host's end."""
        if host.state in ("connecting", "running"):
            task = asyncio.ensure_future(self._write(event="state", host=host.host, state=host.state))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    def begin(self, run: FleetRun) -> None:
        """Do nothing: no event is due yet."""

    async def add(self, result: HostOutcome) -> None:
        """Write the result of a host."""
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
        """Wait until all events are written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    async def end(self, took: float, code: int) -> None:
        """Write the last event, with the counts of all hosts."""
        hosts = sum(self._counts.values())
        await self._write(event="end", hosts=hosts, **self._counts, duration=took, exit_code=code)

    async def _write(self, **event: object) -> None:
        await self._out.write(to_json(event, one_line=True))
