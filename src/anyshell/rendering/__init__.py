"""Results of calls, drawn by rich for a person: the command, its output, the cuts, and its end.

A result's `display` is text in blocks. This package turns the blocks into a renderable of
`rich <https://rich.readthedocs.io>`_, for rich's `Console` or for any widget that takes a renderable. A command that a
person runs directly has no tool result: the view draws the command's events and outcome.

The text is never read as markup, and control characters are shown as escapes. A bar stands before each row of a program's
output: no output can pass for a word of anyshell. Terminals disagree on the width of a character that is joined from
several; a row has room for the widest form. A character missing from the console's encoding is shown as an escape.

A collapsed view costs the same however long an output is, apart from one count of line feeds: only the characters that
fit the rows are cut into rows, from the end backwards.
"""

from .views import RenderedCommand as RenderedCommand
from .views import RenderedRequest as RenderedRequest
from .views import RenderedResult as RenderedResult

__all__ = ["RenderedCommand", "RenderedRequest", "RenderedResult"]
