"""Grants: an answer's approval of a kind of command beyond the request, by the command's words and effects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..._types import Grant
from ..characters import one_line
from ..rules.matching import CHANGES_THE_SHELL
from .arity import words_of_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from ..._types import CommandRequest
    from ..._types.parsed import Argument, ParsedCommand, Redirection
    from ..._types.verdict import Access, CommandVerdict, Reason, Verdict

MOST_COMMANDS = 100
"""Commands of a text that ask and that grants can cover; for a text with more, only the identical text can be granted."""

_MOST_BOUNDS = 5
"""Paths, or hosts, of a grant that are shown one by one; more are shown as a number."""

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_HOST = re.compile(r"[\w.-]+", re.ASCII)
_PATTERN = re.compile(r"[*?\[\]\\]|[^ -~]")  # characters that are, or might be, a pattern in a rule


def grants(verdict: Verdict | None, *, words: int | None = None) -> tuple[Grant, ...]:
    """Return the grants that cover a text: one for each of its commands that ask.

    Args:
        verdict: The verdict on the text.
        words: The number of words of each command that are granted, at least one: fewer words grant more. ``None`` means
            the words that name the command, by a table: three for ``npm run test``, two for ``git commit``, one for ``ls``.
            ``None`` means all words for a program that is not in the table, and for a command that connects to a host or
            names a host.

    Returns:
        The grants; empty if only the identical text can be granted. This is so if the text is not understood, changes its
        shell (as ``cd`` does), or has too many commands; or if an asking command has an argument that is not literal, or
        reads another command's output.
    """
    if verdict is None:
        return ()
    made = []
    for asking in _asking(verdict):
        all_words = _words(asking.command)
        if not all_words:
            return ()
        connects = asking.access.network or any(map(_REMOTE.search, all_words))
        count = max(words, 1) if words is not None else 0 if connects else words_of_name(all_words)
        exact = count == 0 or count > len(all_words)
        made.append(Grant(all_words if exact else all_words[:count], asking, exact=exact))
    return tuple(dict.fromkeys(made))


def covered(verdict: Verdict | None, by: Iterable[Grant]) -> bool:
    """Whether grants cover every command of a text that asks."""
    if verdict is None:
        return False
    asking, by = _asking(verdict), tuple(by)
    return bool(asking) and all(any(_covers(grant, each) for grant in by) for each in asking)


def is_given_more(request: CommandRequest) -> bool:
    """Whether a request has input or variables that its text does not show; then no rule that an answer has made holds."""
    return bool(request.stdin) or any(name != "OLDPWD" for name, _ in request.env)  # a leading cd sets OLDPWD


# A URL, or host:path as for ssh, scp and git: a program may connect to a host that its words give in this form.
_REMOTE = re.compile(r"://|\A[^/=]*[^/=\d]:(?!\\)\S")


def label(grant: Grant) -> str:
    """Return a grant as text that is safe to print: ``rm … (deletes /src)``, with its variables, redirections and wrappers."""
    seen = grant.seen.command
    words = [f"{one_line(each.name)}={_shown(each.value.text)}" for each in seen.variables]
    words += [*map(_shown, grant.words), *["…"] * (not grant.exact)]
    for each in seen.redirections:
        if not _harmless(each):
            target = "…" if each.operator.startswith("<<") else _shown(each.target.text)
            words.append(f"{one_line(each.descriptor)}{each.operator} {target}")
    bounds = [] if grant.exact else list(_bounds(grant.seen.access))
    notes = [*bounds, *([f"by {one_line(' '.join(seen.via))}"] if seen.via else [])]
    return " ".join(words) + (f" ({'; '.join(notes)})" if notes else "")


def _bounds(access: Access) -> Iterator[str]:
    """Yield the limits of a command's other words; a path covers all paths below it."""
    for kind, verb in (("reads", ""), ("writes", ""), ("deletes", ""), ("network", "connects to ")):
        given = tuple(dict.fromkeys(getattr(access, kind)))
        if values := [each for each in given if not _within(each, {*given} - {each})]:
            named = [_shown(value) if value != "*" else "what its words do not name" for value in values]
            more = f" and {len(named) - _MOST_BOUNDS} more" if len(named) > _MOST_BOUNDS else ""
            yield f"{verb or kind + ' '}{', '.join(named[:_MOST_BOUNDS])}{more}"


