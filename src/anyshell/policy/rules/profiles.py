"""The meaning of a program's words: the flags, the paths, and the effects on these."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from .patterns import PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..parse.parsed import Argument

LONGEST_VALUE = 1024
"""Characters of a value that are compared with a regular expression of a profile; a longer one is not known."""

MOST_WORDS = 100
"""Arguments and redirections of a text that are decided on, where a long path and a pattern count as several (`weight`); with
more it asks, unless one of the commands before is denied."""

FLAG_ROLES = frozenset({"none", "info", "optional", "text", "runs", "command", "directory", "host", "into"})
_POSITIONAL_ROLES = FLAG_ROLES - {"none", "info", "optional", "command", "into"}
PATH_ROLES = frozenset({"reads", "writes", "deletes", "links", "copies"})
STYLES = frozenset({"gnu", "posix", "single", "tar", "cmdlet"})


class FlagEffect(NamedTuple):
    """The effect of a flag on the rest of a command."""

    flags: frozenset[str]
    values: Mapping[str, Any]


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Profile(NamedTuple):
    """A program or a sub-command; `docs/reference/policy.md` says what each attribute means."""

    builtin: bool = False
    unknown: str = ""
    harmless: bool = False
    style: str = "gnu"
    flags: Mapping[str, str] = _NOTHING
    positionals: tuple[str, ...] = ()
    default: str = ""
    here: str = ""
    kinds: Mapping[str, re.Pattern[str]] = _NOTHING
    when: tuple[FlagEffect, ...] = ()
    network: bool = False
    privilege: bool = False
    git: tuple[str, ...] = ()
    commands: Mapping[str, Profile] = _NOTHING
    inherit: bool = False
    output: str = ""
    reads: str = "reads"
    order: str = ""
    input: str = ""

    def roles(self) -> Iterator[str]:
        """The roles of paths that a word of it may have."""
        for role in self.positionals:
            yield from (part for part in role.rstrip("*").split("+") if part in PATH_ROLES)

    def only_reads(self) -> bool:
        """Whether it does nothing with a word that is no flag but to read it."""
        return self.harmless or (
            {*self.roles()} == {"reads"} and not (self.here or self.network or self.commands)
        )


@dataclass(slots=True)
class Use:
    """The effects of one command, as far as its profile says.

    Attributes:
        words: The program's sub-commands.
        paths: What becomes of a path: ``reads``, ``writes``, ``deletes``, ``links`` to it are made, it ``copies`` links; and its word, ``None`` for one that is not
            known. An empty word is the current directory.
        copies: Words with names that are written in a directory, and that directory's word.
        directories: The starts of relative paths, besides the current directory.
        hosts: To which it connects.
        unknown: Why it is not known what it does.
        runs: Whether it runs a command that its words name.
        output: ``names`` of files below what it reads, ``lines`` of its input, or anything.
        git: The keys of git's configuration by which it would run a program.
    """

    words: list[str] = field(default_factory=list)
    paths: list[tuple[str, Argument | str | None]] = field(default_factory=list)
    copies: list[tuple[Argument, Argument]] = field(default_factory=list)
    directories: list[Argument] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    privilege: bool = False
    unknown: list[str] = field(default_factory=list)
    runs: bool = False
    output: str = ""
    git: tuple[str, ...] = ()


def weight(word: Argument) -> int:
    """The cost of a decision on a word, in short words."""
    finds = not word.literal and PATTERN.search(word.text) is not None
    return 1 + word.text.count("/") // 5 + 3 * finds


def read_of(arguments: Sequence[Argument]) -> list[Argument]:
    """The first of a command's arguments, as many as are read."""
    reached = accumulate(map(weight, arguments))
    return [word for word, weighs in zip(arguments, reached, strict=True) if weighs <= MOST_WORDS]


def use_of(name: str, profile: Profile, arguments: Sequence[Argument]) -> Use:
    """Read the arguments of a program."""
    use = Use()
    reader = _WordsReader(name, use)
    words = read_of(arguments)
    if len(words) < len(arguments):
        reader.unknown(f"{name} has more than {MOST_WORDS} arguments, or long ones")
    reader.read(profile, words)
    use.paths = [(role, word) for role, word in use.paths if role in PATH_ROLES]
    return use


