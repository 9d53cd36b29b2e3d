"""Checks of a syntax tree before the tree is trusted: the grammar can leave out commands of a text without an error.

Each leaf must be one token for the shell as well. Only blanks may stand between leaves. Each sign of a substitution must
begin or end a substitution's node, or stand where the shell ignores the sign. Syntax that no table here lists is not
understood.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import dynamic
from .leaves import (
    ALONE,
    ARITHMETIC,
    BODY,
    DELIMITER,
    KEYWORD,
    KNOWN,
    LEAVES,
    METACHARACTERS,
    NOT_IN_SH,
    NOT_IN_ZSH,
    NUMERIC,
    ON_A_LINE,
    OPERAND,
    PIECES,
    RUN,
    SEQUENCES,
    TIGHT,
    WORDS,
    expansions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ..._types import ShellKind
    from .grammar import Deadline

_SIGN = re.compile(r"`|\$\(|<\(|>\(")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_FORBIDDEN_ZSH = re.compile(r"<\d*-\d*>|>[>&]?!|=\(|&[!|]|\$[~^=+]")
_INDEX_ZSH = re.compile(r"\w*\[(?!-?\d+(?:,-?\d+)?\])")  # after $x: zsh takes an index without braces
_DESCRIPTOR = re.compile(
    r"\{([A-Za-z_]\w*)(\[[^{}\n]*)?\}(?=[<>])"
)  # before a redirection: the shell sets the variable to the number of the descriptor

# The surroundings of a node, as bits.
_QUOTED = 1  # no bound: in double quotes or a here-document
_EXPANSION = 2  # no bound: in ${ }, where only the shell knows the meaning of quotes
_BACKTICK = 4  # no bound
_SUBSTITUTION = 8  # no bound
_BRACKET = 16  # no bound: in [ ], a command for the shell but an expression for the grammar


class Guard:
    """The checks of one text and its tree.

    Attributes:
        unknown: Reasons why the tree is not trusted, each a clause.
        operands: Variables that arithmetic evaluates, each with its place: arithmetic evaluates the variable's value in turn.
    """

    def __init__(self, text: str, shell: ShellKind, deadline: Deadline) -> None:
        self.unknown: dict[str, None] = {}
        self.operands: list[tuple[str, int]] = []
        self._text, self._shell, self._deadline = text, shell, deadline
        self._left: list[tuple[int, int]] = []
        self._signs = {sign.start() for sign in _SIGN.finditer(text)}

    def check(self, root: Node) -> None:
        """Check every node of a tree, and then every sign of a substitution."""
        if _FORBIDDEN.search(self._text) or (self._shell == "zsh" and _FORBIDDEN_ZSH.search(self._text)):
            self._doubt("a character that shells read differently")
        if root.has_error:
            self._doubt("a syntax error")
        for name, index in _DESCRIPTOR.findall(self._text):
            if index or dynamic.variable(name, self._shell):
                self._doubt(f"a redirection gives {name} a value")
        stack = [(root, 0)]
        steps = 0
        while stack:
            steps += 1
            if not steps % 64:
                self._deadline.check()
            node, place = stack.pop()
            stack += self._look(node, place)
        left = iter(sorted(self._left))
        end = 0
        following = next(left, None)
        for sign in sorted(self._signs):
            while following is not None and following[0] <= sign:
                end = max(end, following[1])
                following = next(left, None)
            if sign >= end:
                self._doubt(
                    f"a substitution that the grammar does not show: {self._text[sign : sign + 20]!r}"
                )
                break

    def _doubt(self, why: str) -> None:
        self.unknown.setdefault(why)

    def _look(self, node: Node, place: int) -> Iterator[tuple[Node, int]]:
        """Check one node; yield the nodes below it that still need a check."""
        kind, start, end = node.type, node.start_byte, node.end_byte
        if (self._shell == "sh" and kind in NOT_IN_SH) or (self._shell == "zsh" and kind in NOT_IN_ZSH):
            self._doubt(f"{kind} is read differently by {self._shell}")
        if kind in LEAVES:
            self._leaf(node, kind, place)
            if kind == "number":  # 16#$x
                yield from ((child, place) for child in node.children if child.is_named)
        elif kind == "string" or kind == "heredoc_body":
            yield from self._string(node, place | _QUOTED, PIECES if kind == "string" else BODY)
        elif kind == "expansion":
            yield from self._expansion(node, place)
        elif kind == "arithmetic_expansion":
            self._signs.discard(start)
            if self._text[start : start + 3] != "$((":
                self._doubt("$[ is not understood")
            yield from self._arithmetic(node, start + 3, end - 2, place)
        elif kind == "compound_statement" and self._text.startswith("((", start):
            self._refuse("((")
            yield from self._arithmetic(node, start + 2, end - 2, place)
        elif kind == "heredoc_redirect":
            yield from self._heredoc(node, place)
        elif kind in KNOWN:
            yield from self._node(node, kind, place)
        else:
            self._doubt("the syntax is not understood" if kind == "ERROR" else f"{kind} is not understood")
            yield from ((child, place) for child in node.children if child.is_named)

    def _refuse(self, token: str) -> None:
        if (self._shell == "sh" and token in NOT_IN_SH) or (self._shell == "zsh" and token in NOT_IN_ZSH):
            self._doubt(f"{token} is read differently by {self._shell}")

    def _leaf(self, node: Node, kind: str, place: int) -> None:
        start, end = node.start_byte, node.end_byte
        written = self._text[start:end]
        if (kind != "number" or not node.child_count) and not LEAVES[kind].fullmatch(written):
            self._doubt(f"{written[:40]!r} is not one {kind.replace('_', ' ')}")
        before = self._text[start - 1 : start]
        if kind == "comment":
            if (before and before not in METACHARACTERS) or self._text[end : end + 1] not in ("", "\n"):
                self._doubt("a comment that is a word")
            elif place & (_BACKTICK | _SUBSTITUTION) and re.search(r"[()'\"`\\]", written):
                self._doubt("a comment in a substitution")
            else:
                self._leave(start, end)
        elif kind == "simple_expansion" and self._shell == "zsh" and _INDEX_ZSH.match(self._text, end):
            self._doubt(f"an index is evaluated: {written}[")
        elif kind == "test_operator" and written in ("-v", "-R"):
            self._doubt("a test of a variable evaluates its index")
        elif kind == "file_descriptor":
            if (before and before not in METACHARACTERS) or self._text[end : end + 1] not in "<>":
                self._doubt(f"{written} is not a descriptor")
        elif kind in ("raw_string", "ansi_c_string") and not place & (_EXPANSION | _QUOTED | _BACKTICK):
            self._leave(start, end)

    def _leave(self, start: int, end: int) -> None:
        """Record a range in which the shell looks for no substitution."""
        if self._signs:
            self._left.append((start, end))

    def _node(self, node: Node, kind: str, place: int) -> Iterator[tuple[Node, int]]:
        """Check a node of the shell's grammar: the gaps between its children, and that each token stands by itself."""
        text = self._text
        previous, last, run = (
            0 if kind == "program" else node.start_byte,
            None,
            -1,
        )  # for the program node, also check the first characters of the text
        if kind == "binary_expression":
            self._comparison(node, place)
        elif kind in ("command_substitution", "process_substitution"):
            place = self._substitution(node, place)
        elif kind == "test_command":
            bracket = text[node.start_byte : node.start_byte + 2] != "[["
            place = _BRACKET if bracket else 0
        elif kind in SEQUENCES:
            place &= ~_BRACKET
        for number, child in enumerate(node.children):
            if number % 64 == 63:
                self._deadline.check()
            start = child.start_byte
            gap, named = text[previous:start], child.is_named
            if gap:
                run = -1
                if (
                    kind == "redirected_statement"
                    and child.type == "heredoc_redirect"
                    and gap.strip(" \t") == "-"
                ):
                    gap = " "  # the grammar leaves out a lone - before <<; `Walk` reads the dash
                if kind in TIGHT or (not gap.isspace() and not _is_continued(gap)):
                    self._doubt(f"{gap!r} between two words")
                elif "\n" in gap.replace("\\\n", ""):
                    if kind in ON_A_LINE and not (kind == "binary_expression" and not place & _BRACKET):
                        self._doubt("a line that ends within a command")
                    elif kind in ("list", "pipeline") and named is False:
                        self._doubt("a line that ends within a list")
                elif self._runs_on(kind, last, child):
                    self._doubt("two commands without an end between them")
            elif last is not None and named and last.is_named and kind not in TIGHT and child.type in WORDS:
                self._deadline.check()  # the match below takes longer with each word of the run
                run = run if last.end_byte == start and run >= 0 else last.start_byte
                begins = child.type == "command_name" and last.type != "variable_assignment"
                if (
                    begins
                    or child.type == "variable_assignment"
                    or not RUN.fullmatch(text, run, child.end_byte)
                ):
                    self._doubt("two words without a blank between them")
            if named:
                if kind == "command" and child.type not in WORDS and not child.type.endswith("_redirect"):
                    self._doubt(f"{child.type} in a command")
                yield child, place
            else:
                self._token(child, place)
            previous, last = child.end_byte, child
        rest = text[previous : len(text) if kind == "program" else node.end_byte]
        if rest and not rest.isspace():
            self._doubt("a text behind a command")

    def _runs_on(self, kind: str, last: Node | None, child: Node) -> bool:
        """Whether a command follows another command with only blanks between the two."""
        if (
            last is None
            or not last.is_named
            or not child.is_named
            or kind not in SEQUENCES
            or child.type == "comment"
        ):
            return False
        return not (last.type == "elif_clause" and self._text[last.end_byte - 1] in ";&")

    def _token(self, node: Node, place: int) -> None:
        start, end = node.start_byte, node.end_byte
        written = self._text[start:end]
        self._refuse(written)
        if place & _BRACKET and written in ("&&", "||", "(", ")", "<", ">", ";"):
            self._doubt(f"{written} in [ ]")
        elif written == "$":
            if not ALONE.match(self._text, start):
                self._doubt("a dollar that is read differently")
        elif KEYWORD.fullmatch(written):
            before, after = self._text[start - 1 : start], self._text[end : end + 1]
            if (before and before not in METACHARACTERS) or (after and after not in METACHARACTERS):
                self._doubt(f"{written} that is a part of a word")

    def _substitution(self, node: Node, place: int) -> int:
        start, end = node.start_byte, node.end_byte
        self._signs.discard(start)
        opened = self._text[start]
        if opened == "`":
            self._signs.discard(end - 1)
            inner = self._text[start + 1 : end - 1]
            if "\\" in inner or "`" in inner or (place & _QUOTED and re.search(r"['\"]", inner)):
                self._doubt("quotes within backticks")
            return _BACKTICK
        if place & _BACKTICK:
            return _BACKTICK
        if self._text[start : start + 3] == "$((" or self._text[end - 1] != ")":
            self._doubt("a substitution that may be arithmetic")
        return _SUBSTITUTION

    def _string(self, node: Node, place: int, pieces: re.Pattern[str]) -> Iterator[tuple[Node, int]]:
        """Check double quotes or the body of a here-document: the texts between expansions; yield the expansions."""
        start, end = node.start_byte, node.end_byte
        if pieces is PIECES:
            start, end = start + 1, end - 1
            if end < start or self._text[start - 1] != '"' or self._text[end : end + 1] != '"':
                self._doubt("a string without its quotes")
        previous = start
        for child in (child for child in node.children if child.is_named):
            if child.type in ("string_content", "heredoc_content"):
                continue
            self._piece(previous, child.start_byte, place, pieces)
            previous = child.end_byte
            yield child, place
        self._piece(previous, end, place, pieces)

    def _piece(self, start: int, end: int, place: int, pieces: re.Pattern[str]) -> None:
        if not pieces.fullmatch(self._text[start:end]) and not re.fullmatch(
            pieces.pattern, self._text[start : end + 1]
        ):
            self._doubt("a text in quotes that is read differently")
        elif not place & (_EXPANSION | _BACKTICK):
            self._leave(start, end)  # signs in this range follow a backslash, or are <( or >(

    def _nested(self, node: Node, start: int, end: int, strings: bool) -> tuple[str, list[Node]]:
        """Return a range's text with a mark in place of each expansion and substitution, and the replaced nodes."""
        pieces, found, stack = [], [], [node]
        previous = start
        kinds = ("command_substitution", "expansion", "simple_expansion", "arithmetic_expansion")
        while stack:
            stack += reversed(stack.pop().children)
            while stack and (stack[-1].type in kinds or (strings and stack[-1].type == "string")):
                child = stack.pop()
                pieces.append(self._text[previous : child.start_byte])
                pieces.append("\x02" if child.type == "string" else "\x01")
                previous = child.end_byte
                found.append(child)
        pieces.append(self._text[previous:end])
        return "".join(pieces), found

    def _expansion(self, node: Node, place: int) -> Iterator[tuple[Node, int]]:
        start, end = node.start_byte, node.end_byte
        quoted = bool(place & _QUOTED)
        written, found = self._nested(node, start, end, strings=not quoted)
        shell = "bash" if self._shell == "bash" else "sh"
        if not expansions(shell, quoted=quoted).fullmatch(written):
            self._doubt(f"the expansion {self._text[start:end][:40]}")
        given = re.match(r"\$\{(\w+):?=", written)
        if given and dynamic.variable(given[1], self._shell):
            self._doubt(f"{given[1]} decides which programs run")
        index = re.match(r"\$\{#?\w+\[\$?([A-Za-z_]\w*)\]", written)
        if index:
            self.operands.append((index[1], start))
        for child in found:
            yield child, place | _EXPANSION

    def _arithmetic(self, node: Node, start: int, end: int, place: int) -> Iterator[tuple[Node, int]]:
        """Check arithmetic: numbers, operators and variables; record the variables, whose values the shell evaluates in turn."""
        written, found = self._nested(node, start - 2, end, strings=False)
        written = written[2:]
        nested = iter(found)
        operands = []
        for piece in re.split("(\x01)", written):
            if piece == "\x01":
                operands.append(self._operand(next(nested)))
            else:
                operands.append(piece)
        self.evaluate("".join(operands), node.start_byte)
        for child in found:
            yield child, (place | _EXPANSION) & ~_BRACKET

    def _operand(self, node: Node) -> str:
        """Return the text of an expansion in arithmetic: ``0`` for a certain number, a variable as written, else the mark."""
        written = self._text[node.start_byte : node.end_byte]
        if node.type == "arithmetic_expansion" or written.startswith("${#"):
            return "0"
        if node.type == "command_substitution":
            return "\x01"
        return written if re.fullmatch(r"\$\w+|\$[#?$!]|\$\{\w+\}", written) else "\x01"

    def evaluate(self, written: str, start: int) -> None:
        """Check the text of arithmetic, with a mark in place of each unknown part, and record its variables."""
        depth = 0
        for sign in re.findall("[()]", written):
            depth += 1 if sign == "(" else -1
            if depth < 0:
                break
        if depth or not ARITHMETIC.fullmatch(written):
            self._doubt("arithmetic that is not understood")
        if "\x01" in written:
            self._doubt("arithmetic evaluates what a command or an expansion gives")
        for operand in OPERAND.finditer(written):
            self.operands.append((operand["name"] or f"${operand['special']}", start))

    def _comparison(self, node: Node, place: int) -> None:
        """Check both sides of an operator of [[ ]] that evaluates its sides as arithmetic."""
        operator = node.child_by_field_name("operator")
        if operator is None or place & _BRACKET:
            return
        start, end = operator.start_byte, operator.end_byte
        if self._text[start:end] in NUMERIC:
            for left, right in ((node.start_byte, start), (end, node.end_byte)):
                side = self._text[left:right].strip()
                if side not in ("$#", "$?", '"$#"', '"$?"') and not re.fullmatch(
                    r"\$\{#\w+(?:\[[@*]\])?\}", side
                ):
                    self.evaluate(side.strip('"'), left)

    def _heredoc(self, node: Node, place: int) -> Iterator[tuple[Node, int]]:
        """Check a here-document: the body is the lines up to the delimiter; the rest of the first line is of the command."""
        text = self._text
        parts = {child.type: child for child in node.children}
        opening, closing = parts.get("heredoc_start"), parts.get("heredoc_end")
        delimiter = opening and DELIMITER.fullmatch(text[opening.start_byte : opening.end_byte])
        if not opening or not closing or not delimiter:
            self._doubt("a here-document that is not understood")
            return
        word = delimiter[1] or delimiter[2] or delimiter[3]
        line = text.find("\n", opening.end_byte)
        tabs = r"\t*" if text.startswith("<<-", node.start_byte) else ""
        last = (
            re.compile(rf"^{tabs}{re.escape(word)}$", re.MULTILINE).search(text, line + 1)
            if line > 0
            else None
        )
        if not last or last.end() != closing.end_byte or node.end_byte != closing.end_byte:
            self._doubt("a here-document that ends elsewhere")
            return
        # Invariant: each byte of the node belongs to one child, or is blank. The shell and the grammar have to agree on the
        # end of the body, the first line that is the delimiter; on some texts the two disagree.
        raw = text[opening.start_byte] in "'\"\\"
        previous = opening
        for child in node.children:
            if child.start_byte < opening.end_byte or child is closing or child.type == "heredoc_end":
                continue
            if child.type == "heredoc_body":
                if raw:
                    continue
                yield from self._string(child, place | _QUOTED, BODY)
                self._piece(line + 1, child.start_byte, place, BODY)
                continue
            gap = text[previous.end_byte : child.start_byte]
            if child.end_byte > line or (gap and not gap.isspace()) or "\n" in gap:
                self._doubt("a here-document within a line that goes on")
            if child.is_named:
                yield child, place
            else:
                self._token(child, place)
            previous = child
        if text[previous.end_byte : line].strip(" \t"):
            self._doubt("a text behind a here-document")
        body = text[line + 1 : last.start()]
        if raw and not place & (_BACKTICK | _EXPANSION) and not (place & _SUBSTITUTION and _closes(body)):
            self._leave(line + 1, last.start())


def _is_continued(gap: str) -> bool:
    """Whether a gap has line continuations and at least one blank: without a blank, both sides would be one word."""
    return not gap.replace("\\\n", "").strip(" \t\n") and gap.replace("\\\n", "") != ""


def _closes(body: str) -> bool:
    """Whether a text has a closing parenthesis without an opening one: bash before version 4 ends a substitution there."""
    depth = 0
    for sign in re.findall("[()]", body):
        depth += 1 if sign == "(" else -1
        if depth < 0:
            return True
    return False
