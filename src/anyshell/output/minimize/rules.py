"""The reader for files of rules, and the rules that anyshell comes with."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from ..._exceptions import AnyshellError
from .minimizer import Block, NoiseRule, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LARGEST_FILE = 1024 * 1024
"""Bytes of a file of rules; a larger file is refused."""

LONGEST_PATTERN = 1_000
"""Characters of a pattern; a longer pattern is refused."""

REPEATS = 2
"""Repeats without a bound in a pattern, not counting possessive repeats such as ``\\S++``; a pattern with more is refused."""

FEW = 16
"""Times up to which a repeat counts as bounded."""

_VERDICT = re.compile(
    r"[✓✔✗✘]|\b(?:ok|okay|pass(?:ed|es|ing)?|success\w*|succe+d\w*|identical|same|equal|clean|fine|good|green|valid|healthy|correct|"
    r"done|complete[ds]?|fail\w*|errors?|warnings?|problems?|issues?|differences?|unchanged|up[ -]to[ -]date|(?:no|zero|0)\s+\w+)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"(?!)")


_TEXTS = ("command", "required", "forbidden", "strip", "noise", "failed", "keep", "facts")
_KEYS = (*_TEXTS, "name", "exit_codes", "blocks", "replace", "group", "on_empty", "examples")


@cache
def packaged() -> tuple[NoiseRule, ...]:
    """Return the rules that anyshell comes with."""
    data = pkgutil.get_data(__package__, "rules.toml")
    if data is None:
        raise FileNotFoundError("rules.toml is missing from this installation of anyshell")
    return load(data, "anyshell:rules.toml")


def load(data: bytes, source: str) -> tuple[NoiseRule, ...]:
    """Read a file of rules, and check the examples of the rules.

    Args:
        data: The content of the file.
        source: The name of the file in messages.

    Raises:
        AnyshellError: A rule is invalid, or an example does not hold; the message has file, line and reason.
    """
    if len(data) > LARGEST_FILE:
        raise AnyshellError(f"{source}: {len(data):,} bytes are too many: at most {LARGEST_FILE:,}")
    try:
        text = data.decode()
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnyshellError(f"{source}: not TOML in UTF-8: {error}") from None
    entries = tables.pop("rule", [])
    if tables or not isinstance(entries, list):
        raise AnyshellError(f"{source}:1: write [[rule]], and nothing else: {', '.join(tables) or 'rule'}")
    headings = [
        at for at, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)
    ]
    rules: list[NoiseRule] = []
    for at, entry in enumerate(entries):
        where = f"{source}:{headings[at] if at < len(headings) else 1}"
        try:
            rule = _rule(entry, where)
        except ValueError as error:
            raise AnyshellError(f"{where}: {error}") from None
        if any(rule.name == other.name for other in rules):
            raise AnyshellError(f"{where}: there are two rules with the name {rule.name}")
        rules.append(rule)
    return tuple(rules)


def _rule(entry: Any, where: str) -> NoiseRule:
    if not isinstance(entry, dict):
        raise ValueError("a rule must be a table")  # noqa: TRY004 - a mistake in a file
    if unknown := entry.keys() - set(_KEYS):
        raise ValueError(f"{', '.join(sorted(unknown))} is not a key of a rule: {', '.join(_KEYS)}")
    texts = {key: _texts(key, entry.get(key, [])) for key in _TEXTS}
    name, on_empty = entry.get("name"), entry.get("on_empty", "")
    codes = entry.get("exit_codes", [0])
    if not isinstance(name, str) or not name.isprintable() or not name or len(name) > 60:
        raise ValueError("name must be a text of 1 to 60 characters")
    if not all(texts["command"]) or not texts["command"]:
        raise ValueError("command must be the first words of commands, such as ['git log']")
    if not isinstance(codes, list) or not codes or not all(type(code) is int for code in codes):
        raise ValueError("exit_codes must be a list of numbers")
    after_failure = texts["noise"] or texts["failed"] or "blocks" in entry
    if (set(codes) != {0} or after_failure) and not texts["facts"]:
        raise ValueError("a rule that holds after a failure must list its facts: patterns of lines it keeps")
    if not after_failure and not texts["strip"] and entry.keys().isdisjoint({"replace", "group"}):
        raise ValueError("nothing is left out: give strip, noise, failed, blocks, replace or group")
    _no_verdict("name", name)
    _no_verdict("on_empty", on_empty)
    rule = NoiseRule(
        name=name,
        where=where,
        command=tuple(tuple(words.split()) for words in texts["command"]),
        required=tuple(texts["required"]),
        forbidden=tuple(texts["forbidden"]),
        exit_codes=frozenset(codes),
        strip=_joined("strip", [*texts["strip"], *texts["noise"]]),
        noise=_joined("noise", texts["noise"]),
        failed=_joined("failed", texts["failed"]),
        blocks=tuple(_blocks(entry.get("blocks", []))),
        keep=_joined("keep", [*texts["keep"], *texts["facts"]]),
        replace=tuple(_replacements(entry.get("replace", []))),
        group=_pattern("group", entry["group"]) if "group" in entry else None,
        on_empty=on_empty,
    )
    # A rule that contradicts its examples is refused here, before the rule can hide a line.
    for each in _tables("examples", entry.get("examples", []), {"input", "output", "exit_code"}):
        code, given, expected = each.get("exit_code", 0), each.get("input"), each.get("output")
        if not isinstance(given, str) or not isinstance(expected, str) or code not in rule.exit_codes:
            raise ValueError("an example needs input and output, and an exit_code for which the rule holds")
        if (got := shortened(rule, code, given).text.rstrip("\n")) != expected.rstrip("\n"):
            raise ValueError(f"an example does not hold: {given!r} gives {got!r}, not {expected!r}")
    return rule


def _texts(key: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{key} must be a list of texts")
    return value


def _tables(key: str, value: Any, keys: set[str]) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(
        isinstance(each, dict) and each.keys() <= keys for each in value
    ):
        raise ValueError(f"{key} must be a list of tables with {', '.join(sorted(keys))}")
    return value


def _blocks(value: Any) -> Iterable[Block]:
    for each in _tables("blocks", value, {"begin", "inside", "end"}):
        begin, end = _pattern("blocks", each.get("begin")), _pattern("blocks", each.get("end"))
        yield Block(begin, _pattern("blocks", each["inside"]) if "inside" in each else _NOTHING, end)


def _replacements(value: Any) -> Iterable[tuple[re.Pattern[str], str]]:
    for each in _tables("replace", value, {"pattern", "text"}):
        _no_verdict("replace", each.get("text"))
        pattern = _pattern("replace", each.get("pattern"))
        try:
            pattern.sub(each["text"], "")
            re.compile(f"{pattern.pattern}|").sub(each["text"], "")  # a match, which looks the groups up
        except (re.error, IndexError) as error:
            raise ValueError(f"replace: {each['text']!r}: {error}") from None
        yield pattern, each["text"]


def _no_verdict(key: str, text: Any) -> None:
    if not isinstance(text, str) or "\n" in text:
        raise ValueError(f"{key} must be a text of one line")
    if found := _VERDICT.search(text):
        raise ValueError(f"{key}: {found[0]!r} states a verdict, which only the program itself may")


def _joined(key: str, patterns: Sequence[str]) -> re.Pattern[str]:
    compiled = [_pattern(key, pattern).pattern for pattern in patterns]
    return re.compile("|".join(f"(?:{pattern})" for pattern in compiled)) if compiled else _NOTHING


def _pattern(key: str, pattern: Any) -> re.Pattern[str]:
    """Compile a pattern with bounded time: at worst, the time grows with the cube of a line's length, which is bounded."""
    if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"{key}: a pattern must be a text of at most {LONGEST_PATTERN} characters")
    if "(?P<" in pattern or re.match(r"\(\?[a-zA-Z]+\)", pattern):
        raise ValueError(f"{key}: {pattern!r}: a group has no name, and a flag is of a group: (?i:x)")
    try:
        compiled = re.compile(pattern)
        repeats = _repeats(importlib.import_module("re._parser").parse(pattern))
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(f"{key}: {pattern!r}: {error}") from None
    if compiled.match(""):
        raise ValueError(f"{key}: {pattern!r} holds for an empty line, and so for every line")
    if repeats > REPEATS:
        raise ValueError(
            f"{key}: {pattern!r}: more than {REPEATS} unbounded repeats; write x++ for the others"
        )
    return compiled


def _repeats(tree: Any, *, within: bool = False) -> int:
    """Count the repeats without a bound that can give characters back.

    Raises:
        ValueError: A repeat is within another repeat, or the time of a match cannot be bounded.
    """
    count = 0
    for operation, argument in tree:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" as kind:
                _, most, inner = argument
                unbounded = most > FEW
                if within and most > 1:
                    raise ValueError("a repeat is within a repeat")
                found = _repeats(inner, within=within or most > 1)
                count += found + (unbounded and kind != "POSSESSIVE_REPEAT")
            case "SUBPATTERN":
                count += _repeats(argument[-1], within=within)
            case "ATOMIC_GROUP":
                count += _repeats(argument, within=within)
            case "BRANCH":
                count += max(_repeats(each, within=within) for each in argument[1])
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT" | "RANGE" | "CATEGORY":
                pass
            case _:
                raise ValueError("it looks around or back, which may take long")
    return count
