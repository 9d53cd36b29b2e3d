"""The verdict of a policy on a call, with the facts of the host that the policy needs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError
from .._types import Names, Spawn
from .._waits import in_a_thread
from ..backends.collect import collect
from ..policy.approval.grants import is_given_more
from ..policy.rules import ROUNDS, Answers, LocalFacts, Reason
from ..policy.rules.cmdlets import POWERSHELL
from .git import RESOLVE, git_runs
from .host import HOST_BOUND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._environment import Environment
    from .._types import CommandRequest
    from ..policy.parse import Parsed
    from ..policy.rules import HostFacts, Policy, Verdict
    from ..policy.rules.facts import Question
    from .powershell import PowerShellParser

MOST_QUESTIONS = 200
"""Questions to a host in one round of a decision over SSH; further questions get no answer in that round."""

MOST_CHANGES = 1000
"""Commands of a session that may have changed the meaning of names there; beyond that the oldest is forgotten."""

LONGEST_ANSWERS = 1024 * 1024
"""Bytes of a host's answers to the questions of one round; of longer answers, none counts."""

# Each pair of arguments is one question with one answer. A NUL ends each answer, since an answer can hold any other byte.
# A path that does not exist is resolved up to its last existing part.
_ASKED = (
    RESOLVE
    + r"""
while [ $# -ge 2 ]; do
  case $1 in
  home) printf %s "${HOME-}" ;;
  find)
    case $2 in
    *.ps1) (IFS=:; set -f; for d in $PATH; do [ ! -e "$d/$2" ] || { printf %s "$d/$2"; break; }; done) ;;
    *) case $(command -v -- "$2") in /*) command -v -- "$2" ;; esac ;;
    esac ;;
  resolve)
    resolve "$2"
    printf %s "$r" ;;
  names)
    if (cd -- "$2") 2>/dev/null; then (
      cd -- "$2" && printf ' /'
      for n in .* *; do
        case $n in .|..) continue ;; esac
        if [ -L "$n" ]; then printf '%s@/' "$n"
        elif [ -d "$n" ]; then printf '%s:/' "$n"
        elif [ -e "$n" ]; then printf '%s /' "$n"
        fi
      done)
    elif [ ! -e "$2" ] && [ ! -L "$2" ] || [ -f "$2" ]; then printf ' /'
    fi ;;
  esac
  printf '\0'
  shift 2
done
"""
)


def _value_of(kind: str, answer: str) -> str | tuple[str, ...] | None:
    """Return the value of an answer to `_ASKED`; ``None`` for an empty answer of most kinds."""
    if kind == "find":
        return answer.rstrip("\n")
    if kind == "names" and answer:
        return tuple(f"{name[:-1]}/" if name[-1] == ":" else name for name in answer.split("/")[1:-1])
    return answer or None


