"""Temporary files for command texts that are too long for an argument. A file exists until the shell has ended."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile

assert sys.platform == "win32"

from .files import create_temporary


class ScriptFile:
    """A file in the temporary directory that holds a text, and exists until `close`.

    Only this user, the system and administrators may open the file, whatever the directory allows for other files.
    Windows itself removes the file when this process ends before `close`, also by a crash. A program that opens the file
    must share the file for deletion (FILE_SHARE_DELETE). The text is encoded as UTF-8 without a byte order mark.

    Raises:
        OSError: The disk is full, or there is no temporary directory.
    """

    def __init__(self, text: str) -> None:
        self.path = os.path.join(tempfile.gettempdir(), f"anyshell-{secrets.token_hex(8)}")
        self._fd = create_temporary(self.path)
        try:
            view = memoryview(text.encode(errors="surrogateescape"))
            while view:
                view = view[os.write(self._fd, view) :]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the file. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
