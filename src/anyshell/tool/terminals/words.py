"""What a model reads of terminals. Every sentence is one line and says what to do next; none invites to ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._types import exact
from ...policy import visible
from ..words import OURS
from .question import cursor_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import Artifact, Outcome, Output
    from .tracked import TerminalReport, TrackedTerminal

SHOWN_COMMAND = 100
"""Characters of a terminal's command, in a sentence about the terminal."""

SHOWN_LINE = 200
"""Characters of a prompt, or of the cursor's line, in a sentence about it: those at its end."""

NOT_HERE = "no terminal is given here, since ANYSHELL_NO_PTY is set"
"""Why there is no terminal where none was tried for."""

UNTYPED = (
    "Cancelled on request, before it was typed: the program goes on. Do not type it again unless asked to."
)

CLOSED = (
    "Nothing ran: this tool is closed, and starts nothing any more. Do not call it again; if something is still to be "
    "done, tell the user."
)
"""What is said when the tool, or the environment, was closed."""


def text(shown: str, messages: Sequence[str], frame: str | None = None) -> str:
    """What is shown of a terminal, an empty line, and what we say.

    Args:
        shown: What is new on it, or its screen.
        messages: What we say.
        frame: What the alternate screen of a program that has ended showed last.
    """
    ours = "\n".join(f"{OURS} {sentence}" for sentence in [*messages, *framed(frame)])
    shown = shown.rstrip("\n")
    return f"{shown}\n\n{ours}" if shown.strip() else ours


def framed(frame: str | None) -> Iterator[str]:
    """Show what an alternate screen showed last, so that none of its rows can pass for what we say."""
    if frame is None or not frame.strip():
        return
    yield "What the program drew on the alternate screen, as an editor or a pager does, was at last:"
    for row in frame.split("\n"):
        yield f"| {visible(row)}"


def command(terminal: TrackedTerminal) -> str:
    """A terminal's command on one line, cut."""
    words = " ".join(terminal.request.text[: 4 * SHOWN_COMMAND].split())
    return visible(words if len(words) <= SHOWN_COMMAND else f"{words[:SHOWN_COMMAND]}…")


def ended(outcome: Outcome | None, *, by_person: bool = False) -> str:
    """How a terminal's program has ended: the rest of a sentence that begins with the terminal.

    Args:
        outcome: That.
        by_person: Whether a person stopped it who saw it in a console.
    """
    if outcome is None or outcome.status == "lost":
        return "is lost: how its program ended, or whether, is not known"
    if outcome.status == "cancelled":
        return "was stopped by the user, who saw it in a console" if by_person else "was closed"
    if outcome.status == "timed_out":
        return "was closed because its timeout was over"
    if outcome.signal is not None:
        return f"was ended by {visible(outcome.signal)}"
    if outcome.exit_code is None:
        return "has ended with an unknown exit code"
    return f"has ended with exit code {outcome.exit_code}"


def news(terminal: TrackedTerminal) -> str:
    """Say that a terminal's program has ended, with the result of something else."""
    message = f"Meanwhile terminal {terminal.id} {ended(terminal.outcome, by_person=terminal.stopped_by_person)}: {command(terminal)}."
    return (
        f'{message} To see what it printed at last, use the tool terminal: action "wait", id "{terminal.id}".'
    )


def waits(terminal: TrackedTerminal, view: TerminalReport, *, secrets: bool) -> Iterator[str]:
    """Say what a program waits for, and how to answer.

    Args:
        terminal: The terminal.
        view: What there is to tell of it; it waits.
        secrets: Whether a secret can be asked for.
    """
    assert view.waiting is not None
    if view.waiting.certainty == "certain":
        message = f"It waits for input on terminal {terminal.id}, certainly."
    else:
        message = (
            f"It likely waits for input on terminal {terminal.id}; or for something else, such as a network: if so, use action "
            '"wait".'
        )
    prompt = visible(view.waiting.prompt.strip()[-SHOWN_LINE:])
    if prompt and not view.is_screen:
        message += f" Before the cursor stands: {prompt}"
    yield message
    if view.program is not None:
        yield f"In its foreground: {view.program}."
    if view.is_screen:
        yield _cursor(view)
    if not view.password:
        yield f"{_answer(terminal)}."
    elif secrets:
        yield (
            "What is typed is not shown, as for a password. Do not make one up, and do not ask for it: with the tool terminal, "
            f'action "secret", id "{terminal.id}", it is asked for elsewhere, and you never see it.'
        )
    else:
        yield (
            "What is typed is not shown, as for a password. If you were not given one for this, do not make one up: close it, "
            f"and tell the user. {_answer(terminal)}."
        )


