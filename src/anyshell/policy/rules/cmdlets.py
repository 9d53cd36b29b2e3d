"""PowerShell commands in the form that rules read: aliases resolved, whole parameter names, and paths of files only."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..parse.parsed import Argument
from ..parse.words import names
from .profiles import PATH_ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..parse.parsed import Parsed, ParsedCommand, Redirection
    from .paths import Paths
    from .profiles import Profile

Cmdlets = dict[str, tuple[str, "Profile"]]
"""A table from a cmdlet's name or alias, in lower case, to the cmdlet's name in rules and its profile."""

POWERSHELL = frozenset({"pwsh", "powershell"})
"""The kinds of shell that run PowerShell texts."""

_WINDOWS_ALONE = names(
    "ac cat clear compare cp cpp curl diff fc gsv ise ls man md mkdir more mount mv ps rm rmdir sasv sc sleep sort spsv start tee "
    "wget write"
)
"""Names that are aliases or functions of PowerShell only on Windows: on other systems each name is a program."""

COMMON = {
    **dict.fromkeys(("-Verbose", "-vb", "-Debug", "-db"), "none"),
    **dict.fromkeys(("-ErrorAction", "-ea", "-WarningAction", "-wa", "-InformationAction", "-infa"), "text"),
    **dict.fromkeys(("-ProgressAction", "-proga", "-OutBuffer", "-ob"), "text"),
}
"""Parameters of every cmdlet, with their roles; without the parameters that set variables."""

_PARAMETER = re.compile(r"-[A-Za-z_?-]")
_NAMED = re.compile(r"-[A-Za-z]\w*(:.*)?", re.ASCII | re.DOTALL)
_BARE = re.compile(r"[\w.\\/:*?\[\]~+=%^!-]+")
_PIECE = re.compile(r"""\s*(?:'([^']*)'|"([^"$`]*)"|([\w.\\/~*?\[\]+=%-]+))\s*(?:,|\Z)""")
_OF_VARIABLE = re.compile(r'("?)\$(HOME|PWD|env:HOME|env:USERPROFILE)((?:/[\w ./*-]*)?)\1', re.IGNORECASE)
_CMDLET = re.compile(r"[A-Za-z]+-[A-Za-z]+|.*\.(?:ps1|psm1|psd1)", re.IGNORECASE)
_BINARY = re.compile(r"\.(exe|com|cmd|bat)\Z", re.IGNORECASE)
_NO_NAME = re.compile(r"~[0-9]|[ .]\Z|[\x00-\x1f<>|\":]")
_OBJECTS = names(
    "-Value -InputObject -Object -ReferenceObject -DifferenceObject"
)  # a cmdlet calls no script block that is given to one of these parameters
_UNKNOWN = "$input"  # stands for any path, as for arguments that xargs gives


def cmdlets_of(profiles: Mapping[str, Profile], others: Mapping[str, Profile]) -> Cmdlets:
    """Return the table of the cmdlets of a file and of the cmdlets among other profiles."""
    found: Cmdlets = {}
    own = {name: each for name, each in others.items() if each.style == "cmdlet"}
    of: tuple[str, Profile | None] = ("", None)
    for name, profile in {**profiles, **own}.items():
        # An alias follows its cmdlet in the table; only the cmdlet's name has a dash.
        if profile.unknown or "-" in name or of[1] is not profile:
            of = (name, profile)
        found[name.casefold()] = (of[0], profile if profile.unknown else profile._replace(style="cmdlet"))
    return found


def adapted(parsed: Parsed, cmdlets: Cmdlets, programs: Mapping[str, Profile], *, drive: str) -> Parsed:
    """Rewrite a parsed PowerShell text so that its cmdlets have the form of their profiles.

    The number of commands and their order do not change.

    Args:
        parsed: The parsed text.
        cmdlets: The profiles of cmdlets.
        programs: The profiles of programs.
        drive: The drive of the working directory; empty on a system without drives.
    """
    windows = bool(drive)
    known = [find(command.program, cmdlets, windows=windows) for command in parsed.commands]
    moves = any(found is not None and found[0].endswith("-Location") for found in known)
    places = _Places(windows, "" if moves else drive, parsed.shell == "pwsh")
    done: list[ParsedCommand] = []
    for at, (command, found) in enumerate(zip(parsed.commands, known, strict=True)):
        feeds = ""
        if at and command.piped:
            before = parsed.commands[at - 1]
            between = parsed.text[before.span[1] : command.span[0]]
            source = known[at - 1]
            lines = source[1].output == "lines" if source else not done[-1].unknown
            feeds = "lines" if lines and between.strip() == "|" else ""
        if found is not None and found[1].style == "cmdlet":
            done.append(_Binding(command, *found, feeds, parsed.text, places).command())
        else:
            done.append(_program(command, found, programs, places))
    whys = (why for command in done for why in command.unknown)
    return replace(parsed, commands=tuple(done), unknown=tuple(dict.fromkeys((*parsed.unknown, *whys))))


