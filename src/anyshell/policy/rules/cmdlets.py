"""Commands of PowerShell as rules read them: aliases resolved, parameters by their whole names, paths of files alone."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..parse.parsed import Argument
from ..parse.words import names
from .profiles import PATH_ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..parse.parsed import Parsed, ParsedCommand, Redirection
    from .profiles import Profile

Cmdlets = dict[str, tuple[str, "Profile"]]
"""By a name or an alias in lower case: the name by which rules know it, and its profile."""

POWERSHELL = frozenset({"pwsh", "powershell"})
"""The kinds of shell whose commands these are."""

_WINDOWS_ALONE = names(
    "ac cat clear compare cp cpp curl diff fc gsv ise ls man md mkdir more mount mv ps rm rmdir sasv sc sleep sort spsv start tee "
    "wget write"
)
"""Aliases and functions that PowerShell has on Windows alone: elsewhere these are programs."""

_COMMON = {
    **dict.fromkeys(("-Verbose", "-vb", "-Debug", "-db"), "none"),
    **dict.fromkeys(("-ErrorAction", "-ea", "-WarningAction", "-wa", "-InformationAction", "-infa"), "text"),
    **dict.fromkeys(("-ProgressAction", "-proga"), "text"),
}
"""Parameters of every cmdlet. Those that set variables are not among them."""

_PARAMETER = re.compile(r"-[A-Za-z_?-]")
_NAMED = re.compile(r"-[A-Za-z]\w*(:.*)?", re.ASCII | re.DOTALL)
_BARE = re.compile(r"[\w.\\/:*?\[\]~+=%^!-]+")
_PIECE = re.compile(r"""\s*(?:'([^']*)'|"([^"$`]*)"|([\w.\\/~*?\[\]+=%-]+))\s*(?:,|\Z)""")
_OF_VARIABLE = re.compile(r'("?)\$(HOME|PWD)((?:[\\/][\w .\\/-]*)?)\1', re.IGNORECASE)
_CMDLET = re.compile(r"[A-Za-z]+-[A-Za-z]+|.*\.(?:ps1|psm1|psd1)", re.IGNORECASE)
_UNKNOWN = "$input"  # as of what xargs gives: any path


def cmdlets_of(profiles: Mapping[str, Profile], others: Mapping[str, Profile]) -> Cmdlets:
    """The table of the cmdlets of a file, and of those among other profiles."""
    found: Cmdlets = {}
    first: dict[int, str] = {}
    own = {name: each for name, each in others.items() if each.style == "cmdlet"}
    for name, profile in {**profiles, **own}.items():
        known = first.setdefault(id(profile), name)
        is_alias = profile.style == "cmdlet" and "-" not in name
        found[name.casefold()] = (known if is_alias else name, profile)
    return found


def adapted(parsed: Parsed, cmdlets: Cmdlets, programs: Mapping[str, Profile], *, windows: bool) -> Parsed:
    """A text of PowerShell with its cmdlets as their profiles have them. Its commands stay as many, and in their order."""
    done: list[ParsedCommand] = []
    for at, command in enumerate(parsed.commands):
        found = find(command.program, cmdlets, windows=windows)
        feeds = ""
        if at and command.piped:
            before = parsed.commands[at - 1]
            between = parsed.text[before.span[1] : command.span[0]]
            source = find(before.program, cmdlets, windows=windows)
            lines = source[1].output == "lines" if source else not done[-1].unknown
            feeds = "lines" if lines and between.strip() == "|" else ""
        if found is not None and found[1].style == "cmdlet":
            done.append(_Binding(command, *found, feeds, parsed).command())
        else:
            done.append(_program(command, found, programs, windows=windows))
    whys = (why for command in done for why in command.unknown)
    return replace(parsed, commands=tuple(done), unknown=tuple(dict.fromkeys((*parsed.unknown, *whys))))


def find(program: str | None, cmdlets: Cmdlets, *, windows: bool) -> tuple[str, Profile] | None:
    """The name and the profile of a cmdlet or an alias; ``None`` for a program."""
    name = (program or "").casefold()
    return None if name in _WINDOWS_ALONE and not windows else cmdlets.get(name)