class _WordsReader:
    """One walk over the arguments of a program, its sub-commands' included."""

    def __init__(self, name: str, use: Use) -> None:
        self.name = name
        self.use = use
        self._into: Argument | None = None

    def unknown(self, why: str) -> None:
        if why not in self.use.unknown:
            self.use.unknown.append(why)

    def read(self, profile: Profile, words: list[Argument]) -> None:
        """Read flags and positionals, then give each positional its role."""
        seen: set[str] = set()
        positionals: list[Argument] = []
        late: list[Argument] = []
        before = len(self.use.paths)
        ended = False
        if profile.style == "tar" and words and words[0].literal and re.fullmatch("[A-Za-z]+", words[0].text):
            words = self._old_flags(profile, words, seen)
        while words:
            word = words.pop(0)
            text = word.text
            if not ended and word.literal and text == "--" and profile.style != "single":
                ended = True
            elif not ended and (_is_flag(text) or f"{text.partition('=')[0]}=" in profile.flags):
                taken = self._flag(profile, word, words, seen)
                # The programs of BSD take a flag after a positional for one more positional, and its value too.
                if taken is not None and positionals and profile.style == "gnu":
                    late.append(taken)
            elif not ended and not word.literal and _may_be_flag(text) and not profile.harmless:
                self.unknown(f"{text} may stand for a flag of {self.name}")
                positionals.append(word)
            elif profile.commands:
                self._command(profile, word, words)
                self._apply(profile, seen)
                return
            else:
                positionals.append(word)
                ended = ended or profile.style == "posix"
                if ended and self._role(profile, seen, len(positionals)) == "runs":
                    positionals += words
                    words = []
        if profile.commands:
            if bare := profile.commands.get(""):
                self.read(bare, [])
            elif not any(profile.flags.get(flag) == "info" for flag in seen):
                self.unknown(f"{self.name} stands without a sub-command")
        profile = self._apply(profile, seen)
        # A path that a flag reads may be written after all, by a flag behind it.
        self.use.paths[before:] = [
            (profile.reads if role == "reads" else role, word) for role, word in self.use.paths[before:]
        ]
        self._positionals(profile, positionals)
        for role in {*profile.roles()} if late else ():
            self.use.paths += [(profile.reads if role == "reads" else role, word) for word in late]

    def _role(self, profile: Profile, seen: set[str], count: int) -> str:
        roles = self._changed(profile, seen).positionals
        return roles[min(count, len(roles)) - 1] if roles else ""

    def _changed(self, profile: Profile, seen: set[str]) -> Profile:
        for change in profile.when:
            if any(seen.issuperset(each.split("&")) for each in change.flags):
                profile = profile._replace(**change.values)
        return profile

    def _apply(self, profile: Profile, seen: set[str]) -> Profile:
        profile = self._changed(profile, seen)
        if profile.unknown:
            self.unknown(f"{self.name} {profile.unknown}")
        if profile.network:
            self.use.hosts.append("*")
        self.use.privilege |= profile.privilege
        self.use.git += profile.git
        self.use.output = profile.output
        return profile

    def _command(self, profile: Profile, word: Argument, words: list[Argument]) -> None:
        command = profile.commands.get(word.text) if word.literal and word.text else None
        if command is None:
            self.unknown(f"{word.text} is not a known sub-command of {self.name}")
            return
        self.use.words.append(word.text)
        self.name = f"{self.name} {word.text}"
        if profile.inherit:
            command = command._replace(
                flags={**profile.flags, **command.flags},
                kinds={**profile.kinds, **command.kinds},
                when=profile.when + command.when,
                inherit=bool(command.commands) or command.inherit,
            )
        self.read(command, words)

    def _flag(
        self, profile: Profile, word: Argument, words: list[Argument], seen: set[str]
    ) -> Argument | None:
        """Read one word that is a flag, or several short ones, and the value; return that if it is a word of its own."""
        text, flags = word.text, profile.flags
        left = words[:1]
        if not word.single and not profile.harmless and re.search(r"[$`<({]", text):
            self.unknown(f"{text} may be several words")
        name, equals, value = text.partition("=")
        if not text.startswith("-"):
            self._value(profile, flags[f"{name}="], _part(word, value))
            seen.add(f"{name}=")
        elif text.startswith("--") or profile.style in ("single", "cmdlet") or text in flags:
            role = flags.get(name)
            if role is None and re.fullmatch("-[0-9]+", text):
                role = flags.get("-#")
            seen.add(name)
            if role is None or (equals and role in ("none", "info", "command")):
                self._unlisted(profile, name)
            elif role == "command":
                self._until_end(words)
            elif role not in ("none", "info", "optional"):
                self._value(profile, role, _part(word, value) if equals else self._next(words, name))
        else:
            self._short_flags(profile, word, words, seen)
        return left[0] if left and words[:1] != left and profile.flags.get(name) != "command" else None

    def _short_flags(self, profile: Profile, word: Argument, words: list[Argument], seen: set[str]) -> None:
        text, at = word.text, 1
        while at < len(text):
            if number := re.compile("[0-9]+").match(text, at) if "-#" in profile.flags else None:
                at = number.end()
                continue
            name = f"-{text[at]}"
            role = profile.flags.get(name)
            at += 1
            seen.add(name)
            if role is None:
                self._unlisted(profile, name)
                if not word.literal:
                    break
            elif role == "optional":
                break
            elif role not in ("none", "info"):
                rest = text[at:]
                self._value(profile, role, _part(word, rest) if rest else self._next(words, name))
                break

    def _old_flags(self, profile: Profile, words: list[Argument], seen: set[str]) -> list[Argument]:
        """Read the flags of tar that have no dash: their values follow in their order."""
        first, *words = words
        for letter in first.text:
            name = f"-{letter}"
            role = profile.flags.get(name)
            seen.add(name)
            if role is None:
                self._unlisted(profile, name)
            elif role not in ("none", "info", "optional"):
                self._value(profile, role, self._next(words, name))
        return words

    def _unlisted(self, profile: Profile, name: str) -> None:
        if not profile.harmless:
            self.unknown(f"{name} is not a known flag of {self.name}")

    def _next(self, words: list[Argument], name: str) -> Argument | None:
        if not words:
            return None  # the program refuses it
        value = words.pop(0)
        if not value.single:
            self.unknown(f"{value.text}, the value of {name}, may be several words")
        return value

    def _until_end(self, words: list[Argument]) -> None:
        self.use.runs = True
        while words and (word := words.pop(0)).text not in (";", "+"):
            if not word.single:
                self.unknown(f"{word.text} may end the command that {self.name} runs")

    def _value(self, profile: Profile, role: str, word: Argument | None) -> None:
        """Note what becomes of a value of a flag, or of a positional."""
        if word is None:
            return
        for part in role.split("+"):
            if part in PATH_ROLES:
                self.use.paths.append((profile.reads if part == "reads" else part, word))
            elif part == "into":
                self.use.paths.append(("writes", word))
                self._into = word
            elif part == "host":
                self.use.hosts.append(word.text if word.literal else "*")
            elif part == "directory":
                self.use.directories.append(word)
            elif part in ("runs", "command"):
                self.use.runs = True
            elif part in profile.kinds and not _fits(profile.kinds[part], word):
                self.unknown(f"it is not known what {word.text} makes {self.name} do")

    def _positionals(self, profile: Profile, words: list[Argument]) -> None:
        """Give each positional its role: those before the role with ``*`` from the left, those behind it from the right."""
        roles = list(profile.positionals)
        if profile.here:
            self.use.paths += [(profile.here, word) for word in self.use.directories or ("",)]
        if not words and profile.default == "unknown":
            self.unknown(f"{self.name} does what its input says")
        elif profile.default and len(words) <= sum(not _is_path(role) for role in roles):
            self.use.paths.append((profile.default, ""))
        star = next((at for at, role in enumerate(roles) if role.endswith("*")), len(roles))
        tail = roles[star + 1 :]
        last = max(len(words) - len(tail), min(star, len(words)))
        for at, word in enumerate(words):
            if at < star or (tail and at >= last):
                role = roles[at] if at < star else tail[at - last]
                if not word.single:
                    self._several(profile, word)
            elif star < len(roles):
                role = roles[star].rstrip("*")
            else:
                self.unknown(f"it is not known what {word.text} is to {self.name}")
                continue
            if role == "runs":
                self.use.runs = True
                return
            self._value(profile, role, word)
        if star < len(roles) and (self._into or tail == ["writes"]):
            into, sources = (
                (self._into, words) if self._into else (words[-1], words[:-1]) if words else (None, [])
            )
            self.use.copies += [(source, into) for source in sources if into]

    def _several(self, profile: Profile, word: Argument) -> None:
        """Note a word that may be several, and so moves those that follow it: each may have any role then."""
        self.use.paths += [(role, None) for role in {*profile.roles()}]
        parts = {part for role in profile.positionals for part in role.rstrip("*").split("+")}
        if parts & ({"runs", "host", "directory"} | profile.kinds.keys()):
            self.unknown(f"{word.text} may be several words")