def find(program: str | None, cmdlets: Cmdlets, *, windows: bool) -> tuple[str, Profile] | None:
    """Return the name and the profile of a cmdlet or an alias; ``None`` for a program."""
    name = (program or "").casefold()
    return None if name in _WINDOWS_ALONE and not windows else cmdlets.get(name)


def script_doubt(
    command: ParsedCommand, find: Callable[[str], str | None], paths: Paths, directories: Sequence[str]
) -> str:
    """Return a reason why PowerShell may run an unknown script or a batch file for a program's name; empty if no doubt.

    Args:
        command: The command with the program.
        find: Finds the file that PATH gives for a name.
        paths: The paths of the decision.
        directories: The trusted directories of programs.
    """
    program = command.program or ""
    if re.search(r"[/\\]", program):
        return ""
    script, found = find(f"{program}.ps1"), find(program) or ""
    if script is None:
        return f"it is not known whether PATH has a script {program}.ps1"
    directory = script and paths.resolve(re.split(r"[/\\][^/\\]*\Z", script)[0])
    if script and not (directory and paths.within(directory, directories, strictly=True)):
        return f"PATH has {script}, which is in no directory of the system's programs"
    if script and any(word.text == "--" for word in command.arguments):
        return f"{script} is not given the --"
    if re.search(r"\.(cmd|bat)\Z", found, re.IGNORECASE) and any(
        not word.literal or re.search(r'[&|<>^%"\n]', word.text) for word in command.arguments
    ):
        return f"{found} is a batch file, to which some characters are commands"
    return ""


def _program(
    command: ParsedCommand,
    found: tuple[str, Profile] | None,
    programs: Mapping[str, Profile],
    places: _Places,
) -> ParsedCommand:
    """Rewrite a command that is not a known cmdlet: a program, or a name that may be a function or a script."""
    name = command.program or ""
    unknown = list(command.unknown)
    if found is not None:
        unknown.append(f"{name} {found[1].unknown}")
    elif _CMDLET.fullmatch(name) and name not in programs:
        unknown.append(f"{name} is not a cmdlet that is known")
    elif places.windows and re.search(r"[\\/]", name) and not _BINARY.search(name):
        unknown.append(f"{name} may be a script of PowerShell")
    words = []
    for word in command.arguments:
        if places.windows and word.literal and re.search(r'"|^$|\s.*\\$', word.text, re.DOTALL):
            unknown.append("a word with quotes may be several words to the program")
        elif not word.literal and not word.single and "," in word.text:
            unknown.append("an array is several words to the program")
        words.append(word if word.literal or not places.windows else replace(word, single=False))
    to = tuple(places.redirected(each, unknown) for each in command.redirections)
    return replace(command, arguments=tuple(words), redirections=to, unknown=tuple(dict.fromkeys(unknown)))


class _Places(NamedTuple):
    """The meaning of paths in a PowerShell text.

    Attributes:
        windows: Whether paths may begin with a drive.
        drive: The drive of a path that begins with a slash; empty if not known.
        home: Whether ``~`` is the home directory: in Windows PowerShell ``~`` may be a network drive.
    """

    windows: bool
    drive: str
    home: bool

    def redirected(self, given: Redirection, unknown: list[str]) -> Redirection:
        """Return a redirection with its target as the path of a file."""
        return replace(given, target=self.path(given.target, unknown, changes=True))

    def path(self, word: Argument, unknown: list[str], *, changes: bool, pattern: bool = True) -> Argument:
        """Return a word as the path of a file; a word that may be something else becomes an unknown path.

        Args:
            word: The word as written, or as the cmdlet gets the word.
            unknown: A list; gets a reason if the word may change more than a file.
            changes: Whether the command changes the file, or changes to the directory.
            pattern: Whether the cmdlet takes ``*`` for a pattern even if the word was quoted.
        """
        not_known = replace(word, text=_UNKNOWN, literal=False, single=True)
        path = word.text.replace("\\", "/")
        if not word.literal and (variable := _OF_VARIABLE.fullmatch(path)):
            name = variable[2].upper().removeprefix("ENV:")
            of_user = "USERPROFILE" if self.windows else "HOME"
            inside = (
                self.home and ".." not in path.split("/") and (name == variable[2].upper() or name == of_user)
            )
            path = f"${name.replace('USERPROFILE', 'HOME')}{variable[3]}"
            return replace(word, text=path, literal=False, single=True) if inside else not_known
        drive = re.match("[A-Za-z]:/", path) if self.windows else None
        parts = path[2 if drive else 0 :].split("/")
        if (
            not path
            or not (word.literal or _BARE.fullmatch(path))
            or path.startswith("//")
            or any(_NO_NAME.search(each) for each in parts if each not in (".", ".."))
        ):
            if changes or ":" in path:
                unknown.append(f"{word.text or 'an empty word'} may be no path of a file")
            return not_known
        # PowerShell removes .. from the text of a path; the host follows links first. So a path with .. is not known.
        if ".." in parts or (parts[0].startswith("~") and not (self.home and parts[0] == "~")):
            return not_known
        special = parts[0] == "~" or (pattern and bool(re.search(r"[*?\[\]]", path)))
        # Character classes differ from a POSIX shell's: [!x] contains the exclamation mark.
        if special and (not _BARE.fullmatch(path) or re.search(r"[\[\]]", path)):
            return not_known
        path = (
            f"./{path}"
            if path.startswith("-")
            else f"{self.drive}{path}"
            if parts[0] == "" and not drive
            else path
        )
        return replace(word, text=path, literal=not special, single=True)