def _answer(terminal: TrackedTerminal) -> str:
    return (
        f'Answer with the tool terminal, id "{terminal.id}": action "send" with text, and enter; "keys" for keys such as Ctrl-C '
        'or Up; "close" to end it'
    )


def state(terminal: TrackedTerminal, view: TerminalReport, *, secrets: bool) -> Iterator[str]:
    """Say how a terminal is, and what of it is shown."""
    if view.outcome is not None:
        yield f"Terminal {terminal.id} {ended(view.outcome, by_person=terminal.stopped_by_person)}."
    elif view.waiting is not None:
        yield from waits(terminal, view, secrets=secrets)
    else:
        if view.foreground_known:
            who = "" if view.program is None else f" In its foreground: {view.program}."
            yield (
                f"It does not seem to wait for input on terminal {terminal.id} now.{who} To be told when it does, or what comes, "
                f'use the tool terminal, id "{terminal.id}", action "wait".'
            )
        else:
            yield (
                f"Whether it waits for input on terminal {terminal.id}, this host cannot tell: judge by what is shown. "
                f"{_answer(terminal)}."
            )
        yield _cursor(view)
    yield from shown(view)
    if view.outcome is None:
        yield from deadline(terminal)


def shown(view: TerminalReport) -> Iterator[str]:
    """Say what is shown."""
    left_out = "1 line" if view.left_out == 1 else f"{view.left_out:,} lines"
    if view.is_screen and view.screen.alternate:
        yield "Shown is the alternate screen, as an editor or a pager draws on it, as it is now."
    elif view.is_screen:
        yield f"Shown is the screen as it {'is now' if view.outcome is None else 'was at last'}."
    elif not view.text.strip() and view.outcome is None:
        yield "It shows nothing new."
    if view.left_out and view.is_screen:
        yield f"Its beginning is left out, since it is too large: {left_out}."
    elif view.left_out:
        yield f"Left out before that, though new: {left_out}. Let it print less, or into a file."
    if view.elsewhere:
        new = "1 line" if view.elsewhere == 1 else f"{view.elsewhere:,} lines"
        if view.screen.alternate and view.outcome is None:
            yield f"New on the main screen: {new}, to be shown when the program leaves the alternate one."
        else:
            yield f'New, and not all on this screen: {new}. Action "wait" shows them.'


def deadline(terminal: TrackedTerminal) -> Iterator[str]:
    """Say when a program is stopped, if that is settled."""
    if terminal.left is not None:
        yield f"Its time goes on: it is stopped in {exact(round(terminal.left, 1))} s, with everything that it started."


def kept(artifact: Artifact | None, *, readable: bool) -> Iterator[str]:
    """Say where all is that a program has printed on its terminal."""
    if artifact is not None and readable:
        yield f"All that it printed, with the control sequences, is in {visible(str(artifact.path))}."
    elif artifact is not None:
        yield f"All that it printed is kept for people, as artifact {artifact.id}, where commands cannot read it."


def skipped(output: Output) -> Iterator[str]:
    """Say that not all was drawn."""
    if output.skipped_bytes:
        yield (
            f"{output.skipped_bytes:,} bytes were not drawn, since the program drew faster than a screen can follow: lines that "
            "scrolled away in them are missing. What it drew again at the end, in 1 MiB at most, is exact; in other places an "
            "older state may stand."
        )


def _cursor(view: TerminalReport) -> str:
    row, column = view.screen.cursor
    line = visible(cursor_line(view.screen)[-SHOWN_LINE:])
    return f"The cursor is in row {row + 1}, column {column + 1}, on " + (
        f"the line: {line}" if line else "a blank line."
    )


def started(terminal: TrackedTerminal) -> str:
    """Say that a program was started."""
    pid = "" if terminal.driven.pid is None else f" (pid {terminal.driven.pid})"
    return f"Started on terminal {terminal.id}{pid}."


def goes_on(terminal: TrackedTerminal) -> str:
    """Say that a command goes on on its terminal, since it waits for input."""
    return f"Not ended: it goes on as terminal {terminal.id}. Do not run it again."