def _is_path(role: str) -> bool:
    return role.endswith("*") or bool({*role.split("+")} & PATH_ROLES)


def _fits(pattern: re.Pattern[str], word: Argument) -> bool:
    return word.literal and len(word.text) <= LONGEST_VALUE and bool(pattern.fullmatch(word.text))


def _part(word: Argument, text: str) -> Argument:
    """A part of a word. It is as literal as the whole."""
    return replace(word, text=text)


def _is_flag(text: str) -> bool:
    return len(text) > 1 and text[0] == "-"


def _may_be_flag(text: str) -> bool:
    """Whether a word that is not literal may begin with a dash."""
    return text.lstrip("\"'")[:1] in (
        "$",
        "`",
        "*",
        "?",
        "[",
        "{",
        "<",
        ">",
        "(",
        "@",
        "!",
        "+",
        "\\",
        "-",
        "",
    )


_KEYS: Mapping[str, type[Any]] = {
    "names": list,
    "builtin": bool,
    "unknown": str,
    "harmless": bool,
    "style": str,
    "flags": dict,
    "positionals": str,
    "default": str,
    "here": str,
    "kinds": dict,
    "when": list,
    "network": bool,
    "privilege": bool,
    "git": str,
    "commands": dict,
    "inherit": bool,
    "output": str,
    "order": str,
    "input": str,
}
_CHANGES = frozenset(
    {"flags", "positionals", "default", "here", "network", "privilege", "unknown", "git", "reads", "output"}
)


