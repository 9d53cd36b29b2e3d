"""Sentences for a model after a call, of one line each: the fact first, then at most one next step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .._exceptions import BackendError, HostKeyUntrusted, SpawnError
from .._types import exact, one_line
from ..policy import visible
from ..policy.view_limit import LARGEST_WHOLE
from .signals import number_of, signal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._exceptions import AnyshellError
    from .._types import Effects, OperatingSystem, Outcome, Output, ProcessInfo, Refused, SessionReport
    from ..policy.view_limit import ViewLimit
    from .limits import ToolLimits
    from .result import MinimizedOutput
    from .viewing import ShownLines

OURS = "[anyshell]"
"""The beginning of each line of a result's text that anyshell wrote; these lines are the text's last paragraph."""

NO_OUTPUT = "(no output)"
INVISIBLE_OUTPUT = "(nothing visible: only blank lines or control characters)"
BINARY = "Binary output not shown"

CLOSED = "Not run: this tool is closed. Do not call it again; tell the user."
"""The sentence for a call whose tool, or environment, was closed."""

UNBEGUN = "Cancelled on request; nothing ran. Do not call again unless asked to."
"""The sentence for a command whose call was cancelled before it was approved, or had its turn, or was started."""

NO_JOB = "Cancelled on request while it started; it and all it started were stopped. Do not run it again unless asked to."

CUT_SHORT = "Cancelled on request; this call waits no longer."
"""The sentence for a cancelled wait for a job or a terminal, which goes on."""

UNSENT = "Cancelled on request; nothing was sent. Do not send it again unless asked to."
"""The sentence for input that was not approved before its call was cancelled."""

_CANCELLED = "Stopped {by}; its output so far is kept.{unasked} Do not run it again unless asked to."

LONG = 10.0
"""Seconds from which the model is told a command's duration."""

_LONGEST_PROMPT = 100
"""Characters of a last line that a sentence quotes, such as a question; only the end of a longer line."""

_NAMED = 10
"""Processes left behind that are named one by one; the others are only counted."""

MOST_FILES = 8
"""Files that the result of a tool with ``effects=`` names; the others are counted."""

_LONGEST_REASON = 1000
"""Characters of an approver's reason that a model is told; the rest is cut."""

# A command's own `timeout -k` may send SIGKILL, and `timeout` exits with 124: neither points to this tool or the host.
_TIMEOUT = re.compile(r"\btimeout\b")

# From ntstatus.h. Windows ends a program with one of these codes; a program's own exit codes are seldom so large.
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

_UNASKED = " It was not asked to end first: a file it was writing may be incomplete."

_CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"})


def said_by_us(sentences: Sequence[str]) -> str:
    """Return the paragraph of anyshell's own sentences, each on a marked line."""
    return "\n".join(f"{OURS} {sentence}" for sentence in sentences)


def text(output: Output | None, messages: Sequence[str], *, ended: bool = True) -> str:
    """Return the output without the last line feed, an empty line, and the sentences of anyshell.

    Args:
        output: The output; ``None`` when the call could have no output.
        messages: The sentences of anyshell.
        ended: Whether the command has ended by itself; only then is an empty output worth a sentence.
    """
    if output is None:
        return said_by_us(messages)
    printed = "" if output.binary is not None else output.text.removesuffix("\n")
    messages = [*nothing_seen(output, ended=ended), *messages]
    return f"{printed}\n\n{said_by_us(messages)}" if printed else said_by_us(messages)


def nothing_seen(output: Output, *, ended: bool = True) -> Iterator[str]:
    """Say why an output shows nothing visible, if it does not; the arguments are those of `text`."""
    if output.total_bytes == 0 and ended:
        yield NO_OUTPUT
    elif output.binary is not None:
        yield unshown(output)
    elif output.total_bytes and not output.text.strip():
        yield INVISIBLE_OUTPUT


def unshown(output: Output) -> str:
    """Say that a binary output is not shown."""
    return f"{BINARY}: {output.binary}, {output.total_bytes:,} bytes."


def nul(output: Output) -> Iterator[str]:
    """Say that NUL characters are not shown, and how to see the separated parts."""
    count = output.nul_bytes
    if not count or output.binary is not None:
        return
    them = "1 NUL character" if count == 1 else f"{count:,} NUL characters"
    # ASCII text in UTF-16 has a NUL in every second byte.
    wide = "it may be UTF-16, or " if count * 3 >= output.total_bytes else ""
    yield f"{them} not shown: {wide}what they separate runs together. To see it, add | tr '\\0' '\\n'."