def _program(
    command: ParsedCommand,
    found: tuple[str, Profile] | None,
    programs: Mapping[str, Profile],
    *,
    windows: bool,
) -> ParsedCommand:
    """A program, or what is not known to be one: it may be a function, which can change what later words mean."""
    name = command.program or ""
    unknown = list(command.unknown)
    if found is not None:
        unknown.append(f"{name} {found[1].unknown}")
    elif _CMDLET.fullmatch(name) and name not in programs:
        unknown.append(f"{name} is not a cmdlet that is known")
    elif (
        windows and re.search(r"[\\/]", name) and not re.search(r"\.(exe|com|cmd|bat)$", name, re.IGNORECASE)
    ):
        unknown.append(f"{name} may be a script of PowerShell")
    words = []
    for word in command.arguments:
        if windows and word.literal and re.search(r'"|^$|\s.*\\$', word.text, re.DOTALL):
            unknown.append("a word with quotes may be several words to the program")
        words.append(word if word.literal or not windows else replace(word, single=False))
    to = tuple(_redirected(each, unknown) for each in command.redirections)
    return replace(command, arguments=tuple(words), redirections=to, unknown=tuple(dict.fromkeys(unknown)))


def _redirected(redirection: Redirection, unknown: list[str]) -> Redirection:
    target = _path(redirection.target, unknown, changes=True, pattern=False)
    return replace(redirection, target=target)


def _path(word: Argument, unknown: list[str], *, changes: bool, pattern: bool, home: bool = True) -> Argument:
    """A word as the path of a file; one that may be something else is not known."""
    text = word.text
    if not word.literal and (variable := _OF_VARIABLE.fullmatch(text)):
        text = f"${variable[2].upper()}{variable[3]}".replace("\\", "/")
        if home and ".." not in text.split("/"):
            return replace(word, text=text, single=True)
        text = ""
    elif not word.literal and not _BARE.fullmatch(text):
        text = ""
    path = text.replace("\\", "/")
    parts = path.split("/")
    drive = re.match("[A-Za-z]:/", path)
    plain = (
        path
        and ":" not in path[2 if drive else 0 :]
        and not path.startswith("//")
        and not any(
            re.search(r"~[0-9]|[ .]$|[\x00-\x1f<>|\"]", each) for each in parts if each not in (".", "..")
        )
    )
    if not plain:
        if changes or ":" in path:
            unknown.append(f"{word.text or 'an empty word'} may be no path of a file")
        return replace(word, text=_UNKNOWN, literal=False, single=True)
    # .. is taken off as a text here, and not behind a link as the host does.
    if ".." in parts or (parts[0].startswith("~") and not (home and parts[0] == "~")):
        return replace(word, text=_UNKNOWN, literal=False, single=True)
    special = parts[0] == "~" or (pattern and re.search(r"[*?\[\]]", path))
    if special and re.search(r"[$`\"'()<>!#;&|{}^\n]|~.*~", path):
        return replace(word, text=_UNKNOWN, literal=False, single=True)
    if path.startswith("-"):
        path = f"./{path}"
    return replace(word, text=path, literal=not special, single=True)


