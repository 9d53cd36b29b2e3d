"""Search for shells on Windows, above all for bash: on Windows only WSL puts a bash on PATH."""

from __future__ import annotations

import ntpath
import os
import sys
import winreg
from typing import TYPE_CHECKING

assert sys.platform == "win32"

from ...._exceptions import InvalidCommand
from .programs import find_program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

_OF_GIT = frozenset({"bash", "sh", "zsh"})
"""Shells that Git for Windows and MSYS2 contain, and that are searched for beside Git."""

_SYSTEMS_OF_MSYS2 = frozenset({"clang64", "clangarm64", "mingw32", "mingw64", "ucrt64", "usr"})
"""Directories between the top directory of MSYS2 or Git for Windows and a ``bin`` (msys2.org, "Environments")."""

KEY = r"SOFTWARE\GitForWindows"
"""The registry key in which the installer of Git for Windows writes ``InstallPath``."""


async def find_shell(path: str, ask: Callable[[Sequence[str]], Awaitable[str]]) -> Sequence[str]:
    """Return the programs that a candidate may mean, the best first. No result is a batch file, which ``cmd.exe`` would read.

    Args:
        path: The path of the candidate, as in `ShellCandidate`.
        ask: Function that runs a program and returns the first line of its output; empty without output.

    Raises:
        InvalidCommand: ``ANYSHELL_BASH`` is not the path of a program.
    """
    path = winreg.ExpandEnvironmentStrings(path)
    found = [each async for each in _beside_git(path, ask)] if path in _OF_GIT else [path]
    programs = (find_program(each, extensions=".exe") for each in found)
    return tuple(
        {ntpath.normcase(each): ntpath.abspath(each) for each in programs if each is not None}.values()
    )


def starts_wsl(path: str) -> bool:
    """Whether a program is Windows' own ``bash.exe`` or ``wsl.exe``, which always starts WSL."""
    root = os.environ.get("SYSTEMROOT", r"C:\Windows")
    places = [ntpath.join(root, name) for name in ("System32", "Sysnative", "SysWOW64")]
    directory, name = ntpath.split(ntpath.normcase(ntpath.abspath(path)))
    is_alias = ntpath.basename(directory) == "windowsapps"
    return name in ("bash.exe", "wsl.exe") and (is_alias or directory in map(ntpath.normcase, places))


async def _beside_git(name: str, ask: Callable[[Sequence[str]], Awaitable[str]]) -> AsyncIterator[str]:
    if name == "bash" and (wished := os.environ.get("ANYSHELL_BASH")):
        program = find_program(wished, extensions=".exe")
        if program is None:
            raise InvalidCommand(
                f"ANYSHELL_BASH: {wished!r} is not the absolute path of a program; give that of a bash.exe, or unset it"
            )
        yield program
        return
    if os.environ.get("MSYSTEM"):  # this process was started from MSYS2, whose own directories come first
        for program in _on_path(name):
            yield program
    gits = list(_on_path("git"))
    if gits:
        # Git itself knows its directory, also where its path on PATH does not show it, as with Scoop and Chocolatey.
        libexec, last = ntpath.split(ntpath.normpath(await ask((gits[0], "--exec-path"))))
        if last.lower() == "git-core":
            for program in _in(_above(libexec, "libexec"), name):
                yield program
    for git in gits:
        for program in _in(_above(ntpath.dirname(git), "bin", "cmd"), name):
            yield program
    for top in _registered():
        for program in _in(top, name):
            yield program
    for program in _on_path(name):
        yield program


def _on_path(name: str) -> Iterator[str]:
    """Yield all programs of a name on PATH, except those that start WSL."""
    for directory in os.environ.get("PATH", "").split(";"):
        program = find_program(name, directory, ".exe")
        if program is not None and not starts_wsl(program):
            yield program


def _above(directory: str, *names: str) -> str:
    """Return the installation's top directory above a directory of one of these names; empty if the name is another.

    No other directory is tried: every user may be able to write to directories above.
    """
    top, name = ntpath.split(ntpath.normpath(directory))
    if name.lower() not in names:
        return ""
    if ntpath.basename(top).lower() in _SYSTEMS_OF_MSYS2:
        top = ntpath.dirname(top)
    return top if ntpath.basename(top) else ""  # not the root of a drive


def _in(top: str, name: str) -> Sequence[str]:
    """Return the possible paths of a program below `top`. Git's program in ``bin`` sets up PATH and starts that in ``usr``."""
    return [ntpath.join(top, directory, name) for directory in ("bin", r"usr\bin")] if top else []


def _registered() -> Iterator[str]:
    for top in (winreg.HKEY_CURRENT_USER, winreg.HKEY_LOCAL_MACHINE):
        for view in (winreg.KEY_WOW64_64KEY, winreg.KEY_WOW64_32KEY):
            try:
                with winreg.OpenKey(top, KEY, access=winreg.KEY_READ | view) as key:
                    value, kind = winreg.QueryValueEx(key, "InstallPath")
            except OSError:
                continue
            if kind == winreg.REG_SZ and value:
                yield value
