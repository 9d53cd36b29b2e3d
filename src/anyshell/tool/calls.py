"""The calls of a tool that are under way, and the way to cancel one of them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
from pydantic import BaseModel

from .._engine import Control
from .._exceptions import AnyshellError, InvalidCommand
from .._types import LONGEST_NAME, check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = 10
"""Calls under way that the error of `cancel` names one by one."""


class Ongoing:
    """A call under way.

    Attributes:
        id: What the caller has called it, or the tool.
        cancelled: Whether it is to be cancelled.
        tool: The tool that is called.
        arguments: The arguments of the model.
        control: Ends the command that it runs, which then has an outcome.
    """

    def __init__(self, call_id: str, tool: str, arguments: Mapping[str, object]) -> None:
        self.id = call_id
        self.tool = tool
        self.arguments = arguments
        self.cancelled = False
        self.control = Control()
        self._scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        """Ask for its end; a second time, skip the grace."""
        self.cancelled = True
        self.control.cancel()
        if self._scope is not None:
            self._scope.cancel()

    def interruptible(self) -> anyio.CancelScope:
        """Make a block that is left when the call is cancelled; `cancelled` says so afterwards.

        For what has no outcome to lose: an approval, a turn, a wait. A cancelled task still raises.
        """
        scope = self._scope = anyio.CancelScope()
        if self.cancelled:
            scope.cancel()
        return scope


class Calls:
    """The calls under way of one `ShellTool`, and of the tools for its jobs and terminals."""

    def __init__(self) -> None:
        self._ongoing: dict[str, Ongoing] = {}
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def begin(self, call_id: str | None, tool: str, params: object) -> Iterator[Ongoing]:
        """Know a call of a tool, with what a model gave it, for as long as it takes.

        Raises:
            InvalidCommand: The id is no text, is empty, or is that of another call under way.
        """
        if call_id is None:
            call_id = next(
                made for number in self._numbers if (made := f"call-{number}") not in self._ongoing
            )
        check_text("call_id", call_id)
        if not call_id:
            raise InvalidCommand("call_id is empty: give the call an id of its own, or none")
        if call_id in self._ongoing:
            raise InvalidCommand(
                f"call_id {call_id[:LONGEST_NAME]!r} is that of a call under way: give another"
            )
        ongoing = self._ongoing[call_id] = Ongoing(call_id, tool, _arguments(params))
        try:
            yield ongoing
        finally:
            del self._ongoing[call_id]

    def cancel(self, call_id: str) -> None:
        """Cancel one.

        Raises:
            AnyshellError: No call of that id is under way; the message names those that are.
        """
        # By comparison: a caller's id that is no text may have no hash.
        ongoing = next((each for each in self._ongoing.values() if each.id == call_id), None)
        if ongoing is None:
            ids = [known[:LONGEST_NAME] for known in self._ongoing]
            more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
            there = ", ".join(ids[:_NAMED]) + more if ids else "none"
            raise AnyshellError(
                f"no call {str(call_id)[:LONGEST_NAME]!r} is under way: it has ended, or never began; under way: {there}"
            )
        ongoing.cancel()


def _arguments(params: object) -> Mapping[str, object]:
    if isinstance(params, BaseModel):
        return params.model_dump(exclude_none=True)
    return dict(params) if isinstance(params, Mapping) else {}
