"""Sentences on terminals for a model, of one line each; no sentence invites a repeated call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._types import exact
from ...policy import visible
from ..words import OURS
from .words import command, last_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import Outcome, Output
    from ..result import OutputArtifact
    from .tracked import TerminalReport, TrackedTerminal

SHOWN_LINE = 200
"""Characters of a prompt, or of the cursor's line, in a sentence; of a longer text, only the end."""

OVER = "Nothing was done."
"""The sentence for input that no program would read; the reason follows."""

NOT_THESE = "The alternate screen is not among these: action screen shows it."
"""The sentence for shown lines of the main screen while a program draws on the alternate screen."""

NOT_HERE = "no terminal is given here, since ANYSHELL_NO_PTY is set"
"""The reason for no terminal where anyshell did not try to make a terminal."""


def text(shown: str, messages: Sequence[str], frame: str | None = None) -> str:
    """Return the shown part of a terminal, an empty line, and the sentences of anyshell.

    Args:
        shown: The new lines of the terminal, or its screen.
        messages: The sentences of anyshell.
        frame: The last frame of the alternate screen of a program that has ended.
    """
    ours = "\n".join(f"{OURS} {sentence}" for sentence in [*messages, *framed(frame)])
    shown = shown.rstrip("\n")
    return f"{shown}\n\n{ours}" if shown.strip() else ours


def framed(frame: str | None) -> Iterator[str]:
    """Yield the last frame of an alternate screen with marked rows: no row can pass for a sentence of anyshell."""
    if frame is None or not frame.strip():
        return
    yield "Its alternate screen showed at last:"
    for row in frame.split("\n"):
        yield f"| {visible(row)}"


def ended(outcome: Outcome | None, *, by_person: bool = False) -> str:
    """Return the end of a terminal's program, as the rest of a sentence that begins with the terminal.

    Args:
        outcome: The outcome of the program.
        by_person: Whether a person stopped the program in a console.
    """
    if outcome is None or outcome.status == "lost":
        return "was lost (it may still run)"
    if outcome.status == "cancelled":
        return "was stopped by the user in a console" if by_person else "was stopped"
    if outcome.status == "timed_out":
        return "timed out"
    if outcome.signal is not None:
        return f"ended by {visible(outcome.signal)}"
    if outcome.exit_code is None:
        return "ended: unknown exit code"
    return f"ended: exit code {outcome.exit_code}"


def _ended(terminal: TrackedTerminal, outcome: Outcome | None) -> str:
    return f"Terminal {terminal.id} {ended(outcome, by_person=terminal.stopped_by_person)}"


def news(terminal: TrackedTerminal) -> str:
    """Say that a terminal's program has ended, in the result of another call."""
    outcome = terminal.outcome
    message = f"{_ended(terminal, outcome)} after {exact(round(terminal.seconds, 1))} s ({command(terminal.request.text)})."
    return f"{message} {last_lines(outcome)}".rstrip()


def listed(terminal: TrackedTerminal) -> str:
    """Return the line of a terminal in a list."""
    how = "runs"
    if terminal.over:
        how = ended(terminal.outcome, by_person=terminal.stopped_by_person)
    return f"{terminal.id} {how}, {exact(round(terminal.seconds, 1))} s, on a terminal: {command(terminal.request.text)}"


def waits(terminal: TrackedTerminal, view: TerminalReport, *, secrets: bool | None) -> str:
    """Say that a program waits for input, and how to answer.

    Args:
        terminal: The terminal.
        view: The report on the terminal, whose program waits.
        secrets: Whether a secret can be asked for; ``None`` when another sentence already gives the advice.
    """
    assert view.waiting is not None
    certain = view.waiting.certainty == "certain"
    who = "" if view.program is None else f" ({view.program})"
    message = f"{'Waiting' if certain else 'Likely waiting'} for input on terminal {terminal.id}{who}"
    prompt = visible(view.waiting.prompt.strip()[-SHOWN_LINE:])
    if view.is_screen:
        message += _cursor(view)
    elif prompt:
        message += f': "{prompt}"'
    otherwise = "" if certain else "; if not, wait with output"
    if not view.password:
        typed = "text or keys" if view.screen.alternate else "text, enter"
        return f"{message}. Answer with job, send, {typed}{otherwise}."
    if secrets is None:
        return f"{message}, not shown as typed."
    if secrets:
        return f"{message}, not shown as typed. Use job, secret: the user types it. Do not make one up."
    return (
        f"{message}, not shown as typed. If you were given no password for this, stop it and tell the user."
    )


