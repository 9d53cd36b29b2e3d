"""By which keys of its configuration git runs programs, from the files of that. Git itself is not asked.

The files of a directory may be made to mislead. What is not plain to read makes the whole not known: a reader that is more
lenient than git, or less, would find another key than git does.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LARGEST_CONFIGURATION = 256 * 1024
"""Bytes of a file of git's configuration; of a larger one it is not known what it says."""

LARGEST_INDEX = 64 * 1024 * 1024
"""Bytes of an index of git that is searched for submodules; a larger one may have some."""

MOST_CONFIGURATIONS = 32
"""Files of git's configuration that are read for one directory, included ones too; with more it is not known."""

SYSTEM_CONFIGURATION = "/etc/gitconfig"

SUBMODULE = b"\0\0\xe0\0"
"""The mode 160000 in an index, in four bytes; a digest that happens to hold these is taken for one as well."""

_LONGEST_LINK = 4096
"""Bytes of a file that says where a repository is; of a longer one it is not known."""

_RUNS = re.compile(
    r"alias\..*|core\.(fsmonitor|hookspath|pager|editor|sshcommand|gitproxy|askpass|alternaterefscommand|worktree|attributesfile)"
    r"|filter\..*\.(clean|smudge|process)|diff\.(external|submodule)|diff\..*\.(textconv|command)|merge\..*\.driver"
    r"|(diff|merge)tool\..*\.(cmd|path)|pager\..*|sequence\.editor|interactive\.difffilter|credential\.(.*\.)?helper"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|log\.showsignature|uploadpack\.packobjectshook|protocol\.(.*\.)?allow"
    r"|remote\..*\.(promisor|partialclonefilter|uploadpack|receivepack|vcs)|extensions\.partialclone"
    r"|submodule\..*\.update|submodule\.recurse|trailer\..*\.(command|cmd)|tar\..*\.command|hook\..*|receive\.\w*hook\w*"
    r"|(browser|man|guitool|web|instaweb|help)\..*|sendemail\..*|init\.templatedir|maintenance\..*|url\..*",
    re.DOTALL,
)
_HARMLESS = frozenset(
    {
        ("core.fsmonitor", "false"),
        ("log.showsignature", "false"),
        ("submodule.recurse", "false"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
    }
)
_QUIET_VARIABLES = re.compile(
    "GIT_(SSL_CA(INFO|PATH)|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|REFLOG_ACTION|CONFIG_(COUNT|VALUE_[0-9]+))"
)
_QUIET_VALUES = frozenset({"", "0", "1", "true", "false", "cat", ":"})
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\][ \t]*(.*)')
_ESCAPED = re.compile(r"\\(.)")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*?))?[ \t]*")


class ConfigFiles(Protocol):
    """The files of a host. What cannot be read raises `OSError`."""

    def join(self, directory: str, path: str) -> str:
        """A path, relative to a directory unless it is absolute."""

    def above(self, path: str) -> str:
        """The directory in which it is."""

    def real(self, path: str) -> str:
        """An absolute path without links."""

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory, or a link to one."""

    def exists(self, path: str) -> bool:
        """Whether there is something, be it a link that leads nowhere."""

    def names(self, directory: str) -> Sequence[str]:
        """The names in a directory; none if it does not exist."""

    def content(self, path: str, largest: int) -> bytes | None:
        """Read a file; empty if there is none, ``None`` if it is no plain file or too large."""

    def holds(self, path: str, data: bytes, largest: int) -> bool | None:
        """Whether a file has these bytes; ``None`` if it is no plain file or too large."""


class LocalConfigFiles:
    """The files of this machine."""

    def join(self, directory: str, path: str) -> str:
        """Join two paths by the rules of the system."""
        return os.path.join(directory, path)

    def above(self, path: str) -> str:
        """Its name left out."""
        return os.path.dirname(path)

    def real(self, path: str) -> str:
        """Resolve links by the rules of the system."""
        return os.path.realpath(path)

    def is_directory(self, path: str) -> bool:
        """Links are followed."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Links are not followed."""
        return os.path.lexists(path)

    def names(self, directory: str) -> Sequence[str]:
        """The names in a directory."""
        try:
            return os.listdir(directory)
        except FileNotFoundError:
            return []

    def content(self, path: str, largest: int) -> bytes | None:
        """Read a file, without waiting for a pipe."""
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        except (FileNotFoundError, NotADirectoryError):
            return b""
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = file.read(largest + 1)
        return data if len(data) <= largest else None

    def holds(self, path: str, data: bytes, largest: int) -> bool | None:
        """Read it whole, and look."""
        content = self.content(path, largest)
        return None if content is None else data in content


