"""The outcome of a command."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from .._exceptions import AnyshellError
from .checks import exact, one_line
from .output import Output

if TYPE_CHECKING:
    from .effects import Effects
    from .network import Network
    from .process import ProcessInfo, Usage
    from .recording import RecordingReport
    from .session import SessionReport
    from .terminal import TerminalKind, Waiting


LAST_LINES = 5
"""Lines of an output that the message of a `CommandFailed` quotes: the last lines that are not blank."""

LONGEST_LINE = 200
"""Characters of the command, and of a line, in the message of a `CommandFailed`; beyond this length, the middle is left out."""

LONGEST_QUOTE = 4_096
"""Characters at the end of an output that are searched for the lines that a `CommandFailed` quotes."""

_READ = ".output.text is for reading, .output.data has every byte"
_ELSEWHERE = {"stdout": _READ, "text": _READ, "data": _READ, "returncode": "it is .exit_code, or .signal"}
"""Attributes of other libraries' results, and the matching attributes of an `Outcome`."""

Status = Literal["exited", "timed_out", "cancelled", "lost", "running"]
JobStatus = Literal["running", "completed", "failed", "stopped", "timed_out", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """The outcome of a command.

    Attributes:
        status: ``exited``; ``timed_out`` and ``cancelled``, both with the whole tree stopped; ``lost`` when the command's
            end is unknown; ``running`` when the command goes on as a job.
        exit_code: The shell's exit code. ``None`` when a signal ended the shell, when anyshell ended it on Windows, or when it
            is not known to have started.
        signal: The name of the signal that ended the shell, such as ``SIGKILL``.
        output: The command's output; stdout alone when stderr was requested separately. The output so far if the command
            still runs.
        stderr: The command's standard error, when it was requested separately.
        duration: Seconds from the start of the clock to the end.
        left_behind: Processes that still existed after the command had ended by itself, or that a stop could not end;
            `ProcessInfo.alive` tells whether a process is alive.
        started: Whether the shell was started before the time was over. ``False``: nothing ran, and nothing will.
            ``None``: unknown, since the host may have heard the request and has not answered; then the status is ``lost``.
        session: The command's changes to its session; ``None`` for a fresh shell.
        job: The id of the job that the command goes on as, or that has the processes that the command left behind; ``None``
            otherwise.
        waiting: The program that waited for input on the terminal when the time was over; ``None`` if no program did.
        killed_without_warning: Whether a stopped process, of the command or left behind by it, was not asked to end first.
            The process could not finish its work: there was no grace, or no way to ask, as on Windows without a terminal.
        terminal: The kind of the command's terminal: ``pty`` on a POSIX system; on Windows ``conpty``, or ``winpty`` without
            a ConPTY. ``None`` without a terminal.
        silence: The seconds of silence, if silence ended the command rather than its timeout or anything else; ``None``
            otherwise.
        recording: The result of the recording; ``None`` if no recording was requested, or nothing was started.
        editor_terminal: An editor's id of the terminal that the command ran in, with `anyshell.acp`; ``None`` otherwise, and
            when the editor did not report the command's end.
        effects: The command's effects on files; ``None`` unless requested.
        usage: The resources of this machine that the command used. ``None`` when unknown, as on another host, and as long as a part of the command lives.
        network: The command's network use so far, if its reach has names of hosts; ``None`` otherwise.
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
    killed_without_warning: bool = False
    terminal: TerminalKind | None = None
    silence: float | None = None
    recording: RecordingReport | None = None
    editor_terminal: str | None = None
    effects: Effects | None = None
    usage: Usage | None = None
    network: Network | None = None
    _command: str = field(default="", repr=False, compare=False)  # for a message; secrets are masked

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.status == "exited" and self.exit_code == 0

    def __bool__(self) -> NoReturn:
        raise TypeError("an Outcome is neither true nor false: ask .ok, or call .check()")

    if not TYPE_CHECKING:  # so that a type checker refuses an unknown name

        def __getattr__(self, name: str) -> NoReturn:
            cure = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"an Outcome has no {name!r}{cure}", name=name, obj=self)

    def __repr__(self) -> str:
        how = {"exit_code": self.exit_code, "signal": self.signal, "silence": self.silence, "job": self.job}
        said = "".join(f", {name}={value!r}" for name, value in how.items() if value is not None)
        errors = "" if self.stderr is None else f", stderr=<{self.stderr.total_bytes:,} bytes>"
        return (
            f"Outcome(status={self.status!r}{said}, output=<{self.output.total_bytes:,} bytes>{errors}, "
            f"duration={self.duration:.3f})"
        )

    @property
    def ended_at_once(self) -> bool:
        """The former name of `killed_without_warning`; version 0.3 removes this name."""
        return self.killed_without_warning

    def check(self) -> Outcome:
        """Return this outcome if the command exited with 0.

        A truncated `Output.text` is not a failure: `Output.truncated` tells, and `Output.data` has every byte.

        Raises:
            CommandFailed: The command did not exit with 0; the exception carries this outcome.
        """
        if self.ok:
            return self
        raise CommandFailed(f"the command {self._failure_words()}{self._command_and_output()}", outcome=self)

    def json(self) -> Any:
        """Parse the whole output as JSON, or stdout when stderr was requested separately; never a truncated text.

        Raises:
            OutputIncomplete: The whole output was not kept; the message says how to keep it.
            CommandFailed: The output is not JSON, and the command failed.
            json.JSONDecodeError: The output is not JSON. The exception is a ``ValueError``.
        """
        import json  # here, since most programs parse none

        data = self.output.data
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            self.check()
            text = data.decode(errors="replace")
            at = error.pos if isinstance(error, json.JSONDecodeError) else getattr(error, "start", 0)
            cure = (
                ""
                if self.stderr is not None
                else "; what it prints to stderr is apart with split_stderr=True"
            )
            # The other errors: a number of too many digits, brackets nested too deep.
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "msg", str(error))
            raise json.JSONDecodeError(
                f"the output of the command is not JSON{cure}: {why}", text, at
            ) from None

    def _failure_words(self) -> str:
        """Describe the failure of the command in words that follow "the command"."""
        if self.status == "timed_out" and self.silence is not None:
            return f"timed out: it printed nothing for {exact(self.silence)} s"
        if self.status == "timed_out":
            return f"timed out after {self.duration:.1f} s"
        if self.status == "running":
            return f"still runs, as job {self.job}: wait for that"
        if self.status == "lost" and self.started is None:
            return "may have run: the host was asked and has not answered"
        if self.status != "exited":
            return f"was {self.status}"
        if self.signal is not None:
            return f"was ended by {self.signal}"
        if self.exit_code is None:
            return "ended with an unknown exit code"
        return f"ended with exit code {self.exit_code}"

    def _command_and_output(self) -> str:
        """Return the command and the last lines of its output, on separate lines."""
        if os.environ.get("ANYSHELL_ERRORS") == "terse":
            return "; its output is in .outcome.output"
        named = f": {_shortened(self._command)}" if self._command else ""
        name, printed = "output", self.output
        if self.stderr is not None and self.stderr.text.strip():
            name, printed = "stderr", self.stderr
        end = printed.text[-LONGEST_QUOTE:]
        lines = [line for line in map(_shortened, end.split("\n")) if line.strip()]
        quoted = [f"\n  {line}" for line in lines[-LAST_LINES:]]
        if printed.truncated:
            whole = f"; .outcome.{name}.data has all {printed.total_bytes:,} bytes" if printed.kept else ""
            quoted.append(f"\n  (.outcome.{name}.text is truncated{whole})")
        elif len(quoted) < len(lines) or len(end) < len(printed.text):
            quoted.append(f"\n  (the end of .outcome.{name}.text)")
        return named + "".join(quoted)


def learn(outcome: Outcome, **facts: Any) -> Outcome:
    """Set fields of an outcome that no caller has yet: a second outcome with as many fields costs ten times as much."""
    for name, value in facts.items():
        object.__setattr__(outcome, name, value)
    return outcome


def _shortened(text: str) -> str:
    """Put a text on one line, with control characters as escapes, and without its middle if the text is long."""
    text = one_line(text.strip("\n").expandtabs())
    half = LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]} … {text[-half:]}"


class CommandFailed(AnyshellError):  # noqa: N818 - a public name
    """A command did not end with exit code 0. Only `Outcome.check` and `Outcome.json` raise this exception.

    The message has the command, shortened, and the last lines of its stderr. If stderr is not separate, or is empty, the
    message has the last lines of the output. The message never has the command's variables or input. Control
    characters are shown as escapes. The secrets that `Environment.detect`'s ``redact`` masks are masked here too. With
    ``ANYSHELL_ERRORS=terse`` in this program's environment the message has neither the command nor its output.

    Attributes:
        outcome: The outcome of the command, with its output.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
