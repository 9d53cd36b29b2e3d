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
"""Bytes of the end of a host's output in which its last line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutcome:
    """The outcome of a command on one host.

    Attributes:
        host: The host's name, as it was given; another entry of the same name has a number behind it, `` (2)``.
        state: ``done``: it ran there and exited with 0. ``failed``: it did not. ``not_started``: the host's turn never
            came, since another had failed or all was cancelled; nothing was sent there.
        outcome: The outcome of the command, if the host was reached. Cancelled while it was being reached, it has the
            status ``cancelled`` and was not started.
        error: Why there is no outcome: the host could not be reached, its key is not trusted, its directory or shell is
            not there. Beside an outcome: what failed when the environment was closed.
        notices: Facts for a person about the way to the host, one sentence each.
        duration: Seconds from the beginning of its turn to its end, connecting and closing included.
    """

    host: str
    state: Literal["done", "failed", "not_started"]
    outcome: Outcome | None = None
    error: Exception | None = None
    notices: tuple[str, ...] = ()
    duration: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ran there and exited with 0."""
        return self.state == "done"

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """The processes of the command that lived at the last answer of the host, or may live as it no longer answers."""
        return () if self.outcome is None else alive_of(self.outcome)

    def check(self) -> Outcome:
        """Return the outcome if it ran there and exited with 0.

        Raises:
            CommandFailed: It ran, and did not; the exception carries the outcome.
            AnyshellError: It was not started.
            Exception: `error`, if there is one.
        """
        if self.error is not None:
            raise self.error
        if self.outcome is None:
            raise AnyshellError(f"the command was not started on {self.host}: its turn never came")
        return self.outcome.check()


class HostProgress:
    """The progress of one host, for a display while a fleet runs. It changes as the host does."""

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
        """The state of the host: waits for its turn, connects, runs, closes, or its end, as in its `HostOutcome`."""
        return self._state

    @property
    def elapsed(self) -> float:
        """Seconds since its turn began, until that is over; 0 before."""
        if self._began is None:
            return 0.0
        return (self._ended or time.monotonic()) - self._began

    @property
    def output_bytes(self) -> int:
        """Bytes that the command has printed so far."""
        return self._bytes

    @property
    def last_line(self) -> str:
        """The last line of its output that is not blank, cleaned; of a very long one the end."""
        page = None if self._info is None else Page.of(self._info.code_page)
        decoder = LineDecoder(page)
        lines = [line.text for line in (*decoder.feed(self._tail), *decoder.flush())]
        if len(lines) > 1 and self._bytes > len(self._tail):
            del lines[0]  # its beginning is not there
        return next((text for text in reversed(lines) if text.strip()), "")

    @property
    def info(self) -> HostInfo | None:
        """The facts of the host, once it has been reached.

        Of a host by SSH it has what a command needs: the system, the directories and the shell. All of it is asked for where the
        command is a function.
        """
        return self._info

    @property
    def survivors(self) -> tuple[ProcessInfo, ...]:
        """As in its `HostOutcome`; also before that was taken."""
        return self._survivors

    def _hear(self, data: bytes) -> None:
        self._bytes += len(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]


FleetListener = Callable[[HostProgress, "Channel", bytes], Awaitable[None]]
"""Is given every piece of output as it comes, and is awaited: a slow one slows the host's command down."""

FleetObserver = Callable[[HostProgress], object]
"""Is told when a host's state has changed."""


def alive_of(outcome: Outcome) -> tuple[ProcessInfo, ...]:
    """The processes of a command that were alive when its host was asked last."""
    return tuple(process for process in outcome.left_behind if process.alive)
