"""Descriptors that hold command texts too long for an argument. A shell reads the text from the descriptor."""

from __future__ import annotations

import os
import sys


def open_script(text: str) -> int:
    """Return a descriptor of a file without a name that holds `text`, positioned at the start.

    No other process can open the file, and the system removes the file with its last descriptor. The text is encoded as a
    command-line argument would be.
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