class _Binding:
    """The words of one cmdlet, bound to its parameters as PowerShell does it."""

    def __init__(
        self, command: ParsedCommand, name: str, profile: Profile, feeds: str, parsed: Parsed
    ) -> None:
        self._given = command
        self._name = name
        self._profile = profile
        self._feeds = feeds
        self._text = parsed.text
        self._home = parsed.shell == "pwsh"  # of Windows PowerShell it may be a drive of the network
        self._unknown = list(command.unknown)
        self._groups = [group.split("|") for group in profile.order.split()]
        self._free = list(self._groups)
        self._roles = {
            **dict.fromkeys(profile.order.replace("|", " ").split(), ""),
            **_COMMON,
            **profile.flags,
        }
        self._flags: list[Argument] = []
        self._subjects: list[Argument] = []

    def command(self) -> ParsedCommand:
        """The command, with its flags first, then ``--``, then what it works on."""
        words = list(self._given.arguments)
        while words:
            word = words.pop(0)
            written = self._written(word)
            if _NAMED.fullmatch(written):
                self._named(word, words)
            elif not _PARAMETER.match(written) and self._free:
                self._bind(self._free[0], self._free[0][0], word)
            else:
                self._doubt(f"it is not known what {written} is to {self._name}")
        self._piped()
        self._complete()
        end = Argument("--", True, self._given.span)
        return replace(
            self._given,
            program=self._name,
            arguments=(*self._flags, *([end] if self._subjects else ()), *self._subjects),
            redirections=tuple(_redirected(each, self._unknown) for each in self._given.redirections),
            unknown=tuple(dict.fromkeys(self._unknown)),
        )

    def _written(self, word: Argument) -> str:
        return self._text[word.span[0] : word.span[1]]  # with quotes, in which a dash begins no parameter

    def _doubt(self, why: str) -> None:
        self._unknown.append(why)

    def _named(self, word: Argument, words: list[Argument]) -> None:
        """Read a parameter and its value. Its name may be abbreviated, as long as one alone begins so."""
        written, colon, value = word.text.partition(":")
        start = written.casefold()
        found = [name for name in self._roles if name.casefold() == start] or [
            name for name in self._roles if name.casefold().startswith(start)
        ]
        if len(found) != 1:
            self._doubt(f"{written} is not a known parameter of {self._name}")
            return
        name = found[0]
        group = next((each for each in self._groups if name in each), [])
        if self._roles[name] == "none":
            if colon and value.casefold() not in ("$true", "$false"):
                self._doubt(f"it is not known what {word.text} is to {self._name}")
            self._flags += [Argument(name, True, word.span)] if name in self._profile.flags else []
        elif not colon and (not words or _PARAMETER.match(self._written(words[0]))):
            self._doubt(f"{written} of {self._name} has no value")
        elif group and group not in self._free:
            self._doubt(f"{written} is given twice to {self._name}")
        else:
            self._bind(group, name, replace(word, text=value) if colon else words.pop(0))

    def _bind(self, group: list[str], name: str, value: Argument) -> None:
        """Note a value: behind its flag if the profile has that, else as what the cmdlet works on."""
        if group:
            self._free.remove(group)
        roles = {*self._profile.roles()}
        if flag := next((each for each in (name, *group) if each in self._profile.flags), ""):
            if {*self._roles[flag].split("+")} & (PATH_ROLES | {"into"}):
                value = self._as_path(value, name, changes=True)
            self._flags += [Argument(flag, True, value.span), _value(value)]
        elif group and roles:
            changes = roles != {"reads"} or self._name.endswith("-Location")
            self._subjects += [self._as_path(each, name, changes=changes) for each in _pieces(value)]
        elif group:
            self._subjects.append(_value(value))

    def _as_path(self, word: Argument, name: str, *, changes: bool) -> Argument:
        return _path(word, self._unknown, changes=changes, pattern=name != "-LiteralPath", home=self._home)

    def _piped(self) -> None:
        """Note what is read from a pipe: objects may give any parameter that is not given yet."""
        accepts = self._profile.input
        if not self._given.piped or accepts == "any" or (accepts and accepts == self._feeds):
            return
        if self._free or not self._groups or not {*self._profile.roles()}:
            self._doubt(f"it is not known what {self._name} is given by the pipe")

    def _complete(self) -> None:
        if self._name == "Copy-Item" or self._name == "Move-Item":
            if not any(each.text == "-Destination" for each in self._flags):
                self._flags += [Argument(each, True, self._given.span) for each in ("-Destination", ".")]
        elif self._name == "Rename-Item" and self._flags and self._subjects:
            # The new name stands beside the old one.
            old, new = self._subjects[0], self._flags[-1]
            beside = posixpath.join(posixpath.dirname(old.text), new.text)
            named = "/" not in new.text and old.literal and new.literal
            self._flags[-1] = replace(new, text=beside if named else _UNKNOWN, literal=named)
        elif self._name.endswith("-Location") and self._profile.order and len(self._subjects) != 1:
            self._doubt(f"it is not known where {self._name} leads")


def _value(word: Argument) -> Argument:
    """A value that is no path: to a cmdlet a bare word is what it says."""
    return replace(word, literal=word.literal or bool(_BARE.fullmatch(word.text)), single=True)


def _pieces(word: Argument) -> Iterable[Argument]:
    """The words of an array such as ``a, 'b c'``; the word itself, if it is no plain one."""
    if word.literal or "," not in word.text:
        return (word,)
    found: Sequence[re.Match[str]] = [*_PIECE.finditer(word.text)]
    if "".join(each[0] for each in found) != word.text or word.text.rstrip().endswith(","):
        return (word,)
    return [replace(word, text=each[1] or each[2] or each[3] or "", literal=True) for each in found]
