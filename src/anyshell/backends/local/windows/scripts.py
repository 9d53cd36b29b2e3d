"""Command texts that are too long for an argument, as files that only the shell has time to read."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile

assert sys.platform == "win32"

from .files import create_temporary


class ScriptFile:
    """A file in the temporary directory that holds a text, and is there for as long as this is open.

    Only this user, the system and administrators may open it, whatever the directory allows for its other files.
    Windows itself removes it when we end before that, however we do. A program that opens it must share it for deletion
    (FILE_SHARE_DELETE). It is UTF-8 without a byte order mark.

    Raises:
        OSError: There is no room, or no directory for it.
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
        """Remove it. Twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
