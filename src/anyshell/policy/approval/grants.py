"""Grants of an answer beyond its request: kinds of commands, by their words and their effects."""

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
"""Commands of a text that ask and that grants can cover; a text with more is granted only identically."""

_MOST_BOUNDS = 5
"""Paths, or hosts, of a grant that are shown one by one; of more, their number."""

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_HOST = re.compile(r"[\w.-]+", re.ASCII)
_PATTERN = re.compile(r"[*?\[\]\\]|[^ -~]")  # or might be one, to a rule


def grants(verdict: Verdict | None, *, words: int | None = None) -> tuple[Grant, ...]:
    """Return the grants that cover a text: one for each of its commands that ask.

    Args:
        verdict: The verdict on the text.
        words: The number of words of each command that are granted, at least one: fewer are wider. ``None`` is as many as name
            the command, by a table: three for ``npm run test``, two for ``git commit``, one for ``ls``, and all that
            there are for a program that it does not have, and for a command that connects to a host or names one.

    Returns:
        Empty, if only the identical text can be granted: it is not understood, changes its shell, as ``cd`` does, or has
        too many commands; or one that asks has an argument that is not literal, or reads what another prints.
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
    """Whether a command has input or variables that its text does not show: no rule that an answer has made holds then."""
    return bool(request.stdin) or any(name != "OLDPWD" for name, _ in request.env)  # of a leading cd


# A URL, or host:path as ssh, scp and git take it: a program that connects to hosts of its own choice may be told this one.
_REMOTE = re.compile(r"://|\A[^/=]*[^/=\d]:(?!\\)\S")


def label(grant: Grant) -> str:
    """Show a grant as text that is safe to print: ``rm … (deletes /src/build)``, with its variables, redirections and wrappers."""
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
    """The limits of a command's other words; a path covers those below it."""
    for kind, verb in (("reads", ""), ("writes", ""), ("deletes", ""), ("network", "connects to ")):
        given = tuple(dict.fromkeys(getattr(access, kind)))
        if values := [each for each in given if not _within(each, {*given} - {each})]:
            named = [_shown(value) if value != "*" else "what its words do not name" for value in values]
            more = f" and {len(named) - _MOST_BOUNDS} more" if len(named) > _MOST_BOUNDS else ""
            yield f"{verb or kind + ' '}{', '.join(named[:_MOST_BOUNDS])}{more}"


def _shown(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else "'" + one_line(word).replace("'", r"\x27") + "'"


def can_be_saved(grant: Grant) -> bool:
    """Whether a rule can say just what a grant does, or less."""
    seen, access = grant.seen.command, grant.seen.access
    paths = (*access.reads, *access.writes, *access.deletes)
    return (
        all(map(_PLAIN.fullmatch, grant.words))
        and "/" not in grant.words[0]
        and not (seen.via or seen.host or seen.variables or not all(map(_harmless, seen.redirections)))
        and not any(map(_PATTERN.search, paths))
        # A rule with paths or hosts does not hold for what its words do not say; one without is about all words.
        and (grant.exact or not grant.seen.doubts or not (paths or access.network))
        and all(host == "*" or _HOST.fullmatch(host) for host in access.network)
    )


def _asking(verdict: Verdict) -> list[CommandVerdict]:
    """The commands about which a text asks; none if not all that decides what they do is in their own words."""
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
    """All words of a command; none if these do not say what it does."""
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
    """Whether a path is one that was seen, or below it; ``*`` is one that is not known."""
    return path != "*" and any(path == each or path.startswith((each + "/", each + "\\")) for each in seen)


def _setting(command: ParsedCommand) -> tuple[object, ...]:
    """The surroundings that must be the same: without a variable a program may do more (``DRY_RUN=1``)."""
    variables = {(each.name, each.value.text) for each in command.variables}
    return command.via, command.host, command.background, variables


def _effects(verdict: CommandVerdict) -> tuple[AbstractSet[object], ...]:
    """The effects that must not grow."""
    command, access = verdict.command, verdict.access
    return (
        {_redirection_key(each) for each in command.redirections if not _harmless(each)},
        {*access.network},
        {each.text for each in command.arguments if _REMOTE.search(each.text)},
        {access.privilege} - {False},
        {_why(reason, access) for reason in verdict.reasons if reason.action == "ask"},
    )


def _why(reason: Reason, access: Access) -> str:
    """The rule that asks; without one, what it says but for the paths and hosts, which are compared by themselves."""
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
    return not each.operator.startswith("<<")  # what a program reads may be what it runs
