"""Command texts that are too long for an argument, as descriptors that a shell can read."""

from __future__ import annotations

import os
import sys


def open_script(text: str) -> int:
    """Return a descriptor, at its start, of a file that has no name and holds `text`.

    No other process can open it, and it is gone with its last reader. The text is encoded as a command-line
    argument would be.
    """
    data = os.fsencode(text)
    if sys.platform == "linux":
        fd = os.memfd_create("anyshell-script", os.MFD_CLOEXEC)
    else:
        import tempfile  # here, since most systems need no file

        fd, path = tempfile.mkstemp(prefix="anyshell-")
        os.unlink(path)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
