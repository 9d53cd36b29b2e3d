"""What a model reads after a call. Every notice is one line, is true of any host, and says what to do next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .._types import exact
from ..policy import visible
from .signals import number_of, signal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._types import Artifact, OperatingSystem, Outcome, Output, ProcessInfo, SessionReport
    from .limits import ToolLimits

OURS = "[anyshell]"
"""Begins every line of a result's text that no program has printed. They are its last paragraph."""

NO_OUTPUT = "(no output)"
INVISIBLE_OUTPUT = "(nothing visible: only blank lines or control characters)"

CLOSED = (
    "Nothing ran: this tool is closed, and runs nothing any more. Do not call it again; if something is still to be done, "
    "tell the user."
)
"""What is said when the tool, or the environment, was closed."""

UNBEGUN = "Cancelled on request, before it began: nothing ran. Do not call again unless asked to."
"""What is said of a command whose call was cancelled before it was approved, or had its turn, or was started."""

NO_JOB = (
    "Cancelled on request, while it was started in the background: it was stopped, with everything that it started, "
    "and is no job. Do not run it again unless asked to."
)

CUT_SHORT = "This call was cancelled on request, and waits no longer."
"""What is said of a call that has waited for a job or a terminal, which goes on."""

_CANCELLED = (
    "Stopped {by}, before its end; its output so far is kept.{unasked} Do not run it again unless asked to."
)

STOPPED = _CANCELLED.format(by="on request", unasked="")
"""What is said of a program that was stopped while a call waited for it."""

LATER = (
    "Do something else meanwhile: the next result after its end says so. If nothing else is to be done, wait for it "
    'with the tool job: action "output" with wait, until "end".'
)
"""What to do about a job that runs."""

_NAMED = 10
"""Processes left behind that are named one by one; of the rest, only the number is said."""

_LONGEST_REASON = 1000
"""Characters of an approver's reason that a model is told."""

# SIGKILL at the end of one's own `timeout -k`, or 124 of `timeout` itself, is no news of this tool or of the host.
_TIMEOUT = re.compile(r"\btimeout\b")

_SHELL_GONE = "The shell of the session is gone, perhaps because the command killed it, or took from it what it needs to go on."

# ntstatus.h. Windows ends a program with one of these; what a program chooses itself is seldom so large.
_STATUSES = {
    0xC000_0005: "it crashed (access violation)",
    0xC000_001D: "it crashed (illegal instruction)",
    0xC000_0094: "it crashed (integer division by zero)",
    0xC000_00FD: "it crashed (stack overflow)",
    0xC000_0374: "it crashed (heap corruption)",
    0xC000_0409: "it crashed, or aborted (stack buffer overrun, or __fastfail)",
    0xC000_0135: "a DLL that it needs was not found",
    0xC000_0139: "a DLL that it needs is of another version (entry point not found)",
    0xC000_0142: "a DLL that it needs could not be initialized",
    0xC000_013A: "it was interrupted (Ctrl-C), or its console was closed",
}

_UNASKED = " It could not be asked to end first: what it was writing may be incomplete."

_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"})


def said_by_us(sentences: Sequence[str]) -> str:
    """Make the paragraph in which nothing but what we say stands."""
    return "\n".join(f"{OURS} {sentence}" for sentence in sentences)


def text(output: Output | None, messages: Sequence[str]) -> str:
    """What was printed, but for its last line feed, an empty line, and what we say.

    Args:
        output: What was printed; ``None`` when nothing could be.
        messages: What we say.
    """
    if output is None:
        return said_by_us(messages)
    printed = output.text.removesuffix("\n")
    if output.total_bytes == 0:
        messages = [NO_OUTPUT, *messages]
    elif not output.text.strip():
        messages = [INVISIBLE_OUTPUT, *messages]
    return f"{printed}\n\n{said_by_us(messages)}" if printed else said_by_us(messages)


