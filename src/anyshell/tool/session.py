"""The session in which a tool's commands run, and the model's knowledge of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .. import policy

if TYPE_CHECKING:
    from ..session import Session


class ToolSession:
    """The session of a tool, and the model's knowledge of the session.

    Args:
        session: The session.

    Attributes:
        session: The session.
        turn: The lock of the current call: no other command runs between a command's approval and the command itself, since
            an earlier command can change a later command's meaning.
        counted_on: Whether the model believes that the session's shell still has its state.
        told: The directory of the session's shell, as the model was last told.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = asyncio.Lock()
        self.counted_on = False
        self.told = session.directory

    @property
    def visible_directory(self) -> str:
        """The directory in which the next command begins, as printable text: a name may hold bytes that are not text."""
        return policy.visible(self.session.directory)

    def tell(self) -> str:
        """Return the directory in which the next command begins, and record that the model was told."""
        self.told = self.session.directory
        return self.told

    async def restart(self) -> None:
        """Begin a fresh shell."""
        self.counted_on = False
        await self.session.restart()
