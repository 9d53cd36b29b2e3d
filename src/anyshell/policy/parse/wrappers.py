"""Programs that run the command that their arguments are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import ShellKind
    from .parsed import Argument, Assignment, Span


@dataclass(frozen=True, slots=True)
class Runs:
    """A command that a program is given to run: words, or a text for a shell."""

    words: tuple[Argument, ...] = ()
    variables: tuple[Assignment, ...] = ()
    text: str | None = None
    shell: ShellKind = "sh"
    span: Span | None = None
    host: str = ""
    unknown: str = ""


def runs(program: str, arguments: Sequence[Argument], shell: ShellKind) -> Iterator[Runs]:
    """What a program runs, as far as its arguments say it."""
    return iter(())
