"""``anyshell fleet``: one command on many hosts, shown as it goes, and folded together at the end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click
from click.shell_completion import CompletionItem

from ...._exceptions import AnyshellError
from ...failure import Failure
from ...host.reach import notices
from ...options import (
    Seconds,
    complete_file,
    cwd_option,
    env_option,
    grace_option,
    prefix_option,
    shell_option,
    silence_option,
    snapshot_option,
)
from ...printing import mention, printable, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .... import FleetRun, HostOutcome, HostProgress, SSHOptions
    from ...._types import Channel
    from ....output import LineDecoder
    from ...process.descriptors import Writer
    from ...process.signals import Interruption
    from .roster import Roster

SOME_FAILED = 1  # no bound
"""The exit code when it did not go well on every host, whatever became of it there."""

LARGEST_STDIN = 16 * 1024 * 1024
"""Bytes of stdin that `anyshell fleet --stdin` gives to every host, held in memory; more is an error."""

LARGEST_HOSTS_FILE = 1024 * 1024
"""Bytes of a file with hosts; more is an error."""

_STDIN, _STDOUT = range(2)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A host as it was written, and where."""

    text: str
    place: str


def _complete_hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from ...host.aliases import find_aliases

    before, comma, last = incomplete.rpartition(",")
    user, at, begun = last.rpartition("@")
    known = ["local", *find_aliases()]
    return [CompletionItem(before + comma + user + at + name) for name in known if name.startswith(begun)]


