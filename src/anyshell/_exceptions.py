"""Every exception that anyshell raises.

::

    AnyshellError
    ├─ InvalidCommand (ValueError)     what was wrong with the request, and what is allowed
    ├─ BackendError                    the backend could not do its part
    │  ├─ BackendUnavailable           there is no such backend here
    │  └─ SpawnError                   the program could not be started
    ├─ ShellNotFound                   every path tried, and what to install
    ├─ ArtifactNotFound (LookupError)  no kept output has that id
    └─ CommandFailed                   only from Outcome.check(); carries the Outcome

A non-zero exit, a timeout, a refusal and a truncation are values, not exceptions: whoever asked needs the
output so far. Exceptions are for what could not be tried. Exceptions of the libraries underneath are mapped
at a backend's border and kept as ``__cause__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._types import Outcome


class AnyshellError(Exception):
    """The base of every exception that anyshell raises."""


class InvalidCommand(AnyshellError, ValueError):  # noqa: N818 - a public name, after the field's InvalidURL, InvalidHeader
    """The request cannot be run as it stands: a bad directory, variable name, number, or a NUL byte.

    Raised before anything is started. The message names the culprit and what is allowed.
    """


class BackendError(AnyshellError):
    """A backend could not do its part."""


class BackendUnavailable(BackendError):  # noqa: N818 - a public name
    """There is no backend for that host here. The message names those that there are."""


class SpawnError(BackendError):
    """The shell could not be started: it is gone, not executable, or the host is out of a resource.

    A program that the *command* could not find is no ``SpawnError``: the shell says so and exits 127.
    """


class ShellNotFound(AnyshellError):  # noqa: N818 - a public name
    """No usable shell on the host.

    Attributes:
        tried: One line for every candidate: its path, and why it does not count.
    """

    def __init__(self, message: str, *, tried: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.tried = tuple(tried)


class ArtifactNotFound(AnyshellError, LookupError):  # noqa: N818 - a public name
    """No kept output has that id: it never existed, or it was pruned."""


class CommandFailed(AnyshellError):  # noqa: N818 - a public name
    """A command did not end with exit code 0. Raised by `Outcome.check` alone.

    The message holds neither the command's text nor its output, since both may hold secrets.

    Attributes:
        outcome: Everything that is known of the command, its output included.
    """

    def __init__(self, message: str, *, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
