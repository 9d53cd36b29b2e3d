"""Rules and rule files. `docs/reference/policy.md` says what each key means."""

from __future__ import annotations

import posixpath
import re
import tomllib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._exceptions import InvalidCommand, PolicyError
from ..._types import Names, Variables
from ...reach import REACH_SCHEMA, read_reach
from .paths import AREAS
from .profiles import Profile, profiles_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...reach import Reach
    from .verdict import Action

LARGEST_FILE = 1024 * 1024
"""Bytes of a rule file; a larger file is refused."""

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9-]*", re.ASCII)


class Rule(NamedTuple):
    """One rule. A condition is ``None`` if the rule's table does not have the key."""

    action: Action
    name: str
    where: str
    message: str = ""
    program: tuple[str, ...] | None = None
    command: tuple[tuple[str, ...], ...] | None = None
    exact: bool = False
    expansions: bool = False
    plain: bool = False
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    deletes: tuple[str, ...] | None = None
    changes: tuple[str, ...] | None = None
    network: bool | tuple[str, ...] | None = None
    privilege: bool | None = None
    host: tuple[str, ...] | None = None
    piped: bool | None = None
    background: bool | None = None
    recursive: bool | None = None
    input_of: tuple[str, ...] | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    @property
    def whatever(self) -> bool:
        """Whether an ``allow`` rule holds for its command whatever the command does."""
        limits = (self.reads, self.writes, self.deletes, self.changes, self.network, self.privilege)
        return self.command is not None and all(limit is None for limit in limits)

    @property
    def general(self) -> bool:
        """Whether the rule is about what a command does: it names no program and no command."""
        return self.program is None and self.command is None


class RuleFile(NamedTuple):
    """The content of a rule file."""

    rules: tuple[Rule, ...] = ()
    preset: str = ""
    directories: tuple[str, ...] = ()
    override: frozenset[str] = frozenset()
    variables: Variables | None = None
    reach: Reach | None = None
    programs: Mapping[str, Profile] = MappingProxyType({})
    destinations: tuple[str, ...] = ()
    places: tuple[tuple[str, str, str], ...] = ()


_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_RULE_KEYS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": f"^{_NAME.pattern}$"},
    "message": {"type": "string"},
    **dict.fromkeys(
        (
            "program",
            "command",
            "reads",
            "writes",
            "deletes",
            "changes",
            "host",
            "input_of",
            "match",
            "not_match",
        ),
        _TEXTS,
    ),
    "network": {"anyOf": [{"type": "boolean"}, _TEXTS]},
    **{
        key: {"type": "boolean"}
        for key in ("exact", "expansions", "plain", "privilege", "piped", "background", "recursive")
    },
}
for _key in ("program", "command", "host", "input_of", "match", "not_match"):
    _RULE_KEYS[_key] = {"anyOf": [{"type": "string"}, _TEXTS]}
