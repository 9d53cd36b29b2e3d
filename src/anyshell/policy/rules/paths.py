"""The paths that a command's words name on a host, and the areas that contain the paths."""

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
"""Placeholder for a path, or a host, that the words do not name."""

DEEPEST_PATH = 256
"""Names of a path; a longer path counts as not known."""

LONGEST_NAME = 255
"""Characters of a name in a path with a pattern; a path with a longer name counts as not known."""

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
        cwd: The working directory in which the text begins, absolute.
        workspace: The workspace directory, absolute.
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
        """The shell's values of variables with paths; a variable that the text may change is removed."""
        starts = {"workspace": self.workspace, "cwd": self.cwd, "home": self.home, "~": self.home}
        if self.windows:
            starts = {name: start and start.replace("\\", "/") for name, start in starts.items()}
        self._roots = tuple(starts.items())

    def join(self, base: str, path: str) -> str | None:
        """Make a path absolute; ``None`` if the directory that the path is relative to is not known."""
        if self.windows:
            drive, rest = ntpath.splitdrive(path)
            # C:x is relative to the current directory of the drive, /x to a root that Git for Windows chooses.
            if (drive and not rest.startswith(("/", "\\"))) or (not drive and rest.startswith(("/", "\\"))):
                return None
        return str(self._path.join(base, path))

    def plain(self, path: str) -> str:
        """Return an absolute path with ``..`` removed from its text, as a shell does without looking at links."""
        return str(self._path.normpath(path))

    def resolved_program(self, program: str, base: str | None) -> str | None:
        """Return the absolute path of a program that is called by a path, with the links of its directory resolved."""
        whole = None if base is None else self.join(base, program)
        directory = whole and self.resolve(self._path.dirname(whole))
        return directory and whole and self._path.join(directory, self._path.basename(whole))

    def named(self, word: Argument | str | None) -> str | None:
        """Return the path that a word names, with its patterns kept; ``None`` if the word names no known path."""
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
        # ~ and ^ within a word are plain characters. In zsh, with an option, they are patterns of names in that directory.
        text = re.sub(r"[~^][^/]*", "*", text)
        return start + text if "{" not in text or _SIMPLE_BRACES.fullmatch(text) else None

    def is_plain(self, word: Argument) -> bool:
        """Whether a word is literal, except for a home or working directory at its beginning."""
        return word.literal or ((path := self.named(word)) is not None and not PATTERN.search(path))

    def resolved(self, word: Argument | str | None, bases: Sequence[str | None]) -> list[str]:
        """Return the paths that a word may be, from each possible base directory; empty for /dev/null and similar devices."""
        path = self.named(word)
        if path is None:
            return [UNKNOWN]
        if _NOWHERE.fullmatch(path):
            return []
        literal = word is None or isinstance(word, str) or word.literal
        return sorted({each for base in bases for each in self._resolved(path, base, literal=literal)})

    def _resolved(self, path: str, base: str | None, *, literal: bool) -> tuple[str, ...]:
        """Return the path, and the targets of the links that a pattern in the path matches."""
        if literal:
            whole = self._whole(path, base)
            return ((whole and self.resolve(whole)) or UNKNOWN,)
        start, names = self._split(path, base) or ("", [])
        if not names:
            return (start or UNKNOWN,)
        linked = self._patterns.linked(start, names)
        return (UNKNOWN,) if linked is None else ("/".join([start.rstrip("/"), *names]), *linked)

    def links(self, word: Argument | str, bases: Sequence[str | None]) -> list[str]:
        """Return the targets of links: of the word itself, or of the paths that the word's pattern matches."""
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
        """Return the last names of the paths that a word stands for; ``None`` if not known."""
        path = (self.named(word) or "").rstrip("/")
        if word.literal or not PATTERN.search(path):
            return {self._path.basename(path)} if path else None
        found = self.found(word, bases)
        return None if found is None else set(map(self._path.basename, found))

    def found(self, word: Argument, bases: Sequence[str | None]) -> list[str] | None:
        """Return the paths that a pattern finds now; ``None`` if not known."""
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
        """Return the names, in lower case, of each path that a pattern finds now; ``None`` if not known.

        If an earlier command of the text makes a matching path, that command names the path.
        """
        start, names = self._split(path, None) or ("", [])
        found = None if not names or "{" in path or "**" in path else self._patterns.found(start, names)
        return None if found is None else [tuple(map(str.casefold, self._names(each))) for each in found]

    def _whole(self, path: str, base: str | None) -> str | None:
        """Make a path absolute; ``None`` if its base is not known or the path is too long."""
        whole = None if base is None and not self._path.isabs(path) else self.join(base or self.cwd, path)
        if whole is None or whole.count("/") + whole.count("\\") > DEEPEST_PATH or "\0" in whole:
            return None
        return whole

    def _split(self, path: str, base: str | None) -> tuple[str, list[str]] | None:
        """Split a path into the resolved directory before its pattern and the names after; ``None`` if not known."""
        whole = self._whole(path, base)
        if whole is None:
            return None
        names = (whole.replace("\\", "/") if self.windows else whole).split("/")
        first = next((at for at, name in enumerate(names) if PATTERN.search(name)), len(names))
        # In shells older than bash 5.2, a pattern such as .* also finds the parent directory.
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
            path: A resolved path, or `UNKNOWN`.
            items: The paths and areas of a rule, as written.
            strictly: Whether all paths that a pattern may match have to be in an area; else one possible match is enough.
            deletes: Whether the path is deleted, and all paths below with it.
            anywhere: Whether ``*`` and ``**`` may stand for names of an item that begins with ``**``, if the paths that the
                pattern finds are not known.
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
                # Windows' own directories are the same in any case of letters: an upgraded system has C:/WINDOWS.
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
    """Return for each path of a rule's items: its kind, its names, and its names in lower case.

    The kind is ``=``, ``anywhere``, ``elsewhere``, ``?`` for a path on any drive, or empty. ``**`` is any number of names.
    """
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
    """Return three forms of a path's names: as written, in lower case, and in lower case with pattern characters replaced.

    Pattern characters may be part of a name. Rules that ask or deny ignore case: on some systems a name in another case
    is the same file.
    """
    names = _names(path)
    folded = tuple(map(str.casefold, names))
    return names, folded, tuple(PATTERN.sub("\0", name) for name in folded)


def _match(item: tuple[str, ...], names: tuple[str, ...], *, loose: bool, above: bool = False) -> bool:
    """Whether a path is at or below an item's path; `loose`: whether the path may be, if it has patterns."""
    same = 0  # equal names at the beginning: the most frequent case by far
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
