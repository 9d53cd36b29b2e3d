r"""Text that is safe to show to people: no hidden characters, and no characters that look like other characters.

A character that is invisible, or that changes how its neighbours look, is shown by its number: ``\x1b``, ``\u202e``,
``\U000e0041``. A long run of spaces could push later text out of sight; so it is shown by its length: ``\x20{74}``. A letter
that looks like a Latin letter is shown by its number in a word with Latin letters: ``p\u0430ypal``. Different texts never
look the same.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_LONGEST_GAP = 8
"""Spaces in a row that an approver is shown unchanged; more spaces are shown by their number."""
_MOST_MARKS = 4
"""Marks combined with one letter that an approver is shown unchanged; more marks are shown by their numbers."""
# str.isprintable() is false for Unicode's category "other" (controls, formats such as bidirectional overrides and
# tags, surrogates, private use, unassigned) and for separators except the space. It is true for the characters below,
# although each has no shape, or looks like a space: joiners, fillers, variation selectors, a braille pattern without
# dots, a note without a head, hieroglyphic blanks.
_SHAPELESS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u2d7f\u303f\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U0001107f\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
_NO_SHAPE = re.compile(f"[{_SHAPELESS}]")

# A backslash that looks like the start of an escape of this module: shown by its number, to keep escapes unambiguous.
_MIMIC = re.compile(r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")

# Scripts with letters that look like Latin letters, by the first word of the letters' Unicode names.
_LIKE_LATIN = frozenset({"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LISU"})
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
# Characters that look like a shell's special characters, and the phonetic letters alpha, g, j, iota and i.
_LIKE_ASCII = frozenset(
    "\u00b4\u01c0\u01c3\u02b9\u02cb\u02d0\u02dc\u037e\u0589\u05c0\u066a\u2010\u2011\u201a\u2024\u2044\u204e\u2052\u2212"
    "\u2215\u2216\u2217\u2223\u2236\u223c\u29f5\u29f8\u29f9\ua789\ufe68\uff5c\u0251\u0261\u0237\u0269\u026a"
)
_DASH = re.compile("(?<!\\S)[\u2010-\u2015\u2212]+(?=\\w)")  # looks like the dash of an option

_GAP = re.compile(f" {{{_LONGEST_GAP + 1},}}")

# Characters in a program's output that are not an order for a terminal although they cannot be printed: line feeds, tabs, spaces of
# all widths, the joiners of scripts and emoji, and the private use of fonts.
_HARMLESS = frozenset("\n\t\u200c\u200d")
_HARMLESS_KINDS = frozenset({"Zs", "Co"})


def visible(text: str) -> str:
    r"""Make a text safe to show on one line: an invisible character becomes an escape, a line feed too (``\x0a``).

    The result is never ambiguous: different texts become different texts.
    """
    return _escaped(text, keep="")


def visible_lines(text: str) -> str:
    """Make a text safe to show on several lines: as `visible`, but line feeds are kept."""
    return _escaped(text, keep="\n")


def printable(text: str) -> str:
    """Make a program's output safe to print: a character that a terminal might obey becomes an escape.

    All other text is unchanged, so the result can be ambiguous.
    """
    if text.isascii() and text.translate(_LINES_AND_TABS).isprintable():
        return text
    orders = {
        char
        for char in set(text)
        if not (char.isprintable() or char in _HARMLESS or unicodedata.category(char) in _HARMLESS_KINDS)
    }
    return _numbered(text, orders)


_LINES_AND_TABS = {ord("\n"): None, ord("\t"): None}


def _escaped(text: str, *, keep: str) -> str:
    if "\\" in text:
        text = _MIMIC.sub(r"\\x5c", text)
    if text.isascii() and (text.replace(keep, "") if keep else text).isprintable():
        return text
    chars = set(text)
    hidden = {char for char in chars if not char.isprintable() or _NO_SHAPE.match(char)}
    hidden |= {char for char in chars if char in _LIKE_ASCII or _is_form(char)}
    return _numbered(_likes_shown(_marks_shown(text, chars), chars), hidden - set(keep))


def _is_form(char: str) -> bool:
    """Whether a letter is another form of an ASCII letter, such as a full-width letter."""
    same = unicodedata.normalize("NFKC", char)
    return not char.isascii() and same.isascii() and same.isalpha() and char.isalpha()


def _likes_shown(text: str, chars: Collection[str]) -> str:
    """Show by number letters that look like Latin letters in a word with Latin letters, and dashes that look like an option's."""
    text = _DASH.sub(lambda dash: "".join(_escape(ord(char)) for char in dash[0]), text)
    alike = {ord(char) for char in chars if unicodedata.name(char, "").partition(" ")[0] in _LIKE_LATIN}
    if not alike:
        return text
    numbers = {number: _escape(number) for number in alike}
    return _WORD.sub(lambda word: word[0].translate(numbers) if _LATIN.search(word[0]) else word[0], text)


def _numbered(text: str, hidden: Collection[str]) -> str:
    """Show the characters `hidden` by their numbers. A pattern is much faster than `str.translate` for few characters."""
    if not hidden:
        return text
    numbers = {char: _escape(ord(char)) for char in hidden}
    some = re.compile(f"[{re.escape(''.join(hidden))}]")
    return some.sub(lambda found: numbers[found[0]], text)


def _marks_shown(text: str, chars: Collection[str]) -> str:
    """Show by number the combining marks that would change more than the letter before them."""
    marks = "".join(char for char in chars if unicodedata.category(char).startswith("M"))
    if not marks:
        return text
    mark = f"[{re.escape(marks)}]"
    letter = r"[^\W\d_]"
    # Marks that follow no letter, and runs of marks that are long enough to cover the lines around.
    stray = re.compile(f"(?<!{letter})(?<!{mark}){mark}+|(?<={letter}){mark}{{{_MOST_MARKS + 1},}}")
    numbers = {char: _escape(ord(char)) for char in marks}
    return stray.sub(lambda run: "".join(map(numbers.__getitem__, run[0])), text)


def _escape(number: int) -> str:
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def one_line(text: str) -> str:
    """Make a text safe to show on one line, and show long runs of spaces by their length."""
    return gaps_shown(visible(text))


def gaps_shown(text: str) -> str:
    """Show long runs of spaces by their length, as an escape that `visible` makes from no other text."""
    if " " * (_LONGEST_GAP + 1) not in text:
        return text
    return _GAP.sub(lambda run: f"\\x20{{{len(run[0])}}}", text)
