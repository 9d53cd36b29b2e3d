"""`Command`, the caller's request to run a command, and `Spawn`, the backend's request to start a program."""

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
Commands whose anyshell has ended without stopping the command always have this grace."""


READY_SECONDS = 60.0
"""Seconds for a job to be ready, or for the event that `wait_for` waits for, unless given; then the wait fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run, validated on construction.

    Attributes:
        text: The command, in the shell's own language; of any size and content but a NUL byte.
        cwd: The working directory of the command. Relative to the environment's own directory, ``~`` is the host user's
            home; ``None`` is the environment's own directory.
        env: Variables added to the host's, which override every other source of variables.
        unset: Names of variables that the command does not have, anyshell's own variables included.
        stdin: The input of the command, whole or as a stream; ``None`` is end-of-file at once.
        words: The program and its arguments, if the caller gave the command as a list.

    Raises:
        InvalidCommand: `check_text` refuses one of the texts; a variable name is not ``[A-Za-z_][A-Za-z0-9_]*``; `stdin` is
            of another type.
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
    """The arguments of a shell that would only start one program; a backend may start the program directly instead.

    A wrapper that puts words before the shell makes an ordinary tuple, so that the shell is started.

    Attributes:
        words: The program and its arguments.
    """

    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, argv: tuple[str, ...], words: tuple[str, ...]) -> ShellArgv:
        """Return the arguments of the shell, with the words of the program."""
        made = cls(argv)
        made.words = words
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """One program with its arguments, variables and channels, already quoted and ready to be started by a backend.

    Attributes:
        argv: The program's path on the host and its arguments.
        script: Text too long for an argument. The backend makes the text readable, once, by a path in the variable
            ``ANYSHELL_SCRIPT``; `argv` has the words that read it.
        cwd: An absolute directory on the host.
        settings: Variables set over the host's own, without secrets: a backend may put `settings` where other users of
            the host can see them, such as on a command line.
        env: Variables set over the host's own and over `settings`; a value may be a secret.
        unset: The host's own variables that are removed, unless `settings` or `env` sets them.
        stdin: Whether stdin is a pipe; otherwise a read gives end-of-file at once. On a terminal: whether the caller types
            the program's input, and then ^D; the terminal accepts input in any case.
        split_stderr: Whether stdout and stderr have a pipe each. Otherwise both share one pipe, which keeps their order true.
        terminal: The terminal in the place of pipes for stdin, stdout and stderr: the program's controlling terminal.
        needs: Anyshell's own directories that the program needs, such as that of a session; a sandbox makes them visible.
        holder: The name of a program that holds the processes together, such as the first process of a sandbox. The
            holder is not named among the survivors while another process lives.
        gate: The gate that serves the program's network in a sandbox; a gate also starts the program.
        job_limits: The limits of the command's Job Object on Windows: bytes of memory of each process, processes at once, and
            seconds of processor time of each process. ``None`` means no limit.
        on_asked: A callback for a backend whose host can hear the request before it answers. The backend calls it with the
            `Process` when the host may have heard the request and has not confirmed the start. From then on the caller
            stops and closes that process, also when `Backend.spawn` raises or is cancelled. With ``None``,
            `Backend.spawn` stops and closes the process.
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
        line: The one string that the server hands to the user's login shell. Every user of the host can see the string.
        sent: The bytes that are written to the program's stdin at once, and that the program reads first.
        when_ready: The parts that are written after `sent`, each part when the program has reported that it is ready for it.
    """

    line: str
    sent: bytes = field(default=b"", repr=False)
    when_ready: tuple[bytes, ...] = field(default=(), repr=False)
