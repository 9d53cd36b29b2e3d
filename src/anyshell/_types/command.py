"""Commands, as a caller gives them, and spawns, as a backend starts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._exceptions import InvalidCommand
from .checks import check_text, check_variable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Mapping

    from .terminal import Terminal


LeftBehind = Literal["stop", "adopt", "keep"]

DEFAULT_GRACE = 2.0
"""Seconds between the request to end and the kill, after a timeout, a cancellation or a stop, by default; less if the tree ends.
Of commands whose anyshell has ended without stopping them, always."""


READY_SECONDS = 60.0
"""Seconds for a job to be ready, or for what `wait_for` waits for, unless given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, checked when it is made.

    Attributes:
        text: The command, in the shell's own language; of any size and content but a NUL byte.
        cwd: The directory in which it runs. Relative to the environment's own directory, ``~`` is the host user's home;
            ``None`` is the environment's own directory.
        env: Variables added to the host's, over everything else.
        unset: Names of variables that the command does not have, ours included.
        stdin: The input of the command, at once or as it comes; ``None`` is end-of-file at once.
        words: The program and its arguments, if `text` is these and was a list.

    Raises:
        InvalidCommand: What `check_text` refuses, anywhere; a variable name other than
            ``[A-Za-z_][A-Za-z0-9_]*``; a stdin of another type.
    """

    text: str
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # a value may be a secret
    unset: frozenset[str] = frozenset()
    stdin: bytes | AsyncIterable[bytes] | None = field(default=None, repr=False)
    words: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_text("the command", self.text)
        if self.cwd is not None:
            check_text("cwd", self.cwd)
            if not self.cwd:
                raise InvalidCommand("cwd is empty: give a directory, or None for the environment's own")
        if not (self.stdin is None or isinstance(self.stdin, bytes) or hasattr(self.stdin, "__aiter__")):
            kind = type(self.stdin).__name__
            raise InvalidCommand(
                f"stdin must be bytes, text, a Path, a file opened with 'rb' or an async iterable of bytes, not {kind}"
            )
        for name, value in (*self.env.items(), *((name, "") for name in self.unset)):
            check_variable(name, value)


class ShellArgv(tuple[str, ...]):
    """The arguments of a shell that would only start one program, which a backend may start instead.

    What puts words before the shell makes another tuple, and so the shell is started.

    Attributes:
        words: The program and its arguments.
    """

    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, argv: tuple[str, ...], words: tuple[str, ...]) -> ShellArgv:
        """Make it of both."""
        made = cls(argv)
        made.words = words
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """One program with its surroundings, ready to be started by a backend and already quoted.

    Attributes:
        argv: The program's path on the host and its arguments.
        script: Text too long for an argument. The backend makes it readable, once, by a path that it puts
            into the variable ``ANYSHELL_SCRIPT``; `argv` knows what to do with it.
        cwd: An absolute directory on the host.
        settings: Variables set over the host's own that hold no secret: a backend may put them where others on
            the host can see them, such as a command line.
        env: Variables set over the host's own and over `settings`. They may be secrets.
        unset: Variables of the host's own that are removed, unless `settings` or `env` sets them.
        stdin: A pipe when true; otherwise reading gives end-of-file at once. On a terminal: whether the caller types what
            the program reads, and then ^D; the terminal can be typed on in any case.
        split_stderr: Two pipes. Otherwise both channels share one, which keeps their order true.
        terminal: The terminal in the place of pipes for stdin, stdout and stderr: the program's controlling terminal.
        needs: Directories of anyshell's own that the program needs, such as that of a session: a sandbox shows them.
        holder: The name of a program that holds the processes together, such as the first one of a sandbox. It is not named
            among the survivors while one of the others lives.
        gate: Serves the network of the program, where a sandbox has one for it; it starts the program then.
        job_limits: On Windows, bytes of memory of each process, processes at once, and seconds of processor time of each process:
            the backend has the command's Job Object limit these. ``None`` is no limit.
        on_asked: Called by a backend whose host can hear the request before it answers: with the `Process`, when the host
            may have heard and the beginning is not known yet. From then on the caller stops and closes that process,
            also when `Backend.spawn` raises or is cancelled. ``None``: `Backend.spawn` does it.
    """

    argv: tuple[str, ...]
    cwd: str
    script: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    unset: frozenset[str] = frozenset()
    stdin: bool = False
    split_stderr: bool = False
    terminal: Terminal | None = None
    needs: tuple[str, ...] = ()
    holder: str | None = None
    gate: Any = field(default=None, repr=False, compare=False)
    job_limits: tuple[int | None, int | None, int | None] = (None, None, None)
    on_asked: Callable[[Any], object] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.terminal is not None and self.split_stderr:
            raise InvalidCommand("on a terminal stdout and stderr are one: leave out split_stderr")


@dataclass(frozen=True, slots=True)
class LoginCommand:
    """The text that an SSH server gets to start one program.

    Attributes:
        line: The one string that it hands to the user's login shell. Every user of the host can see it.
        sent: The bytes that are written to the program's stdin at once, and read before anything else happens.
        when_ready: The parts that are written after that, each part when the program has said that it is ready for it.
    """

    line: str
    sent: bytes = field(default=b"", repr=False)
    when_ready: tuple[bytes, ...] = field(default=(), repr=False)
