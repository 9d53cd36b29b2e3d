"""What a host has for confining commands: asked for once, by a program of its shell."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import stat
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from .._types import Spawn, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANSWER_SECONDS = 20.0
"""Seconds for a host to say what it has for confining commands; then it has nothing."""

ANSWER_BYTES = 16 * 1024
"""Bytes of that answer; what comes after them is not read."""

MOST_SOCKETS = 256
"""Sockets of other programs that are looked for and covered, where they lie in directories that a command can read."""

OLDEST_COUNT = (5, 14)  # no bound
"""The kernel that first counts processes for each user namespace, so that a limit on them is a command's own."""

Kind = Literal["directory", "file", ""]

_SOCKETS = "/proc/net/unix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a host has for confining commands.

    Attributes:
        system: The name of its kernel, such as ``Linux``.
        kernel: Its version.
        uid: The user's number there.
        python: A Python 3 that runs there; ``None`` is none.
        bwrap: The path of bubblewrap; ``None`` is none.
        version: Its version.
        cannot: Why a part cannot be had, as bubblewrap says it: ``user``, ``pid``, ``net`` or ``proc``.
        landlock: The version of Landlock's interface; 0 is none.
        apparmor: Whether AppArmor restricts the user namespaces of ordinary users.
        allowed: Whether the kernel lets ordinary users make them, where it asks that.
        most_namespaces: User namespaces that the kernel allows a user; ``None`` is not known.
        cgroup: The controllers of cgroup v2 in the group of this process, if it may make groups there; ``None`` if not.
        tiocsti: Whether the kernel lets a program type on its terminal by TIOCSTI.
    """

    system: str = "Linux"
    kernel: str = ""
    uid: int = 0
    python: str | None = None
    bwrap: str | None = None
    version: str = ""
    cannot: Mapping[str, str] = field(default_factory=dict)
    landlock: int = 0
    apparmor: bool = False
    allowed: bool = True
    most_namespaces: int | None = None
    cgroup: str | None = None
    tiocsti: bool = False

    def counts_processes(self) -> bool:
        """Whether the kernel limits the processes of one command: not those of root, and not before 5.14."""
        parts = tuple(map(int, re.findall(r"\d+", self.kernel)[:2]))
        return self.uid != 0 and parts >= OLDEST_COUNT


class Places(Protocol):
    """What a host says of its paths."""

    def real(self, path: str) -> str:
        """The path without links."""

    def kind(self, path: str) -> Kind:
        """What is there; empty for nothing, and for what a command could not look at either."""

    def sockets(self) -> Sequence[str]:
        """The sockets of the file system at which programs listen, `MOST_SOCKETS` at most."""


class LocalPlaces:
    """The paths of this machine."""

    def real(self, path: str) -> str:
        """The path without links."""
        return os.path.realpath(path)

    def kind(self, path: str) -> Kind:
        """What is there."""
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return ""
        if sys.platform != "win32" and os.geteuid() == 0 and not all(map(_may_enter, Path(path).parents)):
            return ""
        return "directory" if stat.S_ISDIR(mode) else "file"

    def sockets(self) -> Sequence[str]:
        """The sockets in this network namespace."""
        try:
            with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            return ()
        words = (line.split(" ", 7)[-1].strip() for line in lines[1:])
        names = {name.split(" ", 1)[-1] for name in words}
        paths = {self.real(name) for name in names if name.startswith("/")}
        found = [path for path in sorted(paths) if _is_socket(path) and self.kind(path)]
        return found[:MOST_SOCKETS]


def _may_enter(directory: Path) -> bool:
    """Whether root may enter a directory without the capability for it, as in a sandbox."""
    if sys.platform == "win32":
        return True
    how = directory.stat()
    bits = 0o100 if how.st_uid == 0 else 0o010 if how.st_gid in (0, *os.getgroups()) else 0o001
    return bool(how.st_mode & bits)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def python_here() -> str:
    """The Python that runs this program, if it is one; otherwise one on PATH."""
    own = os.path.realpath(sys.executable or "")
    if not getattr(sys, "frozen", False) and os.path.basename(own).startswith(("python", "pypy")):
        return own
    return shutil.which("python3") or "python3"


def question(python: str) -> Spawn:
    """The program that asks a host."""
    argv = ("/bin/sh", "-c", text_of("facts.sh"), "sh", python, text_of("inside.py"))
    return Spawn(argv=argv, cwd="/", split_stderr=True)


def read_facts(answer: bytes) -> Facts:
    """Read what the program says. What is not said is not there."""
    lines = answer.decode("utf-8", "replace").splitlines()
    said: dict[str, str] = {}
    cannot: dict[str, str] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "cannot":
            part, _, why = rest.partition(" ")
            cannot[part] = one_line(why)
        else:
            said.setdefault(word, one_line(rest))
    digits = {name: int(said[name]) for name in ("uid", "landlock", "most") if said.get(name, "").isdigit()}
    return Facts(
        system=said.get("system", ""),
        kernel=said.get("kernel", ""),
        uid=digits.get("uid", -1),
        python=said.get("python") or None,
        bwrap=said.get("bwrap") or None,
        version=said.get("version", "").removeprefix("bubblewrap "),
        cannot=cannot,
        landlock=digits.get("landlock", 0),
        apparmor=said.get("apparmor") == "1",
        allowed=said.get("allowed") != "0",
        most_namespaces=digits.get("most"),
        cgroup=said.get("cgroup"),
        tiocsti=said.get("tiocsti") == "1",
    )


@cache
def text_of(name: str) -> str:
    """The text of one of our own programs, without its comments."""
    # It reads from a zip as importlib.resources does, whose import alone takes 7 ms.
    text = pkgutil.get_data(__package__ or "", name)
    assert text is not None
    lines = text.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))