_RULES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": _RULE_KEYS,
        "required": ["name"],
        "additionalProperties": False,
    },
}
SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Rules of anyshell",
    "type": "object",
    "properties": {
        **dict.fromkeys(("allow", "ask", "deny"), _RULES),
        "preset": {"type": "string"},
        "directories": _TEXTS,
        "override": _TEXTS,
        "variables": {
            "type": "object",
            "properties": {
                "inherit": {"enum": ["all", "core", "none"]},
                "exclude": _TEXTS | {"minItems": 0},
                "set": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": False,
        },
        "reach": REACH_SCHEMA,
        "programs": {"type": "object", "additionalProperties": {"type": "object"}},
        "widened": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "network": _TEXTS,
                    "write": _TEXTS,
                    "read": _TEXTS,
                    "host": {"type": "string"},
                },
                "minProperties": 1,
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
"""The JSON schema of a rule file."""


def load(data: bytes, source: str, *, tightens: bool = False) -> RuleFile:
    """Read a rule file.

    Args:
        data: The content of the file.
        source: The name of the file in messages and reasons.
        tightens: Whether the file may only ask and deny, as a project's file.

    Raises:
        PolicyError: The file is invalid. The message has the line and the reason.
    """
    if len(data) > LARGEST_FILE:
        raise PolicyError(
            f"{source}: {len(data):,} bytes are too many for a file of rules: at most {LARGEST_FILE:,}"
        )
    try:
        text = data.decode()
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "text in UTF-8" if isinstance(error, UnicodeDecodeError) else "TOML"
        raise PolicyError(f"{source}: not {kind}: {error}") from None
    allowed = {"ask", "deny"} if tightens else {*SCHEMA["properties"]}
    for key in tables:
        if key not in allowed:
            line = _line(text, f"\\[*{re.escape(key)}\\b", 0)
            why = (
                "a project may only ask and deny"
                if key in SCHEMA["properties"]
                else f"the keys are {', '.join(sorted(allowed))}"
            )
            raise PolicyError(f"{source}:{line}: {key}: {why}")
    # tomllib gives no line numbers, and a message needs a line: `_line` finds the n-th table of a kind in the text.
    rules: list[Rule] = []
    actions: tuple[Action, ...] = ("allow", "ask", "deny")
    for action in actions:
        entries = tables.get(action, [])
        if not isinstance(entries, list):
            raise PolicyError(f"{source}:{_line(text, action, 0)}: write [[{action}]], in double brackets")
        for at, entry in enumerate(entries):
            line = _line(text, rf"\[\[\s*{action}\s*\]\]", at)
            where = f"{source}:{line}"
            try:
                rules.append(_rule(action, entry, where))
            except ValueError as error:
                raise PolicyError(f"{where}: {error}") from None
    names = [rule.name for rule in rules]
    for rule in rules:
        if names.count(rule.name) > 1:
            raise PolicyError(f"{rule.where}: there are two rules with the name {rule.name}")
    try:
        return RuleFile(
            rules=tuple(rules),
            preset=_checked("preset", tables.get("preset", ""), {"type": "string"}),
            directories=_paths("directories", tables.get("directories", [])),
            override=frozenset(_texts("override", tables.get("override", []))),
            variables=_variables(tables.get("variables")),
            reach=_reach(tables.get("reach")),
            programs=profiles_of(tables.get("programs", {})),
            destinations=_destinations(tables.get("widened", [])),
            places=_places(tables.get("widened", [])),
        )
    except ValueError as error:
        line = _line(text, rf"\[*{re.escape(str(error).partition(':')[0].partition(' ')[0])}(?![\w-])", 0)
        raise PolicyError(f"{source}:{line}: {error}") from None


def _destinations(entries: Any) -> tuple[str, ...]:
    """Return the network destinations that are added to every reach with names of hosts."""
    keys = {"write", "read", "host"}
    if not isinstance(entries, list) or not all(
        isinstance(each, dict) and (each.keys() == {"network"} or {"host"} < each.keys() | {"host"} <= keys)
        for each in entries
    ):
        raise ValueError(
            "widened: write [[widened]], in double brackets, with the key network alone, or with write, read and host"
        )
    given = tuple(
        name for each in entries if "network" in each for name in _texts("widened", each["network"])
    )
    try:
        Names(given)
    except InvalidCommand as error:
        raise ValueError(f"widened: {error}") from None
    return given


def _places(entries: list[dict[str, Any]]) -> tuple[tuple[str, str, str], ...]:
    """Return the paths that a command may be granted beyond its reach: host, ``write`` or ``read``, and path."""
    given = [
        (_checked("widened", each.get("host", ""), {"type": "string"}), kind, path)
        for each in entries
        for kind in ("write", "read")
        for path in (_texts("widened", each[kind]) if kind in each else ())
    ]
    for _, _, path in given:
        if not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
            raise ValueError(f"widened: {path!r} is not an absolute path below /")
    return tuple(given)


def _variables(table: Any) -> Variables | None:
    """Return the choice of variables that a file makes."""
    if table is None:
        return None
    keys = SCHEMA["properties"]["variables"]["properties"]
    if not isinstance(table, dict) or not keys.keys() >= table.keys():
        raise ValueError(f"variables: the keys are {', '.join(keys)}")
    given = dict(table)
    values = given.get("set", {})
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError("variables: set must be a table of texts")
    if "exclude" in given:
        given["exclude"] = tuple(_texts("variables", given["exclude"]))
    try:
        return Variables(**given)
    except InvalidCommand as error:
        raise ValueError(f"variables: {error}") from None


def _reach(given: Any) -> Reach | None:
    """Return the reach that a file asks for."""
    if given is None:
        return None
    try:
        return read_reach(given)
    except InvalidCommand as error:
        said = str(error)
        raise ValueError(said if said.startswith("reach") else f"reach: {said}") from None


def _line(text: str, pattern: str, count: int) -> int:
    """Return the line of the heading with an index among the headings that match a pattern; 1 if not found."""
    found = list(re.finditer(rf"^[ \t]*{pattern}", text, re.MULTILINE))
    return text.count("\n", 0, found[count].start()) + 1 if count < len(found) else 1


_OPERATOR = re.compile(r"(?:\A|\s)(?:[;|&]+|[0-9]*[<>]+&?)(?:\s|\Z)|;\s*\Z")


_LABELS = ("action", "name", "where", "message", "match", "not_match")
"""The keys of a rule that are not conditions."""


def _rule(action: Action, entry: Any, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise ValueError("a rule must be a table")  # noqa: TRY004 - a mistake in a file
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in _RULE_KEYS:
            from difflib import get_close_matches  # imported here, since few files have a mistake

            near = get_close_matches(key, _RULE_KEYS, 1)
            meant = f"; did you mean {near[0]}?" if near else f": {', '.join(_RULE_KEYS)}"
            raise ValueError(f"{key} is not a key of a rule{meant}")
        if key == "command":
            values[key] = tuple(tuple(text.split()) for text in _texts(key, value))
            if found := next((text for text in _texts(key, value) if _OPERATOR.search(text)), None):
                raise ValueError(
                    f"command: {found!r} is more than the words of one command; a rule is about one"
                )
        elif key == "program" and (found := next((text for text in _texts(key, value) if " " in text), None)):
            raise ValueError(f"program: {found!r} has a blank; the words of a command are for command")
        elif key in ("reads", "writes", "deletes", "changes"):
            values[key] = _paths(key, value)
        elif key in ("network", "name", "message") or _RULE_KEYS[key] == {"type": "boolean"}:
            values[key] = _checked(key, value, _RULE_KEYS[key])
        else:
            values[key] = _texts(key, value)
    if not isinstance(name := values.get("name"), str) or not _NAME.fullmatch(name):
        raise ValueError('a rule must have a name, of letters, digits and -, such as name = "tests"')
    rule = Rule(action=action, where=where, **values)
    if action == "allow":
        forbidden = [
            key for key in ("changes", "piped", "background", "recursive", "input_of") if key in entry
        ]
        if forbidden:
            raise ValueError(f"{name}: {forbidden[0]} is for ask and deny alone")
    elif rule.plain:
        raise ValueError(f"{name}: plain is for allow alone")
    elif action == "deny" and rule == Rule(**{each: getattr(rule, each) for each in _LABELS}):
        raise ValueError(f"{name}: it would deny everything; name a condition")
    if "exact" in entry and "command" not in entry:
        raise ValueError(f"{name}: exact is about the words of command")
    return rule


def _checked(key: str, value: Any, schema: Mapping[str, Any]) -> Any:
    if "anyOf" in schema and not isinstance(value, bool):
        return _texts(key, value)
    wanted = str if schema.get("type") == "string" else bool
    if not isinstance(value, wanted):
        raise ValueError(f"{key} must be {'a text' if wanted is str else 'true or false'}")  # noqa: TRY004 - as above
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"{key} must be a text or several, and none of them empty")
    return tuple(texts)


def _paths(key: str, value: Any) -> tuple[str, ...]:
    items = _texts(key, value)
    for item in items:
        head = item.removeprefix("=").split("/")[0].split("\\")[0]
        if head not in AREAS and head not in ("", "~", "**") and not re.fullmatch("[A-Za-z?]:", head):
            raise ValueError(f"{key}: {item} begins with no area: {', '.join(sorted(AREAS))}, or /, ~/, **/")
        if item.count("**") > 1 or "/../" in f"{item}/":
            raise ValueError(f"{key}: {item} has more than one **, or a ..")
    return items
