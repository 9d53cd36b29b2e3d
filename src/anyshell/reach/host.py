"""The means of a host to confine commands: asked for once, by a program of its shell."""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import sys
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from .._types import Spawn, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_SECONDS = 20.0
"""Seconds for a host to say what it has for confining commands; then it has nothing."""

ANSWER_BYTES = 16 * 1024
"""Bytes of that answer; what comes after them is not read."""

OLDEST_COUNT = (5, 14)  # no bound
"""The kernel that first counts processes for each user namespace, so that a limit on them is a command's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The means of a host to confine commands.

    Attributes:
        system: The name of its kernel, such as ``Linux``.
        kernel: Its version.
        uid: The user's number there.
        python: A Python 3 that runs there; ``None`` is none.
        python_version: Its version.
        bwrap: The path of bubblewrap; ``None`` is none.
        version: Its version.
        setuid: Whether it has the setuid bit, with which it knows less.
        cannot: Why a part cannot be had, as bubblewrap says it: ``user``, ``pid``, ``net`` or ``proc``.
        landlock: The version of Landlock's interface; 0 is none.
        apparmor: Whether AppArmor restricts the user namespaces of ordinary users.
        profile: The profile of AppArmor that confines this program, such as ``docker-default``; empty without one.
        allowed: Whether the kernel lets ordinary users make them, where it asks that.
        most_namespaces: User namespaces that the kernel allows a user; ``None`` is not known.
        cgroup: The directory in which groups of cgroup v2 can be made that limit something, and entered; ``None`` without one.
        controllers: The resources that these limit: ``memory``, ``pids``.
        tiocsti: Whether the kernel lets a program type on its terminal by TIOCSTI.
    """

    system: str = "Linux"
    kernel: str = ""
    uid: int = 0
    python: str | None = None
    python_version: str = ""
    bwrap: str | None = None
    version: str = ""
    setuid: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)
    landlock: int = 0
    apparmor: bool = False
    profile: str = ""
    allowed: bool = True
    most_namespaces: int | None = None
    cgroup: str | None = None
    controllers: tuple[str, ...] = ()
    tiocsti: bool = False

    def counts_processes(self) -> bool:
        """Whether the kernel limits the processes of one command: not those of root, and not before 5.14."""
        parts = tuple(map(int, re.findall(r"\d+", self.kernel)[:2]))
        return self.uid != 0 and parts >= OLDEST_COUNT


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
    controllers, slash, place = said.get("cgroup", "").partition(" /")
    digits = {name: int(said[name]) for name in ("uid", "landlock", "most") if said.get(name, "").isdigit()}
    return Facts(
        system=said.get("system", ""),
        kernel=said.get("kernel", ""),
        uid=digits.get("uid", -1),
        python=said.get("python") or None,
        python_version=said.get("python-version", ""),
        bwrap=said.get("bwrap") or None,
        version=said.get("version", "").removeprefix("bubblewrap "),
        setuid=said.get("setuid") == "1",
        cannot=cannot,
        landlock=digits.get("landlock", 0),
        apparmor=said.get("apparmor") == "1",
        profile=said["profile"].removesuffix(" (enforce)")
        if said.get("profile", "").endswith(" (enforce)")
        else "",
        allowed=said.get("allowed") != "0",
        most_namespaces=digits.get("most"),
        cgroup=f"/{place}" if slash else None,
        controllers=tuple(controllers.split()) if slash else (),
        tiocsti=said.get("tiocsti") == "1",
    )


@cache
def text_of(name: str, package: str | None = __package__) -> str:
    """The text of one of our own programs, without its comments."""
    # It reads from a zip as importlib.resources does, whose import alone takes 7 ms.
    text = pkgutil.get_data(package or "", name)
    assert text is not None
    lines = text.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))
