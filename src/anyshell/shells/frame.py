"""The surroundings of one command of a persistent shell, as a value."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_TEXTS = 64
"""Texts of one shell that are remembered; with more, all are made anew."""


@dataclass(slots=True, kw_only=True)
class Frame:
    """The text around one command. Not frozen: that would cost as much as making the text.

    Attributes:
        number: The number of the command; every report about the command begins with it.
        mark: The environment variable that marks the command's processes.
        tag: The soft limit on file locks that tags the command's processes.
        stdout: The pipe for the command's output.
        stderr: The pipe for the command's stderr, if the channels are split.
        stdin: The pipe for the command's stdin; ``None`` is end-of-file at once.
        status: The value of ``$?`` when the command begins.
        begun: Whether to report that the command begins.
        cwd: The directory to which the shell changes first; ``None`` is the present directory.
        env: Variables that the shell exports first, or removes, if the value is ``None``.
        variables: Whether to report the exported variables before and after the command.
        pids: Whether to report the last pid that the host gave, before and after the command.
        careful: Whether the shell may have a trap, or trace: see `Conversation.needs_care`.
        redefined: Whether the shell may have aliases, functions ``builtin`` and ``exec``, or ``set -t``: see
            `Conversation.redefines`.
        alone: Whether the shell may open the pipes before they have a reader or writer: the other process may have been
            killed.
        marked: Whether a line stands behind the text: see `Conversation.text`.
        own: Whether the text is one of anyshell's own, which no alias may get into; then the frame counts as redefined.
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


class FrameTexts:
    """A cache of frames' texts. The texts of two commands in a row differ only in numbers and a mark.

    Args:
        make: Makes the text of a frame, with the frame's number, mark and tag unchanged in the text.
    """

    def __init__(self, make: Callable[[Frame], str]) -> None:
        self._make = make
        self._made: dict[tuple[object, ...], str] = {}
        # Random: no other text, such as the name of a directory, can contain these values.
        self._number, self._tag = (1 << 62 | secrets.randbits(62) for _ in range(2))
        self._mark = f"ANYSHELL_MARK_{secrets.token_hex(8)}"

    def of(self, frame: Frame) -> str:
        """Return the text of a frame."""
        if frame.env or frame.cwd is not None:
            return self._make(frame)
        key = (
            *(frame.stdout, frame.stderr, frame.stdin, frame.status, frame.tag is None, frame.begun),
            *(
                frame.variables,
                frame.pids,
                frame.careful,
                frame.redefined,
                frame.alone,
                frame.marked,
                frame.own,
            ),
        )
        text = self._made.get(key)
        if text is None:
            if len(self._made) >= MOST_TEXTS:
                self._made.clear()
            tag = None if frame.tag is None else self._tag
            text = self._make(replace(frame, number=self._number, mark=self._mark, tag=tag))
            self._made[key] = text
        text = text.replace(str(self._number), str(frame.number)).replace(self._mark, frame.mark)
        return text.replace(str(self._tag), str(frame.tag))
