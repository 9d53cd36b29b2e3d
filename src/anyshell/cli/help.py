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
"""The styles of a help text, by pattern: headings, options and commands, exit codes, examples."""


def colour() -> bool | None:
    """Return the value for click's ``color``: ``False`` for no colours, ``None`` for colours on a terminal only."""
    return None if has_colour() and os.environ.get("TERM") != "dumb" else False


class Formatter(click.HelpFormatter):
    """A formatter that colours the finished help text, so that colours do not change where rows wrap."""

    def getvalue(self) -> str:
        """Return the help with colours; click removes the colours if the output is not a terminal."""
        text = super().getvalue()
        for pattern, style in _MARKS:
            text = re.sub(
                pattern,
                lambda found, style=style: click.style(found[0], **style),  # type: ignore[misc]  # mypy knows no default of a lambda's
                text,
                flags=re.MULTILINE,
            )
        return text


click.Context.formatter_class = Formatter  # for every command, even where click itself makes the context
