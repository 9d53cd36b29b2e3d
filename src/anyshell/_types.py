"""The values that travel from a request to its outcome. All of them are frozen."""

from __future__ import annotations

import math
import ntpath
import os
import posixpath
import re
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ._exceptions import CommandFailed, InvalidCommand
from ._windows_paths import check_path, plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Mapping, Sequence
    from os import PathLike
    from pathlib import Path
    from types import ModuleType


OperatingSystem = Literal["linux", "macos", "windows"]
ShellKind = Literal["bash", "zsh", "sh", "pwsh", "powershell", "wsl"]
Channel = Literal["stdout", "stderr"]
Status = Literal["exited", "timed_out", "cancelled", "lost", "running"]
JobStatus = Literal["running", "completed", "failed", "stopped", "timed_out", "lost"]
LeftBehind = Literal["stop", "adopt", "keep"]
Signal = Literal["interrupt", "terminate", "kill"]
TerminalKind = Literal["pty", "conpty", "winpty"]
ConnectionStage = Literal["address", "connect", "handshake", "authenticate", "session"]

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

LONGEST_NAME = 80
"""Characters of a name that somebody made up, in a message."""

_LONGEST_NUMBER = 24

LARGEST_TERMINAL = 1_000
"""Columns, and rows, that a terminal may have: its screen is held in memory."""

LARGEST_RECORDING = 64 * 1024**2
"""Bytes of a recording, by default."""

LEAST_RECORDING = 16 * 1024
"""Bytes that a recording may have at least: a header, and room to say how it ended."""

LONGEST_TITLE = 256
"""Characters of a recording's title."""

_TERMINAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a caller asks for, checked when it is made.

    Attributes:
        text: The command, in the shell's own language; of any size and content but a NUL byte.
        cwd: Where it runs. Relative to the environment's own directory, ``~`` is the host user's home;
            ``None`` is the environment's own directory.
        env: Variables added to the host's, over everything else.
        stdin: What the command reads, at once or as it comes; ``None`` is end-of-file at once.

    Raises:
        InvalidCommand: What `check_text` refuses, anywhere; a variable name other than
            ``[A-Za-z_][A-Za-z0-9_]*``; a stdin of another type.
    """

    text: str
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # a value may be a secret
    stdin: bytes | AsyncIterable[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_text("the command", self.text)
        if self.cwd is not None:
            check_text("cwd", self.cwd)
            if not self.cwd:
                raise InvalidCommand("cwd is empty: give a directory, or None for the environment's own")
        if not (self.stdin is None or isinstance(self.stdin, bytes) or hasattr(self.stdin, "__aiter__")):
            kind = type(self.stdin).__name__
            raise InvalidCommand(f"stdin must be bytes, text or an async iterable of bytes, not {kind}")
        for name, value in self.env.items():
            check_variable(name, value)


def check_text(what: str, text: object) -> None:
    """Refuse what no host can be given as text: anything but a string, a NUL byte, half of a surrogate pair.

    Raises:
        InvalidCommand: Says what it is and where, never what the text is.
    """
    if not isinstance(text, str):
        raise InvalidCommand(f"{what} must be a string, not {type(text).__name__}")
    if (at := text.find("\0")) >= 0:
        raise InvalidCommand(f"{what} holds a NUL byte at character {at}; take it out")
    if text.isascii():
        return
    try:
        text.encode(errors="surrogateescape")  # which is how Python itself carries bytes that are no UTF-8
    except UnicodeEncodeError as error:
        raise InvalidCommand(
            f"{what} holds half of a surrogate pair at character {error.start}; take it out"
        ) from None


def check_variable(name: object, value: object) -> None:
    """Refuse a variable that no environment can hold.

    Raises:
        InvalidCommand: Names the variable; its value, which may be a secret, is never in the message.
    """
    if not isinstance(name, str) or not _VARIABLE_NAME.match(name):
        shown = repr(cut_name(name)) if isinstance(name, str) else f"a key of type {type(name).__name__}"
        raise InvalidCommand(f"{shown} is not a variable name: use [A-Za-z_][A-Za-z0-9_]*")
    check_text(f"the value of {name}", value)


def cut_name(name: str) -> str:
    """Bound a name for a message, and leave out what may be the value of a variable, and so a secret."""
    before, equals, _ = name.partition("=")
    return f"{before[:LONGEST_NAME]}…" if len(before) > LONGEST_NAME else before + equals


def exact(number: float) -> str:
    """Say a finite number as a person writes it: never rounded, without an exponent where it is large.

    Only a number too long to read is shortened, and says so.
    """
    if number != int(number):
        return repr(number)
    text = str(int(number))
    if len(text) <= _LONGEST_NUMBER:
        return text
    return f"{text[:8]}… ({len(text.lstrip('-'))} digits)"


def one_line(text: str) -> str:
    r"""Keep a host's own words on one line, and show as escapes what a terminal obeys: a name may hold instructions.

    A byte that is no UTF-8, which Python holds as a lone surrogate, becomes ``\xff``: a surrogate is no text.
    """
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return rf"\x{ord(char) - 0xDC00:x}"
    return char.encode("unicode_escape").decode()


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of those there are.

    Raises:
        InvalidCommand: Names them.
    """
    if value not in choices:
        raise InvalidCommand(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")


def check_seconds(name: str, value: object, *, zero: bool = False, none: bool = True) -> None:
    """Refuse a number of seconds that no clock can wait for.

    Raises:
        InvalidCommand: Not a number, not finite, negative, zero where `zero` is false, ``None`` where `none` is.
    """
    if value is None and none:
        return
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InvalidCommand(f"{name} must be a finite number of seconds, not {value!r}")
    except OverflowError as error:  # a whole number that is too large for a clock, and for a message
        raise InvalidCommand(f"{name} must be a number of seconds that a clock can count") from error
    if value < 0 or (value == 0 and not zero):
        raise InvalidCommand(
            f"{name} must be {'zero or more' if zero else 'more than 0'} seconds, not {value!r}"
        )


def check_count(name: str, value: object, *, least: int = 1) -> None:
    """Refuse what is no number of things.

    Raises:
        InvalidCommand: Not a whole number, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidCommand(f"{name} must be a whole number, {least} or more, not {value!r}")


def check_port(port: object) -> None:
    """Refuse what is no TCP port.

    Raises:
        InvalidCommand: Not a whole number from 1 to 65535.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidCommand(f"a port must be 1 to 65535, not {port!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The terminal that a program is given.

    Attributes:
        columns: Characters of a row, 2 to 1,000.
        rows: 2 to 1,000.
        term: What it is like: a name of the host's terminfo, which the program finds in ``TERM``.

    Raises:
        InvalidCommand: A size that is out of range; a name that no terminal has.
    """

    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"

    def __post_init__(self) -> None:
        _check_size("columns", self.columns)
        _check_size("rows", self.rows)
        _check_terminal_name(self.term)


def _check_size(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= LARGEST_TERMINAL:
        raise InvalidCommand(f"{name} must be a whole number from 2 to {LARGEST_TERMINAL:,}, not {value!r}")


def _check_terminal_name(name: object) -> None:
    if not isinstance(name, str) or not _TERMINAL_NAME.match(name):
        raise InvalidCommand(f"term must be a name such as xterm-256color, not {name!r}")


@dataclass(frozen=True, slots=True)
class Recording:
    """That what happens is recorded into a file, as asciinema does: what is printed, when, and at which size.

    Attributes:
        path: The file, on this machine. It is made, for this user alone: what is there already is refused, and a link is
            not followed.
        version: Of asciicast, the format: 3 or 2.
        input: Whether what is typed is recorded as well.
        max_bytes: Bytes that the file may have, 16 KiB or more. When it has them, the recording ends, and says so.
        title: What the recording is called, at most 256 characters.
        idle_time_limit: Seconds that a player should at most wait where nothing happens.

    Raises:
        InvalidCommand: One of them is none of these.
    """

    path: str | PathLike[str]
    _: KW_ONLY
    version: Literal[2, 3] = 3
    input: bool = False
    max_bytes: int = LARGEST_RECORDING
    title: str | None = None
    idle_time_limit: float | None = None

    def __post_init__(self) -> None:
        _check_recording(self.path, self.version)
        check_count("max_bytes", self.max_bytes, least=LEAST_RECORDING)
        if self.title is not None:
            check_text("the title of a recording", self.title)
            if len(self.title) > LONGEST_TITLE:
                raise InvalidCommand(f"the title of a recording must have at most {LONGEST_TITLE} characters")
        check_seconds("idle_time_limit", self.idle_time_limit)


def to_recording(record: object) -> Recording | None:
    """What a caller asks for, with an absolute path: he gives a path, a recording, or nothing.

    Raises:
        InvalidCommand: Something else.
    """
    if record is None:
        return None
    if isinstance(record, str | os.PathLike):
        record = Recording(record)
    if not isinstance(record, Recording):
        raise InvalidCommand(f"record must be a path or a Recording(path), not {type(record).__name__}")
    try:
        return replace(record, path=os.path.abspath(os.fspath(record.path)))
    except OSError as error:
        raise InvalidCommand(
            "this process's directory has been removed: give an absolute path to record to"
        ) from error


def _check_recording(path: object, version: object) -> None:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise InvalidCommand(f"a recording needs the path of a file, not {path!r}")
    check_text("the path of a recording", name)
    if name.endswith((os.sep, os.altsep or os.sep)):  # lost when it is made absolute
        raise InvalidCommand(f"a recording needs the path of a file, and {name!r} is that of a directory")
    if isinstance(version, bool) or version not in (2, 3):
        raise InvalidCommand(f"a recording is of version 2 or 3 of asciicast, not {version!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingReport:
    """What became of a recording.

    Attributes:
        path: The file; absolute.
        size: Its bytes.
        complete: Whether all of what was to be recorded is in it.
        notice: What is missing, and why; ``None`` when nothing is.
    """

    path: Path
    size: int
    complete: bool = True
    notice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What stands on a terminal at one moment.

    Attributes:
        rows: Its rows from the top, each without the blanks at its end.
        cursor: Row and column of the cursor, both from 0.
        title: What the program has called its window; empty when it has not.
        alternate: Whether it is the alternate screen, as editors and pagers use it, which leaves no trace.
        cursor_visible: Whether the cursor is shown; what draws all of the screen by itself may hide it.
    """

    rows: tuple[str, ...]
    cursor: tuple[int, int] = (0, 0)
    title: str = ""
    alternate: bool = False
    cursor_visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLines:
    """Lines that a terminal's program has printed, as they are at one moment: scrolled away, or on the main screen.

    A line that the terminal wraps is one. Of very much output, those that scrolled away first are not kept.

    Attributes:
        first: The number of the first one here, counted from 0 since the program began.
        texts: They, each without the blanks at its end.
        final: The number of the first that may still change.
    """

    first: int
    texts: tuple[str, ...]
    final: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreground:
    """Who has a terminal at one moment: what of it a host can tell. What is ``None`` it cannot.

    Attributes:
        processes: The foreground process group: those that ^C reaches, and that may read.
        asleep_in: What holds up one of them that waits for input there: ``read`` on the terminal itself, or
            ``select`` for as long as it takes on nothing else; ``poll``, or the like, while it has the terminal open;
            ``None`` when neither, or not known.
        waiting: Those of `processes` of which `asleep_in` tells; empty when it does not, or not of which.
        cpu: Seconds of processor time that they have used together.
        echo: Whether the terminal shows what is typed. A program that asks for a password has it off.
        line_mode: Whether the terminal passes on whole lines, as it does unless a program edits its line itself.
    """

    processes: tuple[ProcessInfo, ...] = ()
    asleep_in: Literal["read", "poll"] | None = None
    waiting: tuple[ProcessInfo, ...] = ()
    cpu: float | None = None
    echo: bool | None = None
    line_mode: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A program that waits for somebody to type something on its terminal.

    Attributes:
        certainty: ``certain`` when it is blocked in a read of the terminal; ``likely`` when it sleeps as a program does
            that waits for a key or for something else, has used no processor time and printed nothing for a while.
        prompt: What stands before the cursor on its line: the question, as a rule. Empty when nothing does.
        echo: Whether the terminal shows what is typed. It does not while a password is asked for; nor at the prompt of
            a shell or in an editor, which show it themselves: whether it is a password, `password` says. ``None`` when
            the host cannot tell.
        line_mode: Whether the terminal passes on whole lines, as it does unless a program edits its line itself.
            ``None`` when the host cannot tell.
        processes: Who has the terminal.
    """

    certainty: Literal["certain", "likely"]
    prompt: str = ""
    echo: bool | None = None
    line_mode: bool | None = None
    processes: tuple[ProcessInfo, ...] = ()

    @property
    def password(self) -> bool | None:
        """Whether it asks as for a password: it reads a line, and what is typed is not shown.

        False for a program that reads single keys, also if it asks for a password in a way of its own. ``None`` when the
        host cannot tell.
        """
        if self.echo is None or self.line_mode is None:
            return None
        return self.line_mode and not self.echo


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """What a backend starts: one program with its surroundings, ready to run and already quoted.

    Attributes:
        argv: The program's path on the host and its arguments.
        script: Text too long for an argument. The backend makes it readable, once, by a path that it puts
            into the variable ``ANYSHELL_SCRIPT``; `argv` knows what to do with it.
        cwd: An absolute directory on the host.
        settings: Variables set over the host's own that hold no secret: a backend may put them where others on
            the host can see them, such as a command line.
        env: Variables set over the host's own and over `settings`. They may be secrets.
        unset: Variables of the host's own that are removed, unless `settings` or `env` sets them.
        stdin: A pipe when true; otherwise reading gives end-of-file at once. On a terminal: whether whoever runs the
            program types what it reads, and then ^D; the terminal can be typed on in any case.
        split_stderr: Two pipes. Otherwise both channels share one, which keeps their order true.
        terminal: What stdin, stdout and stderr are, instead of pipes: the program's controlling terminal.
        on_asked: Called by a backend whose host can hear the request before it answers: with the `Process`, when the host
            may have heard and the beginning is not known yet. From then on the caller stops and closes that process,
            also when `Backend.spawn` raises or is cancelled. ``None``: `Backend.spawn` does it.
    """

    argv: tuple[str, ...]
    cwd: str
    script: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    unset: frozenset[str] = frozenset()
    stdin: bool = False
    split_stderr: bool = False
    terminal: Terminal | None = None
    on_asked: Callable[[Any], object] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.terminal is not None and self.split_stderr:
            raise InvalidCommand("on a terminal stdout and stderr are one: leave out split_stderr")


@dataclass(frozen=True, slots=True)
class Start:
    """What a server is given in order to start one program.

    Attributes:
        line: The one string that it hands to the user's login shell. Everybody on the host can see it.
        sent: What is written to the program's stdin at once, and read before anything else happens.
        when_ready: What is written after that, each part when the program has said that it is ready for it.
    """

    line: str
    sent: bytes = field(default=b"", repr=False)
    when_ready: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended. Both are ``None`` when nobody can know any more.

    Attributes:
        code: The exit code, 0 to 255 on POSIX, 32 bits without a sign on Windows; ``None`` when a signal ended it, or
            when we did on Windows, where a code that we chose would be no answer of its own.
        signal: The signal's name, such as ``SIGKILL``; ``None`` when it exited.
    """

    code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of a command's tree, named so that it cannot be mistaken for another.

    Attributes:
        pid: Its number on the host; 0 when that is not known.
        name: Its program, as the host's process list shows it.
        started: When it started, in the host's own unit; with `pid` it names one process for ever.
        alive: Whether it was still running when this was written down.
    """

    pid: int
    name: str
    started: float
    alive: bool = True

    def ended(self) -> ProcessInfo:
        """The same process, known to be gone."""
        return ProcessInfo(self.pid, self.name, self.started, alive=False)


def still_named(alive: Sequence[ProcessInfo], named: Sequence[ProcessInfo]) -> Sequence[ProcessInfo]:
    """Those of `alive` that `named` has too, whatever program they have become."""
    known = {(info.pid, info.started) for info in named}
    return [info for info in alive if (info.pid, info.started) in known]


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole output of a command, kept in a file because its text had to be bounded.

    Attributes:
        id: What `ArtifactStore.path` and ``anyshell artifacts show`` take.
        path: The file: raw bytes, readable by its owner alone, on the machine that anyshell runs on.
        size: Its size in bytes.
        omitted_bytes: Bytes between the file's head and its tail that were not kept, because the output
            outgrew the cap of one artifact; 0 when the file is whole.
    """

    id: str
    path: Path
    size: int
    omitted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed, bounded.

    Attributes:
        text: What the program printed, cleaned of escape sequences, and one truncation marker at most. Of a terminal:
            what a person would have seen; blank lines at its end are left out, and are not counted.
        total_bytes: Raw bytes that the command wrote.
        omitted_bytes: Raw bytes of these that `text` leaves out, between its head and its tail and at the
            end of lines that were cut.
        total_lines: Line feeds in what the command wrote.
        omitted_lines: Line feeds of these in what `text` leaves out.
        head_range: Where something between is left out: the first and last line of `text` before that, counted from 1, a
            line that is shown in part too; ``None`` when nothing is left out between, or nothing shown before.
        tail_range: The same of what comes after.
        cut_lines: Lines of `text` that were longer than a line may be, and say so.
        artifact: The whole; ``None`` when nothing was left out, or when it could not be kept.
        artifact_error: Why the whole was not kept, such as ``No space left on device``.
        skipped_bytes: Of a terminal: raw bytes that were not drawn, since the program drew faster than a screen can
            be kept. They are left out of `text`. What was drawn again at the end, in 1 MiB at most, is exact; in other
            places an older state may stand. 0 otherwise.
        alternate: Of a terminal: the last frame of the alternate screen, as an editor or a pager draws on it, which is
            no part of `text`; ``None`` when it was not used.
    """

    text: str = ""
    total_bytes: int = 0
    omitted_bytes: int = 0
    total_lines: int = 0
    omitted_lines: int = 0
    head_range: tuple[int, int] | None = None
    tail_range: tuple[int, int] | None = None
    cut_lines: int = 0
    artifact: Artifact | None = None
    artifact_error: str | None = None
    skipped_bytes: int = 0
    alternate: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether `text` leaves anything out."""
        return self.omitted_bytes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """How much of a command's output becomes text.

    Attributes:
        head: Bytes of cleaned text kept from the start; zero or more.
        tail: Bytes kept from the end; zero or more.
        max_line: Characters a line may have before it is cut; at least 1.

    Raises:
        ValueError: A limit is out of its range.
    """

    head: int = 20 * 1024
    tail: int = 30 * 1024
    max_line: int = 2_000

    def __post_init__(self) -> None:
        if self.head < 0 or self.tail < 0 or self.max_line < 1:
            raise ValueError(f"head and tail must be 0 or more, max_line 1 or more, not {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """A piece of output, as it came.

    Attributes:
        channel: Where it was written; always ``stdout`` unless the channels were asked for apart.
        data: The raw bytes.
        text: The bytes as text. By chunks: decoded, otherwise as printed. By lines: one line, cleaned,
            without its line feed.
        complete: By lines: false for a piece of a line that is too long to be held, and for a last line
            without a line feed.
    """

    channel: Channel
    data: bytes
    text: str
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What a command did to the session that it ran in.

    Attributes:
        state: ``kept``; ``ended`` when the command ended the session's shell, as ``exit`` does; ``lost`` when the shell
            had to be replaced because of a stop, and with it what it knew. The next command has a fresh shell.
        directory: Where the session's shell is now; absolute. ``None`` where it is gone.
        fresh: Why this command began in a fresh shell, and that directory, variables and functions of before are
            gone; empty when it did not, and for the first command.
        variables: If they were asked for, the exported variables that the command has set, with their values, or
            removed, with ``None``; ours are left out. ``None`` when they were not, or could not be told.
    """

    state: Literal["kept", "ended", "lost"] = "kept"
    directory: str | None = None
    fresh: str = ""
    variables: Mapping[str, str | None] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a command.

    Attributes:
        status: ``exited``; ``timed_out`` and ``cancelled``, both with the whole tree stopped; ``lost`` when
            how it ended, or that it ended, could not be learnt; ``running`` when it goes on as a job.
        exit_code: The shell's exit code; ``None`` when a signal ended it, on Windows when we did, or it is not known to
            have started.
        signal: The name of the signal that ended it, such as ``SIGKILL``.
        output: What it printed; stdout alone when the channels were asked for apart. So far, if it is running.
        stderr: What it printed there, when the channels were asked for apart.
        duration: Seconds from the start of the clock to the end.
        left_behind: Processes that were still there when the command had ended by itself, or that a stop
            could not end; each says whether it is alive.
        started: Whether the shell was started at all before the time was over. ``False``: nothing ran, and nothing will.
            ``None``: unknown, since the host may have heard the request and has not answered; then the status is ``lost``.
        session: What it did to the session that it ran in; ``None`` for a fresh shell.
        job: The id of the job that the command goes on as, or that has what it left behind; ``None`` otherwise.
        waiting: On a terminal, what it waited for to be typed when its time was over; ``None`` when it did not.
        ended_at_once: Whether what was stopped, of it or of what it left behind, was not asked to end first, and so
            could not finish what it was doing: there was no grace, or no way to ask, as on Windows without a terminal.
        terminal: What its terminal was: ``pty``, that of a POSIX system; on Windows ``conpty``, or ``winpty`` where there
            is no ConPTY. ``None`` when it had none.
        silence: The seconds of silence that ended it, rather than its timeout or anything else; ``None`` otherwise.
        recording: What became of the recording; ``None`` when none was asked for, or nothing was started.
    """

    status: Status
    exit_code: int | None = None
    signal: str | None = None
    output: Output = field(default_factory=Output)
    stderr: Output | None = None
    duration: float = 0.0
    left_behind: tuple[ProcessInfo, ...] = ()
    started: bool | None = True
    session: SessionReport | None = None
    job: str | None = None
    waiting: Waiting | None = None
    ended_at_once: bool = False
    terminal: TerminalKind | None = None
    silence: float | None = None
    recording: RecordingReport | None = None

    def check(self) -> Outcome:
        """Return this outcome if the command exited with 0.

        Raises:
            CommandFailed: It did not; the exception carries this outcome.
        """
        if self.status == "exited" and self.exit_code == 0:
            return self
        if self.status == "timed_out" and self.silence is not None:
            how = f"timed out: it printed nothing for {exact(self.silence)} s"
        elif self.status == "timed_out":
            how = f"timed out after {self.duration:.1f} s"
        elif self.status == "running":
            how = f"still runs, as job {self.job}: wait for that"
        elif self.status == "lost" and self.started is None:
            how = "may have run: the host was asked and has not answered"
        elif self.status != "exited":
            how = f"was {self.status}"
        elif self.signal is not None:
            how = f"was ended by {self.signal}"
        elif self.exit_code is None:
            how = "ended, and nobody can know with which exit code"
        else:
            how = f"ended with exit code {self.exit_code}"
        raise CommandFailed(f"the command {how}; its output is in .outcome.output", outcome=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """A piece of what a job has printed. Reading it takes nothing away.

    Attributes:
        text: Cleaned of escape sequences.
        data: The raw bytes of it.
        offset: Where to read on: the byte after `data`, counted from the start of the job's output.
        total_bytes: Raw bytes that the job has printed so far.
        omitted_bytes: Bytes between the offset that was asked for and `data` that are not kept any more.
        utf8_bytes: How many first bytes of `data` are UTF-8, where the rest is text of the host's code page; ``None``
            when all of it is UTF-8, or the host has no code page.
    """

    text: str
    data: bytes
    offset: int
    total_bytes: int
    omitted_bytes: int = 0
    utf8_bytes: int | None = None


_SHELL_NAMES: Mapping[ShellKind, str] = {
    "pwsh": "PowerShell",
    "powershell": "Windows PowerShell",
    "wsl": "bash in WSL",
}


@dataclass(frozen=True, slots=True)
class ShellInfo:
    """A shell that answered.

    Attributes:
        kind: Its language: bash, zsh or sh; pwsh is PowerShell 7, powershell is Windows PowerShell 5.1; wsl is the
            bash of the Windows Subsystem for Linux, on the Windows host around that.
        path: Where it is on the host.
        version: What it says of itself; empty when it has no way to say (dash).
    """

    kind: ShellKind
    path: str
    version: str = ""

    @property
    def name(self) -> str:
        """What a person calls it, such as ``bash 5.2.15``."""
        name = _SHELL_NAMES.get(self.kind, self.kind)
        return f"{name} {self.version}" if self.version else name

    @property
    def on_windows(self) -> bool:
        """Whether it is a program of Windows, whose arguments are one text: its path begins with a drive or a share."""
        return bool(ntpath.splitdrive(self.path)[0])


@dataclass(frozen=True, slots=True)
class ShellCandidate:
    """A shell that may be there, and how to make it answer.

    Attributes:
        kind: Its language.
        path: An absolute path on the host, or a bare name that is looked up on the host's PATH. On Windows ``%NAME%``
            in a path stands for a variable of the host; and a bare ``bash`` is wherever the host has one that runs
            Windows' own programs, which that of WSL is not.
        arguments: What to give it so that it prints a line ``anyshell <version>``.
    """

    kind: ShellKind
    path: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostQuery:
    """What to ask a host, all at once.

    Attributes:
        programs: Names to look up on its PATH.
        shells: Candidates in order; the first that answers is taken.
        shells_on_windows: Those that stand for `shells` if the host turns out to be a Windows one.
        variables: Names of variables to look for.
    """

    programs: tuple[str, ...] = ()
    shells: tuple[ShellCandidate, ...] = ()
    shells_on_windows: tuple[ShellCandidate, ...] = ()
    variables: tuple[str, ...] = ()

    def shells_on(self, os: OperatingSystem) -> tuple[ShellCandidate, ...]:
        """The candidates for a host of that system."""
        return self.shells_on_windows if os == "windows" else self.shells


_PLACES_OF_BASH: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("bash", "zsh", "sh"), re.compile(r"\A(?:/cygdrive)?/([A-Za-z])(?:/|\Z)")),
    "wsl": re.compile(r"\A/mnt/([A-Za-z])(?:/|\Z)"),
}
"""How a drive is named by what bash there is on Windows: MSYS2 and Cygwin; WSL, unless it is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The facts of a host, as its backend found them; never those of another machine.

    Attributes:
        os: ``linux``, ``macos`` or ``windows``.
        arch: The machine's architecture as it names itself: ``x86_64``, ``aarch64``, ``arm64``.
        name: The system's name, such as ``Debian GNU/Linux``.
        version: The system's version, such as ``12``.
        hostname: The host's own name.
        user: Who commands run as.
        home: That user's home directory.
        directory: Where a command starts when nobody says where.
        container: ``docker``, ``podman``, … when the host is inside one; ``None`` otherwise.
        wsl: Whether the host is the Windows Subsystem for Linux.
        code_page: The number of the code page in which programs write that do not write UTF-8: on Windows the OEM
            page of the system, such as 850. ``None`` on any other host.
        programs: Of the programs asked for, those that exist, with their paths.
        variables: On Windows, those of the variables asked for that the host's environment has; their names alone.
        shell: The first shell candidate that answered.
        shells_tried: One line for every candidate that did not answer, with the reason.
        is_this_machine: Whether the host's files are those of the machine that anyshell runs on, under the
            same paths: then a command can read what anyshell keeps.
        notices: What a person should know of the way the host was reached, one sentence each, such as a setting
            that is not heeded. Not for models.
    """

    os: OperatingSystem
    arch: str
    name: str
    version: str
    hostname: str
    user: str
    home: str
    directory: str
    container: str | None = None
    wsl: bool = False
    code_page: int | None = None
    programs: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    shell: ShellInfo | None = None
    shells_tried: tuple[str, ...] = ()
    is_this_machine: bool = False
    notices: tuple[str, ...] = ()

    def resolve(self, path: str | None, base: str | None = None) -> str:
        r"""Make a path absolute by the host's rules, without asking the host.

        Args:
            path: Absolute, relative to `base`, or below ``~``; ``None`` is `base`. On Windows ``\x`` is on the drive of
                `base`, and a place on a drive may also be named as its shell does, if that is a bash: ``/c/src``, or
                ``/mnt/c/src`` where it is that of WSL.
            base: An absolute directory of the host; ``None`` is `directory`.

        Raises:
            InvalidCommand: Windows would take it for something else than a file of that name: a device, a stream, a
                name that ends with a dot or a blank; or for ``D:src``, which depends on what nobody here knows.
        """
        windows = self.os == "windows"
        rules: ModuleType = ntpath if windows else posixpath
        base = self.directory if base is None else base
        if path is None:
            return base
        if windows:
            path = self._of_windows(path)
        if path == "~" or path.startswith(("~/", "~\\") if windows else "~/"):
            path = rules.join(self.home, path[2:])
        if path == "." or path.startswith(("./", ".\\") if windows else "./"):
            path = path[2:].lstrip("/\\" if windows else "/")
        joined: str = rules.join(base, path) if path else base  # which an absolute path replaces
        if windows:
            joined = joined.replace("/", "\\")
            check_path(joined)
        return joined

    def _of_windows(self, path: str) -> str:
        r"""Name a file as every program of Windows does: without what bash, or a ``\\?\`` that is not needed, adds."""
        if self.shell is not None and (place := _PLACES_OF_BASH.get(self.shell.kind)):
            path = place.sub(lambda found: f"{found[1].upper()}:\\", path)
        path = plain(path)
        if re.match(r"[A-Za-z]:(?![\\/])", path):
            raise InvalidCommand(
                f"{path!r} is relative to where its drive is at the moment; give an absolute path"
            )
        return path


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a host knows of a file.

    Attributes:
        kind: Of the file itself, or of what a link points to when links were followed.
        size: In bytes.
        mode: Permission bits, as in POSIX.
        modified: Seconds since the epoch.
    """

    kind: Literal["file", "directory", "link", "other"]
    size: int
    mode: int
    modified: float


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One name in a directory.

    Attributes:
        name: Without the directory.
        kind: Of the entry itself: a link is a link, whatever it points to.
    """

    name: str
    kind: Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """How far a copy has come.

    Attributes:
        path: The file that bytes were copied of last, as its source names it; empty before the first.
        bytes_done: Bytes written so far, over all files.
        bytes_total: Bytes that there were when the copy began. A file that grows or shrinks meanwhile makes
            `bytes_done` end elsewhere.
        files_done: Files and links that are complete at their place.
        files_total: Files and links that there are to copy.
    """

    path: str
    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """What was copied.

    Attributes:
        path: Where the copy is; absolute.
        files: Regular files that were written.
        links: Symbolic links that were written.
        directories: Folders that were made; those that were there already are not counted.
        bytes: Bytes of all files.
        skipped: Sockets, pipes and devices that were left out, by their paths at the source.
    """

    path: str
    files: int
    links: int
    directories: int
    bytes: int
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """Everything that decides what runs, for whoever approves it. Two equal requests do the same.

    In a session they do so only as far as what earlier commands have set up there allows: a function may have
    been given the name of a program meanwhile.

    Attributes:
        text: The command, exactly as it will run. If something is sent to a job, that of the job.
        shell: The shell that reads it.
        host: The host that it runs on.
        directory: Where it runs; absolute. A link in it is not resolved.
        env: The variables that the request itself adds. A rewritten command has OLDPWD among them.
        stdin: What the command reads; ``None`` is nothing.
        end_of_input: Whether its input ends after `stdin`. It does not after what is sent to a job, unless that is
            asked for.
        timeout: Seconds after which it is stopped; ``None`` is no bound.
        prefix: Words that stand before the shell; ``None`` is none.
        snapshot: The file on the host that the shell reads first: the user's own set-up; ``None`` is none.
        original: The command before it was rewritten; ``None`` when it was not.
        session: Whether it runs in a shell that earlier commands have used, and that later ones will use.
        fresh: Whether that shell is a fresh one, because there was none, the one before has ended, or a restart is
            asked for.
        restart: Whether the one before is ended for that, with what it runs.
        background: Whether it runs on as a job while the model does something else.
        job: The id of the running job that `stdin` is sent to; ``None`` when `text` is to be run.
        size: The terminal that it is to run on; ``None`` is none.
        terminal: The id of the running terminal that is typed on; ``None`` when `text` is to be run.
        program: Of that, the names of the programs that are in its foreground, and so may read what is typed, with a
            comma between them; ``None`` when that is not known. If another may read when it is approved, nothing is
            typed.
        prompt: Of that, the end of the line that the cursor is in: the question, as a rule. It is the program's own words,
            and may lie. If the program waited for input then, and something was printed or typed on the terminal when
            it is approved, nothing is typed; see "Decide what may run" for what draws by itself.
        typed: Of that, the text that is typed.
        keys: Of that, the names of the keys that are pressed after the text.
        secret: Of that, whether a secret is typed, with Enter, that somebody else gives and that is not shown.
        description: The model's own few words for people. Says nothing about what runs.
        display: All of the above, as text that is safe to print: control, bidirectional and invisible
            characters are shown as escapes, long runs of spaces by their count, and a line that holds
            right-to-left letters is followed by one that says so. Its lines are as long as those of the
            command; what folds them should mark the rows that continue one, as `ask_on_terminal` does.
        call_id: The id of the tool's call that asks, for `ShellTool.cancel`. Says nothing about what runs.
    """

    text: str
    shell: ShellInfo
    host: str
    directory: str
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    stdin: bytes | None = field(default=None, repr=False)
    end_of_input: bool = True
    timeout: float | None = None
    prefix: str | None = None
    snapshot: str | None = None
    original: str | None = None
    session: bool = False
    fresh: bool = False
    restart: bool = False
    background: bool = False
    job: str | None = None
    size: Terminal | None = None
    terminal: str | None = None
    program: str | None = None
    prompt: str = field(default="", repr=False)
    typed: str = field(default="", repr=False)
    keys: tuple[str, ...] = field(default=(), repr=False)
    secret: bool = False
    description: str = field(default="", compare=False)
    display: str = field(default="", compare=False, repr=False)
    call_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Approved:
    """Run it.

    Attributes:
        always: Also run every later request that is identical, for the lifetime of the tool that asked. Of what is typed
            on a terminal: also type whatever is to be typed on this one later, whatever runs in its foreground then; a
            secret only if this is one.
    """

    always: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Do not run it.

    Attributes:
        reason: Told to the model.
    """

    reason: str = ""
