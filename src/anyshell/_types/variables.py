"""The host's environment variables that commands get."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from .._exceptions import InvalidCommand
from .checks import check_choice, check_text, check_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Inherit = Literal["all", "core", "none"]

SECRET_NAMES = (
    "*TOKEN*",
    "*SECRET*",
    "*KEY*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*_PAT",
    "*_DSN",
)
"""Patterns of the names of variables whose values are secrets."""

_CORE = (
    # The variables of environ(7) and locale(7), and the directory for temporary files.
    *("HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    # Windows programs need these variables to find their libraries and each other.
    *("ALLUSERSPROFILE", "APPDATA", "COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "OS"),
    *("NUMBER_OF_PROCESSORS", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PUBLIC"),
    *("PROGRAMFILES(X86)", "PROGRAMW6432", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERDOMAIN"),
    *("USERNAME", "USERPROFILE", "WINDIR"),
)
"""Patterns of the names of variables that most programs need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The host's variables that commands have, beside the variables that anyshell and the caller set.

    Attributes:
        inherit: ``all`` of the host's variables; ``core``, the variables that most programs need, such as ``PATH``, ``HOME``,
            ``LANG`` and ``TMPDIR``; or ``none``.
        exclude: Patterns of names that commands never inherit, such as ``*TOKEN*``: ``*`` and ``?`` as in a
            shell, in any case of letters. The default patterns match the names of secrets.
        set: Variables that commands have, even if a pattern excludes the name. The caller's own ``env`` overrides `set`.

    Raises:
        InvalidCommand: An argument is invalid; the message never has a value.
    """

    inherit: Inherit = "all"
    exclude: tuple[str, ...] = SECRET_NAMES
    set: Mapping[str, str] = field(default_factory=dict, repr=False)  # a value may be a secret

    def __post_init__(self) -> None:
        check_choice("inherit", self.inherit, get_args(Inherit))
        if isinstance(self.exclude, str):
            raise InvalidCommand(f"exclude must be several patterns, such as ({self.exclude!r},)")
        object.__setattr__(self, "exclude", tuple(self.exclude))
        for pattern in self.exclude:
            check_text("a pattern of exclude", pattern)
        for name, value in self.set.items():
            check_variable(name, value)

    def unset(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names of the host's variables that commands do not have.

        Args:
            names: The names of all of the host's variables.
        """
        kept = None if self.inherit == "all" else matcher(_CORE if self.inherit == "core" else ())
        excluded = matcher(self.exclude)
        return frozenset(name for name in names if excluded(name) or (kept is not None and not kept(name)))


@lru_cache(maxsize=64)
def matcher(patterns: tuple[str, ...]) -> Matcher:
    """Return a cached `Matcher` for the names of variables."""
    return Matcher(patterns)


class Matcher:
    """A test whether a name matches one of several patterns, in any case of letters."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._match = re.compile("|".join(map(translate, patterns)) or r"(?!)", re.IGNORECASE).match

    def __call__(self, name: str) -> bool:
        """Whether the name matches one of the patterns."""
        return self._match(name) is not None