@click.command(
    short_help="Run a command on many hosts.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--hosts",
    "lists",
    multiple=True,
    metavar="HOST,HOST…",
    shell_complete=_complete_hosts,
    help="The hosts: user@host, aliases of ~/.ssh/config, ssh://user@host:port/directory, or local. May be given several "
    "times.",
)
@click.option(
    "--hosts-file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file with one host a line; '#' begins a comment; '-' is stdin. May be given several times.",
    shell_complete=complete_file,
)
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    metavar="N",
    help="Hosts that have their turn at once, at most. Default: 32.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Begin on so many hosts, and on the next ones when all of these have ended. Default: whoever ends makes room.",
)
@click.option(
    "--fail-fast",
    is_flag=True,
    help="Begin on no further host once it has failed on one. Those that run go on.",
)
@click.option(
    "--connect-timeout",
    type=Seconds(),
    help="Give a host up that was not reached after so many seconds. Default: 60.",
)
@click.option(
    "--timeout",
    type=Seconds(),
    help="Stop the command on a host, and all that it started there, after so many seconds. Default: none.",
)
@silence_option
@grace_option
@shell_option
@cwd_option
@env_option
@click.option(
    "--stdin",
    "reads_stdin",
    is_flag=True,
    help="Read stdin to its end, and give it to the command on every host. Otherwise the command reads end-of-file.",
)
@click.option(
    "--interactive",
    is_flag=True,
    help="Leave pager, editor, prompt, colour and progress variables as they are on the hosts.",
)
@snapshot_option
@prefix_option
@click.option(
    "--left-behind",
    type=click.Choice(["stop", "keep"]),
    default="stop",
    show_default=True,
    help="What becomes of processes that outlive the command.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON object a line: what happens, as it happens."
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Show what is printed, and at the end nothing but what went wrong."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
@click.pass_context
def fleet(ctx: click.Context, /, **options: Any) -> None:
    """Run COMMAND on many hosts, so many at a time, in a fresh shell on each.

    One argument is text in the shell's language; several are a program and its arguments, taken literally.
    Options of anyshell end at the first word of COMMAND.

    On a terminal, a line for each host shows what it does, for how long, and the last line that it printed. In a pipe
    or a file, each line is printed as it comes, behind the name of its host. At the end stands how it went, with those
    hosts in one that ended alike and printed the same.

    A host that cannot be reached, hangs, dies, or has an unknown key costs only itself. Nobody is asked anything on the
    way: keys have to be in files without a passphrase or in an agent, and hosts in known_hosts.

    Ctrl-C stops the command, and all that it started, on every host, and is sure of that; where it cannot be, it is
    said. A second one skips the grace.

    \b
    Examples:
      anyshell fleet --hosts web-1,web-2,db-1 -- uptime
      anyshell fleet --hosts-file hosts.txt --timeout 60 -- 'df -h / | tail -1'
      anyshell fleet --hosts-file hosts.txt --batch 5 --fail-fast -- systemctl restart app
      anyshell fleet --hosts local,web-1 --json -- uname -r | jq -r 'select(.event == "result").host'
    \b
    Exit code:
      0      it exited with 0 on every host
      1      it failed on one or more, was not started there, or may still run there
      2      wrong usage, a bad line of a file with hosts among it: nothing was contacted
      125    anyshell itself failed, or could not write to stdout
      128+n  signal n was sent to this program (130: Ctrl-C; 141: nobody reads stdout any more)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...process import signals

    request = _Request(**options)
    if len(request.command) == 1 and request.command[0] and not request.command[0].strip(" \t\n"):
        raise click.BadParameter("there is nothing in it but blanks: give a command", param_hint="COMMAND")
    hosts = _read_hosts(request)

    async def perform(interruption: Interruption) -> int:
        return await _perform(request, hosts, interruption)

    ctx.exit(signals.run(perform))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The options of the command line, by their names."""

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
    left_behind: Literal["stop", "keep"]
    as_json: bool
    quiet: bool
    command: tuple[str, ...]


# --- the hosts ------------------------------------------------------------------------------------------------


def _read_hosts(request: _Request) -> list[str]:
    """Every host that was named, in order; wrong usage if one cannot be, or is there twice."""
    from ....backends import read_address

    if request.files.count("-") + request.reads_stdin > 1:
        raise click.UsageError("stdin is read once: give --stdin, or '--hosts-file -' once")
    hosts: list[str] = []
    seen: dict[SSHOptions | None, str] = {}
    for entry in _entries(request):
        try:
            address = read_address(entry.text)
        except AnyshellError as error:
            raise click.UsageError(f"{entry.place}: {error}") from error
        if address in seen:
            raise click.UsageError(
                f"{entry.place}: {printable(entry.text)} is there already ({seen[address]}); take one of them out"
            )
        seen[address] = entry.place
        hosts.append(entry.text)
    if not hosts:
        raise click.UsageError("there are no hosts: name them by --hosts or --hosts-file")
    return hosts


def _entries(request: _Request) -> Iterator[_Entry]:
    for listed in request.lists:
        for number, text in enumerate(listed.split(","), 1):
            if not text.strip():
                raise click.UsageError(
                    f"--hosts: host {number} is empty: give names, with one comma between two"
                )
            yield _Entry(text.strip(), f"--hosts, host {number}")
    for path in request.files:
        name = "stdin" if path == "-" else printable(path)
        for number, line in enumerate(_read_file(path, name).splitlines(), 1):
            text = _without_comment(line)
            if text:
                yield _Entry(text, f"{name}, line {number}")


def _read_file(path: str, name: str) -> str:
    try:
        if path == "-":
            if sys.stdin is None:  # whoever started this program has closed it
                raise Failure("cannot read the hosts in stdin: it is closed")
            data = sys.stdin.buffer.read(LARGEST_HOSTS_FILE + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_HOSTS_FILE + 1)
    except OSError as error:
        raise Failure(f"cannot read the hosts in {name}: {error.strerror}") from error
    if len(data) > LARGEST_HOSTS_FILE:
        raise Failure(f"{name} has more than {LARGEST_HOSTS_FILE} bytes: is it a list of hosts?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{name}, line {line}: it is no UTF-8 text") from error


def _without_comment(line: str) -> str:
    """A line without what stands behind a ``#`` that begins a word."""
    return re.sub(r"(?:^|\s)#.*", "", line).strip()


# --- the run --------------------------------------------------------------------------------------------------


async def _perform(request: _Request, hosts: list[str], interruption: Interruption) -> int:
    from .... import Fleet, OutputLimits
    from ....fleet import CONNECT_SECONDS, PARALLELISM
    from ...options import command_text
    from ...process.descriptors import Writer, watch_reader

    # Otherwise its warnings would come out between those of ours.
    logging.getLogger("asyncssh").addHandler(logging.NullHandler())
    stdin = await _read_stdin() if request.reads_stdin else None
    out = _Out(Writer(_STDOUT))
    live = not request.as_json and not request.quiet and _can_draw()
    shown_at_once = not request.as_json and not live
    began = time.monotonic()
    try:
        made = Fleet(
            hosts,
            parallelism=request.parallel or PARALLELISM,
            batch=request.batch,
            stop_on_failure=request.fail_fast,
            connect_timeout=request.connect_timeout or CONNECT_SECONDS,
            shell=request.shell,
            cwd=request.cwd,
            interactive=request.interactive,
            # What is shown as it comes need not be kept as well.
            limits=OutputLimits(head=0, tail=0) if shown_at_once else None,
            artifacts=None if shown_at_once else "default",
            snapshot=request.snapshot,
            prefix=request.prefix,
        )
        view: _View
        view = _Events(out) if request.as_json else (_Roster if live else _Lines)(request, made.hosts, out)
        async with made:
            run = made.run(
                lambda env: command_text(request.command, env),
                env=dict(request.variables),
                stdin=stdin,
                timeout=request.timeout,
                silence=request.silence,
                grace=request.grace,
                left_behind=request.left_behind,
                listener=view.hear,
                observer=view.observe,
            )

            def stop() -> None:
                run.cancel()
                out.hurry()

            interruption.stop = stop
            out.on_broken = lambda: interruption.desert() if out.is_deserted else stop()
            watch_reader(_STDOUT, interruption.desert)
            view.begin(run)
            try:
                async for result in run:
                    await view.add(result)
            finally:
                await view.stop()
        code = SOME_FAILED if view.failed else 0
        if interruption.number is not None:
            code = interruption.exit_code
        await view.end(time.monotonic() - began, code)
        if (
            interruption.number is None
        ):  # a terminal that is closed cannot be written to, and has said so by a signal
            out.check()
        return code
    finally:
        out.close()


async def _read_stdin() -> bytes:
    from ...process.descriptors import Reader

    reader = Reader(_STDIN)
    data = bytearray()
    try:
        async for piece in reader:
            data += piece
            if len(data) > LARGEST_STDIN:
                raise Failure(
                    f"stdin has more than {LARGEST_STDIN} bytes, which would be held for every host: "
                    "copy a file there instead (anyshell cp)"
                )
    finally:
        reader.close()
    if reader.error is not None:
        raise Failure(f"cannot read stdin: {reader.error.strerror}")
    return bytes(data)


def _can_draw() -> bool:
    """Whether stdout is a terminal on which the cursor can be moved."""
    if not os.isatty(_STDOUT) or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    if sys.platform == "win32":
        from rich.console import Console

        return not Console().legacy_windows
    return bool(os.environ.get("TERM"))


class _Out:
    """Writes to stdout for all hosts, one whole piece after the other.

    Attributes:
        writer: What it writes with.
        on_broken: Called once, when nothing can be written any more.
    """

    def __init__(self, writer: Writer) -> None:
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
        """Whether that is because nobody reads it."""
        return isinstance(self.writer.error, BrokenPipeError)

    def check(self) -> None:
        """Raise what went wrong, but for a reader that has gone."""
        if self.writer.error is not None and not self.is_deserted:
            raise Failure(f"cannot write to stdout: {self.writer.error.strerror}")

    def close(self) -> None:
        """End the thread that writes."""
        self.writer.close()


# --- what is shown --------------------------------------------------------------------------------------------


class _View(Protocol):
    """Shows a run to somebody."""

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

    def __init__(self, request: _Request, hosts: Sequence[str], out: _Out, *, shows_output: bool) -> None:
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
        """Nothing: what is drawn is looked at when it is drawn."""

    def begin(self, run: FleetRun) -> None:
        """Nothing is shown before something was printed."""

    async def stop(self) -> None:
        """Nothing changes by itself."""

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


class _Lines(_Summing):
    """Each line as it comes, behind the name of its host; how it went stands on stderr."""

    def __init__(self, request: _Request, hosts: Sequence[str], out: _Out) -> None:
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
        from ....policy.display import printable as harmless

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
            mention(f"anyshell: {group.head}")
        if not self.request.quiet:
            mention(f"anyshell: {self.folding.total(took)}")


class _Roster(_Summing):
    """A line for each host while they run; then what they printed, with those in one that printed the same."""

    def __init__(self, request: _Request, hosts: Sequence[str], out: _Out) -> None:
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
    if view.notices and not view.request.quiet:
        mention(notices(view.notices).rstrip("\n"))


class _Events:
    """A JSON object a line, for programs."""

    def __init__(self, out: _Out) -> None:
        self._out = out
        self._counts = {"done": 0, "failed": 0, "not_started": 0}
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def failed(self) -> bool:
        """Whether it did not go well on every host."""
        return self._counts["failed"] + self._counts["not_started"] > 0

    async def hear(self, host: HostProgress, channel: Channel, data: bytes) -> None:
        """Nothing: a result has the output, bounded."""

    def observe(self, host: HostProgress) -> None:
        """Tell of a host that begins; how one ends is told with its result."""
        if host.state in ("connecting", "running"):
            task = asyncio.ensure_future(self._write(event="state", host=host.host, state=host.state))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    def begin(self, run: FleetRun) -> None:
        """Nothing is to be told yet."""

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