def last_line(output: Output) -> Iterator[str]:
    """Quote the last line of a binary output, if that line is text: a failed command often gives its reason there."""
    last = output.text.rstrip("\n").rsplit("\n", 1)[-1].strip()[-_LONGEST_PROMPT:]
    if output.binary is not None and last and last.isprintable() and "\ufffd" not in last:
        yield f"Last line: {visible(last)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a run on which the sentences about its end depend.

    Attributes:
        timeout: Seconds that the command had; ``None`` means no bound.
        limits: The limits in force.
        os: The host's system, which determines the numbers of signals.
        host: The name of the connected host; empty on this machine.
        command: The text of the command, since a ``timeout`` in the text explains some exit codes and signals.
        on_terminal: Whether the command had a terminal.
        by_person: Whether a person stopped the command in a console.
        jobs: Whether the command could have run in the background.
        terminals: Whether the command could have had a terminal.
    """

    timeout: float | None
    limits: ToolLimits
    os: OperatingSystem
    host: str = ""
    command: str = ""
    on_terminal: bool = False
    by_person: bool = False
    jobs: bool = False
    terminals: bool = False


def ending(outcome: Outcome, way: RunFacts) -> str:
    """Say how a command ended."""
    match outcome.status:
        case "exited":
            return _exited(outcome, way)
        case "timed_out":
            return _timed_out(outcome, way)
        case "cancelled" if outcome.started is False:
            return UNBEGUN
        case "cancelled":
            by = "by the user in a console" if way.by_person else "on request"
            return _CANCELLED.format(by=by, unasked=_UNASKED if outcome.killed_without_warning else "")
        case "running":
            end = "" if way.timeout is None else f", until {exact(way.timeout)} s at most"
            return (
                f"Still running after {exact(round(outcome.duration, 1))} s: it goes on as job {outcome.job}{end}. "
                "Do not run it again."
            )
        case "lost":
            return _lost(outcome, way)


def _lost(outcome: Outcome, way: RunFacts) -> str:
    if outcome.started is None:
        return f"{visible(way.host) or 'The host'} did not answer: the command may run or not. Check that before repeating it."
    message = "Its end could not be confirmed."
    if way.host:
        message = f"The connection to {visible(way.host)} broke after {exact(round(outcome.duration, 1))} s."
    stopped = [process for process in outcome.left_behind if not process.alive]
    alive = [process for process in outcome.left_behind if process.alive]
    if stopped:
        message += f" What ran there was stopped: {named(stopped)}."
    if alive:
        message += f" Still running there: {named(alive)}."
    if not stopped and not alive:
        message += " Whether it still runs is unknown."
    return f"{message} Check what it did before repeating it."


def _exited(outcome: Outcome, way: RunFacts) -> str:
    after = f" after {exact(round(outcome.duration, 1))} s" if outcome.duration >= LONG else ""
    if outcome.signal is not None:
        number = _code(number_of(outcome.signal, way.os))
        if outcome.signal == "SIGKILL" and outcome.session is not None and outcome.session.state != "kept":
            return (
                f"Ended by SIGKILL{number}{after}."  # another sentence tells the end of the session's shell
            )
        return f"Ended by {outcome.signal}{number}{after}. {_signal_advice(outcome.signal, way.command)}"
    code = outcome.exit_code
    if code is None:
        return f"Ended{after} with an unknown exit code: judge by its output."
    return f"Exit code {code}{after}.{_exit_advice(code, outcome.output, way)}"


def _code(number: int | None) -> str:
    return "" if number is None else f" (exit code {128 + number})"


def _signal_advice(signal: str, command: str) -> str:
    if signal in _CRASHES:
        return "The program crashed: change its input or arguments."
    if signal == "SIGPIPE":
        return "Its reader had stopped reading: normal where only the beginning was wanted."
    if signal == "SIGKILL" and _TIMEOUT.search(command):
        return "The command's own timeout may have sent it, or the host is short of memory."
    if signal == "SIGKILL":
        return "This tool did not send it: the host may be short of memory."
    return "This tool did not send it."


def _exit_advice(code: int, output: Output, way: RunFacts) -> str:
    if code == 0:
        return ""
    if way.os == "windows" and code in _STATUSES:
        return f" Windows ended it (0x{code:08X}): {_STATUSES[code]}."
    silent = output.total_bytes == 0
    if code == 124 and _TIMEOUT.search(way.command):
        return " Its own timeout was over."
    if code == 126 and silent:
        return " A program was found but could not run: permissions, a directory, or a wrong format."
    if code == 127 and silent:
        return " A program, or the interpreter in its first line, was not found."
    if code > 128 and (signal := signal_of(code - 128, way.os)) is not None:
        return f" {signal} ended a program. {_signal_advice(signal, way.command)}"
    return ""


def _timed_out(outcome: Outcome, way: RunFacts) -> str:
    timeout, limits = way.timeout or 0.0, way.limits
    if outcome.started is False:
        return f"Not run: the host did not come to it in {exact(timeout)} s. Try again with a longer timeout."
    unasked = _UNASKED if outcome.killed_without_warning else ""
    options = ["options", "stdin", *(["pty"] if way.terminals else [])]
    answer = f"{', '.join(options[:-1])} or {options[-1]}"
    asked = _asked(outcome.output.text)
    waited = f'It likely waited at "{asked}":' if asked else "If it waited for input,"
    if way.on_terminal:
        answer = "options, or run_in_background with pty"
    if outcome.silence is not None:
        return (
            f"Stopped after {exact(outcome.silence)} s without output; all it started was stopped.{unasked} "
            f"{waited} use {answer}."
        )
    message = f"Timed out after {exact(timeout)} s; it and all it started were stopped.{unasked}"
    longer = [f"give a longer timeout (up to {exact(limits.max_timeout)})"] * (timeout < limits.max_timeout)
    longer += ["run_in_background" if longer else "use run_in_background"] * way.jobs
    if not asked and longer:
        message += f" If it was making progress, {' or '.join(longer)}."
    elif not asked:
        message += " That is the longest timeout: split the work."
    return f"{message} {waited} use {answer}."


def _asked(text: str) -> str:
    """Return the last line of an output if the line may be an unanswered question; empty otherwise."""
    # bash and sh print "Terminated" when their program is stopped.
    last = text.removesuffix("Terminated\n").rsplit("\n", 1)[-1].strip()
    return visible(last[-_LONGEST_PROMPT:]) if last.endswith(("?", ":", ">", "]", ")", "…")) else ""


def clamped(requested: float, timeout: float) -> str:
    """Say that the requested timeout was clamped."""
    asked = exact(requested)
    if not asked.isascii():  # `exact` has cut the number, or the number was too large for a float
        asked = "a number too large"
    return f"timeout is in seconds: {asked} was {'cut' if requested > timeout else 'raised'} to {exact(timeout)}."


TRANSLATED = "Changed for bash: nul is /dev/null, lines end with LF."


def guarded(names: Sequence[str]) -> str:
    """Say that variables were not set."""
    return f"Not set: {', '.join(names)}. Such variables make programs wait for a person; use a program's own options."


def truncated(output: Output, whole: str, *, max_line: int) -> str:
    """Say how much of an output is shown and where the rest is.

    Args:
        output: The truncated output.
        whole: The sentence of `whole` about the output.
        max_line: Characters of a line that are shown.
    """
    if output.binary is not None:
        return whole
    return f"{left_out(output, max_line)}. {whole}"


def left_out(output: Output, max_line: int | None = None) -> str:
    """Say which part of an output is left out, and how much is shown; the arguments are those of `truncated`."""
    shown = f"{output.total_bytes - output.omitted_bytes:,} of {output.total_bytes:,} bytes shown"
    if output.head_range is None and output.tail_range is None:
        cut = output.cut_lines
        after = "" if max_line is None else f" after {max_line:,} characters"
        images = len(output.images)
        where = (
            f"{cut:,} line{'s' if cut != 1 else ''} cut{after}"
            if cut
            else f"{images:,} image{'s' if images != 1 else ''} left out"
            if images
            else "Not all"
        )
    elif output.head_range is None:
        assert output.tail_range is not None
        where = f"Beginning left out up to line {output.tail_range[0]:,}"
    elif output.tail_range is None:
        where = f"End left out from line {_cut_line(output, output.total_lines):,}"
    else:
        shown_between = sum(last - first + 1 for first, last in output.excerpts)
        where = f"Middle left out from line {_cut_line(output, output.tail_range[0] - 1 - shown_between):,}"
        where += ", but for what looks like errors" * bool(output.excerpts)
    return f"{where}: {shown}"


def minimized(
    output: Output,
    left: MinimizedOutput,
    whole: str,
) -> Iterator[str]:
    """Say that noise was left out, by which rule, and where the whole output is, in the words of `whole`."""
    assert output.artifact is not None
    shown = f"{output.total_lines - output.omitted_lines:,} of {output.total_lines:,} lines shown"
    long = ", and the remaining text was still too long" * left.truncated
    if left.grouped:
        yield (
            f"Lines grouped by the rule {visible(left.rule)}: an indented line begins with the nearest line above that is not "
            f"indented. {shown}." + f" {whole}" * (left.dropped_lines > 0)
        )
    else:
        yield f"Noise left out by the rule {visible(left.rule)}{long}: {shown}. {whole}"
    yield f"[raw output: artifact://{output.artifact.id}]"


def viewed(
    output: Output,
    limit: ViewLimit,
    lines: ShownLines,
    whole: str,
) -> Iterator[str]:
    """Say which lines are shown, which part of the command limited the lines, and where the whole output is."""
    if limit.head is not None and output.total_bytes >= LARGEST_WHOLE:
        first = f"the first {LARGEST_WHOLE:,} bytes, after which it was ended"
        whole = whole.replace("Whole output", "These bytes", 1)
        yield f"`{limit.said}` limited what is shown: {lines} of {first}. {whole}"
    else:
        yield f"`{limit.said}` limited only what is shown: {lines}. {whole}"


def _cut_line(output: Output, line_feeds: int) -> int:
    """Return the first line that is not fully shown, of an output with so many line feeds before its tail."""
    assert output.head_range is not None
    last = output.head_range[1]
    return last + (line_feeds - output.omitted_lines >= last)


def whole(output: Output, *, readable: bool, job_tool: bool = False, addressed: bool = False) -> str:
    """Say where the whole of an output is, and how to read the whole.

    Args:
        output: The output that is not fully shown.
        readable: Whether commands can read the file of the artifact.
        job_tool: Whether the tool named ``job`` can read the artifact.
        addressed: Whether commands can read the artifact by its address.
    """
    artifact = output.artifact
    if artifact is None:
        why = f" ({visible(output.artifact_error)})" if output.artifact_error else ""
        return f"The rest was not kept{why}: print less, or into a file."
    what = f"All but {artifact.omitted_bytes:,} bytes" if artifact.omitted_bytes else "Whole output"
    if readable:
        return f"{what}: {visible(str(artifact.path))}. Search that; do not rerun."
    if job_tool:
        return f"{what}: job, output, id {artifact.id}, with part."
    if addressed:
        return f"{what}: cat 'artifact://{artifact.id}?grep=REGEX', or ?lines=1-200. Do not rerun."
    return f"{what}: artifact {artifact.id}, for people. Print less, or into a file."


def left_behind(
    processes: Sequence[ProcessInfo], job: str | None = None, *, of: Literal["call", "program"] = "call"
) -> Iterator[str]:
    """Say which processes outlived a command, and whether these were stopped.

    Args:
        processes: The processes that outlived the command.
        job: The id of the job that has the living processes; ``None`` without a job.
        of: The kind of the ended command: a call, or a program on a terminal that calls drive.
    """
    stopped = [process for process in processes if not process.alive]
    alive = [process for process in processes if process.alive]
    if stopped:
        advice = " Start, use and stop a server in one call." if of == "call" else ""
        yield f"Stopped when the {of} ended: {named(stopped)}.{advice}"
    if alive and job is not None:
        yield f"It left {named(alive)} running, now job {job}: read or stop it with job."
    elif alive:
        yield f"Could not be stopped, and still runs: {named(alive)}. Tell the user."


def effects(found: Effects) -> str:
    """Say which files a command has changed; the first files are named, the others are counted."""
    parts: list[str] = []
    room = MOST_FILES
    for what in ("created", "changed", "deleted", "renamed"):
        files = getattr(found, what)
        names = [one_line(each.path) + "/" * (each.kind == "directory") for each in files[:room]]
        room -= len(names)
        more = len(files) - len(names)
        if files:
            parts.append(
                f"{what} {', '.join(names)}{' and ' * bool(names and more)}{f'{more} more' * bool(more)}"
            )
    said = "; ".join(parts) or ("nothing changed" if found.complete else "no change was seen")
    return f"Files: {said}." + "".join(f" Not complete: {one_line(why)}." for why in found.incomplete[:1])


def session(report: SessionReport, *, before: str, now: str, stopped: bool) -> Iterator[str]:
    """Say whether the session's shell goes on. A fresh shell is not announced again: the end of the previous one told of it.

    Args:
        report: The effect of the command on the session.
        before: The directory of the shell, as far as the model was told.
        now: The directory in which the next command begins.
        stopped: Whether the command was stopped.
    """
    match report.state:
        case "ended":
            yield f"That ended the session's shell: {_GONE}. The next call starts fresh in {visible(now)}."
        case "lost":
            lost = "was stopped too" if stopped else "is lost"
            yield f"The session's shell {lost}: {_GONE}. The next call starts fresh in {visible(now)}."
        case "kept":
            if stopped:
                yield "The session's shell goes on."
            if now != before:
                yield f"Now in {visible(now)}."


_GONE = "its directory, variables and functions are gone"


def restarted(directory: str) -> str:
    """Say that a session was restarted and no command ran."""
    return f"The next call starts fresh in {visible(directory)}; the old shell's variables and functions are gone."


def gone(directory: str) -> str:
    """Say that a command was not run because the session's shell has ended unexpectedly."""
    return (
        f"Not run: the session's shell had ended, and {_GONE}. Set up again what is needed, starting in "
        f"{visible(directory)}, and call again."
    )


