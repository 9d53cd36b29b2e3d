"""The requests of a tool to its approver, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .effects import Effects
    from .shell import ShellInfo
    from .terminal import Terminal
    from .verdict import CommandVerdict, Verdict

Scope = Literal["once", "session", "always"]
"""The scope of an approval: one question, the life of the tool that asked, or every later tool too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The fields that all requests for approval share.

    Attributes:
        text: The command, exactly as it runs.
        shell: The shell that reads it.
        host: The host that it runs on.
        directory: The directory in which it starts; absolute. A link in it is not resolved.
        prefix: Words that stand before the shell; ``None`` is no prefix.
        snapshot: The file on the host that the shell reads first: the user's own set-up; ``None`` is no snapshot.
        description: The model's own few words about the command, for people. Says nothing about what runs.
        display: All of the request, as text that is safe to print: control, bidirectional and invisible
            characters are shown as escapes, long runs of spaces by their count, and a line that holds
            right-to-left letters is followed by one that says so. Its lines are as long as those of the
            command; what folds them should mark the rows that continue one, as `ask_on_terminal` does. The tool
            fills it in when it asks.
        call_id: The id of the tool's call that asks, for `ShellTool.cancel`. Says nothing about what runs.
        tool: The name of the tool that asks.
        arguments: The arguments of the model, as they are: not safe to print. Says nothing about what runs.
    """

    text: str
    shell: ShellInfo
    host: str
    directory: str
    prefix: str | None = None
    snapshot: str | None = None
    description: str = field(default="", compare=False)
    display: str = field(default="", compare=False, repr=False)
    call_id: str = field(default="", compare=False)
    tool: str = field(default="", compare=False)
    arguments: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRequest(_Request):
    """The common part of requests for a command that has not run yet.

    In a session, two equal requests do the same only as far as what earlier commands have set up there allows: a
    function may have been given the name of a program meanwhile.

    Attributes:
        env: The variables that the request itself adds. A rewritten command has OLDPWD among them.
        stdin: The input of the command, and then the end of its input. ``None`` is nothing; a job's input stays open
            then, and a terminal's always does: what goes there later is another request.
        timeout: Seconds after which it is stopped; ``None`` is no bound.
        original: The command before it was rewritten; ``None`` when it was not.
        session: Whether it runs in a shell that earlier commands have used, and that later ones will use. Never true of
            a job, nor on a terminal.
        fresh: Whether that shell is a fresh one, because it is the first, the one before has ended, or a restart is
            asked for.
        restart: Whether the one before is ended for that, with what it runs.
        background: Whether it runs on as a job while the model does something else.
        size: The terminal that it is to run on; ``None`` is no terminal.
        verdict: The verdict of a policy on `text`; ``None`` without a policy. Says nothing about what runs.
        rules: The file that an answer for always is written to; empty if it holds for the session alone. Says nothing about
            what runs, as `verdict`.
        effects: The effects that it would have on files, as a trial has shown, with a diff; ``None`` without ``approve="effects"``. It has run
            then, and what it wrote becomes real by the approval.
        also_write: Paths beyond its reach that it may write; absolute, and no link is followed.
        also_read: The paths that it may read.
        protected: The paths of `also_write` that the reach keeps as they are, since other programs take commands from them.
        hidden: The paths of both that the reach hides.
    """

    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    stdin: bytes | None = field(default=None, repr=False)
    timeout: float | None = None
    original: str | None = None
    session: bool = False
    fresh: bool = False
    restart: bool = False
    background: bool = False
    size: Terminal | None = None
    verdict: Verdict | None = field(default=None, compare=False, repr=False)
    rules: str = field(default="", compare=False, repr=False)
    effects: Effects | None = field(default=None, compare=False, repr=False)
    also_write: tuple[str, ...] = ()
    also_read: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest(_RunRequest):
    """A command that is to run: in a fresh shell, in a session, as a job or on a terminal. `text` has not run yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachRequest(_RunRequest):
    """A command that is to run with more than its reach: a `CommandRequest` whose `also_write` and `also_read` are not granted yet.

    An approval is one of the command, too. No policy gives one, but a rule for always of a person's.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInputRequest(_Request):
    """Input that is to be sent to a running job. Nothing is started: `text` is the command of the job.

    Attributes:
        job: The id of the job.
        stdin: The input that is sent, byte for byte. To a job that is a shell, it is a command.
        end_of_input: Whether the input of the job ends after it.
    """

    job: str
    stdin: bytes = field(repr=False)
    end_of_input: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _TypingRequest(_Request):
    """A request to type on a running terminal. Nothing is started: `text` is the command of the terminal.

    Attributes:
        terminal: The id of the terminal.
        program: The names of the programs that are in its foreground, and so may read what is typed, with a
            comma between them; ``None`` when that is not known. If another may read when it is approved, nothing is
            typed.
        prompt: The end of the line that the cursor is in: the question, as a rule. It is the program's own words,
            and may lie. If the program waited for input then, and something was printed or typed on the terminal when
            it is approved, nothing is typed; see "Decide what may run" for what draws by itself.
    """

    terminal: str
    program: str | None = None
    prompt: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalInputRequest(_TypingRequest):
    """Text and keys that are to be typed on a running terminal.

    Attributes:
        typed: The text.
        keys: The names of the keys that are pressed after the text.
    """

    typed: str = field(default="", repr=False)
    keys: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInputRequest(_TypingRequest):
    """A secret that is to be typed on a running terminal, with Enter.

    The secret is in no field: it is asked for elsewhere, after the approval, as a `SecretRequest`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest(_Request):
    """A connection that a running command asks for and its reach does not have. Nothing is started: `text` is that command.

    The command waits for the answer, and its clock runs meanwhile.

    Attributes:
        name: The name of the host, in lower case.
        port: The port there.
        rules: As `CommandRequest.rules`.
    """

    name: str
    port: int
    rules: str = field(default="", compare=False, repr=False)


