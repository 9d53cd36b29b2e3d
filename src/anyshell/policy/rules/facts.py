"""Facts that a policy needs about the host on which a text is to run."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Question = tuple[Literal["home", "find", "resolve", "names", "git_runs"], str]
"""The name of a method of `HostFacts`, and its argument; empty for ``home``."""

ROUNDS = 6
"""Times that a caller answers the questions of a decision; what is asked for then is not known."""

MOST_NAMES = 10_000
"""Names of a directory; in a larger one it is not known what a pattern finds."""


class HostFacts(Protocol):
    """Answers about the host. ``None`` is not known, and so never allows a thing. None of these raises."""

    @property
    def home(self) -> str | None:
        """The user's home directory; absolute."""

    def find(self, program: str) -> str | None:
        """The file that PATH gives for a bare name, the links of its directory resolved; empty if there is none."""

    def resolve(self, path: str) -> str | None:
        """An absolute path with its links resolved, as far as it exists; what does not exist stays as it is."""

    def names(self, directory: str) -> tuple[str, ...] | None:
        """The names in a directory: behind that of a link stands ``@``, behind another directory's ``/``, else a blank."""

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """The keys by which git's configuration, for a directory, has git run programs: filters, drivers, hooks, aliases."""


class LocalFacts:
    """The facts of this machine.

    Args:
        environ: The variables that the text is run with; by default those of this process.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    @property
    def home(self) -> str | None:
        """The home directory, from HOME or the system."""
        home = self._environ.get("HOME") or os.path.expanduser("~")
        return home if os.path.isabs(home) else None

    def find(self, program: str) -> str | None:
        """Find a program as the shell does; a name in PATH that is not absolute is not known."""
        import shutil  # here, since with its modules for archives it takes 3 ms, and a host elsewhere does not need it

        path = self._environ.get("PATH", os.defpath)
        try:
            if program.endswith(".ps1"):  # which PowerShell takes as it is
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
        """Resolve links as the kernel does; a circle of links is not known."""
        try:
            found = os.path.realpath(path)
            return None if os.path.islink(found) else found
        except (OSError, ValueError):
            return None

    def names(self, directory: str) -> tuple[str, ...] | None:
        """The names in a directory, as listed; empty where no directory is."""
        try:
            with os.scandir(directory) as listed:
                entries = list(islice(listed, MOST_NAMES + 1))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError):
            return None
        return tuple(map(_marked, entries)) if len(entries) <= MOST_NAMES else None

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """From the files of git's configuration, which are read, and not by git."""
        from .git import keys_that_run  # here, since few texts ask for it

        try:
            return keys_that_run(directory, self.home, self._environ)
        except (OSError, ValueError):
            return None


def _marked(entry: os.DirEntry[str]) -> str:
    try:
        # A junction of Windows leads elsewhere as well, and is_junction() is of Python 3.12.
        leads = entry.is_symlink() or bool(getattr(entry, "is_junction", bool)())
        return entry.name + ("@" if leads else "/" if entry.is_dir(follow_symlinks=False) else " ")
    except OSError:
        return f"{entry.name}@"


class Answers:
    """Facts of a host that is asked elsewhere: those that are known, and the questions about the others.

    Decide with it; while it has `questions` and for at most `ROUNDS` times, answer them and decide again with
    what is known by then.
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
        """The answer of the host."""
        return self._text(("home", ""))

    def find(self, program: str) -> str | None:
        """The answer of the host."""
        return self._text(("find", program))

    def resolve(self, path: str) -> str | None:
        """The answer of the host."""
        return self._text(("resolve", path))

    def names(self, directory: str) -> tuple[str, ...] | None:
        """The names of the host's answer."""
        answer = self._answer(("names", directory))
        return answer if isinstance(answer, tuple) else None

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """The answer of the host."""
        answer = self._answer(("git_runs", directory))
        return answer if isinstance(answer, tuple) else None
