"""What surrounds one command of a persistent shell, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, kw_only=True)
class Frame:
    """What surrounds one command. Not frozen, which would make it cost as much as the text that is made of it.

    Attributes:
        number: Its number; what is said of it begins with that.
        mark: A variable that what it starts gets.
        tag: A soft limit on file locks that what it starts gets.
        stdout: The pipe that it prints to.
        stderr: The one for its errors, if the channels are split.
        stdin: The pipe that it reads; ``None`` is end-of-file at once.
        status: What ``$?`` is when it begins.
        begun: Whether to tell that it begins.
        cwd: A directory that the shell changes to before; ``None`` leaves it where it is.
        env: Variables that it exports before, or removes, if there is no value.
        variables: Whether to tell the exported variables before and after it.
        pids: Whether to tell which pid the host gave last, before and after it.
        careful: Whether the shell may have a trap, or trace: see `Conversation.needs_care`.
        redefined: Whether it may have aliases, functions ``builtin`` and ``exec``, or ``set -t``: see `Conversation.redefines`.
        alone: Whether the shell may open the pipes before they have a reader or writer: that process may have been killed.
        marked: Whether a line stands behind the text: see `Conversation.text`.
        own: Whether the text is one of anyshell's own, which no alias may get into; then it counts as redefined.
    """

    number: int
    mark: str
    tag: int | None
    stdout: str
    stderr: str | None
    stdin: str | None
    status: int
    begun: bool
    cwd: str | None
    env: Mapping[str, str | None]
    variables: bool
    pids: bool
    careful: bool
    redefined: bool
    alone: bool
    marked: bool
    own: bool = False