def state(terminal: TrackedTerminal, view: TerminalReport, *, secrets: bool | None) -> Iterator[str]:
    """Say the state of a terminal, and which part of the terminal is shown."""
    who = "" if view.program is None else f" ({view.program})"
    if view.outcome is not None:
        yield f"{_ended(terminal, view.outcome)}."
    elif view.waiting is not None:
        yield waits(terminal, view, secrets=secrets)
    elif view.foreground_known:
        yield f"Terminal {terminal.id}{who} runs and does not seem to wait for input{_cursor(view)}."
    else:
        yield f"Terminal {terminal.id} runs{_cursor(view)}. Whether it waits for input is not known here: judge by its text."
    yield from shown(view)
    if view.outcome is None and terminal.left is not None:
        yield f"It ends in {exact(round(terminal.left, 1))} s."


def shown(view: TerminalReport) -> Iterator[str]:
    """Say whether the screen or new lines are shown, and how many lines are left out."""
    left_out = "1 line" if view.left_out == 1 else f"{view.left_out:,} lines"
    if view.is_screen:
        which = "the alternate screen" if view.screen.alternate else "the screen"
        yield f"Shown is {which}{'' if view.outcome is None else ' as it was at last'}."
    elif not view.text.strip() and view.outcome is None:
        yield "Nothing new."
    if view.left_out:
        yield f"{left_out} before that left out."
    if view.elsewhere:
        new = "1 line" if view.elsewhere == 1 else f"{view.elsewhere:,} lines"
        if view.screen.alternate and view.outcome is None:
            yield f"New on the main screen: {new}, shown when the program leaves the alternate one."
        else:
            yield f"New, and not all on this screen: {new}. Action output shows them."


def kept(artifact: OutputArtifact | None, *, readable: bool) -> Iterator[str]:
    """Say where the whole output of a terminal's program is."""
    if artifact is not None and readable:
        yield f"Whole output, with control sequences: {visible(artifact.path)}."
    elif artifact is not None:
        yield f"Whole output: job, output, id {artifact.id}, with part."


def skipped(output: Output) -> Iterator[str]:
    """Say that some printed bytes were not drawn on the terminal, if any."""
    if output.skipped_bytes:
        yield (
            f"{output.skipped_bytes:,} bytes were not drawn, since they came too fast: lines are missing, and older text may "
            "stand in some places."
        )


def _cursor(view: TerminalReport) -> str:
    """Return the place of the cursor on a shown screen, as the rest of a clause."""
    if not view.is_screen:
        return ""
    row, column = view.screen.cursor
    return f", cursor in row {row + 1}, column {column + 1}"


def unasked() -> str:
    """Say that a program was not waiting for input when the input was typed."""
    return "It did not wait for input when that was typed: it may read it later, or not."


def secret(terminal: TrackedTerminal, *, echo: bool, empty: bool) -> str:
    """Say that a secret was typed."""
    if empty:
        return f"Only Enter was typed on terminal {terminal.id}: the secret given was empty."
    message = f"A secret and Enter were typed on terminal {terminal.id}"
    return f"{message}; the terminal shows what is typed, so it is masked." if echo else f"{message}."


def no_secret(terminal: TrackedTerminal) -> str:
    """Say that no secret was given."""
    return f"Nothing was typed: the user gave no secret for terminal {terminal.id}. Do without, or stop it."


def no_source(kind: str) -> str:
    """Say that the source of a secret has failed."""
    return f"Nothing was typed: the source of the secret failed ({visible(kind)}). Tell the user."


def changed(before: str | None, now: str | None) -> str:
    """Say that nothing was typed because another program may read it."""
    others = "another run of the same" if before == now else now or "an unknown program"
    return f"Nothing was typed: it was meant for {before or 'an unknown program'}, and now {others} may read it. Decide anew."


def asked_anew(line: str) -> str:
    """Say that nothing was typed because the question may have changed."""
    now = f'its line is now "{visible(line.strip()[-SHOWN_LINE:])}"' if line else "its line is blank"
    return f"Nothing was typed: the terminal has changed since it was approved; {now}. Decide anew."


def stopped(terminal: TrackedTerminal, *, before: bool) -> str:
    """Say that a terminal's program was stopped, or had ended `before`."""
    outcome = terminal.outcome
    if outcome is None or outcome.status == "lost":
        return f"{_ended(terminal, outcome)}. Tell the user."
    if before or outcome.status != "cancelled":
        return (
            f"Nothing to stop: terminal {terminal.id} {ended(outcome, by_person=terminal.stopped_by_person)}."
        )
    return f"Stopped terminal {terminal.id} and all it started."


def failed_typing(problem: str) -> str:
    """Say that not all input could be typed."""
    return (
        f"Not all was typed: {visible(problem).rstrip('.')}. See what is shown before typing any of it again."
    )


def without(reason: str) -> str:
    """Say that a command ran without a terminal."""
    return f"It ran without a terminal: {visible(reason).rstrip('.')}."


def none_here(reason: str) -> str:
    """Say that nothing ran because no terminal could be given."""
    return f"Nothing ran: {visible(reason).rstrip('.')}. Run it without pty, with options or stdin."


def apart() -> str:
    """Say that a command with a terminal did not run in the session's shell."""
    return "It had a shell of its own."
