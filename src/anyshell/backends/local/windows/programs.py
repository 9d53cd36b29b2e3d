"""Search for programs on Windows."""

from __future__ import annotations

import ntpath
import os
import sys

assert sys.platform == "win32"


def find_program(name: str, path: str | None = None, extensions: str | None = None) -> str | None:
    """Look up a name on PATH; return the program's path, or ``None`` if there is no such program.

    Unlike `shutil.which` and CreateProcess, this function never searches the current directory: another user may have put
    a program of that name there.

    Args:
        name: A name, with or without an extension, or a path. An absolute path is tried unchanged and with each
            extension; a relative path is never found.
        path: The directories to search; PATH of this process by default. Relative directories are skipped.
        extensions: The suffixes of programs' names; PATHEXT of this process by default.
    """
    if ntpath.dirname(name) and _is_file(name):
        return name if _is_absolute(name) else None
    endings = (os.environ.get("PATHEXT", "") if extensions is None else extensions).split(";")
    names = [name + ending for ending in endings if ending]
    if any(name.lower().endswith(ending.lower()) for ending in endings if ending):
        names.insert(0, name)
    if ntpath.dirname(name):
        directories = [""] if _is_absolute(name) else []
    else:
        directories = (os.environ.get("PATH", "") if path is None else path).split(";")
        directories = [each for each in (each.strip('"') for each in directories) if _is_absolute(each)]
    for directory in directories:
        for each in names:
            found = ntpath.join(directory, each)
            if _is_file(found):
                return found
    return None


def _is_file(path: str) -> bool:
    # Not isfile(): an alias of the Windows Store exists, but is not a regular file.
    return os.path.exists(path) and not os.path.isdir(path)


def _is_absolute(path: str) -> bool:
    return ntpath.isabs(path) and bool(ntpath.splitdrive(path)[0])
