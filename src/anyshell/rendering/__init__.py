"""The result of a call, drawn by rich for a person: the command, its output, the cuts, and its end.

A result's `display` is text in blocks. Here it becomes a renderable of `rich <https://rich.readthedocs.io>`_, to be printed
by its `Console` or put into whatever takes one. A command that a person runs themselves has no result of a tool: it is drawn
from its events and its outcome.

Nothing of the text is markup, and nothing of it is obeyed: controls are escapes. What a program has printed stands behind a
bar on each row, so that no output can pass for a word of anyshell. Terminals do not agree on how wide a character is that
is joined of several; a row has room for it on each. A character that the console's encoding has not is an escape.

A collapsed view costs the same however long an output is, but for one count of its line feeds: only the characters that
its rows can show are cut into rows, from the end backwards.
"""

from .views import RenderedCommand as RenderedCommand
from .views import RenderedRequest as RenderedRequest
from .views import RenderedResult as RenderedResult

__all__ = ["RenderedCommand", "RenderedRequest", "RenderedResult"]
