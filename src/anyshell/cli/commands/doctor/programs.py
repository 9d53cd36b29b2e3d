"""Checks for the programs that a model is told of, for the extras of anyshell, and the commands that install them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from .report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...._types import OperatingSystem

_INSTALLERS = {
    "apt-get": "apt-get install",
    "apk": "apk add",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "brew": "brew install",
    "winget": "winget install",
}
"""Package managers, and the command with which each installs packages."""

_PACKAGES = {"rg": "ripgrep", "fd": "fd-find", "fdfind": "fd-find", "python": "python3"}
"""Programs whose package has another name, nearly everywhere. Of two programs in the same package, one is enough."""

_WINGET = {
    "fd": "sharkdp.fd",
    "gh": "GitHub.cli",
    "git": "Git.Git",
    "jq": "jqlang.jq",
    "python": "Python.Python.3.13",
    "rg": "BurntSushi.ripgrep.MSVC",
}
"""The packages of programs on Windows, whose names include the publisher. Other programs do not exist for Windows."""


_EXTRAS = {
    "console": ("textual",),
    "mcp": ("mcp",),
    "png": ("resvg_py",),
    "policy": ("tree_sitter", "tree_sitter_bash"),
    "re2": ("re2",),
}
"""The extras of anyshell, and the modules whose presence shows that an extra is installed."""


def look_at_extras() -> Iterator[Finding]:
    """Check which extras of anyshell are installed."""
    for extra, modules in _EXTRAS.items():
        if all(find_spec(module) for module in modules):
            yield Finding("extra", extra, "ok", "installed")
        else:
            yield Finding(
                "extra", extra, "missing", "not installed", f"python -m pip install 'anyshell[{extra}]'"
            )


def installers() -> Sequence[str]:
    """Return the names of the known package managers."""
    return tuple(_INSTALLERS)


def find_installer(programs: Mapping[str, str], os: OperatingSystem = "linux") -> str:
    """Return the command with which a host that has these programs installs another program."""
    default = _INSTALLERS["winget"] if os == "windows" else "install"
    return next((command for name, command in _INSTALLERS.items() if name in programs), default)


def look_at_programs(wanted: Sequence[str], found: Mapping[str, str], install: str) -> Iterator[Finding]:
    """Check which of the programs that a model is told of exist."""
    settled = {_package(name, install) for name in found}
    for name in wanted:
        package = _package(name, install)
        if name in found:
            yield Finding("program", name, "ok", found[name])
        elif package is not None and package not in settled:
            settled.add(package)
            yield Finding("program", name, "missing", "not on PATH", f"{install} {package}")


def _package(program: str, install: str) -> str | None:
    """Return the package of a program; ``None`` if the operating system has no package of the program."""
    return _WINGET.get(program) if install == _INSTALLERS["winget"] else _PACKAGES.get(program, program)
