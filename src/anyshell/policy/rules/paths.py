"""The targets of a command's words on a host, and their areas."""

from __future__ import annotations

import ntpath
import posixpath
import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from .patterns import PATTERN, Patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..parse.parsed import Argument
    from .facts import HostFacts

UNKNOWN = "*"
"""Stands for a path, or a host, that the words do not name."""

DEEPEST_PATH = 256
"""Names of a path; a longer one counts as not known."""

LONGEST_NAME = 255
"""Characters of a name in a path with a pattern; one with a longer name counts as not known."""

_NOWHERE = re.compile(r"/dev/(null|zero|full|u?random|tty|std(in|out|err)|fd/[0-9]+)", re.ASCII)
_WINDOWS_PROGRAMS = ("?:/Windows", "?:/Program Files", "?:/Program Files (x86)")
_AREAS = {
    "tmp": ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "~/AppData/Local/Temp"),  # noqa: S108 - a name
    "system": (
        *(
            "/bin",
            "/boot",
            "/etc",
            "/lib",
            "/lib32",
            "/lib64",
            "/opt",
            "/sbin",
            "/srv",
            "/usr",
            "/var",
            "/nix",
            "/snap",
        ),
        *("/run", "/Library", "/System", "/Applications", "/private/etc", "/private/var", "?:/ProgramData"),
        *_WINDOWS_PROGRAMS,
    ),
    "devices": ("/dev", "/proc", "/sys"),
    "programs": (
        *(
            "/bin",
            "/sbin",
            "/usr/bin",
            "/usr/sbin",
            "/usr/local/bin",
            "/usr/local/sbin",
            "/usr/lib",
            "/usr/libexec",
        ),
        *("/opt/homebrew/bin", "/opt/homebrew/sbin", "/opt/local/bin", "/snap/bin", "/nix/store"),
        *("/run/current-system/sw/bin", *_WINDOWS_PROGRAMS),
    ),
}
AREAS = frozenset({"workspace", "cwd", "home", "elsewhere", "anywhere", "unknown", *_AREAS})

_SIMPLE_BRACES = re.compile(
    r"[^{}]*[^{}/-][^{}]*\{\w[\w-]*(,\w[\w-]*)*\}(\.\w+)?|\w*\{\w[\w-]*(,\w[\w-]*)*\}(\.\w+)?", re.ASCII
)
_VARIABLE = re.compile(r"\$(?:(HOME|PWD)|\{(HOME|PWD)\})(?=/|\Z)")


