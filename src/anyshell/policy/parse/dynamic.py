"""What evaluates texts, and which variables say what programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import ShellKind
    from .parsed import Argument


def variable(name: str) -> bool:
    """Whether a variable of this name says what programs run."""
    return False


def clauses(program: str, arguments: Sequence[Argument], shell: ShellKind) -> Iterator[str]:
    """Why it is not known what a program does with its arguments."""
    return iter(())
