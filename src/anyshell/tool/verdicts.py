"""The verdict of a policy on a call, with the facts of the host that it needs."""

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
"""Questions to a host in one round of a decision by SSH; what more is asked is not known."""

MOST_CHANGES = 1000
"""Commands of a session that may have changed what names mean there, and that are told apart; of more, the first is forgotten."""

LONGEST_ANSWERS = 1024 * 1024
"""Bytes of a host's answers to the questions of one round; of longer ones, none is known."""

# One question a pair of arguments, one answer each: its length is the caller's, so a NUL ends it. A path that does not exist is
# resolved as far as it does.
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
    """The value of an answer to `_ASKED`."""
    if kind == "find":
        return answer.rstrip("\n")
    if kind == "names" and answer:
        return tuple(f"{name[:-1]}/" if name[-1] == ":" else name for name in answer.split("/")[1:-1])
    return answer or None


class Verdicts:
    """Decides on the commands of one tool.

    Args:
        policy: Decides on the text.
        env: The environment of the commands.
    """

    def __init__(self, policy: Policy, env: Environment) -> None:
        self._policy = policy
        self._env = env
        self._parser: PowerShellParser | None = None  # of the host, for texts of PowerShell
        self._changes: dict[
            str, None
        ] = {}  # digests of commands that may have changed what names mean, as they ran
        self._clear = True  # whether the text last asked about, in a session whose calls take turns, is understood by itself

    @property
    def rules(self) -> str:
        """The file that an answer for always is written to; empty if there is none."""
        return self._policy.file

    def reaches(self, name: str, port: int) -> bool:
        """Whether the rules have a destination for every reach with names."""
        return bool(self._policy.destinations) and Names(self._policy.destinations).allow(name, port)

    def gives(self, request: CommandRequest) -> bool:
        """Whether the rules have what a command asks for beyond its reach; never what is hidden."""
        given = {(kind, path) for host, kind, path in self._policy.places if host in ("", request.host)}
        wanted = [("write", path) for path in request.also_write]
        wanted += [("read", path) for path in request.also_read]
        return not request.hidden and given.issuperset(wanted)

    async def decide(self, request: CommandRequest) -> Verdict:
        """Decide on a command, and ask the host what has to be known of it for that."""
        verdict = await self._decided(request)
        if request.session:
            self._clear = verdict.understood
        doubts = [Reason(text=text, action="ask", rule="", span=(0, 0)) for text in self._doubts(request)]
        if not doubts:
            return verdict
        if verdict.action == "allow":
            verdict = replace(verdict, action="ask", reasons=())
        # A text that is not understood is covered by no grant.
        return replace(verdict, understood=False, reasons=(*verdict.reasons, *doubts))

    def ran(self, request: CommandRequest) -> None:
        """Take note of what runs in the session now."""
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
        """The state that decides what a text of the session means: an approval holds only while it is the same."""
        anew = not request.session or request.fresh or request.restart
        return () if anew else tuple(self._changes)

    def _doubts(self, request: CommandRequest) -> Sequence[str]:
        """Why a text does not say by itself what runs."""
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
        """The text; for PowerShell as the host's own parser has it."""
        if request.shell.kind not in POWERSHELL:
            return request.text
        if self._parser is None:
            from .powershell import PowerShellParser

            self._parser = PowerShellParser(self._env, request.shell)
        return await self._parser.parse(request.text)

    async def aclose(self) -> None:
        """Have the host parse no more."""
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
        """Have the host answer questions; what it does not tell in time is not known."""
        unknown = dict.fromkeys(questions)
        if self._env.info.os == "windows":
            # PowerShell does not know which program another shell there finds.
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
        """Have PowerShell answer: what makes git run programs there is not known."""
        asked = [question for question in questions if question[0] != "git_runs"]
        answers = await powershell.tell([word for question in asked for word in question]) if asked else []
        known = {
            question: None if answer is None else _value_of(question[0], answer)
            for question, answer in zip(asked, answers, strict=True)
        }
        return {**dict.fromkeys(questions), **known}

    async def _answer(self, words: tuple[str, ...]) -> bytes | None:
        """The output of a program of anyshell's own on the host; ``None`` if it is too long or too late."""
        try:
            # Bounded already, and the start with it.
            status, out, _ = await collect(
                self._env.runner.backend,
                Spawn(argv=("/bin/sh", *words), cwd="/"),
                seconds=HOST_BOUND,
                most=LONGEST_ANSWERS,
            )
        except (OSError, AnyshellError):
            return None
        return None if status is None else out