ApprovalRequest = (
    CommandRequest
    | ReachRequest
    | JobInputRequest
    | TerminalInputRequest
    | SecretInputRequest
    | NetworkRequest
)
"""Everything that decides what is done, for the approver. Two equal requests do the same; two of different types are never equal."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A kind of command that is approved: `policy.grants` makes those of a verdict.

    It covers a command that begins with the same words, and that has and touches nothing else than the one that was
    seen: wrappers, variables, redirections, and paths read, written and deleted, hosts, and rules that ask.

    Attributes:
        words: The program, and the literal arguments that a command begins with.
        seen: The command that was asked about.
        exact: Whether no other argument may follow.
    """

    words: tuple[str, ...]
    seen: CommandVerdict = field(repr=False)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Approved:
    """Run it.

    Attributes:
        always: Whether later requests are approved as well: ``Approved(always=True)`` is ``Approved(scope="session")``.
        scope: The validity. ``once``: this request alone, in each call that waits for the same answer. ``session``: also every
            later request that is identical, or that `grants` cover, for the lifetime of the tool that asked. ``always``:
            `grants` are also written to the user's rules. Of what is typed on a terminal, ``session`` is whatever is to
            be typed on this one later, whatever runs in its foreground then; a secret only if this is one. Of a connection,
            ``once`` is every one to this name and port by this command, ``session`` by every later one, and ``always`` is
            written to the user's rules. Of more than a reach, ``session`` and ``always`` are these paths for every later
            command that asks for them; what is hidden for the session at most.
        grants: Kinds of commands that are approved as well.
    """

    always: bool = False
    scope: Scope = field(default="once", kw_only=True)
    grants: tuple[Grant, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.always is True and self.scope == "once":
            object.__setattr__(self, "scope", "session")
        object.__setattr__(self, "always", self.scope != "once")


@dataclass(frozen=True, slots=True)
class Refused:
    """Do not run it.

    Attributes:
        reason: The words of the approver, which the model is told.
        by: The source of the refusal: the ``user`` or a ``policy``; or why no answer came: it is ``unanswered``, or a ``failure`` of
            the approver.
    """

    reason: str = ""
    by: Literal["user", "policy", "unanswered", "failure"] = "user"
