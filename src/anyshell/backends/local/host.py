"""The facts of this machine."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    from .windows import win32
    from .windows.programs import find_program
else:

    def find_program(name: str) -> str | None:
        """Look a name up on PATH, as `shutil.which` does, whose import takes longer; a path is looked at itself."""
        places = [""] if "/" in name else filter(None, os.get_exec_path())
        for path in (os.path.join(place, name) for place in places):
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
        return None


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..._types import OperatingSystem

CONTAINER_FILES: Mapping[str, str] = {
    "/.dockerenv": "docker",  # made by the Docker engine in every container
    "/run/.containerenv": "podman",  # podman-run(1)
}


def operating_system() -> OperatingSystem:
    """The name of this system; every other Unix counts as Linux, whose tools it most resembles."""
    if sys.platform == "win32":
        return "windows"
    return "macos" if sys.platform == "darwin" else "linux"


def system_name() -> tuple[str, str]:
    """The system's name and version as a person says them."""
    import platform

    if sys.platform == "darwin":
        return "macOS", platform.mac_ver()[0]
    if sys.platform == "linux":
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            return "Linux", platform.release()
        return release.get("NAME", "Linux"), release.get("VERSION_ID", "")
    if sys.platform == "win32":
        return "Windows", ".".join(map(str, sys.getwindowsversion().platform_version))
    return platform.system(), platform.release()


def arch() -> str:
    """The machine's architecture as the system names it: ``x86_64``, ``arm64``; on Windows ``AMD64``, ``ARM64``."""
    if sys.platform == "win32":
        return win32.native_architecture()
    return os.uname().machine


def hostname() -> str:
    """The machine's own name."""
    return socket.gethostname()


def user() -> str:
    """The user that commands run as."""
    if sys.platform == "win32":
        return win32.user_name()
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's arbitrary user id has no name
        return str(os.geteuid())


def home() -> str:
    """The user's home directory; the root where the user has none, as in a container of an arbitrary uid."""
    path = os.path.expanduser("~")
    return path if os.path.isabs(path) else os.path.abspath(os.sep)


def directory() -> str:
    """The process's directory at this moment.

    One that has been removed keeps its name, which leads nowhere: commands are then refused and say why, rather
    than run in some other place.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        pass
    try:
        return os.readlink("/proc/self/cwd")
    except OSError:
        return os.environ.get("PWD") or os.path.join(os.sep, "removed")


def container() -> str | None:
    """The kind of container that this machine is; ``None`` if it is no container."""
    for path, kind in CONTAINER_FILES.items():
        if sys.platform != "win32" and os.path.exists(path):
            return kind
    # systemd's convention for containers: https://systemd.io/CONTAINER_INTERFACE/
    return os.environ.get("container") or None  # noqa: SIM112 - the convention is lower case


def is_wsl() -> bool:
    """Whether the kernel's release says that it is Microsoft's for WSL."""
    return sys.platform == "linux" and "microsoft" in os.uname().release.lower()


def find_programs(names: Iterable[str]) -> dict[str, str]:
    """Look names up on PATH."""
    return {name: path for name in names if (path := find_program(name)) is not None}


def find_variables(names: Iterable[str]) -> frozenset[str]:
    """Look for names among the variables of this process, which all programs have."""
    return frozenset(name for name in names if name in os.environ)


def code_page() -> int | None:
    """The page in which programs write to a console of the default settings, as that of a command."""
    if sys.platform == "win32":
        return int(win32.kernel32.GetOEMCP())
    return None
