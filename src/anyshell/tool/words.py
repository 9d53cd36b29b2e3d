"""What a model reads after a call. Every notice is one line, is true of any host, and says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..policy import visible
from .signals import number_of, signal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._types import Artifact, OperatingSystem, Outcome, Output, ProcessInfo
    from .limits import ToolLimits

NO_OUTPUT = "(no output)"
INVISIBLE_OUTPUT = "(nothing visible: only blank lines or control characters)"

_NAMED = 10
"""Processes that are named one by one; of the rest, only the number is said."""

_LONGEST_REASON = 1000

_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"})


def ending(outcome: Outcome, *, timeout: float, limits: ToolLimits, os: OperatingSystem) -> str:
    """Say how a command ended.

    Args:
        outcome: What became of it.
        timeout: Seconds that it had.
        limits: Those in force.
        os: The host's system, which numbers its signals.
    """
    match outcome.status:
        case "exited":
            return _exited(outcome, os)
        case "timed_out":
            return _timed_out(outcome, timeout, limits)
        case "cancelled":
            return "Stopped before its end, because somebody asked for that; its output so far is kept. Do not run it again unless asked to."
        case "lost":
            return "How it ended is not known: the host went away, or its end could not be confirmed. Look whether it still runs before running it again."


def _exited(outcome: Outcome, os: OperatingSystem) -> str:
    if outcome.signal is not None:
        return f"Ended by {outcome.signal}{_code(number_of(outcome.signal, os))}. {_signal_advice(outcome.signal)}"
    code = outcome.exit_code
    if code is None:
        return "Ended, but its exit code could not be learnt. Judge by its output whether it worked."
    return f"Exit code {code}.{_exit_advice(code, outcome.output, os)}"


def _code(number: int | None) -> str:
    return "" if number is None else f" (exit code {128 + number})"


def _signal_advice(signal: str) -> str:
    if signal in _CRASHES:
        return "The program crashed: change its input or its arguments before running it again."
    if signal == "SIGKILL":
        return "This tool did not send that: the host may be short of memory, so try with less work at once."
    return "This tool did not send that: find out what did before running it again."


def _exit_advice(code: int, output: Output, os: OperatingSystem) -> str:
    if code == 0:
        return ""
    if code == 126:
        return (
            " A shell gives this code for a program that it found but could not run: check its permissions."
        )
    if code == 127:
        return " A shell gives this code for a program that it did not find: check its name, or use another."
    if code > 128 and (signal := signal_of(code - 128, os)) is not None:
        return f" A shell gives this code when {signal} ended a program. {_signal_advice(signal)}"
    if output.total_bytes:
        return " The output should say why; change something before running it again."
    if code == 1:
        return " That may be an answer rather than a failure: some programs say no, or nothing found, in this way."
    return " It does not say why: let it print more, or run its parts one by one."


def _timed_out(outcome: Outcome, timeout: float, limits: ToolLimits) -> str:
    if not outcome.started:
        return f"Not started: {timeout:g} s had passed before the host came to it. Nothing ran; try again, with a longer timeout if the host is slow."
    said = f"Stopped after {timeout:g} s, with everything that it started; its output so far is kept."
    if timeout < limits.max_timeout:
        said += f" If it needs longer, give a timeout of up to {limits.max_timeout:g} s, or split the work."
    else:
        said += " That was the longest timeout there is: split the work into shorter commands."
    return said + " If it waited for an answer, none will come: say everything in options or in stdin."


def clamped(requested: float, timeout: float, limits: ToolLimits) -> str:
    """Say that another timeout was used."""
    return f"The timeout was {timeout:g} s, not {requested:g} s: ask for {limits.min_timeout:g} to {limits.max_timeout:g} s."


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
        readable: Whether the artifact is a file of the host that commands run on.
    """
    said = (
        f"Shown are {output.total_bytes - output.omitted_bytes:,} of {output.total_bytes:,} bytes and "
        f"{output.total_lines - output.omitted_lines:,} of {output.total_lines:,} lines"
    )
    if output.cut_lines:
        lines = "1 line is" if output.cut_lines == 1 else f"{output.cut_lines:,} lines are"
        said += f"; {lines} cut after {max_line:,} characters"
    return f"{said}. {_rest(output, output.artifact, readable=readable)}"


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
    return f"{whole} is kept as artifact {artifact.id}, not on this host: if you need more of it, {again}"


def left_behind(processes: Sequence[ProcessInfo]) -> Iterator[str]:
    """Say what outlived the command, and what became of it."""
    stopped = [process for process in processes if not process.alive]
    alive = [process for process in processes if process.alive]
    if stopped:
        yield (
            f"Still running in the background at its end, and stopped: {_named(stopped)}. Nothing outlives its "
            "call here: wait for it, or use it, within one call."
        )
    if alive:
        yield f"Could not be stopped, and still runs: {_named(alive)}. Tell the user, or find out what holds it."


def _named(processes: Sequence[ProcessInfo]) -> str:
    named = [f"{visible(process.name)} (pid {process.pid})" for process in processes[:_NAMED]]
    if len(processes) > _NAMED:
        named.append(f"{len(processes) - _NAMED:,} more")
    return ", ".join(named)


def refused(reason: str) -> str:
    """Say that the command was rejected."""
    reason = visible(" ".join(reason.split()))[:_LONGEST_REASON].rstrip(".") or "no reason was given"
    return (
        f"Rejected, and not run: {reason}. Do not try to do the same in another way; go on without it, or ask "
        "what is wanted instead."
    )


def invalid(problem: str) -> str:
    """Say what is wrong with the parameters."""
    return f"Nothing ran, because the parameters are wrong: {problem} Correct that and call again."


def failed(problem: str) -> str:
    """Say that the command could not be started."""
    return f"Nothing ran: {visible(problem).rstrip('.')}. Correct that and call again; if you cannot, tell the user."
