"""What a model, a program and a person learn of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from ..policy import visible

if TYPE_CHECKING:
    from typing import Self

    from .._types import Artifact, Output, ProcessInfo

CallStatus = Literal["exited", "timed_out", "cancelled", "lost", "running", "refused", "invalid", "failed"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DisplayBlock(_Frozen):
    """A piece of what a person is shown. Its text is safe to print: what a screen might obey is an escape in it.

    Attributes:
        type: ``command``, ``output`` or ``notice``.
        text: What to show.
        title: Of a command, the model's own words for it; may be empty.
    """

    type: Literal["command", "output", "notice"]
    text: str
    title: str = ""


class Truncation(_Frozen):
    """How much of an output is shown.

    Attributes:
        shown_bytes: Of the raw bytes that were written, those that are shown.
        total_bytes: Those that were written.
        shown_lines: Of the line feeds that were written, those that are shown.
        total_lines: Those that were written.
    """

    shown_bytes: int
    total_bytes: int
    shown_lines: int
    total_lines: int

    @classmethod
    def of(cls, output: Output) -> Self | None:
        """Count what an output shows; ``None`` when that is all of it."""
        if not output.truncated:
            return None
        return cls(
            shown_bytes=output.total_bytes - output.omitted_bytes,
            total_bytes=output.total_bytes,
            shown_lines=output.total_lines - output.omitted_lines,
            total_lines=output.total_lines,
        )


class OutputArtifact(_Frozen):
    """Where the whole of a truncated output is.

    Attributes:
        id: What ``anyshell artifacts show`` takes.
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
        """Describe an artifact, if there is one."""
        if artifact is None:
            return None
        return cls(
            id=artifact.id, path=str(artifact.path), size=artifact.size, omitted_bytes=artifact.omitted_bytes
        )


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
        """Name a process."""
        return cls(pid=process.pid, name=visible(process.name), alive=process.alive)


class ShellDetails(_Frozen):
    """The facts of a call.

    Attributes:
        status: How it went. ``exited``, ``timed_out``, ``cancelled``, ``lost`` and ``running`` are those of an
            outcome; nothing ran if it is ``invalid`` (the parameters), ``refused`` (by the approver) or ``failed``
            (it could not be started).
        exit_code: Its exit code; 128 and the signal's number when a signal ended it; ``None`` when there is none.
        signal: The name of the signal that ended it, such as ``SIGKILL``.
        started: Whether the shell was started.
        duration: Wall time in seconds, from the approval to the end.
        timeout: Seconds that it had; ``None`` when its parameters were invalid.
        requested_timeout: Seconds that the model asked for.
        truncation: How much of the output is shown; ``None`` when all of it is.
        artifact: The whole of a truncated output; ``None`` when there is none, or it could not be kept.
        left_behind: Processes that outlived the command.
        update_error: The type of what `on_update` raised, whatever it was, after which it was not called again.
    """

    status: CallStatus
    exit_code: int | None = None
    signal: str | None = None
    started: bool = False
    duration: float = 0.0
    timeout: float | None = None
    requested_timeout: float | None = None
    truncation: Truncation | None = None
    artifact: OutputArtifact | None = None
    left_behind: tuple[LeftBehindProcess, ...] = ()
    update_error: str | None = None


class ShellResult(_Frozen):
    """What came of one call. ``model_dump_json()`` makes it JSON.

    Attributes:
        is_error: Whether the command did anything but exit with 0.
        output: What it printed, cleaned and bounded, with one truncation marker at most; may be empty.
        message: What happened and what to do next, on one line.
        text: Exactly what to send to a model: the output, but for its last line feed; an empty line; and a last
            paragraph, which no program can have written, of the message's sentences, each on a line of its own
            that begins with ``[anyshell]``.
        display: What to show to a person.
        details: The facts, for a program.
    """

    is_error: bool
    output: str
    message: str
    text: str
    display: tuple[DisplayBlock, ...]
    details: ShellDetails
