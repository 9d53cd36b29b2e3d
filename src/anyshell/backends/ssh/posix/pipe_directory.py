"""The private directory of named pipes by which anyshell and a persistent shell on the host exchange data.

A named pipe on the host cannot be opened from here. So each pipe has a *relay*: a small program that reads the pipe and
prints the data, command after command. After each command the relay prints the number of bytes. So the end of one
command's output is known exactly, without a marker in the output and without a round trip.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteReceiveStream

from ...._exceptions import BackendError, SpawnError
from ...._types import Spawn, one_line
from ...._waits import note_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from anyio.abc import ByteSendStream

    from ....abc import Files, InputPipe, OutputPipe, PipeDirectory
    from .process import SSHProcess

READY_SECONDS = 15.0
"""Seconds for a relay on a host by SSH to make its pipe."""

END_SECONDS = 1.0
"""Seconds for a relay to end after its input has ended."""

LONGEST_LINE = 16 * 1024
"""Bytes of a text that a host's shell reads with its command; a longer text is written as a file, which takes round trips."""

LONGEST_SAID = 64 * 1024
"""Bytes of a line of a relay's report; a relay that reports a longer line is given up."""

UNUSED_RELAYS = 2
"""Relays that are kept for the next command: one for each channel."""

_BYTES = re.compile(rb"^([0-9]{1,18}) bytes\b")

_RELAY = r"""umask 077
trap '' HUP PIPE
d=$1
[ "$d" ] || { d=${TMPDIR:-/tmp}/anyshell-$3; mkdir -m 700 "$d" 2>/dev/null; } ||
    { d=/tmp/anyshell-$3; mkdir -m 700 "$d"; } || exit 1
p=$d/$2
mkfifo "$p" || { [ "$1" ] || rmdir "$d"; exit 1; }
cd -- "$d" || exit 1
d=$PWD p=./$2
[ "$1" ] || : >command >run0 >run1 >status
printf 'directory %s\n' "$d" >&2
exec 3>&1 4>&2
while :; do
    n=$(LC_ALL=C dd bs=65536 <"$p" 2>&1 >&3 3>&- 4>&-) || exit 1
    printf '%s\n' "$n" >&4
done </dev/null &
read -r word || word=
[ -p "$p" ] && exec 5<>"$p"
if [ "$word" = stay ]; then rm -f "$p"
else
    set -- "$p"
    for f in ./*; do case $f in ./pipe*) ;; *) set -- "$@" "$f" ;; esac; done
    rm -f "$@"
    { [ "$d" -ef . ] && cd / && rmdir "$d"; } 2>/dev/null || kill -s TERM 0
fi
kill -s KILL 0
"""
"""The text of a relay. Arguments: a directory (empty: make one), the name of a pipe, and the end of the directory's name.

When the last writer has closed the pipe, dd reports how much it has copied; dd of GNU, busybox and the BSDs reports
bytes. The relay ends when its own input ends, as when the connection is lost. No file stays: each relay removes its own pipe and
all files that are no relay's pipe, such as those of a fork or of an input that no command has read, and the last relay removes
the directory, unless that relay was told that the directory has to stay. The relay removes from the directory in which it
is, whatever has its name meanwhile. No signal of a lost connection ends the relay before the removal. At the end the relay
kills its group, itself too: by SIGKILL, but by SIGTERM when it has not removed the directory, such as a relay that is not the
last. A killed relay leaves the directory to `SSHPipeDirectory.aclose`. A shell that waits for the other end of the pipe then
continues."""

_INLET = 'umask 077; mkfifo "$1" && echo ready && exec 3>"$1" && rm -f "$1" && exec cat >&3'


