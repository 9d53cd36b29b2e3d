"""The detection of a host's means to confine commands: one request, by a program of the host's shell."""

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
"""Seconds for a host to report its means to confine commands; then the host counts as having none."""

ANSWER_BYTES = 16 * 1024
"""Bytes of a host's report on its means to confine commands; the rest is not read."""

OLDEST_COUNT = (5, 14)  # no bound
"""The first kernel that counts processes for each user namespace, so that a limit counts one command's processes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The means of a host to confine commands.

    Attributes:
        system: The name of the host's kernel, such as ``Linux``.
        kernel: The version of the kernel.
        uid: The user's id on the host.
        python: The path of a Python 3 on the host; ``None`` without a Python 3.
        python_version: The version of that Python.
        bwrap: The path of bubblewrap; ``None`` without bubblewrap.
        version: The version of bubblewrap.
        setuid: Whether bubblewrap has the setuid bit, which disables some of its options.
        cannot: Bubblewrap's error for each part that the host cannot make: ``user``, ``pid``, ``net`` or ``proc``.
        landlock: The version of Landlock's interface; 0 without Landlock.
        apparmor: Whether AppArmor restricts the user namespaces of ordinary users.
        profile: The AppArmor profile that confines this program, such as ``docker-default``; empty without a profile.
        allowed: Whether the kernel lets ordinary users make user namespaces, if the kernel has a setting for that.
        most_namespaces: User namespaces that the kernel allows a user; ``None`` if unknown.
        cgroup: The directory in which anyshell can make and enter control groups (cgroup v2) with limits; ``None`` without
            such a directory.
        controllers: The resources that the control groups limit: ``memory``, ``pids``.
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
        """Whether the kernel can limit the processes of one command: not for root, and not before version 5.14."""
        parts = tuple(map(int, re.findall(r"\d+", self.kernel)[:2]))
        return self.uid != 0 and parts >= OLDEST_COUNT


def python_here() -> str:
    """Return the path of the Python that runs this program; in a frozen program, of a Python on PATH."""
    own = os.path.realpath(sys.executable or "")
    if not getattr(sys, "frozen", False) and os.path.basename(own).startswith(("python", "pypy")):
        return own
    return shutil.which("python3") or "python3"


def question(python: str) -> Spawn:
    """Return the program that asks a host for its facts."""
    argv = ("/bin/sh", "-c", text_of("facts.sh"), "sh", python, text_of("inside.py"))
    return Spawn(argv=argv, cwd="/", split_stderr=True)


def read_facts(answer: bytes) -> Facts:
    """Parse the answer of the program. A fact that the answer lacks counts as absent."""
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
    """Return the text of one of anyshell's own programs, without its comments."""
    # pkgutil can read from a zip, as importlib.resources can, whose import alone takes 7 ms.
    text = pkgutil.get_data(package or "", name)
    assert text is not None
    lines = text.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))
