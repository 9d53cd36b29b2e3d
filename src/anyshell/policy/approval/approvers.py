"""The approvers that are part of anyshell: approve all, deny all, and ask a person on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._types import (
    Approved,
    CommandRequest,
    JobInputRequest,
    NetworkRequest,
    ReachRequest,
    Refused,
    SecretInputRequest,
    TerminalInputRequest,
)
from ..characters import visible
from .asking import require_question
from .display import folded, shortened
from .grants import can_be_saved, grants, is_given_more, label

if TYPE_CHECKING:
    from ..._types import ApprovalRequest, Grant
    from ..._types.approval import Scope
    from ...abc import Approver


async def approve_all(request: ApprovalRequest) -> Approved | Refused:
    """Approve every command. Use this approver if the decision is made elsewhere, such as by a container around all commands.

    A reach is also a decision, and stays unchanged: a `NetworkRequest` and a `ReachRequest` are refused.

    Raises:
        AnyshellError: The caller is not a tool that asks a question.
    """
    require_question("approve_all")
    if isinstance(request, NetworkRequest | ReachRequest):
        return Refused("it is outside the reach, and no approval widens that", by="policy")
    return Approved()


async def deny_all(request: ApprovalRequest) -> Refused:
    """Refuse every command.

    Raises:
        AnyshellError: The caller is not a tool that asks a question.
    """
    require_question("deny_all")
    return Refused("no command may be run here", by="policy")


yolo = approve_all
"""The name of `approve_all` in other agents."""


async def ask_on_terminal(request: ApprovalRequest) -> Approved | Refused:
    """Show a request on the controlling terminal and let the person there answer.

    The function opens the terminal anew, so neither stdin nor stdout is touched. Text typed before the question is not
    taken as an answer. The terminal shows one question at a time. Without a terminal, or if this program is not in the
    terminal's foreground, the answer is no. The function never blocks the event loop, and leaves nothing behind when it is
    cancelled. Lines longer than the width of the terminal are folded; every continuation row begins with ``  : ``. The
    middle of a long command is shown on request.

    Raises:
        AnyshellError: The caller is not a tool that asks a question.
    """
    require_question("ask_on_terminal")
    from ._terminal import NoTerminal, one_terminal

    choice = _Choice(request)
    try:
        async with one_terminal() as terminal:
            await terminal.write(f"\n{folded(choice.shown, terminal.columns())}\n")
            while True:
                await terminal.write(choice.question)
                line = await terminal.read_line()
                answer = choice.answer(line)
                if isinstance(answer, Approved) and answer.grants:
                    terminal.mention(f"(granted: {_named(answer.grants)})\n")
                if answer is not None:
                    return answer
                told = request.display if line is not None and line.strip() == "e" else choice.help
                await terminal.write(f"{folded(told, terminal.columns())}\n")
    except NoTerminal as error:
        return Refused(f"approval cannot be asked for: {error}", by="unanswered")


class _Choice:
    """The choices of a person who answers a request on a terminal."""

    def __init__(self, request: ApprovalRequest) -> None:
        self._verdict = request.verdict if isinstance(request, CommandRequest) else None
        self._grants = grants(self._verdict)
        rules = request.rules if isinstance(request, CommandRequest) and not is_given_more(request) else ""
        self._saved = bool(rules and self._grants) and all(map(can_be_saved, self._grants))
        if isinstance(request, NetworkRequest | ReachRequest):
            rules = "" if isinstance(request, ReachRequest) and request.hidden else request.rules
            self._saved = bool(rules)
        self.shown = shortened(request.display)
        is_cut = self.shown != request.display
        verb, more = words_of(request)
        if self._grants:
            more = "to these commands"
            self.shown += f"\nCommands for a{' and A' * self._saved}: {_named(self._grants)}"
        self.help = "\n".join(
            (
                "  y = yes, this once",
                f"  a = yes for this session {more}, where this runs"
                if self._grants
                else f"  a = yes for this session {more}",
                *["  a 1 = to all that begin with the first word, a 2 with the first two ..."]
                * bool(self._grants),
                *[
                    f"  A{', A 1 ...' * bool(self._grants)} = the same for always, in every directory: it is written to {visible(rules)}"
                ]
                * self._saved,
                "  n, n REASON = no; the reason is told to the model",
                "  e = show everything",
            )
        )
        # Only keys with an effect are offered: no A if the answer cannot be written to a file.
        keys = [
            "y = yes",
            f"a = yes for this session {more}",
            *["A = always"] * self._saved,
            "n [REASON] = no",
        ]
        keys += [*["e = show everything"] * is_cut, "? = help"]
        self.question = f"{verb} this? {', '.join(keys)}: "

    def answer(self, line: str | None) -> Approved | Refused | None:
        """Return the answer in a typed line; ``None`` if the line contains no answer."""
        if line is None:
            return Refused("the terminal was closed without an answer", by="unanswered")
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if word.lower() in ("y", "yes") and not rest:
            return Approved()
        if word.lower() in ("n", "no"):
            return Refused(rest)
        if word == "a":
            return self._lasting("session", rest)
        if word == "A" and self._saved:
            return self._lasting("always", rest)
        return None

    def _lasting(self, scope: Scope, words: str) -> Approved | None:
        if not words:
            return Approved(scope=scope, grants=self._grants)
        if not self._grants or not (words.isascii() and words.isdigit()) or int(words) < 1:
            return None
        return Approved(scope=scope, grants=grants(self._verdict, words=int(words)))


def _named(given: tuple[Grant, ...]) -> str:
    return ", ".join(map(label, given))


def words_of(request: ApprovalRequest) -> tuple[str, str]:
    """Return the verb of a request, and the words for an approval for the session without grants."""
    match request:
        case CommandRequest():
            return "Run", "to exactly this"
        case ReachRequest():
            return "Run", "to these paths, for every command that asks for them"
        case JobInputRequest():
            return "Send", "to exactly this"
        case TerminalInputRequest():
            return "Type", "to whatever is typed on this terminal"
        case SecretInputRequest():
            return "Type", "to secrets on this terminal"
        case NetworkRequest():
            return "Connect", "to this name and port"


_: tuple[Approver, ...] = (approve_all, deny_all, ask_on_terminal)