def ending(
    outcome: Outcome,
    *,
    timeout: float,
    limits: ToolLimits,
    os: OperatingSystem,
    command: str = "",
    terminal: bool = False,
    by_person: bool = False,
) -> str:
    """Say how a command ended.

    Args:
        outcome: What became of it.
        timeout: Seconds that it had.
        limits: Those in force.
        os: The host's system, which numbers its signals.
        command: What ran: the same code means another thing when the command asked for it.
        terminal: Whether it had one.
        by_person: Whether a person stopped it who saw it in a console.
    """
    match outcome.status:
        case "exited":
            return _exited(outcome, os, command)
        case "timed_out":
            return _timed_out(outcome, timeout, limits, terminal=terminal)
        case "cancelled" if outcome.started is False:
            return UNBEGUN
        case "cancelled":
            by = "by the user, who saw it in a console" if by_person else "on request"
            return _CANCELLED.format(by=by, unasked=_UNASKED if outcome.killed_without_warning else "")
        case "running":
            return (
                f"Still running after {exact(round(outcome.duration, 1))} s: it goes on in the background as job "
                f"{outcome.job}, and keeps its deadline of {exact(timeout)} s. Do not run it again. {LATER}"
            )
        case "lost" if outcome.started is None:
            return "May have run: the host was asked and has not answered, so it may also begin yet. Look what it has done, and whether it runs, before running it again."
        case "lost":
            return "How it ended is not known: the host went away, or its end could not be confirmed. Look whether it still runs before running it again."


def _exited(outcome: Outcome, os: OperatingSystem, command: str) -> str:
    if outcome.signal is not None:
        number = _code(number_of(outcome.signal, os))
        if outcome.signal == "SIGKILL" and outcome.session is not None and outcome.session.state != "kept":
            # That of the shell: it was killed, or could not be left to live.
            return f"Ended by SIGKILL{number}. {_SHELL_GONE}"
        return f"Ended by {outcome.signal}{number}. {_signal_advice(outcome.signal, command)}"
    code = outcome.exit_code
    if code is None:
        return "Ended, but its exit code could not be learnt. Judge by its output whether it worked."
    return f"Exit code {code}.{_exit_advice(code, outcome.output, os, command)}"


def _code(number: int | None) -> str:
    return "" if number is None else f" (exit code {128 + number})"


def _signal_advice(signal: str, command: str) -> str:
    if signal in _CRASHES:
        return "The program crashed: change its input or its arguments before running it again."
    if signal == "SIGPIPE":
        return "What read its output had stopped reading: that is normal when only the beginning was wanted."
    if signal == "SIGKILL" and _TIMEOUT.search(command):
        return "The command's own timeout may have sent that; if not, the host may be short of memory."
    if signal == "SIGKILL":
        return "This tool did not send that. If the command did not either, the host may be short of memory: try with less work at once."
    return "This tool did not send that. If the command did not either, find out what did before running it again."


def _exit_advice(code: int, output: Output, os: OperatingSystem, command: str) -> str:
    if code == 0:
        return ""
    if os == "windows" and code in _STATUSES:
        return f" Windows ended the program with this code (0x{code:08X}): {_STATUSES[code]}."
    printed = output.total_bytes > 0
    if code == 124 and _TIMEOUT.search(command):
        return " A timeout of the command's own gives this code when its time is over: give it more, or less to do."
    if code == 126:
        why = "permissions, a directory, a wrong format, too many arguments"
        message = f"the output should say why ({why})" if printed else f"find out why ({why})"
        return f" A shell gives this code for a program that it found but could not run: {message}."
    if code == 127:
        return " A shell gives this code when a program, or the interpreter that its first line names, was not found: check the name, or use another."
    if code > 128 and (signal := signal_of(code - 128, os)) is not None:
        return f" A shell gives this code when {signal} ended a program. {_signal_advice(signal, command)}"
    why = (
        "the output should say why; change something before running it again."
        if printed
        else "nothing says why; let it print more, or run its parts one by one."
    )
    if code == 1:
        some = "Some programs" if os == "windows" else "Some programs, such as grep, diff and test,"
        return f" {some} say no in this way. If it is a failure, {why}"
    return f" If it is a failure, {why}"


