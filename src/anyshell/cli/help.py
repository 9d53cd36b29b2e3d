"""The look of ``--help``: commands in groups, and colours on a terminal."""

from __future__ import annotations

import os
import re

import click

from .terminal.drawing import has_colour

_MARKS = (
    (r"^ *[A-Z][^\n:]{0,70}:(?=$| as (?:for|of) )", {"bold": True}),
    (r"^Usage:", {"bold": True}),
    (r"^  (?:-[\w-]|[a-z]+(?=  |$))(?:[^ \n]| (?! ))*", {"fg": "cyan"}),
    (r"^ {4,6}[0-9]+(?:\+n)?(?=  )", {"fg": "cyan"}),
    (r"^ {4,6}(?:[a-z. ]+ \| )?(?:anyshell|eval) .*", {"fg": "green"}),
)
"""The styles of a help, by pattern: headings, options and commands, exit codes, examples."""


def colour() -> bool | None:
    """The value of click's ``color``: never colours, or only on a terminal."""
    return None if has_colour() and os.environ.get("TERM") != "dumb" else False


class Formatter(click.HelpFormatter):
    """Marks a help when it is whole, so that no row is folded elsewhere for it."""

    def getvalue(self) -> str:
        """The help, with colours; click takes them off where there is no terminal."""
        text = super().getvalue()
        for pattern, style in _MARKS:
            text = re.sub(
                pattern,
                lambda found, style=style: click.style(found[0], **style),  # type: ignore[misc]
                text,
                flags=re.MULTILINE,
            )
        return text


click.Context.formatter_class = Formatter  # each command's, also of groups that click makes contexts for