def named(processes: Sequence[ProcessInfo]) -> str:
    """Return the names of processes, safe to print; of many, the first names and a count."""
    named = [
        visible(process.name) + f" (pid {process.pid})" * bool(process.pid) for process in processes[:_NAMED]
    ]
    if len(processes) > _NAMED:
        named.append(f"{len(processes) - _NAMED:,} more")
    return ", ".join(named)


def blocked(message: str) -> str:
    """Say that a command was not run, since another tool does better."""
    return f"Not run. {visible(' '.join(message.split()))}"


def refused(answer: Refused, done: str = "run") -> str:
    """Say that a request was refused, by the user, the policy or for lack of an answer, with the reason or a next step.

    Args:
        answer: The refusal.
        done: The participle for the refused action, such as ``run`` or ``sent``.
    """
    reason = visible(" ".join(answer.reason[: 2 * _LONGEST_REASON].split()))
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}…"
    said = reason if reason.endswith(("?", "!")) or not reason else f"{reason.rstrip('.')}."
    match answer.by:
        case "unanswered" | "failure":
            return f"Not {done}: {said or 'no answer came.'} Do not work around it; tell the user."
        case "policy":
            return (
                f"Not {done}. The policy says: {said}"
                if said
                else f"Not {done}: the policy forbids it. {_AROUND}"
            )
        case _:
            return (
                f"Not {done}. The user says: {said}"
                if said
                else f"Not {done}: refused by the user. {_AROUND}"
            )


