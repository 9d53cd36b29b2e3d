"""The meaning of a program's words: the flags, the paths, and the effects on paths."""

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
"""Characters of a value that are compared with a regular expression of a profile; a longer value counts as not known."""

MOST_WORDS = 100
"""Arguments and redirections of a text that are decided on; a text with more is asked about, unless an earlier command is
denied. A long path or a pattern counts as several words (`weight`)."""

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
    """The profile of a program or a sub-command; `docs/reference/policy.md` says what each attribute means."""

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
        """Yield the path roles that a positional of the program may have."""
        for role in self.positionals:
            yield from (part for part in role.rstrip("*").split("+") if part in PATH_ROLES)

    def only_reads(self) -> bool:
        """Whether the program does nothing with its positionals except read them."""
        return self.harmless or (
            {*self.roles()} == {"reads"} and not (self.here or self.network or self.commands)
        )


@dataclass(slots=True)
class Use:
    """The effects of one command, as far as its profile says.

    Attributes:
        words: The sub-commands that the words name.
        paths: The role of each path and its word. Roles: ``reads``, ``writes``, ``deletes``, ``links`` (a link to the path is
            made), ``copies`` (read, and links are copied as links). The word is ``None`` for a path that is not known, and
            empty for the current directory.
        copies: Pairs of words: a path whose last name is written in a directory, and the directory.
        directories: Base directories of relative paths, in addition to the current directory.
        hosts: The hosts that the command connects to.
        privilege: Whether the command runs as another user.
        unknown: Reasons why the effects of the command are not known.
        runs: Whether the command runs another command that its words name.
        output: ``names`` of files below the read paths, ``lines`` of its input, or empty for any output.
        git: Globs of the keys of git's configuration that would make the command run a program.
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
    """Return the cost of a decision on a word; a short word costs 1."""
    finds = not word.literal and PATTERN.search(word.text) is not None
    return 1 + word.text.count("/") // 5 + 3 * finds


def read_of(arguments: Sequence[Argument]) -> list[Argument]:
    """Return the first arguments of a command, up to a total weight of `MOST_WORDS`."""
    reached = accumulate(map(weight, arguments))
    return [word for word, weighs in zip(arguments, reached, strict=True) if weighs <= MOST_WORDS]


def use_of(name: str, profile: Profile, arguments: Sequence[Argument]) -> Use:
    """Read the arguments of a program by its profile and return the effects."""
    use = Use()
    reader = _WordsReader(name, use)
    words = read_of(arguments)
    if len(words) < len(arguments):
        reader.unknown(f"{name} has more than {MOST_WORDS} arguments, or long ones")
    reader.read(profile, words)
    use.paths = [(role, word) for role, word in use.paths if role in PATH_ROLES]
    return use


class _WordsReader:
    """One walk over the arguments of a program and of its sub-commands."""

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
                # BSD programs take a flag after a positional, and the flag's value, as more positionals.
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
        # A later flag can make the program write a path that an earlier flag reads.
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
        """Read a word with one flag or several short flags, and the value; return the value if it is a separate word."""
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
        """Read the flags of tar that have no dash: the values follow as words, in the order of the flags."""
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
        """Record the effect of a flag's value or of a positional, by its role."""
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
        """Give each positional its role: roles before the role with ``*`` from the left, roles after it from the right."""
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
        """Record a word that may be several words: it moves the later words, so each word may have any role."""
        self.use.paths += [(role, None) for role in {*profile.roles()}]
        parts = {part for role in profile.positionals for part in role.rstrip("*").split("+")}
        if parts & ({"runs", "host", "directory"} | profile.kinds.keys()):
            self.unknown(f"{word.text} may be several words")


def _is_path(role: str) -> bool:
    return role.endswith("*") or bool({*role.split("+")} & PATH_ROLES)


def _fits(pattern: re.Pattern[str], word: Argument) -> bool:
    return word.literal and len(word.text) <= LONGEST_VALUE and bool(pattern.fullmatch(word.text))


def _part(word: Argument, text: str) -> Argument:
    """Return a part of a word, as literal as the whole word."""
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
    """Build profiles from the tables of a file; each profile is also listed under its other names.

    Raises:
        ValueError: A table is not a valid profile. The message names the table and the reason.
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
        raise ValueError(f"programs.{where}: must be a table")  # noqa: TRY004 - a mistake in a file
    for key, value in table.items():
        if key not in _KEYS:
            raise ValueError(f"programs.{where}: {key} is not a key of a profile: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise ValueError(f"programs.{where}: {key} must be a {_KEYS[key].__name__}")  # noqa: TRY004 - as above
    if table.get("output", "") not in ("", "names", "lines"):
        raise ValueError(f"programs.{where}: output must be names or lines")
    if table.get("input", "") not in ("", "any", "lines", "value"):
        raise ValueError(f"programs.{where}: input must be any, lines or value")
    if table.get("style", "gnu") not in STYLES:
        raise ValueError(f"programs.{where}: style must be one of {', '.join(sorted(STYLES))}")
    kinds = {}
    for kind, pattern in table.get("kinds", {}).items():
        try:
            kinds[kind] = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"programs.{where}: kinds.{kind} is not a regular expression: {error}") from None
    # A role may name a kind of this profile, or of a parent profile whose commands inherit. So kinds are read first.
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
            raise ValueError(f"programs.{where}: {key} must be true or false")
        return value
    if not isinstance(value, str):
        raise ValueError(f"programs.{where}: {key} must be a text")  # noqa: TRY004 - as above
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
    own = others - FLAG_ROLES  # kinds; a role may combine a kind with a path role
    if role not in others and not set(role.split("+")) <= PATH_ROLES | own | {"host"}:
        raise ValueError(f"programs.{where}: {role} is not a role")
