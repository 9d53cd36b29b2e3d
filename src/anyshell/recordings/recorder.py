"""The recorder of one run, which sees the program's output, and its input before the program gets it.

A thread turns output and input into events and writes the events to the disk. The event loop never waits for the disk, except
to delay output that would otherwise fill the memory.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.abc import ByteSendStream

from .._exceptions import RecordingError
from .._types import MASK, RecordingReport, Terminal
from .._waits import Changes, shielded, to_the_end
from .._wrapped import Wrapped
from ..terminal.secrets import TypedMasks
from .asciicast import Header
from .file import RecordingFile
from .worker import RecordingWorker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .._types import Channel, Outcome, Output, Recording
    from ..abc import Process
    from ..output import Builder
    from .file import Happened, Source

HELD = 1024 * 1024
"""Bytes of a recording that wait to be written; with more bytes, the program has to wait."""

MOST_HELD = 16 * 1024 * 1024
"""Bytes that wait to be written at the end of a run, when the program cannot wait; with more, the recording breaks off."""

HAPPENED_SIZE = 128
"""Bytes of memory that an event is counted with, in addition to its data."""

FLUSH_PAUSE = 0.02
"""Seconds between two small writes: for at most that time, an event exists only in memory."""

LITTLE = 64 * 1024
"""Bytes below which a write counts as small; after a larger write there is no pause."""

DISK_SECONDS = 5.0
"""Seconds for the disk to make the file, to take waiting bytes, and to take the end; then the recording breaks off."""

_LINE_ENDS = re.compile(rb"([\r\n\x03\x04]+)")
_LARGEST_CODE = 2**31  # no bound: where a sign begins

_NOT_IN_TIME = f"it broke off, since the disk took nothing for {DISK_SECONDS:g} s"
_UNKNOWN = (
    f"all that was typed stands there as {MASK.decode()}, since the host does not say whether it was a secret"
)


class Recorder:
    """The recorder of one run.

    Args:
        recording: The file, and the options.
        terminal: The terminal of the command; ``None`` stands for pipes.
        shell: The path of the command's shell.
        masks: The secrets that are masked in the terminal's output.
        code_page: The code page of output that is not UTF-8.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        terminal: Terminal | None,
        shell: str,
        masks: TypedMasks | None,
        code_page: int | None,
    ) -> None:
        self._recording = recording
        self._terminal = terminal
        self._shell = shell
        self._code_page = code_page
        self._masks = TypedMasks(masks)
        self._hiding = False
        self._unknown = False
        self._started = False
        self._began = 0.0
        self._file: RecordingFile | None = None
        self._worker = RecordingWorker("anyshell-recording")
        self._given_up = False
        self._why = ""
        self._pending: list[Happened] = []
        self._held = 0
        self._flushing: asyncio.Task[None] | None = None
        self._written = Changes()

    @property
    def _on(self) -> bool:
        return self._file is not None and not self._given_up and not self._file.over

    async def begin(self) -> None:
        """Make the file.

        Raises:
            RecordingError: The file cannot be made, or a file of that name exists.
        """
        self._began = time.monotonic()
        recording, terminal = self._recording, self._terminal
        size = terminal or Terminal()
        header = Header(
            version=recording.version,
            columns=size.columns,
            rows=size.rows,
            term=None if terminal is None else terminal.term,
            timestamp=int(time.time()),
            idle_time_limit=recording.idle_time_limit,
            title=recording.title,
            env={"SHELL": self._shell},
        )
        path = Path(recording.path)

        def make() -> None:
            file = RecordingFile(
                path,
                header,
                max_bytes=recording.max_bytes,
                on_terminal=terminal is not None,
                code_page=self._code_page,
            )
            self._file = file
            if self._given_up:
                file.discard()  # `begin` no longer waits for the file

        try:
            making = self._worker.do(make)
        except RuntimeError as error:
            raise RecordingError(f"cannot record to {str(path)!r}: that needs a thread: {error}") from error
        try:
            await asyncio.wait([making], timeout=DISK_SECONDS)
        finally:
            self._given_up = not making.done()
        try:
            if self._given_up:
                raise TimeoutError(None, f"the file could not be made in {DISK_SECONDS:g} s")
            making.result()
        except FileExistsError as error:
            cure = (
                "that is a directory; choose a new file in it"
                if Path(path).is_dir()
                else "the file exists already and is not overwritten; remove it, or choose another name"
            )
            raise RecordingError(f"cannot record to {str(path)!r}: {cure}") from error
        except OSError as error:
            raise RecordingError(
                f"cannot record to {str(path)!r}: {error.strerror}; choose a directory that is there and can be "
                "written to"
            ) from error

    def builder(self, builder: Builder, channel: Channel) -> Builder:
        """Return a builder that records the output of a channel and feeds another builder."""
        return _RecordingBuilder(builder, lambda data: self._add(channel, data))

    def listener(
        self, listener: Callable[[Channel, bytes], Awaitable[None]] | None
    ) -> Callable[[Channel, bytes], Awaitable[None]]:
        """Return a listener that wraps another one, and delays a program that prints faster than the disk can record."""

        async def hear(channel: Channel, data: bytes) -> None:
            await self._room()
            if listener is not None:
                await listener(channel, data)

        return hear

    def take(self, process: Process) -> Process:
        """Take the started program, and return the program for the engine, with its input recorded if requested."""
        self._started = True
        if not self._recording.input or process.stdin is None:
            return process
        return Wrapped(process, stdin=_RecordedInput(process.stdin, process, self))

    async def typed(self, data: bytes, process: Process) -> None:
        """Record data that is typed, or written to a pipe, with its secrets masked."""
        if self._on:
            self._add("input", await self._shown(data, process))
            await self._room()

    def resized(self, terminal: Terminal) -> None:
        """Record a new size of the terminal."""
        self._add("size", f"{terminal.columns}x{terminal.rows}".encode())

    async def end(self, outcome: Outcome) -> RecordingReport | None:
        """Write the end, and close the file. A cancellation of the waiting task takes effect only after that.

        Returns:
            The result of the recording; ``None`` without a recording, since nothing was started.
        """
        if not outcome.started:
            await self.abandon()
            return None
        how = None
        if outcome.status != "exited":
            how = (
                f"the command timed out{'' if outcome.silence is None else ', having printed nothing for long'}"
                if outcome.status == "timed_out"
                else f"the command was {outcome.status}"
            )
        await to_the_end(self._end(_exit_status(outcome), how), lambda: None)
        file = self._file
        assert file is not None
        notices = [self._why if self._given_up else file.notice, _UNKNOWN if self._unknown else None]
        notice = "; ".join(notice for notice in notices if notice is not None) or None
        return RecordingReport(path=file.path, size=file.size, complete=notice is None, notice=notice)

    async def abandon(self) -> None:
        """Close the file of a run without an outcome; if the command was not started, remove the file."""
        if self._file is None:
            self._worker.end()
        elif self._started:
            await to_the_end(self._end(None, "the command was cancelled"), lambda: None)
        else:
            await to_the_end(self._finish(self._file.discard), lambda: None)

    async def _end(self, status: int | None, how: str | None) -> None:
        file = self._file
        assert file is not None
        if held := self._masks.release():
            self._add("input", held)
        if self._flushing is not None:
            await asyncio.wait([self._flushing], timeout=DISK_SECONDS)
            if not self._flushing.done():
                self._give_up(_NOT_IN_TIME)
        rest, self._pending = self._pending, []
        await self._finish(partial(file.finish, rest, self._now, status, how))

    async def _finish(self, work: Callable[[], object]) -> None:
        """Make the last call for the file in the thread; do not wait for the call if the recording was given up."""
        last = self._worker.do(work)
        if not self._given_up:
            await asyncio.wait([last], timeout=DISK_SECONDS)
            if not last.done():
                self._give_up(_NOT_IN_TIME)
        self._worker.end()

    async def _room(self) -> None:
        """Wait until at most `HELD` bytes wait for the disk."""
        while self._held > HELD and self._on:
            if not await self._written.wait(DISK_SECONDS):
                self._give_up(_NOT_IN_TIME)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _add(self, source: Source, data: bytes) -> None:
        if not data or not self._on:
            return
        if self._held > MOST_HELD:
            self._give_up("it broke off, since the disk was slower than the command")
            return
        self._pending.append((self._now, source, data))
        self._held += len(data) + HAPPENED_SIZE
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        file = self._file
        assert file is not None
        while self._pending and self._on:
            batch, self._pending = self._pending, []
            size = sum(len(data) + HAPPENED_SIZE for _, _, data in batch)
            try:
                # The end of an event loop cancels every task, this task too; pending data is written all the same.
                await shielded(self._worker.do(partial(self._put, file, batch)))
            except Exception as error:
                self._give_up(f"it broke off: {error!r}")
                raise
            finally:
                self._held -= size
                self._written.notify()
            if size < LITTLE:
                await asyncio.sleep(FLUSH_PAUSE)
        if not self._on:
            self._pending = []  # the recording has ended

    def _put(self, file: RecordingFile, batch: list[Happened]) -> None:
        """Write a batch of events, in the thread."""
        file.put(batch)
        if self._given_up:
            file.close()  # the event loop no longer waits for the file

    def _give_up(self, why: str) -> None:
        self._given_up = True
        self._why = why
        self._pending = []
        self._written.notify()

    async def _shown(self, data: bytes, process: Process) -> bytes:
        """Mask the secrets in typed data.

        A program that asks for a password has its terminal in line mode and without echo: all data typed then is masked. A
        program that reads a secret key by key, as an editor reads its keys, cannot be told from an editor.
        """
        if self._terminal is not None:
            foreground = await process.foreground()
            unknown = foreground is None or foreground.echo is None
            self._unknown = self._unknown or unknown
            if unknown or (
                foreground is not None and not foreground.echo and foreground.line_mode is not False
            ):
                return self._masks.release() + self._hidden(data)
        self._hiding = False
        return self._masks.feed(data)

    def _hidden(self, data: bytes) -> bytes:
        """Replace the text of each line by one mask, which also hides the text's length; keep the line ends."""
        shown = b""
        for number, part in enumerate(_LINE_ENDS.split(data)):
            if number % 2:
                shown += part
                self._hiding = False
            elif part and not self._hiding:
                shown += MASK
                self._hiding = True
        return shown


class _RecordingBuilder:
    """A builder that passes its data to another builder, and also to a callback."""

    def __init__(self, builder: Builder, tell: Callable[[bytes], object]) -> None:
        self._builder = builder
        self._tell = tell

    def feed(self, data: bytes) -> None:
        self._builder.feed(data)
        self._tell(data)

    def finish(self) -> Output:
        return self._builder.finish()

    def close(self) -> None:
        self._builder.close()


class _RecordedInput(ByteSendStream):
    """The recorded input of a program. Input is recorded before it is sent, so that the resulting output comes after it."""

    def __init__(self, stream: ByteSendStream, process: Process, recorder: Recorder) -> None:
        self._stream = stream
        self._process = process
        self._recorder = recorder

    async def send(self, item: bytes) -> None:
        await self._recorder.typed(item, self._process)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


def _exit_status(outcome: Outcome) -> int | None:
    """Return the exit status as a shell reports it; ``None`` if unknown."""
    if outcome.exit_code is not None:
        code = outcome.exit_code  # 32 bits on Windows, of which players read the first bit as a sign
        return code if code < _LARGEST_CODE else code - 2 * _LARGEST_CODE
    number = signal.Signals.__members__.get(outcome.signal or "")
    return None if number is None else 128 + number.value
