"""The result of one call for a model, a program and a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from .._types import JobStatus, Network  # noqa: TC001 - pydantic asks for it when the class is made
from ..policy import printable, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from .._types import Artifact, Output, ProcessInfo

CallStatus = Literal[
    "exited",
    "timed_out",
    "cancelled",
    "lost",
    "running",
    "waiting",
    "restarted",
    "refused",
    "invalid",
    "failed",
]
JobCallStatus = Literal["done", "cancelled", "refused", "invalid", "failed"]
JobAction = Literal["list", "output", "send", "screen", "secret", "resize", "stop"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DisplayBlock(_Frozen):
    """A piece of what a person is shown. Its text is safe to print: what a screen might obey is an escape in it.

    Attributes:
        type: ``command``, ``output`` or ``notice``.
        text: The text to show.
        title: Of a command, the model's own words for it; may be empty.
    """

    type: Literal["command", "output", "notice"]
    text: str
    title: str = ""


class _Result(_Frozen):
    """The result of one call, for a program, a model and a person."""

    is_error: bool
    output: str
    message: str
    text: str
    display: tuple[DisplayBlock, ...]


def blocks(printed: str, messages: Sequence[str]) -> list[DisplayBlock]:
    """Return the blocks that show a person the printed text and anyshell's messages."""
    shown = []
    if printed:
        shown.append(DisplayBlock(type="output", text=printable(printed)))
    return [*shown, *(DisplayBlock(type="notice", text=sentence) for sentence in messages)]


class Truncation(_Frozen):
    """The shown part of an output, in numbers.

    Attributes:
        shown_bytes: The shown part of the raw bytes that were written.
        total_bytes: The raw bytes that were written.
        shown_lines: The shown part of the line feeds that were written.
        total_lines: The line feeds that were written.
        direction: The shown part where lines between are left out: the ``head``, the ``tail``, or ``both`` with
            the middle left out; ``None`` when only ends of long lines are left out, nothing at all is shown, or the output
            was minimized.
        truncated_by: The limit that was reached: the room for text (``bytes``), that of a line alone (``line_length``), or the lines that
            a ``head`` or ``tail`` asked for (``lines``), with ``ShellTool(view_limits=True)``.
        shown_range: The lines that are shown, counted from 1: the first and last of each part. The first and the last of
            a part may be shown in part.
    """

    shown_bytes: int
    total_bytes: int
    shown_lines: int
    total_lines: int
    direction: Literal["head", "tail", "both"] | None = None
    truncated_by: Literal["bytes", "line_length", "lines"] = "bytes"
    shown_range: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, output: Output, *, by_lines: bool = False) -> Self | None:
        """Count the shown part of an output, or of the requested lines; ``None`` when the whole output is shown.

        Nothing of a binary output is shown.
        """
        if output.binary is not None:
            return cls(
                shown_bytes=0, total_bytes=output.total_bytes, shown_lines=0, total_lines=output.total_lines
            )
        if not output.truncated:
            return None
        head, tail = output.head_range, output.tail_range
        parts = tuple(part for part in (head, *output.excerpts, tail) if part is not None)
        whole = not parts and output.cut_lines > 0
        if whole:  # all lines are shown, except for the ends of long lines
            parts = ((1, output.total_lines + (not output.text.endswith("\n"))),)
        direction: Literal["head", "tail", "both"] | None = None
        if not whole and parts:
            direction = "both" if head and tail else "tail" if head is None else "head"
        return cls(
            direction=direction,
            truncated_by="line_length" if whole else "lines" if by_lines else "bytes",
            shown_range=parts,
            shown_bytes=output.total_bytes - output.omitted_bytes,
            total_bytes=output.total_bytes,
            shown_lines=output.total_lines - output.omitted_lines,
            total_lines=output.total_lines,
        )


class OutputArtifact(_Frozen):
    """The place of a truncated output's whole.

    Attributes:
        id: The id for ``anyshell artifacts show``.
        path: The file, on the machine that anyshell runs on.
        size: Its size in bytes.
        omitted_bytes: Bytes in the middle of the output that the file leaves out; 0 when it is whole.
    """

    id: str
    path: str
    size: int
    omitted_bytes: int

    @classmethod
    def of(cls, artifact: Artifact | None) -> Self | None:
        """Describe an artifact; ``None`` without an artifact."""
        if artifact is None:
            return None
        return cls(
            id=artifact.id, path=str(artifact.path), size=artifact.size, omitted_bytes=artifact.omitted_bytes
        )


