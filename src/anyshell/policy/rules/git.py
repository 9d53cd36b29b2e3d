"""The keys of git's configuration that make git run programs, read from the configuration files without running git.

A project's files may be made to mislead. So a line that is not plain makes the whole answer not known: a reader that is more
lenient than git, or less lenient, would find other keys than git finds.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LARGEST_CONFIGURATION = 256 * 1024
"""Bytes of a file of git's configuration; the content of a larger file counts as not known."""

LARGEST_INDEX = 64 * 1024 * 1024
"""Bytes of a git index that is searched for submodules; a larger index counts as one with submodules."""

MOST_CONFIGURATIONS = 32
"""Files of git's configuration, with included files, that are read for one directory; with more, the keys are not known."""

SYSTEM_CONFIGURATION = "/etc/gitconfig"

SUBMODULE = b"\0\0\xe0\0"
"""The mode 160000 of a submodule in an index, in four bytes; the same bytes in a digest count as a submodule as well."""

_LONGEST_LINK = 4096
"""Bytes of a file with the path of a repository; the path in a longer file is not known."""

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
    """The files of a host. A method raises `OSError` for a file that cannot be read."""

    def join(self, directory: str, path: str) -> str:
        """Return a path, joined to a directory unless the path is absolute."""

    def above(self, path: str) -> str:
        """Return the parent directory of a path."""

    def real(self, path: str) -> str:
        """Return an absolute path without links."""

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory, or a link to a directory."""

    def exists(self, path: str) -> bool:
        """Whether a path exists; a broken link exists as well."""

    def names(self, directory: str) -> Sequence[str]:
        """Return the names in a directory; empty if the directory does not exist."""

    def content(self, path: str, largest: int) -> bytes | None:
        """Read a file; empty if the file does not exist, ``None`` if it is not a regular file or is too large."""

    def holds(self, path: str, data: bytes, largest: int) -> bool | None:
        """Whether a file contains the bytes `data`; ``None`` if it is not a regular file or is too large."""


class LocalConfigFiles:
    """The files of this machine."""

    def join(self, directory: str, path: str) -> str:
        """Join two paths by the rules of the system."""
        return os.path.join(directory, path)

    def above(self, path: str) -> str:
        """Return the path without its last name."""
        return os.path.dirname(path)

    def real(self, path: str) -> str:
        """Resolve links by the rules of the system."""
        return os.path.realpath(path)

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory; links are followed."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Whether a path exists; links are not followed."""
        return os.path.lexists(path)

    def names(self, directory: str) -> Sequence[str]:
        """Return the names in a directory; empty if the directory does not exist."""
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
        """Read the whole file and search the content."""
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
    """Return the keys that make git run a program in a directory; ``None`` if not known.

    The keys are in lower case except for their middle part. The result also has ``hooks.NAME`` for each hook that exists,
    ``submodule`` if the index has a submodule, and the names of git's environment variables.

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
                    return None  # a part in quotes, an escape, or a prefix for which git puts a path
                # The condition of a conditional include is assumed to hold.
                waiting.append(files.join(files.above(path), included))
            elif _RUNS.fullmatch(key) and (key, value) not in _HARMLESS:
                found.add(key)
    return tuple(sorted(found))


def _repositories(directory: str, files: ConfigFiles) -> Iterator[str | None]:
    """Yield the repositories at a directory and above: git takes the first one that git does not find damaged.

    ``None`` stands for a repository whose path is not known.
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
        # Git recognises a bare repository by its content, so any directory of a project can be a bare repository.
        if files.exists(files.join(current, "HEAD")) and files.exists(files.join(current, "objects")):
            yield current
        above = files.above(current)
        if above == current:
            return
        current = above


def _common(repository: str, files: ConfigFiles) -> str | None:
    """Return the directory that the worktrees of a repository share; ``None`` if not known."""
    text = files.content(f"{repository}/commondir", _LONGEST_LINK)
    if text is None:
        return None
    name = text.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if not name:
        return repository
    return None if re.search("[\r\n\0]", name) else files.join(repository, name)


def _has_submodules(repository: str, files: ConfigFiles) -> bool:
    """Whether the index may have a submodule; git runs in a submodule with the submodule's own configuration."""
    if any(name.startswith("sharedindex.") for name in files.names(repository)):
        return True
    return files.holds(f"{repository}/index", SUBMODULE, LARGEST_INDEX) is not False


def _entries(data: bytes) -> Iterator[tuple[str | None, str]]:
    """Yield the keys of a file with their values; the key is ``None`` for a line that is not plain."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").replace("\r\n", "\n")
    # A backslash at the end of a line continues a value, but not a comment; so a line with both is not plain.
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
