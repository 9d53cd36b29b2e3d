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
"""Lines of an output that the message of a `CommandFailed` quotes; they are the last that are not blank."""

LONGEST_LINE = 200
"""Characters of the command, and of a line, in the message of a `CommandFailed`; the middle of a longer one is left out."""

LONGEST_QUOTE = 4_096
"""Characters of an output, from its end, in which these lines are looked for."""

_READ = ".output.text is for reading, .output.data has every byte"
_ELSEWHERE = {"stdout": _READ, "text": _READ, "data": _READ, "returncode": "it is .exit_code, or .signal"}
"""Attributes of other libraries' results, and their names in an `Outcome`."""

Status = Literal["exited", "timed_out", "cancelled", "lost", "running"]
JobStatus = Literal["running", "completed", "failed", "stopped", "timed_out", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """The outcome of a command.

    Attributes:
        status: ``exited``; ``timed_out`` and ``cancelled``, both with the whole tree stopped; ``lost`` when
            how it ended, or that it ended, could not be learnt; ``running`` when it goes on as a job.
        exit_code: The shell's exit code; ``None`` when a signal ended it, on Windows when we did, or it is not known to
            have started.
        signal: The name of the signal that ended it, such as ``SIGKILL``.
        output: Its output; stdout alone when the channels were asked for apart. So far, if it is running.
        stderr: Its standard error, when the channels were asked for apart.
        duration: Seconds from the start of the clock to the end.
        left_behind: Processes that were still there when the command had ended by itself, or that a stop
            could not end; each says whether it is alive.
        started: Whether the shell was started at all before the time was over. ``False``: nothing ran, and nothing will.
            ``None``: unknown, since the host may have heard the request and has not answered; then the status is ``lost``.
        session: Its effects on the session that it ran in; ``None`` for a fresh shell.
        job: The id of the job that the command goes on as, or that has what it left behind; ``None`` otherwise.
        waiting: On a terminal, what it waited for to be typed when its time was over; ``None`` when it did not.
        killed_without_warning: Whether what was stopped, of it or of what it left behind, was not asked to end first, and so
            could not finish what it was doing: there was no grace, or no way to ask, as on Windows without a terminal.
        terminal: The kind of its terminal: ``pty``, that of a POSIX system; on Windows ``conpty``, or ``winpty`` where there
            is no ConPTY. ``None`` when it had none.
        silence: The seconds of silence that ended it, rather than its timeout or anything else; ``None`` otherwise.
        recording: The result of the recording; ``None`` when none was asked for, or nothing was started.
        editor_terminal: An editor's id of the terminal that it ran in, with `anyshell.acp`; ``None`` otherwise, and when the
            editor did not say how it ended.
        effects: Its effects on files; ``None`` when that was not asked for.
        usage: The resources that it used of this machine; ``None`` when that is not known, as on another host, in a session, and as long as
            a part of it lives.
        network: Its network use so far, where its reach has names of hosts; ``None`` otherwise.
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
    _command: str = field(default="", repr=False, compare=False)  # for a message; its secrets are masked

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.status == "exited" and self.exit_code == 0

    def __bool__(self) -> NoReturn:
        raise TypeError("an Outcome is neither true nor false: ask .ok, or call .check()")

    if not TYPE_CHECKING:  # a checker is to refuse such a name

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
        """The name of `killed_without_warning` before version 0.2, which takes it away."""
        return self.killed_without_warning

    def check(self) -> Outcome:
        """Return this outcome if the command exited with 0.

        That `Output.text` leaves something out is no failure: `Output.truncated` says so, and `Output.data` has it all.

        Raises:
            CommandFailed: It did not; the exception carries this outcome.
        """
        if self.ok:
            return self
        raise CommandFailed(f"the command {self._failure_words()}{self._command_and_output()}", outcome=self)

    def json(self) -> Any:
        """Parse the whole output, or stdout where the channels were asked for apart, as JSON: never a text that was cut.

        Raises:
            OutputIncomplete: The whole was not kept; the message says how to keep it.
            CommandFailed: It is no JSON, and the command failed.
            json.JSONDecodeError: It is no JSON. It is a ``ValueError``.
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
            # The rest: a number of too many digits, brackets too deep.
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "msg", str(error))
            raise json.JSONDecodeError(
                f"the output of the command is no JSON{cure}: {why}", text, at
            ) from None

    def _failure_words(self) -> str:
        """The failure of the command, as words behind "the command"."""
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
            return "ended with an exit code that cannot be known"
        return f"ended with exit code {self.exit_code}"

    def _command_and_output(self) -> str:
        """The command and the last lines of its output, on lines of their own."""
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
    """Fill in fields of an outcome that no caller has yet: to make another with as many fields costs ten times as much."""
    for name, value in facts.items():
        object.__setattr__(outcome, name, value)
    return outcome


def _shortened(text: str) -> str:
    """Text on one line, with what a terminal obeys as escapes, and without its middle if it is long."""
    text = one_line(text.strip("\n").expandtabs())
    half = LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]} … {text[-half:]}"


class CommandFailed(AnyshellError):  # noqa: N818 - a public name
    """A command did not end with exit code 0. Raised by `Outcome.check` and `Outcome.json` alone.

    The message has the command, shortened, and the last lines that it printed to stderr, or printed at all where the channels
    were not apart: never its variables or its input. Control characters are shown as escapes. What `Environment.detect`'s ``redact``
    masks is masked here too. With ``ANYSHELL_ERRORS=terse`` in this program's environment the message has neither of them.

    Attributes:
        outcome: Everything that is known of the command, its output included.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