class MinimizedOutput(_Frozen):
    """The noise that was left out of an output, with ``ShellTool(minimize=...)``.

    Attributes:
        rule: The name of the rule.
        dropped_bytes: How many bytes that is, of those that were written.
        dropped_lines: How many line feeds.
        grouped: Whether what several lines begin with stands once, above them.
        truncated: Whether more is left out, as the remaining text was still too long.
    """

    rule: str
    dropped_bytes: int
    dropped_lines: int
    grouped: bool = False
    truncated: bool


class LeftBehindProcess(_Frozen):
    """A process that outlived the command, or that a stop could not end.

    Attributes:
        pid: Its number on the host.
        name: Its program, safe to print.
        alive: Whether it still runs; otherwise it was stopped.
    """

    pid: int
    name: str
    alive: bool

    @classmethod
    def of(cls, process: ProcessInfo) -> Self:
        """Describe a process."""
        return cls(pid=process.pid, name=visible(process.name), alive=process.alive)


class InputState(_Frozen):
    """The input that a program on a terminal waits for.

    Attributes:
        certain: Whether it certainly waits for input; otherwise it likely does.
        prompt: The text before the cursor, safe to print; may be empty.
        password: Whether it is set to read a line that is not shown, as a password is.
    """

    certain: bool
    prompt: str
    password: bool


class BlockedCommand(_Frozen):
    """A command that did not run, as another tool does better what it does.

    Attributes:
        message: The advice for another call.
        tool: The tool to use.
        command: As the model gave it. Not safe to print.
    """

    message: str
    tool: str
    command: str


class ShellDetails(_Frozen):
    """The facts of a call.

    Attributes:
        status: The end of the command. ``exited``, ``timed_out``, ``cancelled`` and ``lost`` are those of an outcome; a command
            that is ``running`` goes on as a job, one that is ``waiting`` for input as a job on its terminal; ``restarted`` is
            a session, without a command; nothing ran if it
            is ``invalid`` (the parameters), ``refused`` (by the approver, or `blocked`) or ``failed`` (it could not be started).
        command: The command as it ran, or would have run, exactly; empty when its parameters were invalid, it had not its
            turn yet, or the call had no command. Not safe to print; `ShellResult.display` is.
        exit_code: Its exit code; 128 and the signal's number when a signal ended it; ``None`` without one.
        signal: The name of the signal that ended it, such as ``SIGKILL``.
        started: Whether the shell was started; ``None`` when that is unknown, with the status ``lost``.
        duration: Wall time in seconds, from the approval to the end.
        timeout: Seconds that it had; ``None`` when its parameters were invalid, and for a job without a bound.
        requested_timeout: Seconds that the model asked for.
        silence: The seconds of silence that ended it, rather than its timeout or anything else; ``None`` otherwise.
        truncation: The shown part of the output; ``None`` when all of it is.
        artifact: The whole of a truncated output; ``None`` when nothing was left out, or it could not be kept.
        minimized: The noise that was left out; ``None`` when nothing was.
        left_behind: Processes that outlived the command.
        job: The id of the job that it goes on as, or was if it ended at once, or that has what it left behind; ``None``
            without a job.
        terminal: The id of the terminal on which it goes on; ``None`` when it does not.
        editor_terminal: An editor's id of the terminal that it ran in; see `anyshell.Outcome`.
        waiting: The input that it waits for there.
        frame: The last frame of the alternate screen of its terminal; ``None`` when it was not used, or is `output`.
        skipped_bytes: Bytes that its terminal has not drawn; see `anyshell.types.Output`.
        session_state: The state of the session's shell: ``kept``, ``ended`` by the command, or ``lost`` because the
            command had to be stopped; ``None`` outside a session, and when the command did not begin.
        directory: The directory in which the next command of the session begins, safe to print; ``None`` outside a session.
        update_error: The type of what `on_update` raised, whatever it was, after which it was not called again.
        call_id: The id of the call, which `ShellTool.cancel` took.
        blocked: Why it was not even asked about, with ``ShellTool(interception=...)``; ``None`` otherwise.
        network: Its network use so far; ``None`` where its reach has no names of hosts.
    """

    status: CallStatus
    command: str = ""
    exit_code: int | None = None
    signal: str | None = None
    started: bool | None = False
    duration: float = 0.0
    timeout: float | None = None
    requested_timeout: float | None = None
    silence: float | None = None
    truncation: Truncation | None = None
    artifact: OutputArtifact | None = None
    minimized: MinimizedOutput | None = None
    left_behind: tuple[LeftBehindProcess, ...] = ()
    job: str | None = None
    terminal: str | None = None
    editor_terminal: str | None = None
    waiting: InputState | None = None
    frame: str | None = None
    skipped_bytes: int = 0
    session_state: Literal["kept", "ended", "lost"] | None = None
    directory: str | None = None
    update_error: str | None = None
    call_id: str = ""
    blocked: BlockedCommand | None = None
    network: Network | None = None


