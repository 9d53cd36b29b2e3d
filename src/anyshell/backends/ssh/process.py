"""The common part of every program behind a channel, whatever the system of the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from .channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteSendStream

    from ..._types import Usage
    from .channel import ChannelReceiveStream

C = TypeVar("C", bound=Channel)


class ChannelProcess(ABC, Generic[C]):
    """A program on a host, behind a channel: its streams, and the state of its connection.

    Args:
        channel: The channel of the program.
        stdin: The input of the program.
        split_stderr: Whether stdout and stderr are separate.
        on_released: Called with the channel of a program that is released.
    """

    def __init__(
        self,
        channel: C,
        *,
        stdin: ByteSendStream | None,
        split_stderr: bool,
        on_released: Callable[[Channel], object],
    ) -> None:
        self._channel = channel
        self._stdin = stdin
        self._split = split_stderr
        self._on_released = on_released
        self._closed = False

    @property
    def stdin(self) -> ByteSendStream | None:
        """The input of the program, if it was requested; on a terminal, the keys."""
        return self._stdin

    @property
    def stdout(self) -> ChannelReceiveStream:
        """The output of the process tree."""
        return self._channel.stdout

    @property
    def stderr(self) -> ChannelReceiveStream | None:
        """The output of the process tree on stderr, if stdout and stderr are separate."""
        return self._channel.stderr if self._split else None

    @property
    def usage(self) -> Usage | None:
        """Return ``None``: the protocol does not report resource usage."""
        return None

    @property
    def lost(self) -> bool:
        """Whether the program's connection broke."""
        return self._channel.broken

    @property
    @abstractmethod
    def started(self) -> bool | None:
        """Whether the program has begun; ``None`` while that is unknown."""

    @abstractmethod
    def _give_back(self) -> None:
        """Record that the program is closed, and tell its backend."""

    async def release(self) -> None:
        """Let living processes run on, as long as the connection lasts; their output is read and discarded.

        A program that is not known to have begun has its channel closed instead: if it has not begun, it cannot begin
        any more.
        """
        if self._closed:
            return
        if self.started:
            self._channel.discard()
            self._on_released(self._channel)
        else:
            self._channel.abort()
        self._give_back()
