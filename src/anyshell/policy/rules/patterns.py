"""Matches of a shell pattern on a host, and the targets of matched links."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_FOUND = 1000
"""Directories that a pattern may find on the way to its last name; with more, the pattern's paths are not known."""

MOST_LISTED = 20_000
"""Names that are compared with the patterns of a text; with more, the patterns' paths are not known."""

ANYTHING = ("*/",)
"""The names in a directory whose only known fact is that it contains no link."""

PATTERN = re.compile(r"[*?\[{]")


class Patterns:
    """The patterns of one decision.

    A pattern may find more here than in the shell. The shell's options decide whether names in another case match and
    what ``**`` means, and the options are not known.

    Args:
        names: Lists the names in a directory, as `HostFacts.names`.
        resolve: Resolves the links of a path, as `HostFacts.resolve`.
        dots: Whether any pattern finds names that begin with a dot, as in PowerShell.
    """

    def __init__(
        self,
        names: Callable[[str], tuple[str, ...] | None],
        resolve: Callable[[str], str | None],
        *,
        dots: bool = False,
    ) -> None:
        self._dots = dots
        self._names = cache(names)
        self._resolve = resolve
        self._left = MOST_LISTED

    def linked(self, start: str, pattern: Sequence[str]) -> list[str] | None:
        """Return the resolved paths that a pattern leads to by a link; ``None`` if not known.

        Args:
            start: The directory in which the pattern begins, resolved.
            pattern: The names of the pattern. The last name stays a pattern in returned paths, if an earlier name is a link.
        """
        *way, last = pattern
        found = self._directories(start, way)
        if found is None:
            return None
        paths = [_join(directory, last) for directory, by_link in found.items() if by_link]
        for directory in found:
            entries = self._matching(directory, last)
            if entries is None:
                return None
            leading = (self._resolve(_join(directory, each[:-1])) for each in entries if each[-1] == "@")
            for target in leading:
                if target is None:
                    return None
                paths.append(target)
        return paths

    def found(self, start: str, pattern: Sequence[str]) -> list[str] | None:
        """Return the paths below a directory that a pattern finds; ``None`` if not known.

        Only a pattern that begins with a dot finds names that begin with a dot. A text that sets the shell's option
        otherwise is asked about.
        """
        *way, last = pattern
        directories = self._directories(start, way, dots=False)
        paths: list[str] = []
        for directory in directories or ():
            entries = self._matching(directory, last, dots=False)
            if entries is None:
                return None
            paths += [_join(directory, each[:-1]) for each in entries]
        return None if directories is None else paths

    def _directories(
        self, start: str, pattern: Sequence[str], *, dots: bool = True
    ) -> dict[str, bool] | None:
        """Return the directories that a pattern finds, resolved, and for each whether a link was on the way."""
        level = {start: False}
        for name in pattern:
            if name in ("", "."):
                continue
            deep = "**" in name
            following = dict(level) if deep else {}
            waiting = list(level.items())
            for directory, by_link in waiting:
                entries = self._matching(directory, name, dots=dots)
                if entries is None:
                    return None
                for entry in entries:
                    path, kind = _join(directory, entry[:-1]), entry[-1]
                    if kind == "/":
                        waiting += [(path, by_link)] if deep else []
                        following[path] = following.get(path, False) or by_link
                    elif kind == "@":
                        target = self._resolve(path)
                        if target is None:
                            return None
                        following[target] = True
                if len(following) > MOST_FOUND:
                    return None
            level = following
        return level

    def _matching(self, directory: str, pattern: str, *, dots: bool = True) -> list[str] | None:
        """Return the names in a directory that one name of a pattern may match; `dots`: also names that begin with a dot."""
        entries = self._names(directory)
        if entries == ANYTHING:
            return [] if dots else None
        self._left -= len(entries or ())
        if entries is None or self._left < 0:
            return None
        hidden = dots or self._dots or pattern.startswith(".")
        return [
            each for each in entries if (hidden or each[0] != ".") and _wider(pattern).fullmatch(each[:-1])
        ]


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


@lru_cache(1024)
def _wider(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that matches at least the names of a shell pattern.

    It ignores case, takes any character for a simple ``[list]``, and any text for braces and for other lists.
    """
    wide = re.sub(r"\[[\w-]+\]", "?", pattern, flags=re.ASCII)
    wide = re.sub(r"\{.*?\}|[\[{].*", "*", wide)
    return re.compile(translate(wide), re.IGNORECASE)