class Verdicts:
    """The verdicts of a policy on the commands of one tool.

    Args:
        policy: The policy.
        env: The environment of the commands.
    """

    def __init__(self, policy: Policy, env: Environment) -> None:
        self._policy = policy
        self._env = env
        self._parser: PowerShellParser | None = None  # the host's own parser, for texts of PowerShell
        self._changes: dict[
            str, None
        ] = {}  # digests of commands that may have changed the meaning of names, in the order of their runs
        self._clear = True  # whether the session's last decided text is understood; its calls take turns, so one flag suffices

    @property
    def rules(self) -> str:
        """The file to which an answer for always is written; empty without a file."""
        return self._policy.file

    def reaches(self, name: str, port: int) -> bool:
        """Whether the rules grant a destination to every command whose reach has names of hosts."""
        return bool(self._policy.destinations) and Names(self._policy.destinations).allow(name, port)

    def gives(self, request: CommandRequest) -> bool:
        """Whether the rules grant all paths that a command asks for beyond its reach; never for hidden paths."""
        given = {(kind, path) for host, kind, path in self._policy.places if host in ("", request.host)}
        wanted = [("write", path) for path in request.also_write]
        wanted += [("read", path) for path in request.also_read]
        return not request.hidden and given.issuperset(wanted)

    async def decide(self, request: CommandRequest) -> Verdict:
        """Decide on a command, and ask the host for the facts that the decision needs."""
        verdict = await self._decided(request)
        if request.session:
            self._clear = verdict.understood
        doubts = [Reason(text=text, action="ask", rule="", span=(0, 0)) for text in self._doubts(request)]
        if not doubts:
            return verdict
        if verdict.action == "allow":
            verdict = replace(verdict, action="ask", reasons=())
        # No grant covers a text that is not understood.
        return replace(verdict, understood=False, reasons=(*verdict.reasons, *doubts))

    def ran(self, request: CommandRequest) -> None:
        """Record an approved command of the session if the command may change the meaning of names."""
        verdict = request.verdict
        if request.session and verdict is not None:
            fresh = request.fresh or request.restart
            if fresh:
                self._changes.clear()
            if not self._clear or any(each.command.defines for each in verdict.commands):
                change = hashlib.sha256(request.text.encode(errors="surrogatepass")).hexdigest()
                self._changes.pop(change, None)
                if len(self._changes) >= MOST_CHANGES:
                    del self._changes[next(iter(self._changes))]
                self._changes[change] = None

    def state(self, request: CommandRequest) -> tuple[str, ...]:
        """Return the state that decides a session text's meaning; an approval holds only while the state is the same."""
        anew = not request.session or request.fresh or request.restart
        return () if anew else tuple(self._changes)

    def _doubts(self, request: CommandRequest) -> Sequence[str]:
        """Return the reasons why a text may run other programs than the text says."""
        from ..policy.parse.dynamic import variable

        doubts = [
            f"the variable {name} may change what runs"
            for name, _ in request.env
            if variable(name, request.shell.kind)
        ]
        if request.prefix is not None:
            doubts.append("it runs behind a prefix, where files and programs may be others")
        if request.snapshot is not None:
            doubts.append("the user's own aliases and functions may change what its words mean")
        if self.state(request):
            doubts.append("an earlier command of the session may have changed what its words mean")
        return doubts

    async def _decided(self, request: CommandRequest) -> Verdict:
        parsed = await self._parsed(request)
        if self._env.info.is_this_machine:
            facts = LocalFacts()
            return await in_a_thread(lambda: self._verdict(request, parsed, facts))
        known: dict[Question, str | tuple[str, ...] | None] = {}
        for _ in range(ROUNDS):
            answers = Answers(known)
            verdict = self._verdict(request, parsed, answers)
            if not answers.questions:
                return verdict
            known |= await self._ask(answers.questions[:MOST_QUESTIONS])
        return self._verdict(request, parsed, Answers(known))

    async def _parsed(self, request: CommandRequest) -> str | Parsed:
        """Return the text; for PowerShell the result of the host's own parser."""
        if request.shell.kind not in POWERSHELL:
            return request.text
        if self._parser is None:
            from .powershell import PowerShellParser

            self._parser = PowerShellParser(self._env, request.shell)
        return await self._parser.parse(request.text)

    async def aclose(self) -> None:
        """Close the host's parser."""
        if self._parser is not None:
            await self._parser.aclose()

    def _verdict(self, request: CommandRequest, parsed: str | Parsed, facts: HostFacts) -> Verdict:
        return self._policy.decide(
            parsed,
            shell=request.shell.kind,
            cwd=request.directory,
            workspace=self._env.directory,
            facts=facts,
            given=is_given_more(request),
        )

    async def _ask(self, questions: Sequence[Question]) -> Mapping[Question, str | tuple[str, ...] | None]:
        """Ask the host questions; an answer that does not come in time is ``None``."""
        unknown = dict.fromkeys(questions)
        if self._env.info.os == "windows":
            # Without a PowerShell parser the command's shell is another one, and PowerShell cannot tell what that shell finds.
            return unknown if self._parser is None else await self._ask_windows(self._parser, questions)
        about_git = [question for question in questions if question[0] == "git_runs"]
        known = {question: await git_runs(question[1], self._answer) for question in about_git}
        asked = [question for question in questions if question not in known]
        words = tuple(word for question in asked for word in question)
        out = await self._answer(("-c", _ASKED, "sh", *words)) if asked else b""
        answers = [] if out is None else out.decode("utf-8", "surrogateescape").split("\0")[:-1]
        if len(answers) != len(asked):
            return unknown | known
        told = {
            question: _value_of(question[0], answer) for question, answer in zip(asked, answers, strict=True)
        }
        return unknown | known | told

    async def _ask_windows(
        self, powershell: PowerShellParser, questions: Sequence[Question]
    ) -> Mapping[Question, str | tuple[str, ...] | None]:
        """Ask PowerShell the questions; the keys by which git runs programs stay unknown."""
        asked = [question for question in questions if question[0] != "git_runs"]
        answers = await powershell.tell([word for question in asked for word in question]) if asked else []
        known = {
            question: None if answer is None else _value_of(question[0], answer)
            for question, answer in zip(asked, answers, strict=True)
        }
        return {**dict.fromkeys(questions), **known}

    async def _answer(self, words: tuple[str, ...]) -> bytes | None:
        """Return the output of anyshell's own program on the host; ``None`` on failure, or if the output is too long or late."""
        try:
            # `collect` bounds the whole run, including the start.
            status, out, _ = await collect(
                self._env.runner.backend,
                Spawn(argv=("/bin/sh", *words), cwd="/"),
                seconds=HOST_BOUND,
                most=LONGEST_ANSWERS,
            )
        except (OSError, AnyshellError):
            return None
        return None if status is None else out