class _Binding:
    """The binding of one cmdlet's words to its parameters, as PowerShell binds words."""

    def __init__(
        self, command: ParsedCommand, name: str, profile: Profile, feeds: str, text: str, places: _Places
    ) -> None:
        self._given = command
        self._name = name
        self._profile = profile
        self._feeds = feeds
        self._text = text
        self._places = places
        self._unknown = list(command.unknown)
        self._groups = [group.split("|") for group in profile.order.split()]
        self._free = list(self._groups)
        self._roles = {
            **dict.fromkeys(profile.order.replace("|", " ").split(), ""),
            **COMMON,
            **profile.flags,
        }
        self._flags: list[Argument] = []
        self._subjects: list[Argument] = []

    def command(self) -> ParsedCommand:
        """Return the command with its flags first, then ``--``, then the words that the cmdlet works on."""
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
            redirections=tuple(
                self._places.redirected(each, self._unknown) for each in self._given.redirections
            ),
            unknown=tuple(dict.fromkeys(self._unknown)),
        )

    def _written(self, word: Argument) -> str:
        return self._text[word.span[0] : word.span[1]]  # with quotes: a quoted dash begins no parameter

    def _doubt(self, why: str) -> None:
        self._unknown.append(why)

    def _named(self, word: Argument, words: list[Argument]) -> None:
        """Read a parameter and its value. The name may be an abbreviation that only one parameter begins with."""
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
        """Record a value: after its flag if the profile lists the flag, else as a word that the cmdlet works on."""
        if group:
            self._free.remove(group)
        roles = {*self._profile.roles()}
        if flag := next((each for each in (name, *group) if each in self._profile.flags), ""):
            is_path = bool({*self._roles[flag].split("+")} & (PATH_ROLES | {"into"}))
            given = self._as_path(value, name, changes=True) if is_path else self._as_value(value, name)
            self._flags += [Argument(flag, True, value.span), given]
        elif group and roles:
            moves = self._name.endswith("-Location")
            changes = roles != {"reads"} or moves
            if moves and value.text in ("-", "+"):
                self._doubt(f"{self._name} leads to where it was before")
            self._subjects += [self._as_path(each, name, changes=changes) for each in _pieces(value)]
        elif group:
            self._subjects.append(self._as_value(value, name))

    def _as_value(self, word: Argument, name: str) -> Argument:
        """Return a value that is not a path. Bare words and arrays of bare words are literal; an object may be a script block."""
        literal = word.literal or bool(_BARE.fullmatch(word.text)) or list(_pieces(word)) != [word]
        if not literal and not word.single and name not in _OBJECTS:
            self._doubt(f"{word.text} may be a script block to {self._name}")
        return replace(word, text=word.text if literal else _UNKNOWN, literal=literal, single=True)

    def _as_path(self, word: Argument, name: str, *, changes: bool) -> Argument:
        return self._places.path(word, self._unknown, changes=changes, pattern=name != "-LiteralPath")

    def _piped(self) -> None:
        """Record a doubt about input from a pipe: objects may set any parameter that is not given yet."""
        accepts = self._profile.input
        if not self._given.piped or accepts == "any" or (accepts == "lines" and self._feeds):
            return
        if not accepts or not self._subjects:
            self._doubt(f"it is not known what {self._name} is given by the pipe")

    def _complete(self) -> None:
        if self._name == "Copy-Item" or self._name == "Move-Item":
            if not any(each.text == "-Destination" for each in self._flags):
                self._flags += [Argument(each, True, self._given.span) for each in ("-Destination", ".")]
        elif self._name == "Rename-Item" and self._flags and self._subjects:
            # The new name is in the directory of the old name.
            old, new = self._subjects[0], self._flags[-1]
            beside = posixpath.join(posixpath.dirname(old.text), new.text)
            named = "/" not in new.text and old.literal and new.literal
            self._flags[-1] = replace(new, text=beside if named else _UNKNOWN, literal=named)
        elif self._name.endswith("-Location") and self._profile.order and len(self._subjects) != 1:
            self._doubt(f"it is not known where {self._name} leads")


def _pieces(word: Argument) -> Iterable[Argument]:
    """Return the words of an array such as ``a, 'b c'``; only the word itself if it is not a plain array."""
    if word.literal or "," not in word.text:
        return (word,)
    found: Sequence[re.Match[str]] = [*_PIECE.finditer(word.text)]
    if "".join(each[0] for each in found) != word.text or word.text.rstrip().endswith(","):
        return (word,)
    return [replace(word, text=each[1] or each[2] or each[3] or "", literal=True) for each in found]
