"""Habits of Windows in a text for bash: ``>nul``, and line ends.

``nul`` is a device to Windows and a file to bash; most Windows programs can neither open nor remove the file that MSYS2 makes
of that name. A carriage return is a character like any other to bash, and would end up in the last word of a line.
"""

from __future__ import annotations

import re

LONGEST = 256 * 1024
"""Characters of a text for bash on Windows in which ``>nul`` is looked for: 0.3 s at worst, in which the event loop waits. A
longer text is not changed.
"""

DEEPEST = 100
"""Quotes, parentheses and the like in a text for bash on Windows, nested in each other; with more, the text is not changed."""

_TO_NUL = r"(?:&>>?|>>|>[|&]?|<>)[ \t]*+nul(?=[\s;&|()<>]|\Z)"

_MENTIONS_IT = re.compile(_TO_NUL, re.IGNORECASE)

# Text outside of quotes. Possessive, so no input takes long.
_OUTSIDE = re.compile(
    rf"""
    (?P<nul>      {_TO_NUL} )
  | (?P<skip>     \\. | '[^']*+' | \$'(?:[^'\\]|\\.)*+' | `(?:[^`\\]|\\.)*+` | <<<
                | \$\{{[^\}}"'`$\\]*+\}} | [^\s\\'"`$<>()\[\]{{}}\#&]++ )
  | (?P<document> <<(?P<tabs>-?)[ \t]*+
                  (?: '(?P<single>[^'\n]*+)' | "(?P<double>[^"\\$`\n]*+)" | \\?(?P<bare>[\w.+-]++) ) (?=[\s;&|()<>]|\Z) )
  | (?P<doubt>    << | \$\[ )
  | (?P<quote>    " )
  | (?P<sum>      \(\( )
  | (?P<brace>    \$\{{ )
  | (?P<open>     \( )
  | (?P<close>    \) )
  | (?P<unbrace>  \}} )
  | (?P<test>     \[\[(?=\s) )
  | (?P<untest>   \]\](?=[\s;&|)]|\Z) )
  | (?P<comment>  (?: (?<=[\s;&|()]) | \A ) \# [^\n]*+ )
  | (?P<end>      \n )
  | (?P<other>    [^'`] )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_INSIDE_QUOTES = re.compile(
    r"""
    (?P<skip>  [^"\\$`]++ | \\. | `(?:[^`\\]|\\.)*+` | \$\{[^}"'`$\\]*+\} | \$(?![({]) )
  | (?P<quote> " )
  | (?P<sum>   \$\(\( )
  | (?P<open>  \$\( )
    """,
    re.VERBOSE | re.DOTALL,
)

_CASE = re.compile(r"\bcase\b")

_CLOSES = {"close": ("open", "sum"), "unbrace": ("brace",), "untest": ("test",)}


def for_bash(text: str) -> str:
    r"""Convert a text written on Windows into a text for bash with the intended effect.

    If every line ends in ``\r\n``, the line ends become ``\n``. Output to ``nul`` goes to ``/dev/null``: only the word
    ``nul`` is changed, in either case, right after ``>``, ``>>``, ``&>`` and similar operators; not in quotes, comments,
    here-documents, backticks, tests and sums. In every case of doubt the text is not changed.
    """
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        text = text.replace("\r\n", "\n")
    if len(text) > LONGEST or not _MENTIONS_IT.search(text):
        return text
    return _without_nul(text) or text


def _without_nul(text: str) -> str | None:
    changed: list[str] = []
    nesting: list[str] = []  # the open constructs: a kind of _OUTSIDE; a sum twice, for its two parentheses
    documents: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        quoted = nesting[-1:] == ["quote"]
        match = (_INSIDE_QUOTES if quoted else _OUTSIDE).match(text, at)
        if match is None or len(nesting) > DEEPEST:
            return None
        kind, piece, at = str(match.lastgroup), match[0], match.end()
        if kind == "doubt" or (documents and kind != "end" and "\n" in piece):
            return None
        if kind == "nul" and set(nesting) <= {"open"}:
            piece = f"{piece[:-3]}/dev/null"
        elif quoted and kind == "quote":
            nesting.pop()
        elif kind in ("quote", "open", "brace", "test", "sum"):
            if kind == "open" and "quote" in nesting and _CASE.search(text, at):
                return None  # a closing parenthesis of the case may close no group
            nesting += [kind] * (2 if kind == "sum" else 1)
        elif kind in _CLOSES and nesting and nesting[-1] in _CLOSES[kind]:
            nesting.pop()
        elif kind == "document":
            word = next(each for each in match.group("single", "double", "bare") if each is not None)
            documents.append((word, bool(match["tabs"])))
        elif kind == "end" and documents:
            after = _after(documents, text, at)
            if after is None:
                return None
            piece, at = text[at - 1 : after], after
            documents.clear()
        changed.append(piece)
    return None if nesting else "".join(changed)


def _after(documents: list[tuple[str, bool]], text: str, at: int) -> int | None:
    """Return the end of the here-documents that begin at a position; ``None`` when one of them has no end."""
    for word, tabs in documents:
        line = None
        while line != word:
            if at >= len(text):
                return None
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end]
            line = line.lstrip("\t") if tabs else line
            at = end + 1
    return min(at, len(text))