class SSHPipeDirectory:
    """Named pipes in a private directory of the user on the host, each pipe with a relay.

    Args:
        spawn: Starts a program on the host.
        files: The host's files.
        leave: Takes the end of the name of a directory that may have stayed on the host; the directory is removed
            when the host can be reached.
    """

    longest_line = LONGEST_LINE
    retracts = False
    opens_alone = False

    def __init__(
        self, spawn: Callable[[Spawn], Awaitable[SSHProcess]], files: Files, leave: Callable[[str], object]
    ) -> None:
        self._spawn = spawn
        self._files = files
        self._leave = leave
        self._name = secrets.token_hex(16)
        self._is_removed = False
        self._numbers = itertools.count(1)
        self._unused: list[Relay] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.directory = ""

    async def open(self) -> SSHPipeDirectory:
        """Make the directory.

        Raises:
            SpawnError: The directory cannot be made.
        """
        try:
            relay = await self._relay()
        except BaseException:
            self._leave(self._name)
            raise
        self.directory = relay.directory
        self._unused.append(relay)
        return self

    def open_to(self, pid: int) -> None:
        """Do nothing: the pipes have names."""

    async def is_gone(self) -> bool:
        """Whether another process has removed the directory; false where the host does not tell."""
        with contextlib.suppress(OSError, BackendError):
            try:
                await self._files.stat(self.directory)
            except FileNotFoundError:
                return True
        return False

    async def write(self, name: str, data: bytes) -> None:
        """Write a file into the directory."""
        await self._files.write(f"{self.directory}/{name}", data)

    def retract(self, name: str) -> None:
        """Do nothing: a removal would take a round trip."""

    async def output_pipe(self) -> OutputPipe:
        """Return a new pipe, or an unused pipe that no process holds any more."""
        return RelayOutputPipe(self, self._unused.pop() if self._unused else await self._relay())

    async def input_pipe(self) -> InputPipe:
        """Make a pipe that a command reads from."""
        path = f"{self.directory}/in{next(self._numbers)}"
        process = await self._spawn(
            Spawn(argv=("/bin/sh", "-c", _INLET, "sh", path), cwd="/", stdin=True, split_stderr=True)
        )
        try:
            async with asyncio.timeout(READY_SECONDS):
                await process.stdout.receive()
        except (TimeoutError, anyio.EndOfStream, anyio.ClosedResourceError) as error:
            await process.aclose()
            raise SpawnError(f"no pipe can be made in {self.directory}") from error
        return RelayInputPipe(self, path, process)

    async def _relay(self) -> Relay:
        name = f"pipe{next(self._numbers)}"
        process = await self._spawn(
            Spawn(
                argv=("/bin/sh", "-c", _RELAY, "sh", self.directory, name, self._name),
                cwd="/",
                needs=(self.directory,),
                stdin=True,
                split_stderr=True,
            )
        )
        relay = Relay(process, name)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await relay.begin()
        except (TimeoutError, anyio.EndOfStream, anyio.ClosedResourceError) as error:
            refusal = relay.refusal
            await process.aclose()
            raise SpawnError(refusal) from error
        return relay

    def closed(self, relay: Relay) -> None:
        """Keep a relay for the next command, or end the relay if a process still holds its pipe."""
        if relay.at_end and len(self._unused) < UNUSED_RELAYS and not self._closed:
            self._unused.append(relay)
        else:
            self.later(self._end(relay, stays=not self._closed))

    def later(self, closing: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that need not be awaited now."""
        task = asyncio.get_running_loop().create_task(closing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End the relays that are not in use.

        The last relay removes the directory; if a relay is lost, the host does so later.
        """
        self._closed = True
        await self._finish()
        for relay in self._unused:
            self.later(self._end(relay))
        self._unused = []
        await self._finish()
        if not self._is_removed:
            self._leave(self._name)

    async def _end(self, relay: Relay, *, stays: bool = False) -> None:
        if await relay.aclose(stays=stays):
            self._is_removed = True

    async def remove(self, path: str) -> None:
        """Remove a pipe that was never opened."""
        with contextlib.suppress(OSError):
            await self._files.remove(path)

    async def _finish(self) -> None:
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


class Relay:
    """A program on the host that prints the data that is written to a pipe."""

    def __init__(self, process: SSHProcess, name: str) -> None:
        self._process = process
        self._name = name
        self._held = b""
        self._said = b""
        self._complaint = b""
        self._reading: asyncio.Task[bytes] | None = None
        self._counting: asyncio.Task[int] | None = None
        self._received = 0
        self._total: int | None = None
        self.directory = ""

    @property
    def path(self) -> str:
        """The path of the pipe."""
        return f"{self.directory}/{self._name}"

    @property
    def at_end(self) -> bool:
        """Whether a command's output has ended, and no process holds the pipe."""
        return self._total is not None and self._received >= self._total

    @property
    def lost(self) -> bool:
        """Whether the relay's connection broke."""
        return self._process.lost

    async def begin(self) -> None:
        """Wait until the pipe exists."""
        while not (line := await self._line()).startswith(b"directory "):
            self._complaint = line
        self.directory = line.removeprefix(b"directory ").decode("utf-8", "surrogateescape")

    @property
    def refusal(self) -> str:
        """The reason why the pipe could not be made."""
        if self.lost:
            return "the connection to the host was lost before the session had its pipes there; nothing of the command ran"
        said = one_line(self._complaint.rpartition(b": ")[2].decode("utf-8", "replace")[:200])
        return f"no private directory or pipe can be made on the host (mkdir, mkfifo){said and f': {said}'}"

    def next(self) -> None:
        """Expect the output of another command."""
        self._received, self._total = 0, None
        if self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._count())
            self._counting.add_done_callback(note_failure)

    def skip(self) -> None:
        """Expect no output: there is no command."""
        self._received, self._total = 0, 0

    async def receive(self, max_bytes: int) -> bytes:
        """Return the next bytes of the command's output.

        Raises:
            anyio.EndOfStream: The output has ended, or the relay is gone.
            anyio.ClosedResourceError: The relay is gone.
        """
        while not self._held:
            if self.at_end:
                raise anyio.EndOfStream
            loop = asyncio.get_running_loop()
            if self._reading is None:
                self._reading = loop.create_task(self._process.stdout.receive())
                self._reading.add_done_callback(note_failure)
            waiting: set[asyncio.Task[Any]] = {self._reading}
            if self._total is None and self._counting is not None:
                waiting.add(self._counting)
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._counting is not None and self._counting.done():
                counting, self._counting = self._counting, None
                try:
                    self._total = counting.result()
                except (anyio.EndOfStream, anyio.ClosedResourceError):
                    raise anyio.EndOfStream from None  # the relay is gone, and with it the rest of the output
            if self._reading.done():
                reading, self._reading = self._reading, None
                self._held = reading.result()
                self._received += len(self._held)
        data, self._held = self._held[:max_bytes], self._held[max_bytes:]
        return data

    async def _count(self) -> int:
        while True:
            if (match := _BYTES.match(await self._line())) is not None:
                return int(match[1])

    async def _line(self) -> bytes:
        assert self._process.stderr is not None
        while b"\n" not in self._said:
            if len(self._said) > LONGEST_SAID:
                raise anyio.EndOfStream  # no relay prints a line of that length
            self._said += await self._process.stderr.receive()
        line, _, self._said = self._said.partition(b"\n")
        return line

    def discard(self) -> SSHProcess:
        """Stop reading, and return the program, whose output the caller has to discard."""
        self._stop_reading()
        return self._process

    def _stop_reading(self) -> None:
        for task in (self._reading, self._counting):
            if task is not None:
                task.cancel()

    async def aclose(self, *, stays: bool = False) -> bool:
        """End the relay; the directory may have to stay.

        Returns:
            Whether the relay has removed the directory.
        """
        self._stop_reading()
        removed, killed = False, self._process.has_ended
        if self._process.stdin is not None:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                if stays:
                    await self._process.stdin.send(b"stay\n")
            await self._process.stdin.aclose()
            with anyio.move_on_after(END_SECONDS):
                status = await self._process.wait()
                removed = status.signal == "SIGKILL" and not (stays or killed or self.lost)
                if status.signal in ("SIGKILL", "SIGTERM") and not killed:
                    # The relay's last command ends its own group, which holds every process that it started.
                    self._process.count_as_gone()
        await self._process.aclose()
        return removed