class Paths:
    """The paths of one decision.

    Args:
        facts: The facts of the host.
        cwd: Absolute; where the text begins.
        workspace: Absolute.
        dots: Whether any pattern finds names that begin with a dot.
    """

    def __init__(self, facts: HostFacts, cwd: str, workspace: str, *, dots: bool = False) -> None:
        self.resolve = resolve = cache(facts.resolve)
        self._patterns = Patterns(facts.names, resolve, dots=dots)
        self._found = cache(self._found_now)
        self.windows = bool(ntpath.splitdrive(cwd)[0])
        self._path = ntpath if self.windows else posixpath
        self.home = facts.home and (resolve(facts.home) or facts.home)
        self.cwd = resolve(cwd) or cwd
        self.workspace = resolve(workspace) or workspace
        self.variables = {"~": self.home, "HOME": self.home, "PWD": self.cwd}
        """The values of these in the shell, as far as the text leaves them alone."""
        starts = {"workspace": self.workspace, "cwd": self.cwd, "home": self.home, "~": self.home}
        if self.windows:
            starts = {name: start and start.replace("\\", "/") for name, start in starts.items()}
        self._roots = tuple(starts.items())

    def join(self, base: str, path: str) -> str | None:
        """Make a path absolute; ``None`` if what it is relative to is not known."""
        if self.windows:
            drive, rest = ntpath.splitdrive(path)
            # C:x is relative to whatever directory the drive is in, /x to the root that Git for Windows gives it.
            if (drive and not rest.startswith(("/", "\\"))) or (not drive and rest.startswith(("/", "\\"))):
                return None
        return str(self._path.join(base, path))

    def plain(self, path: str) -> str:
        """An absolute path without ``..``, as a shell takes it."""
        return str(self._path.normpath(path))

    def resolved_program(self, program: str, base: str | None) -> str | None:
        """The path of a program that is called by a path, the links of its directory resolved."""
        whole = None if base is None else self.join(base, program)
        directory = whole and self.resolve(self._path.dirname(whole))
        return directory and whole and self._path.join(directory, self._path.basename(whole))

    def named(self, word: Argument | str | None) -> str | None:
        """The path that a word is, patterns in it kept; ``None`` if it does not say."""
        if word is None or isinstance(word, str):
            return word
        if word.literal:
            return word.text
        text = word.text
        if not re.search(r"[`(\\]", text):
            text = re.sub(r"\"([^\"]*)\"|'([^'$]*)'", lambda found: found[1] or found[2] or "", text)
        start: str | None = ""
        if found := re.match(r"~(?=/|\Z)", text) or _VARIABLE.match(text):
            start, text = self.variables.get(found[0].strip("${}")), text[found.end() :]
        if start is None or not re.fullmatch(r"(?![~=])[^$`\"'\\()<>!#;&|\n]*", text):
            return None
        # ~ and ^ within a word are themselves, or for zsh, if told so, a pattern of names in that directory.
        text = re.sub(r"[~^][^/]*", "*", text)
        return start + text if "{" not in text or _SIMPLE_BRACES.fullmatch(text) else None

    def is_plain(self, word: Argument) -> bool:
        """Whether a word is literal, but for the home directory before it."""
        return word.literal or ((path := self.named(word)) is not None and not PATTERN.search(path))

    def resolved(self, word: Argument | str | None, bases: Sequence[str | None]) -> list[str]:
        """The paths that a word may be, from each directory that it may be relative to; none for /dev/null and its like."""
        path = self.named(word)
        if path is None:
            return [UNKNOWN]
        if _NOWHERE.fullmatch(path):
            return []
        literal = word is None or isinstance(word, str) or word.literal
        return sorted({each for base in bases for each in self._resolved(path, base, literal=literal)})

    def _resolved(self, path: str, base: str | None, *, literal: bool) -> tuple[str, ...]:
        """The path, and where a pattern in it leads by links."""
        if literal:
            whole = self._whole(path, base)
            return ((whole and self.resolve(whole)) or UNKNOWN,)
        start, names = self._split(path, base) or ("", [])
        if not names:
            return (start or UNKNOWN,)
        linked = self._patterns.linked(start, names)
        return (UNKNOWN,) if linked is None else ("/".join([start.rstrip("/"), *names]), *linked)

    def links(self, word: Argument | str, bases: Sequence[str | None]) -> list[str]:
        """The targets of a word, or of paths of its pattern, that are links themselves."""
        path = self.named(word) or ""
        literal = isinstance(word, str) or word.literal
        found: list[str] = []
        for base in bases:
            resolved = self._resolved(path, base, literal=literal)
            found += resolved[1:]
            if (literal or not PATTERN.search(path)) and (whole := self._whole(path, base)):
                directory, name = self._path.split(whole.rstrip("/"))
                above = self.resolve(directory)
                found += resolved if above and resolved[0] != self._path.join(above, name) else ()
        return found

    def last_names(self, word: Argument, bases: Sequence[str | None]) -> set[str] | None:
        """The last names of the paths that a word stands for; ``None`` if these are not known."""
        path = (self.named(word) or "").rstrip("/")
        if word.literal or not PATTERN.search(path):
            return {self._path.basename(path)} if path else None
        found = self.found(word, bases)
        return None if found is None else set(map(self._path.basename, found))

    def found(self, word: Argument, bases: Sequence[str | None]) -> list[str] | None:
        """The paths that a pattern finds now; ``None`` if that is not known."""
        path = (self.named(word) or "").rstrip("/")
        paths: list[str] = []
        for base in bases:
            start, names = self._split(path, base) or ("", [])
            found = self._patterns.found(start, names) if names else None
            if found is None:
                return None
            paths += found
        return paths

    def _found_now(self, path: str) -> list[tuple[str, ...]] | None:
        """The names, in lower case, of each path that a pattern in a path finds now; ``None`` if that is not known.

        A text that makes such a path first names it there.
        """
        start, names = self._split(path, None) or ("", [])
        found = None if not names or "{" in path or "**" in path else self._patterns.found(start, names)
        return None if found is None else [tuple(map(str.casefold, self._names(each))) for each in found]

    def _whole(self, path: str, base: str | None) -> str | None:
        """A path made absolute, if that is known and not too long."""
        whole = None if base is None and not self._path.isabs(path) else self.join(base or self.cwd, path)
        if whole is None or whole.count("/") + whole.count("\\") > DEEPEST_PATH or "\0" in whole:
            return None
        return whole

    def _split(self, path: str, base: str | None) -> tuple[str, list[str]] | None:
        """The directory before a pattern, resolved, and the names from there on; ``None`` if it is not known which."""
        whole = self._whole(path, base)
        if whole is None:
            return None
        names = (whole.replace("\\", "/") if self.windows else whole).split("/")
        first = next((at for at, name in enumerate(names) if PATTERN.search(name)), len(names))
        # A pattern with a dot before it finds the directory above as well, in shells that are older than bash 5.2.
        if any(name == ".." or re.match(r"\.[^\w.-]|\.\.[^\w.-]", name) for name in names[first:]):
            return None
        known = all(len(name) <= LONGEST_NAME for name in names)
        start = self.resolve("/".join(names[:first]) or "/") if known else None
        return (start, names[first:]) if start else None

    def within(
        self, path: str, items: Iterable[str], *, strictly: bool, deletes: bool = False, anywhere: bool = True
    ) -> bool:
        """Whether a path is in one of several areas.

        Args:
            path: Resolved, or `UNKNOWN`.
            items: As a rule has them.
            strictly: Whether all that a pattern may stand for has to be there; else it is enough that some may be.
            deletes: Whether it is deleted, so that what is below it goes as well.
            anywhere: Whether ``*`` and ``**`` in a path of which it is not known what it finds may be names of an item that
                begins with ``**``.
        """
        if path == UNKNOWN:
            return "unknown" in items
        names, folded, named = _forms(path.replace("\\", "/") if self.windows else path)
        for kind, wanted, lower in _areas(tuple(items), self._roots):
            if kind == "elsewhere":
                if not self.within(path, ("workspace", "system"), strictly=not strictly):
                    return True
            elif kind == "anywhere":
                if not self.within(path, ("devices",), strictly=False):
                    return True
            elif kind == "=":
                whole = folded
                while whole and re.fullmatch(r"[*.?]+", whole[-1]):
                    whole = whole[:-1]
                if len(whole) <= len(lower) and _match(whole, lower[: len(whole)], loose=True):
                    return True
            elif strictly:
                # The directories of the system itself are these in any case: C:/WINDOWS, where an older one was there before.
                item, whole = (lower, folded) if kind == "?" else (wanted, names)
                if _match(item, whole, loose=False):
                    return True
            else:
                above = deletes and "**" not in lower
                if _match(lower, folded, loose=True, above=above):
                    found = self._found(path) if PATTERN.search(path) else None
                    if found is None and not anywhere and lower[:1] == ("**",):
                        found = [tuple("/" if name in ("*", "**") else name for name in folded)]  # no name
                    if found is None or any(_match(lower, each, loose=True, above=above) for each in found):
                        return True
                    if _match(lower, named, loose=False, above=above):
                        return True
        return False

    def _names(self, path: str) -> tuple[str, ...]:
        return _names(path.replace("\\", "/") if self.windows else path)


