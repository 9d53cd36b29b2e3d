"""What a tool asks its approver, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shell import ShellInfo
    from .terminal import Terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """Everything that decides what runs, for the approver. Two equal requests do the same.

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
        prefix: Words that stand before the shell; ``None`` is no prefix.
        snapshot: The file on the host that the shell reads first: the user's own set-up; ``None`` is no snapshot.
        original: The command before it was rewritten; ``None`` when it was not.
        session: Whether it runs in a shell that earlier commands have used, and that later ones will use.
        fresh: Whether that shell is a fresh one, because it is the first, the one before has ended, or a restart is
            asked for.
        restart: Whether the one before is ended for that, with what it runs.
        background: Whether it runs on as a job while the model does something else.
        job: The id of the running job that `stdin` is sent to; ``None`` when `text` is to be run.
        size: The terminal that it is to run on; ``None`` is no terminal.
        terminal: The id of the running terminal that is typed on; ``None`` when `text` is to be run.
        program: Of that, the names of the programs that are in its foreground, and so may read what is typed, with a
            comma between them; ``None`` when that is not known. If another may read when it is approved, nothing is
            typed.
        prompt: Of that, the end of the line that the cursor is in: the question, as a rule. It is the program's own words,
            and may lie. If the program waited for input then, and something was printed or typed on the terminal when
            it is approved, nothing is typed; see "Decide what may run" for what draws by itself.
        typed: Of that, the text that is typed.
        keys: Of that, the names of the keys that are pressed after the text.
        secret: Of that, whether a secret is typed, with Enter: the value comes from elsewhere and is not shown.
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