class RelayOutputPipe(ByteReceiveStream):
    """The output of one command, by a relay."""

    def __init__(self, pipe_directory: SSHPipeDirectory, relay: Relay) -> None:
        self._pipe_directory = pipe_directory
        self._relay = relay
        self._closed = False
        self.path = relay.path
        self.ended = False
        """Whether no process holds the pipe any more."""
        relay.next()

    @property
    def stream(self) -> ByteReceiveStream:
        """Return the pipe itself, which is the stream."""
        return self

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes` of them."""
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            return await self._relay.receive(max_bytes)
        except anyio.EndOfStream:
            self.ended = True
            raise

    held = False
    """False, since the end of the output may be on its way."""

    @property
    def lost(self) -> bool:
        """Whether the connection of the relay broke."""
        return self._relay.lost

    def command_ended(self) -> None:
        """Do nothing: the pipe ends with its writers."""

    def discard(self) -> None:
        """Read on and discard the data, until the backend is closed."""
        if not self._closed:
            self._closed = True
            self._pipe_directory.later(self._relay.discard().release())

    def close(self) -> None:
        """Stop reading."""
        if not self._closed:
            self._closed = True
            self._pipe_directory.closed(self._relay)

    def give_back(self) -> None:
        """Close the pipe, though no command has used it."""
        self._relay.skip()
        self.close()

    async def aclose(self) -> None:
        """Stop reading."""
        self.close()


class RelayInputPipe:
    """The input of one command, by a program that writes the data to a pipe."""

    def __init__(self, pipe_directory: SSHPipeDirectory, path: str, process: SSHProcess) -> None:
        self._pipe_directory = pipe_directory
        self._process = process
        self._closed = False
        self.path = path

    @property
    def stream(self) -> ByteSendStream:
        """The stream that takes the data for the command."""
        assert self._process.stdin is not None
        return self._process.stdin

    def close(self) -> None:
        """Stop sending."""
        if not self._closed:
            self._closed = True
            self._pipe_directory.later(self._end())

    async def _end(self) -> None:
        await self._process.aclose()
        await self._pipe_directory.remove(self.path)


def _keeps_the_protocol(pipe_directory: SSHPipeDirectory) -> PipeDirectory:
    return pipe_directory