def _timed_out(outcome: Outcome, timeout: float, limits: ToolLimits, *, terminal: bool) -> str:
    if outcome.started is False:
        return f"Not started: {exact(timeout)} s had passed before the host came to it. Nothing ran; try again, with a longer timeout if the host is slow."
    after = f"{exact(timeout)} s" if outcome.silence is None else _silent(outcome.silence)
    message = f"Stopped after {after}, with everything that it started; its output so far is kept."
    if outcome.killed_without_warning:
        message += _UNASKED
    if outcome.silence is not None:
        return (
            f"{message} Its time was not over. If it waited for an answer, none will come: say everything in options or in "
            "stdin. If it works silently for long, have it say how far it is."
        )
    if timeout < limits.max_timeout:
        message += (
            f" If it needs longer, give a timeout of up to {exact(limits.max_timeout)} s, or split the work."
        )
    else:
        message += " That was the longest timeout there is: split the work into shorter commands."
    if terminal:
        return (
            message
            + " If it waited for input, that was not noticed: begin it with the tool terminal instead."
        )
    return message + " If it waited for an answer, none will come: say everything in options or in stdin."


def _silent(seconds: float) -> str:
    return f"{exact(seconds)} s in which it printed nothing and was given no input"


def clamped(requested: float, timeout: float, limits: ToolLimits) -> str:
    """Say that another timeout was used."""
    asked = f"{exact(requested)} s"
    if not asked.isascii():  # too long to be shown whole, and perhaps too long for the float that it became
        asked = "the number that was given"
    least, most = exact(limits.min_timeout), exact(limits.max_timeout)
    return f"The timeout was {exact(timeout)} s, not {asked}: ask for {least} to {most} s."


TRANSLATED = (
    "The command was written for Windows in a detail, and was changed for bash: output to `nul` goes to `/dev/null`, and "
    "lines end with a line feed alone. Write that yourself."
)


def guarded(names: Sequence[str]) -> str:
    """Say that variables were not set."""
    return (
        f"Not set: {', '.join(names)}. Here such variables keep programs from waiting for a person; "
        "say what you need in a program's own options instead."
    )


def truncated(output: Output, *, max_line: int, readable: bool) -> str:
    """Say how much is shown and where the rest is.

    Args:
        output: It leaves something out.
        max_line: Characters of a line that are shown.
        readable: Whether commands can read the file of the artifact.
    """
    message = f"Shown are {output.total_bytes - output.omitted_bytes:,} of {output.total_bytes:,} bytes"
    if output.total_lines:
        message += f" and {output.total_lines - output.omitted_lines:,} of {output.total_lines:,} lines"
    else:
        message += ", all of them on one line"
    if output.cut_lines:
        lines = "1 line is" if output.cut_lines == 1 else f"{output.cut_lines:,} lines are"
        message += f"; {lines} cut after {max_line:,} characters"
    return f"{message}. {_rest(output, output.artifact, readable=readable)}"


def _rest(output: Output, artifact: Artifact | None, *, readable: bool) -> str:
    again = "run the command again so that it prints less, or into a file."
    if artifact is None:
        why = f" ({visible(output.artifact_error)})" if output.artifact_error else ""
        return f"The rest was not kept{why}: if you need it, {again}"
    whole = (
        f"All but {artifact.omitted_bytes:,} bytes of its middle" if artifact.omitted_bytes else "The whole"
    )
    if readable:
        return f"{whole} is in {visible(str(artifact.path))}: search that file, or read parts of it, instead of running the command again."
    return f"{whole} is kept for people, as artifact {artifact.id}, where commands cannot read it: if you need more of it, {again}"


