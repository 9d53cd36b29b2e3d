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
    """A program on a host, behind a channel: its streams, and the connection, which may break.

    Args:
        channel: Leads to it.
        stdin: Its input.
        split_stderr: Whether the channels were split.
        on_released: Is given the channel of a program that is let go.
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
        """The input of the program, if it was asked for; on a terminal, the keys."""
        return self._stdin

    @property
    def stdout(self) -> ChannelReceiveStream:
        """The output of the tree."""
        return self._channel.stdout

    @property
    def stderr(self) -> ChannelReceiveStream | None:
        """The output of the tree on stderr, if the channels were split."""
        return self._channel.stderr if self._split else None

    @property
    def usage(self) -> Usage | None:
        """Return ``None``: the protocol does not tell the usage."""
        return None

    @property
    def lost(self) -> bool:
        """Whether its connection broke."""
        return self._channel.broken

    @property
    @abstractmethod
    def started(self) -> bool | None:
        """Whether it has begun; ``None`` while that is unknown."""

    @abstractmethod
    def _give_back(self) -> None:
        """Note that it is closed, and tell its backend."""

    async def release(self) -> None:
        """Let what lives go on, as long as the connection lasts; its output is read and thrown away.

        The channel of what is not known to have begun is closed instead: if it has not, it cannot any more.
        """
        if self._closed:
            return
        if self.started:
            self._channel.discard()
            self._on_released(self._channel)
        else:
            self._channel.abort()
        self._give_back()
