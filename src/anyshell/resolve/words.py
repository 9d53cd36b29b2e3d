"""The search for words of a command that consist of an internal address alone.

The search is not a full parser: it follows quotes, groups and here-documents, and stops at text that it does not understand. No
address after that text is found, and no address inside a larger word, a larger quoted text, a comment or a here-document. A
missed address only leads to an error message of a program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LONGEST_SCANNED = 256 * 1024
"""Characters of a command that is searched for internal addresses; a longer command is not searched, and stays unchanged."""

_SCHEME = "[a-z][a-z0-9+.-]*+://"
_BARE = _SCHEME + r"[\w@%+:./=?~{}-]*+"


@dataclass(frozen=True, slots=True)
class Word:
    """An address in a command.

    Attributes:
        start: The start in the text, with quotes included.
        end: The end in the text.
        address: The address without quotes.
        command: Whether the address stands without quotes at the beginning of a PowerShell command.
    """

    start: int
    end: int
    address: str
    command: bool = False


_OUTSIDE = r"""
    (?P<address>  (?: '%(scheme)s[^'%(single)s\n]*+' | "%(scheme)s(?: [^"$`%(double)s\n] | \$(?=["&|)\ ]) )*+"
                | %(bare)s ) (?= [%(after)s] | \Z ) )
  | (?P<blank>    [ \t%(cr)s]++ )
