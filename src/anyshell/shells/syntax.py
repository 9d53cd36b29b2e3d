"""The leading ``cd`` of a command's text.

This module is not a parser. The module recognises a small common part of bash, zsh and sh, and refuses every other text: a wrong
refusal costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 64 * 1024
"""Characters of a command in which a leading `cd DIR &&` is looked for: 30 ms at worst, in which the event loop waits."""


@dataclass(frozen=True, slots=True)
class LeadingCd:
    """A command of the form ``cd DIRECTORY && REST``.

    Attributes:
        directory: The literal directory, without its quotes.
        rest: Everything after the ``&&``, unchanged.
    """

    directory: str
    rest: str


# The parts of a literal word. No part is expanded: no "$", "`", "~", "!" or glob character outside quotes, and no "=",
# which zsh expands at the start of a word. Possessive, so no input takes long.
_PIECES = re.compile(
    r"""
    (?P<bare> [\w@%+:,./-]++ )
  | ' (?P<single> [^'\n]*+ ) '
  | " (?P<double> [^"$`\\!\n]*+ ) "
  | \\ (?P<escaped> [^\n] )
    """,
    re.VERBOSE,
)

_LEADING_CD = re.compile(
    r"""
    [ \t]* cd [ \t]+
    (?P<word> (?: [\w@%+:,./-]++ | '[^'\n]*+' | "[^"$`\\!\n]*+" | \\[^\n] )++ )
    [ \t]* &&
    """,
    re.VERBOSE,
)

# A rest could tell that it did not run after a cd: by the last argument or the status of the command before, by the text
# that the shell was given, as the shell itself or the list of processes shows it, and by listing the shell's variables. A
# shell that may not have taken OLDPWD could also tell by the previous directory. The words here may have another meaning
# than they seem to have.
_TELLS_APART = re.compile(
    r"""
    \$\{?[!\#]?_ | pipestatus | execution_string | bash_command | /proc\b
  | OLDPWD | ~- | \bcd\s+[^\w/.~]
  | \b (?: declare | typeset | local | set | ps | pgrep | pkill ) \b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def leading_cd(text: str) -> LeadingCd | None:
    """Split a leading ``cd DIRECTORY &&`` off a command, if the rest has the same effect when started in the directory.

    The directory must be literal, and the caller must check that it can be entered. The rest must be one list of ``&&`` and
    ``|``: in ``cd a && b & c`` the ``c`` does not run in ``a``. A ``~`` is not literal: it stands for the value of HOME when
    the shell starts.

    Two facts cannot be known: whether the host's variables define a function named ``cd`` (only bash has these), and options
    that make ``cd`` resolve links (SHELLOPTS).

    Returns:
        ``None`` for every other command, and in every case of doubt.
    """
    match = _LEADING_CD.match(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    directory = _unquoted(match["word"])
    rest = text[match.end() :]
    if directory.startswith(("-", "+")) or not directory:
        return None
    if _TELLS_APART.search(rest) or not _is_one_list(rest):
        return None
    return LeadingCd(directory, rest)


def _unquoted(word: str) -> str:
    return "".join(piece[piece.lastgroup or 0] for piece in _PIECES.finditer(word))


# The parts of a list outside double quotes. A text with a part that matches nothing here (a here-document, $'…', a backtick
# with quotes inside, a ${…} with more than a name) is not understood.
_OUTSIDE = re.compile(
    r"""
    (?P<word>     [^\s\\'"`$&|;()<>\#{}]++ | \\. | '[^']*+'
                | \$(?![('"\[{]) | \$\{[\w@*\#?$!:+=,./-]*+\} | `[^`'"\\\#\n]*+`
                | (?<=[^\s;&|()])[\#{}] | \{(?=\S) )
  | (?P<quote>    " )
  | (?P<open>     \$?\( )
  | (?P<close>    \) )
  | (?P<brace>    \{(?=\s) )
  | (?P<unbrace>  \}(?=[\s;&|)]|\Z) )
  | (?P<redirect> (?: >>? | < ) (?!<) [&|]? )
  | (?P<joint>    && | \|\| | \|(?!&) )
  | (?P<end>      ; | & | \|& | \n )
  | (?P<blank>    [^\S\n]++ )
    """,
    re.VERBOSE | re.DOTALL,
)

_INSIDE_QUOTES = re.compile(
    r"""
    (?P<word>  [^"\\$`]++ | \\. | \$(?![({\[]) | \$\{[\w@*\#?$!:+=,./-]*+\} | `[^`'"\\\#\n]*+` )
  | (?P<quote> " )
  | (?P<open>  \$\( )
    """,
    re.VERBOSE | re.DOTALL,
)


_CLOSED_BY = {"open": ")", "brace": "}", "quote": '"'}


def _is_one_list(text: str) -> bool:
    """Return whether a text is commands joined by ``&&`` and ``|`` alone, outside of groups."""
    nesting: list[str] = []  # the closing character of each open group: ")", "}" or '"'
    begun = False  # whether a command has begun since the last joint outside groups
    at = 0
    while at < len(text):
        match = (_INSIDE_QUOTES if nesting[-1:] == ['"'] else _OUTSIDE).match(text, at)
        if match is None:
            return False
        kind, piece, at = match.lastgroup, match[0], match.end()
        if kind == "end" and not nesting:
            return begun and piece == "\n" and not text[at:].strip(" \t\n")
        if kind == "end" and piece.endswith("&") and nesting[-1] != ")":
            return False  # a brace may be an argument (echo { & pwd), a parenthesis never is
        if kind == "joint" and not nesting:
            if piece == "||" or not begun:
                return False
            begun = False
            continue
        if kind in ("close", "unbrace") and (not nesting or nesting.pop() != piece):
            return False
        if kind == "quote" and nesting[-1:] == ['"']:
            nesting.pop()
        elif kind in _CLOSED_BY:
            nesting.append(_CLOSED_BY[kind])
        begun = begun or kind != "blank"
    return begun and not nesting
