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
        shell: The shell that reads the command.
        host: The host that the command runs on.
        directory: The working directory at the command's start; absolute. Links in the path are not resolved.
        prefix: Words that stand before the shell; ``None`` means no prefix.
        snapshot: The file on the host that the shell reads first: the user's own set-up; ``None`` means no snapshot.
        description: The model's own few words about the command, for people. Does not determine what runs.
        display: The whole request as text that is safe to print. Control, bidirectional and invisible characters are shown
            as escapes, and a long run of spaces by its count. A line with right-to-left letters is followed by a line
            that says so. Lines are as long as those of the command; code that wraps a line should mark the
            continuation rows, as `ask_on_terminal` does. The tool sets `display` when it asks.
        call_id: The id of the tool's call that asks, for `ShellTool.cancel`. Does not determine what runs.
        tool: The name of the tool that asks.
        arguments: The model's arguments, unchanged: not safe to print. Does not determine what runs.
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

    In a session, two equal requests may differ in effect, since earlier commands change the session: a function may have
    got the name of a program meanwhile.

    Attributes:
        env: The variables that the request itself adds. A rewritten command has OLDPWD among them.
        stdin: The input of the command, followed by end-of-file; ``None`` means no input. With ``None`` a job's input stays open,
            and a terminal's input always does: later input is another request.
        timeout: Seconds after which the command is stopped; ``None`` means no bound.
        original: The command before a rewrite; ``None`` without a rewrite.
        session: Whether the command runs in a shell that earlier commands have used, and that later commands will use.
            Never true of a job, nor on a terminal.
        fresh: Whether the session's shell is a fresh one: the first shell, a replacement for a shell that has ended, or the
            result of a requested restart.
        restart: Whether the former shell is ended for a restart, with the processes that it runs.
        background: Whether the command runs as a job while the model does something else.
        size: The terminal that the command runs on; ``None`` means no terminal.
        verdict: The verdict of a policy on `text`; ``None`` without a policy. Does not determine what runs.
        rules: The file that an approval for always is written to; empty if an approval holds for the session alone.
            Does not determine what runs.
        effects: The command's effects on files in a trial, with a diff; ``None`` without ``approve="effects"``. The
            command has already run in the trial, and the approval makes its file changes real.
        also_write: Paths beyond the reach that the command may write; absolute, and no link is followed.
        also_read: Paths beyond the reach that the command may read.
        protected: The paths of `also_write` that the reach protects, since other programs take commands from them.
        hidden: The paths of `also_write` and `also_read` that the reach hides.
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
    """A request to run a command: in a fresh shell, in a session, as a job or on a terminal. `text` has not run yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachRequest(_RunRequest):
    """A request to run a command with more than its reach: `also_write` and `also_read` are not granted yet.

    An approval also approves the command itself. No policy approves this request, except by a rule that a person has added
    for always.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInputRequest(_Request):
    """A request to send input to a running job. Nothing is started: `text` is the command of the job.

    Attributes:
        job: The id of the job.
        stdin: The input, byte for byte. A job that is a shell runs the input as a command.
        end_of_input: Whether the job's input ends after `stdin`.
    """

    job: str
    stdin: bytes = field(repr=False)
    end_of_input: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _TypingRequest(_Request):
    """A request to type on a running terminal. Nothing is started: `text` is the command of the terminal.

    Attributes:
        terminal: The id of the terminal.
        program: The names of the foreground programs, which may read the typed input, with a comma between the names;
            ``None`` when unknown. If another program may read by the time of the approval, nothing is typed.
        prompt: The end of the line that the cursor is in: the question, as a rule. The words are the program's own, and may
            lie. If the program waited for input, and something was printed or typed on the terminal before the
            approval, nothing is typed; see "Decide what may run" for programs that draw by themselves.
    """

    terminal: str
    program: str | None = None
    prompt: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalInputRequest(_TypingRequest):
    """A request to type text and keys on a running terminal.

    Attributes:
        typed: The text.
        keys: The names of the keys that are pressed after the text.
    """

    typed: str = field(default="", repr=False)
    keys: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInputRequest(_TypingRequest):
    """A request to type a secret on a running terminal, followed by Enter.

    No field has the secret: a `SecretRequest` asks for the secret elsewhere, after the approval.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest(_Request):
    """A request of a running command for a connection beyond its reach. Nothing is started: `text` is that command.

    The command waits for the answer, and its clock runs meanwhile.

    Attributes:
        name: The name of the host, in lower case.
        port: The port on that host.
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
"""The request for an approver, with every field that decides the effect. Equal requests have the same effect and type."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An approved kind of command. `policy.grants` makes the grants of a verdict.

    A grant covers a command that begins with the same words, and that has nothing beyond the command that was seen: no
    other wrappers, variables or redirections, no other paths read, written or deleted, no other hosts, and no other rules
    that ask.

    Attributes:
        words: The program, and the literal arguments that a command begins with.
        seen: The verdict on the command that was asked about.
        exact: Whether no other argument may follow.
    """

    words: tuple[str, ...]
    seen: CommandVerdict = field(repr=False)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Approved:
    """The approver's answer that the request is approved.

    Attributes:
        always: Whether later requests are approved as well: ``Approved(always=True)`` is ``Approved(scope="session")``.
        scope: The validity. ``once``: this request alone, in each call that waits for the same answer. ``session``: also every
            later request that is identical, or that `grants` cover, for the lifetime of the tool that asked. ``always``:
            `grants` are also written to the user's rules.
            For input typed on a terminal, ``session`` approves any later input on this terminal, whatever program is in the
            foreground; later secrets only if this input is a secret. For a connection, ``once`` approves every connection
            of this command to this name and port; ``session`` also those of later commands; ``always`` is written to the
            user's rules. For more than a reach, ``session`` and ``always`` approve the paths of this request for every
            later command that asks for one of them; hidden paths at most for the session.
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
    """The approver's answer that the request is refused.

    Attributes:
        reason: The words of the approver, which the model is told.
        by: The source of the refusal: the ``user`` or a ``policy``; or why no answer came: ``unanswered``, or a ``failure`` of
            the approver.
    """

    reason: str = ""
    by: Literal["user", "policy", "unanswered", "failure"] = "user"
