"""Every exception that anyshell raises.

::

    AnyshellError
    ├─ InvalidCommand (ValueError)     what was wrong with the request, and what is allowed
    ├─ BackendError                    the backend could not do its part
    │  ├─ BackendUnavailable           there is no such backend here
    │  ├─ ConnectionFailed             the host could not be reached, or refused the login
    │  ├─ EnvironmentLost              an environment of a pool is gone; whether the command had started
    │  ├─ HostKeyUntrusted             the host's key is unknown, or is not the one that was known
    │  └─ SpawnError                   the program could not be started
    │     └─ TerminalUnavailable       the host gives it no terminal
    ├─ ReachUnavailable                the host cannot enforce a reach: the missing part, and how to get it
    ├─ CommitConflict                  another program changed files of a trial: nothing was committed
    ├─ ShellNotFound                   every path tried, and what to install
    ├─ ArtifactNotFound (LookupError)  no kept output has that id
    ├─ JobNotFound (LookupError)       no job has that id
    ├─ OutputIncomplete                the whole of an output is asked for, and was not kept
    ├─ PolicyError                     a file of rules that cannot be loaded: its line, and the reason
    ├─ RecordingError                  a recording could not be made, or read
    ├─ ExpectTimeout (TimeoutError)    a program on a terminal did not show what was expected in time
    ├─ ProgramEnded (EOFError)         the program ended before; the last two stand in _types/expectation.py
    └─ CommandFailed                   only from Outcome.check(); holds the Outcome, and stands in its module

A non-zero exit, a timeout, a refusal and a truncation are values, not exceptions: the caller needs the output so far.
Exceptions are for what could not be tried. Exceptions of the libraries underneath are mapped at a backend's border and kept
as ``__cause__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

ConnectionStage = Literal["address", "connect", "handshake", "authenticate", "session"]


class AnyshellError(Exception):
    """The base of every exception that anyshell raises. Every exception can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without __init__, which may need more arguments than the message.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class InvalidCommand(AnyshellError, ValueError):  # noqa: N818 - a public name, after the field's InvalidURL, InvalidHeader
    """The request cannot be run as it stands: a bad directory, variable name, number, or a NUL byte.

    Raised before anything is started. The message names the culprit and what is allowed.
    """


class BackendError(AnyshellError):
    """A backend could not do its part."""


class BackendUnavailable(BackendError):  # noqa: N818 - a public name
    """There is no backend for that kind of host here. The message names the available backends."""


class ConnectionFailed(BackendError):  # noqa: N818 - a public name
    """A host could not be reached, or refused the login. No command was started.

    The message says what failed and what to do; it never holds a password or a passphrase.

    Attributes:
        stage: The stage of the failure: ``address`` (the name has no address), ``connect`` (no answer at the port),
            ``handshake`` (the server does not speak SSH, or not in a way that we support), ``authenticate`` (no key or
            password was accepted), ``session`` (no channel, or no usable shell behind it).
    """

    def __init__(self, message: str, *, stage: ConnectionStage = "connect") -> None:
        super().__init__(message)
        self.stage = stage


class EnvironmentLost(BackendError):  # noqa: N818 - a public name
    """An environment of a pool is gone with the process or the node that held it.

    Attributes:
        started: Whether the command had started. ``True``: the command started, and its end is unknown. ``None``: the start
            is unknown too. ``False``: nothing has started, and nothing will.
        environment: The number of the environment in its pool; ``None`` when the pool had no other environment left.
        node: The id of the environment's node.
    """

    def __init__(
        self, message: str, *, started: bool | None, environment: int | None = None, node: str = ""
    ) -> None:
        super().__init__(message)
        self.started = started
        self.environment = environment
        self.node = node


class HostKeyUntrusted(BackendError):  # noqa: N818 - a public name
    """A host's key is unknown, or differs from the known key. Nothing was sent but the handshake.

    The message has the fingerprint and says exactly how to trust the key.

    Attributes:
        host: The name or address of the connection, as known_hosts has it.
        key_type: The key's algorithm, such as ``ssh-ed25519``.
        fingerprint: ``SHA256:`` and the digest, as ``ssh-keygen -l`` prints it.
        line: The line to append to known_hosts in order to trust the key.
        known_hosts: The path of the known_hosts file for the line.
        changed: Whether another key is known for this host. Either the server was set up anew, or another machine intercepts
            the connection; a changed key is never trusted by asking.
    """

    def __init__(
        self,
        message: str,
        *,
        host: str,
        key_type: str,
        fingerprint: str,
        line: str,
        known_hosts: str,
        changed: bool = False,
    ) -> None:
        super().__init__(message)
        self.host = host
        self.key_type = key_type
        self.fingerprint = fingerprint
        self.line = line
        self.known_hosts = known_hosts
        self.changed = changed


class SpawnError(BackendError):
    """The shell could not be started: its file is gone or not executable, or the host is out of a resource.

    A program that the *command* could not find does not raise ``SpawnError``: the shell reports the program and exits 127.
    """


class TerminalUnavailable(SpawnError):  # noqa: N818 - a public name
    """The host gives the program no terminal: terminals are not allowed, or all in use. The program can start without one."""


class ShellNotFound(AnyshellError):  # noqa: N818 - a public name
    """No usable shell on the host.

    Attributes:
        tried: One line for every candidate: its path, and the reason against it.
    """

    def __init__(self, message: str, *, tried: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.tried = tuple(tried)


class ArtifactNotFound(AnyshellError, LookupError):  # noqa: N818 - a public name
    """No kept output has that id: the id never existed, or the output was pruned."""


class JobNotFound(AnyshellError, LookupError):  # noqa: N818 - a public name
    """No job has that id: the id never existed, or the job ended long ago. The message names the known jobs."""


class OutputIncomplete(AnyshellError):  # noqa: N818 - a public name
    """The whole output was asked for, but was not kept or is gone. The message says how to keep the whole output."""


class PolicyError(AnyshellError):
    """A policy cannot be loaded. The message has the file, the line and the reason; no rule is left out."""


class RecordingError(AnyshellError):
    """A recording of a terminal could not be made, or read. The message says what to do, or names the line."""


class CommitConflict(AnyshellError):  # noqa: N818 - a public name
    """Another program has changed files while a trial was open. Nothing was committed, and the other program's files are intact.

    Attributes:
        paths: The changed files, relative to the directory of the trial.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
        named = ", ".join(paths[:10]) + more
        super().__init__(
            f"changed by another program since the trial began, so nothing was committed: {named}"
        )
        self.paths = tuple(paths)


class ReachUnavailable(AnyshellError):  # noqa: N818 - a public name
    """A host cannot enforce a reach, and no weaker reach is used instead. No command was started.

    Attributes:
        part: The missing part.
        way: The way to get the missing part.
    """

    def __init__(self, part: str, way: str) -> None:
        super().__init__(f"this host cannot enforce the reach; it lacks {part}. What to do: {way}")
        self.part = part
        self.way = way


_LESS_COMMON = (
    *(
        "ArtifactNotFound",
        "BackendUnavailable",
        "EnvironmentLost",
        "JobNotFound",
        "PolicyError",
        "ReachUnavailable",
    ),
    *("CommitConflict", "OutputIncomplete", "RecordingError", "SpawnError", "TerminalUnavailable"),
)

for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, AnyshellError):
        _each.__module__ = (
            "anyshell.errors" if _each.__name__ in _LESS_COMMON else "anyshell"
        )  # the public module, for imports, tracebacks and logs