def left_behind(processes: Sequence[ProcessInfo], job: str | None = None) -> Iterator[str]:
    """Say what outlived the command, and what became of it.

    Args:
        processes: All of that.
        job: What it goes on as; ``None`` when it was stopped.
    """
    stopped = [process for process in processes if not process.alive]
    alive = [process for process in processes if process.alive]
    if stopped:
        yield (
            f"Still running in the background at its end, and stopped: {_named(stopped)}. What has not made itself "
            "a daemon is stopped when its call ends: wait for it, or use it, within one call."
        )
    if alive and job is not None:
        yield (
            f"Still running in the background at its end, and now job {job}: {_named(alive)}. Read what it prints, "
            "and stop it when it is not needed any more, with the tool job."
        )
    elif alive:
        yield f"Could not be stopped, and still runs: {_named(alive)}. Tell the user, or find out what holds it."


def session(report: SessionReport, *, before: str, now: str, stopped: bool) -> Iterator[str]:
    """Say what became of the session's shell.

    Args:
        report: What the command did to it.
        before: Where the shell is as far as the model was told.
        now: Where the next one begins.
        stopped: Whether the command was stopped.
    """
    again = "is gone: directory, variables, functions"
    if report.fresh:
        yield (
            f"It ran in a fresh shell, because {visible(report.fresh)}. What that one knew {again}. Set up again "
            "what is needed."
        )
    match report.state:
        case "ended":
            yield (
                f"With it the shell of the session has ended, as after exit. What it knew {again}. The next "
                f"command begins in a fresh one, in {visible(now)}: set up again what is needed."
            )
        case "lost":
            yield (
                f"The shell of the session had to be ended as well. What it knew {again}. The next command begins "
                f"in a fresh one, in {visible(now)}: set up again what is needed."
            )
        case "kept":
            if stopped:
                yield "The shell of the session goes on, with its directory, variables and functions."
            if now != before:
                yield f"The shell is now in {visible(now)}, where the next command begins."


def restarted(directory: str) -> str:
    """Say that a session was restarted, and nothing else."""
    return (
        f"Restarted: the next command begins in a fresh shell, in {visible(directory)}. What the shell before knew is "
        "gone: directory, variables, functions. Set up again what is needed."
    )


def gone(directory: str) -> str:
    """Say that a command was not run because the shell that it was meant for has ended unexpectedly."""
    return (
        "Nothing ran: the shell of the session was gone before the command could begin, and what it knew is gone with "
        f"it: directory, variables, functions. The next command begins in a fresh one, in {visible(directory)}: set up "
        "again what is needed, and call again."
    )


def _named(processes: Sequence[ProcessInfo]) -> str:
    named = [
        visible(process.name) + f" (pid {process.pid})" * bool(process.pid) for process in processes[:_NAMED]
    ]
    if len(processes) > _NAMED:
        named.append(f"{len(processes) - _NAMED:,} more")
    return ", ".join(named)


def refused(reason: str, done: str = "run") -> str:
    """Say that something was rejected.

    Args:
        reason: Why, as the approver says.
        done: What was not done with it.
    """
    reason = visible(" ".join(reason[: 2 * _LONGEST_REASON].split()))
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}…"
    reason = reason.rstrip(".") or "no reason was given"
    return (
        f"Rejected, and not {done}: {reason}. Do not try to do the same in another way; go on without it, or ask "
        "what is wanted instead."
    )


def invalid(problem: str) -> str:
    """Say what is wrong with the parameters."""
    return f"Nothing ran, because the parameters are wrong: {problem} Correct that and call again."


def failed(problem: str) -> str:
    """Say that the command could not be started."""
    return f"Nothing ran: {visible(problem).rstrip('.')}. Correct that and call again; if you cannot, tell the user."


def undone(problem: str) -> str:
    """Say that what was asked of a job or a terminal cannot be done."""
    return f"Nothing was done: {visible(problem).rstrip('.')}."


def misunderstood(problem: str) -> str:
    """Say what is wrong with the parameters of such a call."""
    return f"Nothing was done, because the parameters are wrong: {problem} Correct that and call again."
