"""The calls of a tool that are under way, and their cancellation."""

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
"""Calls under way that the error of `cancel` names one by one; the others are only counted."""


class Ongoing:
    """A call under way.

    Attributes:
        id: The id that the caller gave, or that the tool made.
        cancelled: Whether the cancellation of the call was requested.
        tool: The name of the called tool.
        arguments: The arguments of the model.
        control: The control that ends the call's command; the command then has an outcome.
    """

    def __init__(self, call_id: str, tool: str, arguments: Mapping[str, object]) -> None:
        self.id = call_id
        self.tool = tool
        self.arguments = arguments
        self.cancelled = False
        self.control = Control()
        self._scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        """Request the end of the call; a second request skips the grace."""
        self.cancelled = True
        self.control.cancel()
        if self._scope is not None:
            self._scope.cancel()

    def interruptible(self) -> anyio.CancelScope:
        """Return a scope whose block ends early when the call is cancelled; `cancelled` is then true.

        Use the scope only where no outcome can be lost: for an approval, a turn or a wait. A cancelled task still raises.
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
        """Register a call of a tool, with the model's parameters, until the call returns.

        Raises:
            InvalidCommand: The id is not text, is empty, or is the id of another call under way.
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
        """Cancel a call under way.

        Raises:
            AnyshellError: No call of this id is under way; the message names the calls under way.
        """
        # Compare instead of looking up: a caller's id that is not text may have no hash.
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
