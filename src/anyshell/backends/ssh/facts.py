"""The facts of a host, as `HostInfo`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

from ..._answers import LONGEST_FACT, Nonsense, whole
from ..._types import HostInfo, ShellInfo, ShellKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._types import OperatingSystem

_SYSTEMS: dict[str, OperatingSystem] = {"Darwin": "macos", "Windows_NT": "windows"}


class FactLines:
    """The lines that ``facts`` of `facts.sh`, or `facts.ps1`, prints: a name and its value on each line."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._programs: dict[str, str] = {}
        self._tried: list[str] = []
        self._variables: set[str] = set()

    @classmethod
    def read(cls, lines: Iterable[str]) -> FactLines:
        """Parse the lines; lines that are not facts are ignored.

        Raises:
            Nonsense: A line is longer than `LONGEST_FACT`.
        """
        facts = cls()
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind != "fact":
                continue
            name, _, value = rest.partition(" ")
            if len(rest) > LONGEST_FACT:
                raise Nonsense(name, value)
            if name == "program":
                program, _, path = value.partition(" ")
                facts._programs[program] = path
            elif name == "tried":
                facts._tried.append(value)
            elif name == "variable":
                facts._variables.add(value)
            else:
                facts._values[name] = value
        return facts

    def get(self, name: str) -> str:
        """Return the value of a name; empty when the host did not report the name."""
        return self._values.get(name, "")

    @property
    def ticks(self) -> float:
        """The units of a process's start time in one second: clock ticks on Linux, seconds elsewhere.

        Raises:
            Nonsense: The host reports no valid number.
        """
        if not self.get("proc"):
            return 1.0
        # getconf(1) may not know the number, and then prints "undefined" or nothing.
        return 100.0 if (said := self.get("ticks")) in ("", "undefined") else whole("ticks", said, 1, 10**9)

    def host(self, *, notices: tuple[str, ...]) -> HostInfo:
        """Return all facts as a `HostInfo`."""
        system = self.get("system")
        return HostInfo(
            os=_SYSTEMS.get(system, "linux"),
            arch=self.get("arch"),
            name=self.get("name") or system,
            version=self.get("version") or ("" if self.get("name") else self.get("release")),
            hostname=self.get("hostname"),
            user=self.get("user"),
            home=self.get("home"),
            directory=self.get("directory") or self.get("home") or "/",
            container=self.get("container") or None,
            wsl="microsoft" in self.get("release").lower(),
            programs=self._programs,
            shell=self._shell(),
            shells_tried=tuple(self._tried),
            notices=notices,
            code_page=int(self.get("page")) if re.fullmatch("[0-9]{1,5}", self.get("page")) else None,
            variables=frozenset(self._variables),
        )

    def _shell(self) -> ShellInfo | None:
        for kind in get_args(ShellKind):
            if self.get("kind") == kind:
                return ShellInfo(kind=kind, path=self.get("shell"), version=self.get("answer").strip())
        return None