class ShellResult(_Result):
    """The result of one call. ``model_dump_json()`` makes it JSON.

    Attributes:
        is_error: Whether the command failed or did not run. False for a command that goes on as a job or on a terminal.
        output: Its output, cleaned and bounded, with a marker wherever something is left out; may be empty.
        message: The event and the next step, on one line.
        text: Exactly what to send to a model: the output, but for its last line feed; an empty line; and a last
            paragraph, which no program can have written, of the message's sentences, each on a line of its own
            that begins with ``[anyshell]``.
        display: The view for a person.
        details: The facts, for a program.
    """

    details: ShellDetails


class JobState(_Frozen):
    """A job, or a terminal, as it was when it was looked at.

    Attributes:
        id: The id for the tool named ``job``.
        command: Its text, safe to print and cut.
        status: As `anyshell.Job.status`.
        exit_code: Its exit code; ``None`` while it runs, and without one.
        pid: The number of its program on the host.
        adopted: Whether it is what a command left behind.
        seconds: For how long it has run, or ran.
    """

    id: str
    command: str
    status: JobStatus
    exit_code: int | None
    pid: int | None
    adopted: bool
    seconds: float


class JobDetails(_Frozen):
    """The facts of a call of the tool named ``job``.

    Attributes:
        status: ``done``; ``cancelled`` by `ShellTool.cancel`, which ends the wait of the call and not the job; nothing was
            done if it is ``invalid`` (the parameters) or ``refused`` (by the approver); if it is ``failed``, what was asked
            for cannot be done, or was not done whole.
        action: The requested action; ``None`` when the parameters were invalid.
        jobs: The jobs that it was about.
        offset: The byte at which the next ``output`` of a job without a terminal goes on.
        total_bytes: The bytes that such a job has printed so far.
        found: Whether what `until` named has come; ``None`` without `until`.
        artifact: The whole of the output, where it was kept; ``None`` while the job runs, and when it was short.
        terminal: The id of the terminal; ``None`` without a terminal, and the following say nothing then.
        running: Whether its program runs.
        exit_code: Its exit code, as in `ShellDetails`.
        signal: The name of the signal that ended it.
        waiting: The input that it waits for; ``None`` when it does not.
        program: The programs in the foreground, with a comma between them, safe to print; ``None`` when that is not known.
        alternate: Whether the alternate screen is shown, as editors and pagers use it.
        cursor: Row and column of the cursor, both from 0; ``None`` when nothing was looked at.
        left_out: New lines that are not shown, since they were too many.
        call_id: The id of the call, which `ShellTool.cancel` took.
    """

    status: JobCallStatus
    action: JobAction | None = None
    jobs: tuple[JobState, ...] = ()
    offset: int | None = None
    total_bytes: int | None = None
    found: bool | None = None
    artifact: OutputArtifact | None = None
    terminal: str | None = None
    running: bool = False
    exit_code: int | None = None
    signal: str | None = None
    waiting: InputState | None = None
    program: str | None = None
    alternate: bool = False
    cursor: tuple[int, int] | None = None
    left_out: int = 0
    call_id: str = ""


class JobResult(_Result):
    """The result of one call of the tool named ``job``. ``model_dump_json()`` makes it JSON.

    Attributes:
        is_error: Whether it was not done.
        output: Of ``output``, what the job printed, cleaned and bounded; of a terminal, what is new there, or its screen.
            May be empty.
        message: The event and the next step, on one line.
        text: Exactly what to send to a model, made as that of a `ShellResult`.
        display: The view for a person.
        details: The facts, for a program.
    """

    details: JobDetails