def typed(terminal: TrackedTerminal, characters: int, keys: Sequence[str]) -> str:
    """Say what was typed."""
    what = [] if not characters else [f"{characters:,} {'character' if characters == 1 else 'characters'}"]
    if len(keys) == 1:
        what.append(f"the key {visible(keys[0])}")
    elif keys:
        what.append(f"{len(keys)} keys")
    return f"Typed on terminal {terminal.id}: {' and '.join(what)}."


def unasked() -> str:
    """Say that a program did not wait for what it was sent."""
    return "It did not wait for input at that moment: it may read that later, or take it for something else."


def secret(terminal: TrackedTerminal, *, echo: bool, empty: bool) -> str:
    """Say that a secret was typed."""
    if empty:
        return f"An empty secret was given for terminal {terminal.id}: Enter was typed, and nothing else."
    message = f"A secret was typed on terminal {terminal.id}, and Enter. You do not see it"
    return (
        f"{message}; the terminal was set to show what is typed, so it is masked." if echo else f"{message}."
    )


def no_secret(terminal: TrackedTerminal) -> str:
    """Say that no secret was given."""
    return (
        f"Nothing was typed: no secret was given for terminal {terminal.id}. Do not ask again and again: do without, close it, "
        "or tell the user."
    )


def no_source(kind: str) -> str:
    """Say that the source of a secret has failed."""
    return f"Nothing was typed: the source of the secret failed ({visible(kind)}). Tell the user."


def changed(before: str | None, now: str | None) -> str:
    """Say that nothing was typed because another program may read it."""
    others = "another run of the same" if before == now else now or "no program that is known"
    return (
        f"Nothing was typed: it was meant for {before or 'a program that is not known'}, and now {others} may read it. "
        "Look at what is shown, and decide anew."
    )


def asked_anew(line: str) -> str:
    """Say that nothing was typed because something else may be asked."""
    now = (
        f"the line of the cursor is: {visible(line[-SHOWN_LINE:])}"
        if line
        else "the line of the cursor is blank."
    )
    return (
        "Nothing was typed: after that was asked about, something else was printed or typed on the terminal, and so it may "
        f"mean something else; now {now} Look at what is shown, and decide anew."
    )


def closed(terminal: TrackedTerminal, *, before: bool) -> str:
    """Say that a terminal was closed.

    Args:
        terminal: The terminal.
        before: Whether it had ended before.
    """
    outcome = terminal.outcome
    if before and (outcome is None or outcome.status == "lost"):
        return f"Nothing could be done: terminal {terminal.id} {ended(outcome)}. Tell the user."
    if before:
        return f"Nothing was to be done: it is over. Terminal {terminal.id} {ended(outcome)}."
    if outcome is None or outcome.status == "lost":
        return f"Terminal {terminal.id} could not be seen to end: the host went away, or something of it still lives. Tell the user."
    if outcome.status != "cancelled":
        return f"Before it could be closed, terminal {terminal.id} {ended(outcome)}."
    return f"Terminal {terminal.id} is closed: its program was ended, with everything that it started."


def not_found(waited: float) -> str:
    """Say that what was waited for, so many seconds, did not come."""
    return (
        f"What was waited for did not come in {exact(waited)} s. It is looked for in what is printed after the last "
        "result."
    )


def over(terminal: TrackedTerminal) -> str:
    """Say that what would be typed has no reader."""
    return f"Nothing was typed: terminal {terminal.id} {ended(terminal.outcome, by_person=terminal.stopped_by_person)}. It reads nothing more."


def failed_typing(problem: str) -> str:
    """Say that not all could be typed."""
    return f"Not all was typed: {visible(problem).rstrip('.')}. Look at what is shown before typing any of it again."


def untyped(problem: str) -> str:
    """Say that nothing could be typed."""
    return f"Nothing was typed: {visible(problem).rstrip('.')}."


def clamped(requested: float, waited: float) -> str:
    """Say that it was not waited for so long."""
    return f"One call waits {exact(waited)} s at most, not {exact(requested)} s."


def without(reason: str) -> str:
    """Say that a command had no terminal."""
    return (
        f"It ran without a terminal: {visible(reason).rstrip('.')}. If it wanted one, say everything in its options or in "
        "stdin instead."
    )


def none_here(reason: str) -> str:
    """Say that a terminal cannot be had."""
    return (
        f"Nothing ran: {visible(reason).rstrip('.')}. Use the tool shell, without pty, and say everything in options or in "
        "stdin."
    )


def apart() -> str:
    """Say that a command with a terminal did not run in the session's shell."""
    return "It has a shell of its own: the shell of the session is as it was."
