"""The session in which a tool's commands run, and the model's knowledge of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .. import policy

if TYPE_CHECKING:
    from ..session import Session


class ToolSession:
    """The session of a tool, and what the model knows of it.

    Args:
        session: The session.

    Attributes:
        session: The session.
        turn: Whose turn it is: nothing runs between the approval of a command and the command, since it decides what that does.
        counted_on: Whether the model thinks that the session's shell knows something.
        told: The directory of the session's shell, as the model was last told.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = asyncio.Lock()
        self.counted_on = False
        self.told = session.directory

    @property
    def visible_directory(self) -> str:
        """The directory in which the next command begins, as text: a name may hold bytes that are no text."""
        return policy.visible(self.session.directory)

    def tell(self) -> str:
        """Return the directory in which the next command begins, and note that the model was told."""
        self.told = self.session.directory
        return self.told

    async def restart(self) -> None:
        """Begin a fresh shell."""
        self.counted_on = False
        await self.session.restart()