_AROUND = "Do not work around it; ask what to do instead."


def invalid(problem: str) -> str:
    """Say that nothing was done because of wrong parameters."""
    return f"Not done: {problem}"


def _problem(problem: str | AnyshellError) -> str:
    """Describe a problem, and send the model to the user for a problem that a model cannot solve."""
    if isinstance(problem, HostKeyUntrusted):
        what = "has changed, possibly an attack" if problem.changed else "is not trusted"
        return f"the host key of {visible(problem.host)} {what}. Do not touch known_hosts; tell the user."
    end = (
        " Tell the user." if isinstance(problem, BackendError) and not isinstance(problem, SpawnError) else ""
    )
    return f"{visible(str(problem)).rstrip('.')}.{end}"


def failed(problem: str | AnyshellError) -> str:
    """Say that the command could not be started."""
    return f"Nothing ran: {_problem(problem)}"


def undone(problem: str | AnyshellError) -> str:
    """Say that a request to a job cannot be carried out."""
    return f"Nothing was done: {_problem(problem)}"


def awaited(said: str, *, found: bool, waited: float, before: bool = False) -> str:
    """Say whether the awaited text or end has come within the wait, or whether the text was printed before."""
    seconds = f"{exact(round(waited, 1))} s"
    if said == "end":
        return f"It did not end in {seconds}."
    said = visible(said[:_LONGEST_PROMPT])
    return (
        f'It printed "{said}".'
        if found
        else f'"{said}" did not come in {seconds}{"; it was printed before" * before}.'
    )


def waited_less(requested: float | None, wait: float | None) -> Iterator[str]:
    """Say that the wait was shorter than requested, if it was."""
    if requested is not None and wait is not None and requested > wait:
        yield f"wait is in seconds: {exact(requested)} was cut to {exact(wait)}."
