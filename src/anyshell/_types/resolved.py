"""The target of an internal address such as ``skill://review/SKILL.md``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .._exceptions import InvalidCommand
from .checks import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

Creates = Literal["nothing", "file", "directories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The target of an address: a file, a directory, or the content of a file that exists while the command runs.

    Attributes:
        path: Below `root`, if `root` is given; otherwise absolute. With `content`, only the name of the file.
        root: An absolute directory that neither the path nor a link on the path may leave; ``None``: no check.
        on_host: Whether `path` and `root` are on the host of the command. Otherwise both are on this machine, and another
            host gets a copy of the file or directory until the command ends.
        creates: The kind of file that a command may create at the path: ``nothing`` (the file must exist), a ``file`` in an
            existing directory, or ``directories`` too, which are created before the command. Only on the command's host.
        content: The content of the file, whole or in pieces; made after the approval, in a worker thread.
        hold: Returns a context manager that is entered while the command runs, in worker threads. An exception of the manager's
            exit, after the command, goes to the event loop's exception handler, and the outcome stands.
    """

    path: str
    root: str | None = None
    on_host: bool = False
    creates: Creates = "nothing"
    content: bytes | Callable[[], Iterable[bytes]] | None = field(default=None, repr=False)
    hold: Callable[[], AbstractContextManager[object]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("creates", self.creates, ("nothing", "file", "directories"))
        if self.content is not None and (self.root, self.on_host, self.creates) != (None, False, "nothing"):
            raise InvalidCommand("content has no place of its own: leave out root, on_host and creates")