def keys_that_run(
    directory: str,
    home: str | None,
    environ: Mapping[str, str],
    *,
    system: str = SYSTEM_CONFIGURATION,
    files: ConfigFiles | None = None,
) -> tuple[str, ...] | None:
    """The keys for a directory by which git runs a program, in lower case but for the middle part; ``None`` if not known.

    Besides, ``hooks.NAME`` for a hook that is there, ``submodule`` where the index has one, and the variables of git.

    Raises:
        OSError: A file cannot be read.
    """
    files = files or LocalConfigFiles()
    found = set()
    for name, value in environ.items():
        if name.startswith("GIT_CONFIG_KEY_"):
            found |= {value.lower()} if _RUNS.fullmatch(value.lower()) else set()
        elif name.startswith("GIT_") and not _QUIET_VARIABLES.fullmatch(name) and value not in _QUIET_VALUES:
            found.add(name)
    if home is None:
        return None
    waiting = [
        f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config",
        f"{home}/.gitconfig",
        system,
    ]
    for repository in _repositories(directory, files):
        common = None if repository is None else _common(repository, files)
        if repository is None or common is None:
            return None
        waiting += [f"{common}/config", f"{repository}/config.worktree"]
        found |= {f"hooks.{name}" for name in files.names(f"{common}/hooks") if not name.endswith(".sample")}
        found |= {"submodule"} if _has_submodules(repository, files) else set()
    read = set[str]()
    while waiting:
        path = waiting.pop()
        if path in read:
            continue
        read.add(path)
        data = files.content(path, LARGEST_CONFIGURATION)
        if data is None or len(read) > MOST_CONFIGURATIONS:
            return None
        for key, value in _entries(data):
            if key is None:
                return None
            if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
                included = f"{home}{value[1:]}" if value.startswith("~/") else value
                if re.match("[~:%]", included) or re.search(r'["\\]', value):
                    return None  # a part in quotes, an escape, or what git puts another path for
                # A file that is included under a condition counts as if the condition held.
                waiting.append(files.join(files.above(path), included))
            elif _RUNS.fullmatch(key) and (key, value) not in _HARMLESS:
                found.add(key)
    return tuple(sorted(found))


def _repositories(directory: str, files: ConfigFiles) -> Iterator[str | None]:
    """The directories of git at a directory and above: git takes the first, but not one that it finds damaged.

    ``None`` for one that is not known.
    """
    current = files.real(directory)
    while True:
        marker = files.join(current, ".git")
        if files.is_directory(marker):
            yield marker
        elif files.exists(marker):
            text = (files.content(marker, _LONGEST_LINK) or b"").decode("utf-8", "surrogateescape")
            link = re.fullmatch(r"gitdir: ([^\r\n\0]+)[\r\n]*", text)
            yield files.join(current, link[1]) if link else None
        # A bare repository is one by its content, so that a directory of a project can be one.
        if files.exists(files.join(current, "HEAD")) and files.exists(files.join(current, "objects")):
            yield current
        above = files.above(current)
        if above == current:
            return
        current = above


def _common(repository: str, files: ConfigFiles) -> str | None:
    """The directory that the worktrees of a repository share; ``None`` if it is not known."""
    text = files.content(f"{repository}/commondir", _LONGEST_LINK)
    if text is None:
        return None
    name = text.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if not name:
        return repository
    return None if re.search("[\r\n\0]", name) else files.join(repository, name)


def _has_submodules(repository: str, files: ConfigFiles) -> bool:
    """Whether the index may have an entry of another repository, in which git runs as its configuration says."""
    if any(name.startswith("sharedindex.") for name in files.names(repository)):
        return True
    return files.holds(f"{repository}/index", SUBMODULE, LARGEST_INDEX) is not False


def _entries(data: bytes) -> Iterator[tuple[str | None, str]]:
    """The keys of a file with their values; ``None`` as the key for a line that is not plain."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n")
    # In a value, a backslash at the end of a line goes on in the next; a comment does not, so one of both is not plain.
    if re.search(r"[#;][^#;\n]*\\\n|\\\\\n|[^\S\n \t]|[\0\x01-\x08\x0e-\x1f]|\\\Z", text):
        yield None, ""
        return
    section = ""
    for line in text.replace("\\\n", "").split("\n"):
        rest = line.strip(" \t")
        while found := _SECTION.fullmatch(rest):
            name, sub, rest = found.groups()
            section = name.lower() if sub is None else f"{name.lower()}.{_ESCAPED.sub(lambda it: it[1], sub)}"
        if not rest or rest[0] in "#;":
            continue
        entry = _KEY.fullmatch(rest)
        if entry is None or not section:
            yield None, ""
            return
        yield f"{section}.{entry[1].lower()}", _value(entry[2])


def _value(text: str | None) -> str:
    if text is None:
        return "true"
    bare = re.sub(r"[ \t]*[#;].*", "", text) if '"' not in text else text
    return bare[1:-1] if re.fullmatch(r'"[^"\\]*"', bare) else bare