"""

# Text without a match is not understood, and ends the search: an open quote, ${…} with more than a name, arithmetic with
# quotes inside.
_POSIX = (
    re.compile(
        _OUTSIDE
        % {
            "scheme": _SCHEME,
            "single": "",
            "double": r"\\",
            "bare": _BARE.replace("{}", ","),
            "after": r" \t\n;&|<>()",
            "cr": "",
        }
        + r"""
  | (?P<join>     \\\n )
  | (?P<comment>  \# [^\n]*+ )
  | (?P<here>     <<(?P<tabs>-?)(?!<) [ \t]*+ (?: '(?P<one>[^'\n]++)' | "(?P<two>[^"$`\\\n]++)" | \\?(?P<plain>[\w.%+:,/@-]++) ) (?= [ \t\n;&|<>()] | \Z ) )
  | (?P<piece>    '[^']*+' | \$'(?:[^'\\]|\\.)*+' | `(?:[^`\\]|\\.)*+` | \\. | \$\{[^'"`$\\{}]*+\}
                | \$?\(\( [^()'"`\n]*+ (?: \([^()'"`\n]*+\) [^()'"`\n]*+ )*+ \)\) )
  | (?P<quote>    " )
  | (?P<open>     [$<>]?\((?!\() )
  | (?P<close>    \) )
  | (?P<line>     \n )
  | (?P<joint>    [;&|]++ )
  | (?P<operator> <<< | [<>](?!<) | >> )
  | (?P<letter>   [^ \t\n\\'"`$;&|()<>]++ | \$(?![('"{]) )
""",
        re.VERBOSE | re.DOTALL,
    ),
    re.compile(
        r"""
    (?P<piece>    [^"\\`$]++ | \\. | `(?:[^`\\]|\\.)*+` | \$(?![({]) | \$\{[^'"`$\\{}]*+\} | \$\(\([^()'"`\n]*+\)\) )
  | (?P<open>     \$\((?!\() )
  | (?P<quote>    " )
""",
        re.VERBOSE | re.DOTALL,
    ),
)

_POWERSHELL = (
    re.compile(
        _OUTSIDE
        % {
            "scheme": _SCHEME,
            "single": r"\u2018-\u201b",  # PowerShell takes these for quotes, too
            "double": r"\u201c-\u201e",
            "bare": _BARE.replace("{}", r"\\"),
            "after": r" \t\r\n;|)},&<>",
            "cr": r"\r",
        }
        + r"""
  | (?P<join>     `\r?\n )
  | (?P<comment>  \# [^\n]*+ )
  | (?P<raw>      --%(?=\s) [^\n]*+ )
  | (?P<piece>    <\# .*? \#> | @(?P<mark>['"])[ \t]*+\r?\n (?:.*?\n)?? (?P=mark)@ | '(?:[^'\u2018-\u201b]|'')*+' | `. )
  | (?P<quote>    ["\u201c-\u201e] )
  | (?P<open>     [$@]?\( | @?\{ )
  | (?P<close>    [)}] )
  | (?P<line>     \n )
  | (?P<joint>    ; | \|\|? | && )
  | (?P<operator> [&,<>] )
  | (?P<letter>   [^\s`'"\u2018-\u201e$@;&|(){},<>]++ | [$@](?![('"{]) )
""",
        re.VERBOSE | re.DOTALL,
    ),
    re.compile(
        r"""
    (?P<piece>    [^"\u201c-\u201e`$]++ | `. | ["\u201c-\u201e]{2} | \$(?!\() )
  | (?P<open>     \$\( )
  | (?P<quote>    ["\u201c-\u201e] )
""",
        re.VERBOSE | re.DOTALL,
    ),
)


def find(text: str, schemes: Collection[str], *, powershell: bool) -> Iterator[Word]:
    """Find the words of a command that are addresses of the given schemes, in order.

    Raises:
        InvalidCommand: An address ends at an ``&`` that was meant for the address's query.
    """
    outside, inside = _POWERSHELL if powershell else _POSIX
    mentioned = re.compile(rf"(?<![a-z0-9+.-])(?:{'|'.join(map(re.escape, schemes))})://")
    if len(text) > LONGEST_SCANNED or not schemes or mentioned.search(text) is None:
        return
    nesting: list[str] = []  # the open groups and quotes, the innermost last
    documents: list[tuple[bool, str]] = []  # here-documents that begin at the next line
    fresh = first = True  # whether a word begins at `at`, and whether a command begins there
    at = 0
    while at < len(text):
        quoted = nesting[-1:] == ["quote"]
        match = (inside if quoted else outside).match(text, at)
        if match is None:
            return
        kind, piece = match.lastgroup or "", match[0]
        if piece == "case" and "open" in nesting and not powershell:
            return  # a pattern of case ends with ")", which would close the group
        if kind in ("address", "comment") and not fresh:
            kind, piece = "letter", piece[:1]  # a part of a larger word
            if piece in "'\"":
                kind, piece = ("quote", piece) if piece == '"' else ("piece", match[0])
        end = at + len(piece)
        if kind == "address":
            bare = piece[0] not in "'\""
            address = piece if bare else piece[1:-1]
            # A closing sign without an open group, such as at the end of a pattern of case.
            closes = text[end : end + 1] in (")", "}") and "open" not in nesting
            if mentioned.match(address) and "quote" not in nesting and not closes:
                if bare and "?" in address and re.match(r"&\w+=", text[end:]):
                    raise InvalidCommand(f"put quotes around {address}&…: the shell takes its & for itself")
                yield Word(at, end, address, bare and first and powershell)
        elif kind == "quote":
            if quoted:
                nesting.pop()
            else:
                nesting.append("quote")
        elif kind == "open":
            nesting.append("open")
        elif kind == "close" and "open" in nesting:
            nesting.pop()
        elif kind == "here":
            documents.append((match["tabs"] == "-", match["one"] or match["two"] or match["plain"]))
        elif kind == "line":
            for tabs, word in documents:
                closing = re.compile(
                    rf"^{chr(9) + '*' if tabs else ''}{re.escape(word)}$", re.MULTILINE
                ).search(text, end)
                if closing is None:
                    return
                end = closing.end()
            documents.clear()
        begins = kind in ("open", "line", "joint")
        first = begins or (first and kind in ("blank", "comment"))
        fresh = begins or kind in ("blank", "operator") or (fresh and kind == "join")
        at = end
