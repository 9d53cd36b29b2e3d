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
        """Look up a name on PATH, or a path itself, as `shutil.which` does; importing `shutil` takes longer."""
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
    """Return the kind of this operating system. A Unix other than macOS counts as Linux, because their tools are alike."""
    if sys.platform == "win32":
        return "windows"
    return "macos" if sys.platform == "darwin" else "linux"


def system_name() -> tuple[str, str]:
    """Return the operating system's name and version for people."""
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
    """Return the machine's architecture as the system names it: ``x86_64``, ``arm64``; on Windows ``AMD64``, ``ARM64``."""
    if sys.platform == "win32":
        return win32.native_architecture()
    return os.uname().machine


def hostname() -> str:
    """Return the machine's own name."""
    return socket.gethostname()


def user() -> str:
    """Return the name of the user that commands run as."""
    if sys.platform == "win32":
        return win32.user_name()
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's arbitrary user id has no name
        return str(os.geteuid())


def home() -> str:
    """Return the user's home directory; the root where the user has none, as in a container with an arbitrary uid."""
    path = os.path.expanduser("~")
    return path if os.path.isabs(path) else os.path.abspath(os.sep)


def directory() -> str:
    """Return this process's current working directory.

    For a directory that has been removed, return a path that does not exist. Commands are then refused with the reason,
    rather than run in another directory.
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
    """Return the kind of container that this process runs in; ``None`` outside a container."""
    for path, kind in CONTAINER_FILES.items():
        if sys.platform != "win32" and os.path.exists(path):
            return kind
    # systemd's convention for containers: https://systemd.io/CONTAINER_INTERFACE/
    return os.environ.get("container") or None  # noqa: SIM112 - the convention is lower case


def is_wsl() -> bool:
    """Whether the kernel's release string says that the kernel is Microsoft's for WSL."""
    return sys.platform == "linux" and "microsoft" in os.uname().release.lower()


def find_programs(names: Iterable[str]) -> dict[str, str]:
    """Look up names on PATH; return the paths of the found names."""
    return {name: path for name in names if (path := find_program(name)) is not None}


def find_variables(names: Iterable[str]) -> frozenset[str]:
    """Return the names that are set among this process's environment variables, which all programs inherit."""
    return frozenset(name for name in names if name in os.environ)


def code_page() -> int | None:
    """Return the code page of a console with default settings, such as a command's; ``None`` unless on Windows."""
    if sys.platform == "win32":
        return int(win32.kernel32.GetOEMCP())
    return None