def _shown(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else "'" + one_line(word).replace("'", r"\x27") + "'"


def can_be_saved(grant: Grant) -> bool:
    """Whether a rule can allow exactly the commands of a grant, or fewer."""
    seen, access = grant.seen.command, grant.seen.access
    paths = (*access.reads, *access.writes, *access.deletes)
    return (
        all(map(_PLAIN.fullmatch, grant.words))
        and "/" not in grant.words[0]
        and not (seen.via or seen.host or seen.variables or not all(map(_harmless, seen.redirections)))
        and not any(map(_PATTERN.search, paths))
        # A rule with paths or hosts never holds for a command with doubts: a grant of the words then has to be exact.
        and (grant.exact or not grant.seen.doubts or not (paths or access.network))
        and all(host == "*" or _HOST.fullmatch(host) for host in access.network)
    )


def _asking(verdict: Verdict) -> list[CommandVerdict]:
    """Return the commands that a verdict asks about; empty if more than the commands' own words decides their effects."""
    commands = [each.command for each in verdict.commands]
    if any(
        not each.program or each.defines or each.program.casefold() in CHANGES_THE_SHELL for each in commands
    ):
        return []
    if verdict.action != "ask" or not verdict.understood:
        return []
    asking = [each for each in verdict.commands if each.action == "ask"]
    return asking if len(asking) <= MOST_COMMANDS else []


def _words(command: ParsedCommand) -> tuple[str, ...]:
    """Return all words of a command; empty if the words alone do not say what the command does."""
    given = (
        *command.arguments,
        *(each.target for each in command.redirections),
        *(each.value for each in command.variables),
    )
    if not command.program or command.unknown or command.piped or not all(each.literal for each in given):
        return ()
    return (command.program, *(argument.text for argument in command.arguments))


def _covers(grant: Grant, other: CommandVerdict) -> bool:
    words, seen = _words(other.command), grant.seen
    if words[: len(grant.words)] != grant.words or (grant.exact and words != grant.words):
        return False
    if _setting(other.command) != _setting(seen.command):
        return False
    if any(new - old for new, old in zip(_effects(other), _effects(seen), strict=True)):
        return False
    pairs = (
        (getattr(other.access, kind), getattr(seen.access, kind)) for kind in ("reads", "writes", "deletes")
    )
    return all(_within(path, old) for new, old in pairs for path in new)


def _within(path: str, seen: Iterable[str]) -> bool:
    """Whether a path is at or below a seen path; ``*``, a path that is not known, never is."""
    return path != "*" and any(path == each or path.startswith((each + "/", each + "\\")) for each in seen)


def _setting(command: ParsedCommand) -> tuple[object, ...]:
    """Return the surroundings that must be equal; a missing variable may let a program do more (``DRY_RUN=1``)."""
    variables = {(each.name, each.value.text) for each in command.variables}
    return command.via, command.host, command.background, variables


def _effects(verdict: CommandVerdict) -> tuple[AbstractSet[object], ...]:
    """Return the sets of effects that must not grow."""
    command, access = verdict.command, verdict.access
    return (
        {_redirection_key(each) for each in command.redirections if not _harmless(each)},
        {*access.network},
        {each.text for each in command.arguments if _REMOTE.search(each.text)},
        {access.privilege} - {False},
        {_why(reason, access) for reason in verdict.reasons if reason.action == "ask"},
    )


def _why(reason: Reason, access: Access) -> str:
    """Return the rule that asks, or the reason's text without paths and hosts, which are compared separately."""
    text = reason.text
    for name in sorted(
        {*access.reads, *access.writes, *access.deletes, *access.network}, key=len, reverse=True
    ):
        text = text.replace(name, "…")
    return reason.rule or text


def _redirection_key(each: Redirection) -> tuple[str, str, str]:
    return each.operator, each.descriptor, each.target.text


def _harmless(each: Redirection) -> bool:
    target: Argument = each.target
    if each.file:
        return target.literal and target.text == "/dev/null"
    return not each.operator.startswith("<<")  # a program may run the text that it reads
