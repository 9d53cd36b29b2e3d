"""The rules for paths of a Windows host, applied on any system that runs anyshell."""

from __future__ import annotations

import ntpath
import re

from .._exceptions import InvalidCommand

_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*\ud800-\udfff]')
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\.|\Z)", re.IGNORECASE
)
_LONGEST_PLAIN = 248
"""Characters of a Windows path from which on `\\\\?\\` stays in front, shown and run: CreateDirectoryW needs the prefix."""

_DRIVE = re.compile(r"[A-Za-z]:")
_VERBATIM = re.compile(
    r"\\\\\?\\(?:[A-Za-z]:|UNC\\[^\\]+\\[^\\]+|Volume\{[0-9A-Fa-f-]+\})(?:\\|\Z)", re.IGNORECASE
)


def fault_of(name: str) -> str | None:
    """Return why Windows has no file of this name, or takes the name for something else; ``None`` for a valid name.

    The rules are those of "Naming Files, Paths, and Namespaces" in the documentation of Win32. The devices that shadow a file
    depend on the version of Windows; all devices are rejected for every version.
    """
    if found := _FORBIDDEN.search(name):
        if found[0] == ":":
            return "a colon names a stream of a file, or a drive"
        return f"no name has the character {found[0]!r}"
    if _RESERVED.match(name):
        return "it is a device there"
    if name[-1:] in (".", " "):
        return "the dots and blanks at its end are dropped there, so that it is another name"
    return None


def check_path(path: str) -> None:
    r"""Refuse a path that Windows would take for something else than a file of that name.

    A path that begins with ``\\?\C:\`` or ``\\?\UNC\server\share\`` passes: there Windows takes every name literally, even that
    of a device.

    Args:
        path: Absolute.

    Raises:
        InvalidCommand: The path is a device, a stream, or relative to the current directory of a drive; or a name in the
            path is a device's, ends with a dot or a blank, or has a forbidden character.
    """
    if path.startswith("\\\\?\\"):
        _check_verbatim(path)
        return
    if re.match(r"[/\\]{2}[.?](?:[/\\]|\Z)", path):
        raise InvalidCommand(f"the path {path!r} is a device's; only files and directories can be named here")
    drive, tail = ntpath.splitdrive(path)
    if _DRIVE.fullmatch(drive) and tail[:1] not in ("/", "\\"):
        raise InvalidCommand(
            f"the path {path!r} is relative to whatever directory drive {drive} is in: write {drive}\\{tail}"
        )
    for name in re.split(r"[/\\]", tail):
        if name in ("", ".", ".."):
            continue
        if fault := fault_of(name):
            raise InvalidCommand(
                f"the path {path!r} cannot be used on Windows, for {name!r} in it: {fault}"
                + (
                    "; a file that has this name is named with \\\\?\\ before the drive"
                    if _only_shadowed(name)
                    else ""
                )
            )


def plain(path: str) -> str:
    r"""Remove the prefix ``\\?\`` from a path, unless the path needs the prefix: a long path, or a name that Windows changes."""
    is_share = path[4:8].upper() == "UNC\\"
    # Only a drive or a share has a name without the prefix: the rest of a volume's path would be relative.
    has_another = _VERBATIM.match(path) and (is_share or _DRIVE.match(path, 4))
    if not has_another or len(path) >= _LONGEST_PLAIN:
        return path
    shorter = "\\\\" + path[8:] if is_share else path[4:]
    try:
        check_path(shorter)
    except InvalidCommand:
        return path
    return shorter


def _only_shadowed(name: str) -> bool:
    """Whether a file can have this rejected name if the path begins with the verbatim prefix."""
    return not _FORBIDDEN.search(name)


def _check_verbatim(path: str) -> None:
    if not _VERBATIM.match(path):
        raise InvalidCommand(f"the path {path!r} is a device's; only files and directories can be named here")
    for name in _VERBATIM.sub("", path, count=1).split("\\"):
        if name in (".", "..") or _FORBIDDEN.search(name):
            raise InvalidCommand(
                f"the path {path!r} cannot be used on Windows, for {name!r} in it: behind \\\\?\\ names are taken as"
                " they are"
            )