@lru_cache(1024)
def _areas(
    items: tuple[str, ...], roots: tuple[tuple[str, str | None], ...]
) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """For each path of items: ``=``, ``anywhere``, ``?`` for one on any drive or nothing; its names, of which ``**`` is any number; these in lower case."""
    found: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
    starts = dict(roots)
    for item in items:
        kind = "=" if item.startswith("=") else ""
        head, _, rest = item.removeprefix("=").partition("/")
        if head in ("anywhere", "elsewhere", "unknown"):
            found += [(head, (), ())] * (head != "unknown")
            continue
        for each in _AREAS.get(head, (head,)):
            first, _, more = each.partition("/")
            start = starts.get(first, first)
            if start is not None:
                names = (*_names(start), *_names(more), *_names(rest))
                found.append((kind or first[:1] * (first == "?:"), names, tuple(map(str.casefold, names))))
    return tuple(found)


def _names(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))


@lru_cache(1024)
def _forms(path: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The names of a path; these in lower case; and these without the signs of a pattern, which may be a part of a name.

    What a rule asks about or denies is the same in any case: on some systems it is the same file.
    """
    names = _names(path)
    folded = tuple(map(str.casefold, names))
    return names, folded, tuple(PATTERN.sub("\0", name) for name in folded)


def _match(item: tuple[str, ...], names: tuple[str, ...], *, loose: bool, above: bool = False) -> bool:
    """Whether a path is at or below what an item names; `loose`: whether it may be, as patterns go."""
    same = 0  # of the names at the beginning, which is the most frequent case by far
    for has, wants in zip(names, item, strict=False):
        if has != wants or wants == "**":
            break
        same += 1
    item, names = item[same:], names[same:]
    if not item:
        return True
    if item[0] == "**":
        return _match(item[1:], names, loose=loose, above=above) or (
            bool(names) and _match(item, names[1:], loose=loose, above=above)
        )
    if not names:
        return above
    has, wants = names[0], item[0]
    if loose:
        alike = bool(PATTERN.search(has + wants)) and (fnmatchcase(has, wants) or fnmatchcase(wants, has))
    else:
        alike = wants == "*" or (not PATTERN.search(has) and fnmatchcase(has, wants))
    return alike and _match(item[1:], names[1:], loose=loose, above=above)
