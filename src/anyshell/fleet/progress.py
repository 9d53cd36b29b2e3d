"""The progress of each host of a fleet, and the outcome of the command there."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .._exceptions import AnyshellError
from ..output import LineDecoder, Page

if TYPE_CHECKING:
    from .._types import Channel, HostInfo, Outcome, ProcessInfo

HostState = Literal["waiting", "connecting", "running", "closing", "done", "failed", "not_started"]

TAIL = 4096
"""Bytes at the end of a host's output that are searched for the last line; of a longer line only the end is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutcome:
    """The outcome of a command on one host.

    Attributes:
        host: The host's name, as the caller gave it; a further entry of the same name gets a number, `` (2)``.
        state: ``done``: the command ran on the host and exited with 0, without an error. ``failed``: any other end of the
            host's turn. ``not_started``: the host's turn never came, since another host had failed or the run was cancelled;
            the host was not contacted.
        outcome: The outcome of the command, if the host was reached. After a cancellation while connecting, the outcome has
            the status ``cancelled``, and the command was not started.
        error: The error without an outcome: the host could not be reached, its key is not trusted, or its directory or shell
            is missing. Beside an outcome: the error when the environment was closed.
        notices: Facts for a person about the connection to the host, one sentence each.
        duration: Seconds from the beginning of the host's turn to its end, connecting and closing included.
    """

    host: str
    state: Literal["done", "failed", "not_started"]
    outcome: Outcome | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()
    duration: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the command ran on the host and exited with 0."""
        return self.state == "done"

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """The processes of the command that lived at the host's last answer, and may still live."""
        return () if self.outcome is None else alive_of(self.outcome)

    def check(self) -> Outcome:
        """Return the outcome if the command ran on the host and exited with 0.

        Raises:
            CommandFailed: The command did not exit with 0; the exception carries the outcome.
            AnyshellError: The command was not started.
            Exception: `error`, if that is not ``None``.
        """
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AnyshellError(
                f"the command was not started on {self.host}: the run stopped before its turn"
            )
        return self.outcome.check()


class HostProgress:
    """The live progress of one host, for a display while a fleet runs."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._state: HostState = "waiting"
        self._began: float | None = None
        self._ended: float | None = None
        self._tail = b""
        self._bytes = 0
        self._info: HostInfo | None = None
        self._survivors: tuple[ProcessInfo, ...] = ()

    @property
    def host(self) -> str:
        """The host's name, as in its `HostOutcome`."""
        return self._host

    @property
    def state(self) -> HostState:
        """The present state of the host: ``waiting`` to ``closing``, and then the final state, as in `HostOutcome.state`."""
        return self._state

    @property
    def elapsed(self) -> float:
        """Seconds from the beginning of the host's turn to now or to the turn's end; 0 before the turn."""
        if self._began is None:
            return 0.0
        return (self._ended or time.monotonic()) - self._began

    @property
    def output_bytes(self) -> int:
        """Bytes that the command has printed so far."""
        return self._bytes

    @property
    def last_line(self) -> str:
        """The last line of the output that is not blank, cleaned; of a very long line only the end."""
        page = None if self._info is None else Page.of(self._info.code_page)
        decoder = LineDecoder(page)
        lines = [line.text for line in (*decoder.feed(self._tail), *decoder.flush())]
        if len(lines) > 1 and self._bytes > len(self._tail):
            del lines[0]  # the beginning of the line is missing
        return next((text for text in reversed(lines) if text.strip()), "")

    @property
    def info(self) -> HostInfo | None:
        """The facts of the host, after the host was reached; ``None`` before.

        Of an SSH host only the facts that a command needs: the system, the directories and the shell. If the command is a
        function, all facts.
        """
        return self._info

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """The surviving processes, as `HostOutcome.survivors`, but available before the outcome is taken."""
        return self._survivors

    def _hear(self, data: bytes) -> None:
        self._bytes += len(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]


FleetListener = Callable[[HostProgress, "Channel", bytes], Awaitable[None]]
"""An async function that gets every piece of output on arrival, and is awaited: a slow listener slows the command down."""

FleetObserver = Callable[[HostProgress], object]
"""A function that is called when a host's state has changed."""


def alive_of(outcome: Outcome) -> tuple[ProcessInfo, ...]:
    """Return the processes of a command that were alive when the host was last asked."""
    return tuple(process for process in outcome.left_behind if process.alive)
