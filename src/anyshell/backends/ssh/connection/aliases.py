"""The host names in ``~/.ssh/config``, for completion and for suggestions. Reading is quick, and never fails."""

from __future__ import annotations

import glob
import os
import re

MOST_FILES = 100
"""Files in which host names are looked for, `~/.ssh/config` and the files that it includes together; more are not read."""

_WORD = re.compile(r'"([^"]*)"|(\S+)')
_LINE = re.compile(r'[ \t]*"?(host|include)"?(?:[ \t]*=[ \t]*|[ \t]+)(.*)', re.IGNORECASE)


def find_aliases() -> list[str]:
    """Return every host that the configuration names, without patterns; each once, in the order of the file."""
    found: dict[str, None] = {}
    _read(os.path.expanduser("~/.ssh/config"), found, set())
    return list(found)


def meant(name: str) -> str | None:
    """Return the host of the configuration that an unknown name probably stands for."""
    from difflib import get_close_matches

    known = find_aliases()
    return None if name in known else next(iter(get_close_matches(name, known, 1)), None)


def _read(path: str, found: dict[str, None], seen: set[str]) -> None:
    """Add the hosts of a file and of its included files. Each file is read once, since files may include each other."""
    if path in seen or len(seen) >= MOST_FILES or not os.path.isfile(path):
        return
    seen.add(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()
        for line in lines:
            match = _LINE.match(line)
            if match is None:
                continue
            for word in _words(match[2]):
                if match[1].lower() == "host":
                    if not re.search(r"[*?!]", word):
                        found[word] = None
                    continue
                pattern = os.path.join(os.path.expanduser("~/.ssh"), os.path.expanduser(word))
                for each in sorted(glob.glob(pattern)):
                    _read(each, found, seen)
    except (OSError, ValueError, re.error):
        return


def _words(text: str) -> list[str]:
    words = []
    for match in _WORD.finditer(text):
        if match[0].startswith("#"):
            break
        words.append(match[1] if match[1] is not None else match[2])
    return [word for word in words if word]