def profiles_of(tables: Mapping[str, Any]) -> dict[str, Profile]:
    """Build profiles from the tables of a file, each also under its other names.

    Raises:
        ValueError: A table is not one of a profile; says which, and why.
    """
    profiles: dict[str, Profile] = {}
    for name, table in tables.items():
        profile = _profile(name, table)
        for each in (name, *table.get("names", ())):
            if each in profiles:
                raise ValueError(f"programs.{name}: there are two profiles of {each}")
            profiles[each] = profile
    return profiles


def _profile(where: str, table: Any, known: frozenset[str] = frozenset()) -> Profile:
    if not isinstance(table, dict):
        raise ValueError(f"programs.{where}: has to be a table")  # noqa: TRY004 - a mistake in a file
    for key, value in table.items():
        if key not in _KEYS:
            raise ValueError(f"programs.{where}: {key} is no key of a profile: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise ValueError(f"programs.{where}: {key} has to be a {_KEYS[key].__name__}")  # noqa: TRY004 - as above
    if table.get("output", "") not in ("", "names", "lines"):
        raise ValueError(f"programs.{where}: output has to be names or lines")
    if table.get("input", "") not in ("", "any", "lines", "value"):
        raise ValueError(f"programs.{where}: input has to be any, lines or value")
    if table.get("style", "gnu") not in STYLES:
        raise ValueError(f"programs.{where}: style has to be one of {', '.join(sorted(STYLES))}")
    kinds = {}
    for kind, pattern in table.get("kinds", {}).items():
        try:
            kinds[kind] = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"programs.{where}: kinds.{kind} is no regular expression: {error}") from None
    # A role may name a kind of this profile, or of the profile above it that lets its commands inherit. So the kinds come first.
    known |= kinds.keys()
    flags: dict[str, str] = {}
    for role, names in table.get("flags", {}).items():
        _check_role(where, role, FLAG_ROLES | known)
        for flag in str(names).split():
            if flag in flags:
                raise ValueError(f"programs.{where}: {flag} is listed twice")
            flags[flag] = role
    changes = []
    for change in table.get("when", []):
        if not isinstance(change, dict) or not change.keys() <= _CHANGES or "flags" not in change:
            raise ValueError(f"programs.{where}: when has flags, and of {', '.join(sorted(_CHANGES))}")
        values = {
            key: _converted(where, key, value, known) for key, value in change.items() if key != "flags"
        }
        changes.append(FlagEffect(frozenset(change["flags"].split()), values))
    inherited = known if table.get("inherit") else frozenset()
    return Profile(
        **{
            key: table[key]
            for key in (
                "builtin",
                "unknown",
                "harmless",
                "style",
                "network",
                "privilege",
                "inherit",
                "output",
                "order",
                "input",
            )
            if key in table
        },
        **{
            key: _converted(where, key, table[key], known)
            for key in ("positionals", "default", "here", "git")
            if key in table
        },
        flags=flags,
        kinds=kinds,
        when=tuple(changes),
        commands={
            name: _profile(f"{where}.commands.{name}", command, inherited)
            for name, command in table.get("commands", {}).items()
        },
    )


def _converted(where: str, key: str, value: Any, known: frozenset[str]) -> Any:
    if key in ("network", "privilege"):
        if not isinstance(value, bool):
            raise ValueError(f"programs.{where}: {key} has to be true or false")
        return value
    if not isinstance(value, str):
        raise ValueError(f"programs.{where}: {key} has to be a text")  # noqa: TRY004 - as above
    if key == "positionals":
        roles = tuple(value.split())
        for role in roles:
            _check_role(where, role.rstrip("*"), _POSITIONAL_ROLES | known)
        if sum(role.endswith("*") for role in roles) > 1:
            raise ValueError(f"programs.{where}: only one of the positionals may end in *")
        return roles
    if key in ("default", "here", "reads") and value:
        _check_role(where, value, frozenset({"unknown"} if key == "default" else ()))
    return tuple(value.split()) if key == "git" else value


def _check_role(where: str, role: str, others: frozenset[str]) -> None:
    own = others - FLAG_ROLES  # kinds, which a path may be as well
    if role not in others and not set(role.split("+")) <= PATH_ROLES | own | {"host"}:
        raise ValueError(f"programs.{where}: {role} is no role")
