"""The surroundings of one command of a persistent shell, as a value."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_TEXTS = 64
"""Texts of one shell that are remembered; with more, they are made anew."""


@dataclass(slots=True, kw_only=True)
class Frame:
    """The text around one command. Not frozen: that would cost as much as making the text.

    Attributes:
        number: Its number; what is said of it begins with that.
        mark: A variable that what it starts gets.
        tag: A soft limit on file locks that what it starts gets.
        stdout: The pipe that it prints to.
        stderr: The one for its errors, if the channels are split.
        stdin: The pipe that it reads; ``None`` is end-of-file at once.
        status: The value of ``$?`` when it begins.
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


class FrameTexts:
    """The texts that are made of frames. What two commands in a row are given differs in nothing but numbers and a mark.

    Args:
        make: Makes the text of a frame, in which its number, its mark and its tag stand as they are.
    """

    def __init__(self, make: Callable[[Frame], str]) -> None:
        self._make = make
        self._made: dict[tuple[object, ...], str] = {}
        # They stand nowhere else: not even the name of a directory can be meant to have them.
        self._number, self._tag = (1 << 62 | secrets.randbits(62) for _ in range(2))
        self._mark = f"ANYSHELL_MARK_{secrets.token_hex(8)}"

    def of(self, frame: Frame) -> str:
        """The text of a frame."""
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
