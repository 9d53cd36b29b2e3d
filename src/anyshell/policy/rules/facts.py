"""Facts about the host on which a text is to run, as a policy needs the facts."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Question = tuple[Literal["home", "find", "resolve", "names", "git_runs"], str]
"""The name of a method of `HostFacts`, and the method's argument; the argument is empty for ``home``."""

ROUNDS = 6
"""Times that a caller answers the questions of a decision; the facts of later questions count as not known."""

MOST_NAMES = 10_000
"""Names of a directory; what a pattern finds in a larger directory is not known."""


class HostFacts(Protocol):
    """Answers about the host. ``None`` means not known, and never allows a command. No method raises."""

    @property
    def home(self) -> str | None:
        """The user's home directory; absolute."""

    def find(self, program: str) -> str | None:
        """Return the file that PATH gives for a bare name, its directory's links resolved; empty if PATH has no such file."""

    def resolve(self, path: str) -> str | None:
        """Return an absolute path with links resolved as far as the path exists; the missing rest stays unchanged."""

    def names(self, directory: str) -> tuple[str, ...] | None:
        """Return the names in a directory, each with a last character: ``@`` for a link, ``/`` for a directory, else a blank."""

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """Return the keys of git's configuration for a directory that make git run programs: filters, drivers, hooks, aliases."""


class LocalFacts:
    """The facts of this machine.

    Args:
        environ: The variables that the text is run with; by default this process's variables.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    @property
    def home(self) -> str | None:
        """The home directory, from HOME or the system."""
        home = self._environ.get("HOME") or os.path.expanduser("~")
        return home if os.path.isabs(home) else None

    def find(self, program: str) -> str | None:
        """Find a program as the shell does; a file from a relative directory of PATH is not known."""
        import shutil  # imported here: shutil and its archive modules take 3 ms, and facts of a remote host do not need shutil

        path = self._environ.get("PATH", os.defpath)
        try:
            if program.endswith(".ps1"):  # PowerShell looks up the name of a script without PATHEXT
                files = (os.path.join(directory, program) for directory in path.split(os.pathsep))
                found = next(filter(os.path.isfile, files), None)
            else:
                found = shutil.which(program, path=path)
            if found is None:
                return ""
            directory, name = os.path.split(found)
            return os.path.join(os.path.realpath(directory), name) if os.path.isabs(directory) else None
        except (OSError, ValueError):
            return None

    def resolve(self, path: str) -> str | None:
        """Resolve links as the kernel does; the target of a circle of links is not known."""
        try:
            found = os.path.realpath(path)
            return None if os.path.islink(found) else found
        except (OSError, ValueError):
            return None

    def names(self, directory: str) -> tuple[str, ...] | None:
        """Return the names in a directory, in the order of the listing; empty if the directory does not exist."""
        try:
            with os.scandir(directory) as listed:
                entries = list(islice(listed, MOST_NAMES + 1))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError):
            return None
        return tuple(map(_marked, entries)) if len(entries) <= MOST_NAMES else None

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """Read the files of git's configuration, without running git."""
        from .git import keys_that_run  # imported here, since few texts need the module

        try:
            return keys_that_run(directory, self.home, self._environ)
        except (OSError, ValueError):
            return None


def _marked(entry: os.DirEntry[str]) -> str:
    try:
        # A junction of Windows is a link as well. DirEntry.is_junction() exists since Python 3.12.
        leads = entry.is_symlink() or bool(getattr(entry, "is_junction", bool)())
        return entry.name + ("@" if leads else "/" if entry.is_dir(follow_symlinks=False) else " ")
    except OSError:
        return f"{entry.name}@"


class Answers:
    """Facts of a remote host: the known answers, and the questions that are still open.

    A caller decides with this object. While `questions` is not empty, and at most `ROUNDS` times, the caller gets the
    answers from the host and decides again with a new `Answers` of all known answers.
    """

    def __init__(self, known: Mapping[Question, str | tuple[str, ...] | None]) -> None:
        self.known = dict(known)
        self.questions: list[Question] = []

    def _answer(self, question: Question) -> str | tuple[str, ...] | None:
        if question not in self.known:
            self.known[question] = None
            self.questions.append(question)
        return self.known[question]

    def _text(self, question: Question) -> str | None:
        answer = self._answer(question)
        return answer if isinstance(answer, str) else None

    @property
    def home(self) -> str | None:
        """The home directory that the host answered."""
        return self._text(("home", ""))

    def find(self, program: str) -> str | None:
        """Return the file that the host answered."""
        return self._text(("find", program))

    def resolve(self, path: str) -> str | None:
        """Return the resolved path that the host answered."""
        return self._text(("resolve", path))

    def names(self, directory: str) -> tuple[str, ...] | None:
        """Return the names that the host answered."""
        answer = self._answer(("names", directory))
        return answer if isinstance(answer, tuple) else None

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """Return the keys that the host answered."""
        answer = self._answer(("git_runs", directory))
        return answer if isinstance(answer, tuple) else None
