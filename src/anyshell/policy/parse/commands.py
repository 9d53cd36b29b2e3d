"""The walk over a syntax tree that finds the commands of a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import dynamic
from .grammar import MISSING, TRIES, Late, installed, tree
from .guard import Guard
from .parsed import Argument, Assignment, Parsed, ParsedCommand, Redirection
from .reading import CommandPlace, Reading
from .words import literal, names, single
from .wrappers import runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

    from ..._types import ShellKind
    from .parsed import Span

MAX_DEPTH = 60
"""Levels of nested groups and substitutions. A deeper text is not understood."""

MAX_TEXTS = 8
"""Levels of inner texts, such as ``bash -c "…"``, and of commands that run commands. A deeper text is not understood."""

_RESERVED = names("if then else elif fi case esac for select while until do done in function { } ! [[ ]]")
_RESERVED_ZSH = _RESERVED | names("repeat foreach end nocorrect noglob always - declare typeset")
_WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "process_substitution arithmetic_expansion brace_expression extglob_pattern regex array"
)
_STATEMENTS = names(
    "command list pipeline negated_command redirected_statement compound_statement subshell if_statement while_statement "
    "for_statement c_style_for_statement case_statement test_command variable_assignment variable_assignments "
    "declaration_command unset_command function_definition"
)
_CONDITIONAL = names(
    "if_statement while_statement for_statement c_style_for_statement case_statement subshell command_substitution "
    "process_substitution function_definition"
)
_NUMBER = re.compile(r"-?\d+|\$\(\(.*\)\)|\$\{#\w+\}|\$[#?]", re.DOTALL)


class Walk:
    """The walk over the tree of one text.

    Args:
        text: The text.
        shell: The shell that runs the text.
        reading: The state that collects the commands and the doubts.
        within: The span of the text in the outer text, if the text is an inner text.
    """

    def __init__(self, text: str, shell: ShellKind, reading: Reading, within: Span | None = None) -> None:
        self._text, self._shell, self._reading, self._within = text, shell, reading, within
        self._numbers: dict[str, list[Span]] = {}  # spans in which a variable is a number
        self._operands: list[tuple[str, int]] = []  # places where a variable has to be a number

    def walk(self, place: CommandPlace) -> None:
        """Parse the text, check the tree, and collect the commands."""
        root = tree(self._text, "bash", self._reading.deadline)
        guard = Guard(self._text, self._shell, self._reading.deadline)
        guard.check(root)
        self._reading.doubt(*guard.unknown)
        self._operands = guard.operands
        self._children(root, place._replace(until=len(self._text)))
        for name, at in self._operands:
            known = any(start <= at < end for start, end in self._numbers.get(name, ()))
            if not known or name in self._reading.texts:
                self._reading.doubt(f"the value of {name or 'an expansion'} is evaluated")

    def _span(self, start: int, end: int) -> Span:
        return self._within or (start, end)

    def _word(self, node: Node) -> Argument:
        start, end = node.start_byte, node.end_byte
        written = self._text[start:end]
        text = literal(written, self._shell)
        if text is not None:
            return Argument(text, True, self._span(start, end))
        return Argument(written, False, self._span(start, end), single(node, self._text))

    def _next(self, words: list[Argument], node: Node, previous: Node | None) -> None:
        """Add a word, or join a part to the last word: the grammar cuts ``$a/$b/c`` before the b."""
        word = self._word(node)
        if words and previous is not None and previous.end_byte == node.start_byte:
            words[-1] = Argument(words[-1].text + word.text, False, (words[-1].span[0], word.span[1]), False)
        else:
            words.append(word)

    def _children(self, node: Node, place: CommandPlace) -> None:
        """Read the statements and words below a node, in order."""
        if place.level > MAX_DEPTH:
            raise Late
        inner = place._replace(level=place.level + 1)
        children = node.children
        for position, child in enumerate(children):
            kind = child.type
            if kind in _STATEMENTS:
                following = children[position + 1].type if position + 1 < len(children) else ""
                self._statement(child, inner._replace(background=True) if following == "&" else inner)
            elif kind in _WORDS:
                self._substitutions(child, inner)
            elif kind == "subscript" or child.is_named:
                self._children(child, inner)

    def _statement(
        self,
        node: Node,
        place: CommandPlace,
        own: tuple[Redirection, ...] = (),
        more: Sequence[Argument] = (),
    ) -> None:
        """Read a statement, with the redirections and words that follow it."""
        kind = node.type
        if kind in (
            "command",
            "declaration_command",
            "unset_command",
            "variable_assignment",
            "variable_assignments",
        ):
            self._command(node, place, own, more)
        elif kind == "redirected_statement":
            self._redirected(node, place, own, more)
        elif kind in ("list", "pipeline", "negated_command"):
            self._list(node, place, own, more)
        elif kind == "function_definition":
            self._function(node, place)
        elif kind == "test_command" and not self._text.startswith("[[", node.start_byte):
            words = [self._named("[", node)]
            previous = node.children[0]
            for leaf in _operands(node):
                self._next(words, leaf, previous)
                previous = leaf
            words.append(Argument("]", True, self._span(node.end_byte - 1, node.end_byte)))
            self._simple(words, (), own, place, node)
            self._children(node, place)
        else:
            before = len(self._reading.commands)
            until = min(place.until, node.end_byte) if kind in _CONDITIONAL else place.until
            if kind in ("for_statement", "c_style_for_statement"):
                self._loop(node)
            if more:
                self._reading.doubt("words behind a group")
            self._children(node, place._replace(until=until, redirections=own + place.redirections))
            if own and len(self._reading.commands) == before:
                self._simple([], (), own, place, node)

    def _list(
        self, node: Node, place: CommandPlace, own: tuple[Redirection, ...], more: Sequence[Argument]
    ) -> None:
        """Read a list or pipeline of commands; redirections and words after the list belong to the last command."""
        children = [child for child in node.children if child.type in _STATEMENTS]
        for position, child in enumerate(children):
            here = place
            if node.type == "pipeline":
                here = place._replace(
                    piped=place.piped or position > 0, until=min(place.until, child.end_byte)
                )
            elif position:
                here = place._replace(until=min(place.until, node.end_byte))
            last = position == len(children) - 1
            self._statement(child, here, own if last else (), more if last else ())

    def _function(self, node: Node, place: CommandPlace) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            written = self._text[name.start_byte : name.end_byte]
            self._reading.functions.setdefault(written)
            if not re.fullmatch(r"[\w.:-]+", written) or dynamic.is_known(written):
                self._reading.doubt(f"the function {written[:40]} takes the place of a program")
        here = CommandPlace(
            node.end_byte, via=place.via, host=place.host, defines=True, level=place.level + 1
        )
        own, _, _ = self._redirections(node.children)
        body = node.child_by_field_name("body")
        if body is not None:
            self._statement(body, here, own)
        self._targets(node.children, here)

    def _loop(self, node: Node) -> None:
        """Record whether the variable of a loop is a number: it is one if all words of the loop are numbers."""
        name = node.child_by_field_name("variable")
        if name is None:
            return
        values = [
            self._text[value.start_byte : value.end_byte] for value in node.children_by_field_name("value")
        ]
        numbers = bool(values) and all(re.fullmatch(r"-?\d+|\{\d+\.\.\d+\}", value) for value in values)
        written = self._text[name.start_byte : name.end_byte]
        self._assigned(written, numbers, (node.start_byte, node.end_byte))
        if dynamic.variable(written, self._shell):
            self._reading.doubt(f"{written} decides which programs run")

    def _assigned(self, name: str, number: bool, where: Span) -> None:
        if number:
            self._numbers.setdefault(name, []).append(where)
        else:
            self._reading.texts.add(name)

    def _redirected(
        self, node: Node, place: CommandPlace, own: tuple[Redirection, ...], more: Sequence[Argument]
    ) -> None:
        children = [child for child in node.children if child.type.endswith("_redirect")]
        redirections, words, rest = self._redirections(children)
        body = node.child_by_field_name("body")
        if (
            body is not None
            and children
            and self._text[body.end_byte : children[0].start_byte].strip() == "-"
        ):
            words.insert(0, Argument("-", True, self._span(body.end_byte, children[0].start_byte)))
        if body is None:
            if words or more:
                self._reading.doubt("a program behind a redirection")
            self._simple([], (), redirections + own, place, node)
        else:
            first = rest and rest[0].type == "pipeline"
            self._statement(
                body,
                place._replace(background=False) if first else place,
                redirections + own,
                [*words, *more],
            )
        self._targets(children, place)
        for child in rest:  # statements on the line of a here-document
            self._statement(child, place._replace(piped=True) if child.type == "pipeline" else place)

    def _redirections(
        self, nodes: Sequence[Node]
    ) -> tuple[tuple[Redirection, ...], list[Argument], list[Node]]:
        """Return the redirections of `nodes`, and the words and statements that the grammar puts into redirection nodes."""
        found: list[Redirection] = []
        words: list[Argument] = []
        rest: list[Node] = []
        for node in nodes:
            if not node.type.endswith("_redirect"):
                continue
            # The grammar puts words and statements after a here-document into its node; both belong to the command.
            descriptor, operator, targets, body = "", "", list[Argument](), None
            previous: Node | None = None
            for child in node.children:
                kind = child.type
                if kind == "file_descriptor":
                    descriptor = self._text[child.start_byte : child.end_byte]
                elif not child.is_named and not operator:
                    operator = self._text[child.start_byte : child.end_byte]
                elif kind == "heredoc_body":
                    body = child
                elif kind in _STATEMENTS:
                    rest.append(child)
                elif kind in _WORDS:
                    self._next(targets, child, previous)
                    previous = child
            if node.type == "heredoc_redirect":
                found.append(Redirection(operator, descriptor, self._body(node, body)))
                inner, more, statements = self._redirections(node.children)
                found += inner
                words += [*targets, *more]
                rest += statements
            elif operator.endswith("&-"):
                found.append(
                    Redirection(
                        operator[:-1],
                        descriptor,
                        Argument("-", True, self._span(node.start_byte, node.end_byte)),
                    )
                )
                words += targets
            elif targets:
                found.append(Redirection(operator, descriptor, targets[0]))
                words += targets[1:]
        return tuple(found), words, rest

    def _body(self, node: Node, body: Node | None) -> Argument:
        if body is None:
            return Argument("", True, self._span(node.start_byte, node.end_byte))
        text = self._text[body.start_byte : body.end_byte]
        opening = next((child for child in node.children if child.type == "heredoc_start"), None)
        raw = opening is not None and self._text[opening.start_byte : opening.start_byte + 1] in (
            "'",
            '"',
            "\\",
        )
        return Argument(
            text, raw or not re.search(r"[$`\\]", text), self._span(body.start_byte, body.end_byte)
        )

    def _targets(self, nodes: Sequence[Node], place: CommandPlace) -> None:
        """Read the substitutions in the targets of redirections."""
        for node in nodes:
            if node.type == "heredoc_redirect":
                for child in node.children:
                    if child.type in _WORDS or child.type == "heredoc_body":
                        self._substitutions(child, place)
                self._targets(node.children, place)
            elif node.type.endswith("_redirect"):
                for child in node.children:
                    self._substitutions(child, place)

    def _named(self, name: str, node: Node) -> Argument:
        return Argument(name, True, self._span(node.start_byte, node.start_byte + len(name)))

    def _command(
        self, node: Node, place: CommandPlace, own: tuple[Redirection, ...], more: Sequence[Argument]
    ) -> None:
        """Read a simple command."""
        words: list[Argument] = []
        variables: list[Assignment] = []
        children = [node] if node.type == "variable_assignment" else node.children
        declares = node.type in ("declaration_command", "unset_command")
        previous: Node | None = None
        for child in children:
            kind = child.type
            if kind == "variable_assignment":
                variable = self._assignment(child, place)
                if declares:
                    words.append(self._word(child))
                else:
                    variables.append(variable)
            elif kind == "command_name":
                written = self._text[child.start_byte : child.end_byte]
                if written in (_RESERVED_ZSH if self._shell == "zsh" else _RESERVED):
                    self._reading.doubt(f"{written} where a program would stand")
                if variables and previous is not None and previous.end_byte == child.start_byte:
                    value = [variables[-1].value]
                    self._next(value, child, previous)
                    variables[-1] = Assignment(variables[-1].name, value[0])
                else:
                    words.append(self._word(child))
            elif kind in _WORDS or kind == "variable_name":
                self._next(words, child, previous)
            elif not child.is_named and declares:
                words.append(self._named(self._text[child.start_byte : child.end_byte], child))
            previous = child
        inner, behind, _ = self._redirections(children)
        self._simple([*words, *behind, *more], tuple(variables), inner + own, place, node)
        for child in children:
            if child.type == "variable_assignment":
                self._children(child, place)
            elif child.is_named:
                self._substitutions(child, place)

    def _assignment(self, node: Node, place: CommandPlace) -> Assignment:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        named = self._text[name.start_byte : name.end_byte] if name is not None else ""
        bare = named.partition("[")[0]
        if value is None:
            given = Argument("", True, self._span(node.end_byte, node.end_byte))
        else:
            given = self._word(value)
        written = self._text[value.start_byte : value.end_byte] if value is not None else ""
        plain = node.children[1].type == "=" if len(node.children) > 1 else False
        self._assigned(
            bare, plain and bare == named and bool(_NUMBER.fullmatch(written)), (node.end_byte, place.until)
        )
        if "[" in named and not re.fullmatch(r"\w+\[-?\d+\]", named):
            self._reading.doubt(f"an index is evaluated: {named}")
        if (
            value is not None
            and value.type == "array"
            and any(self._text.startswith("[", item.start_byte) for item in value.children)
        ):
            self._reading.doubt(f"an index is evaluated: {written[:40]}")
        return Assignment(bare, given)

    def _substitutions(self, node: Node, place: CommandPlace) -> None:
        """Read the commands of the substitutions in a word."""
        if node.type in ("command_substitution", "process_substitution"):
            piped = place.piped or self._text.startswith(">(", node.start_byte)
            own, _, _ = self._redirections(node.children)  # $(<file) reads the file
            if own:
                self._simple([], (), own, place._replace(background=False), node)
            self._children(
                node,
                place._replace(
                    redirections=(),
                    background=False,
                    piped=piped,
                    until=min(place.until, node.end_byte),
                ),
            )
        elif node.child_count and place.level <= MAX_DEPTH:
            inner = place._replace(level=place.level + 1)
            for child in node.children:
                if child.is_named:
                    self._substitutions(child, inner)
        elif node.child_count:
            raise Late

    def _simple(
        self,
        words: Sequence[Argument],
        variables: tuple[Assignment, ...],
        own: tuple[Redirection, ...],
        place: CommandPlace,
        node: Node,
    ) -> None:
        """Add a command made of words, and the commands that the command runs."""
        if words and words[0].text in ("[", "test"):
            self._operands += [(name, node.start_byte) for name in dynamic.split(words)]
        self._run(
            words, variables, own + place.redirections, place, self._span(node.start_byte, node.end_byte)
        )

    def _says(self, variable: Assignment, words: Sequence[Argument]) -> bool:
        """Whether a variable decides what programs run. IFS for `read` or `mapfile` alone only splits lines, and is harmless."""
        reads = variable.name == "IFS" and words and words[0].text in ("read", "mapfile", "readarray")
        return dynamic.variable(variable.name, self._shell) and not reads

    def _run(
        self,
        words: Sequence[Argument],
        variables: tuple[Assignment, ...],
        redirections: tuple[Redirection, ...],
        place: CommandPlace,
        span: Span,
    ) -> None:
        unknown = [f"{each.name} decides which programs run" for each in variables if self._says(each, words)]
        program: str | None = ""
        if words:
            first, rest = words[0], tuple(words[1:])
            program = first.text if first.literal and first.text else None
            if program is None:
                unknown.append(f"the program is not literal: {first.text[:40]}")
            else:
                unknown += dynamic.clauses(program, rest, self._shell)
                self._reading.texts.update(dynamic.assigned_variables(program, rest))
        elif not redirections and not variables:
            return
        else:
            rest = ()
            if self._shell == "zsh" and not variables:
                unknown.append("zsh runs a program for a redirection alone")
        # Invariant: each part that is not understood is added to `unknown`; no rule allows a command with an entry there.
        inner = list(runs(program, rest, self._shell, redirections)) if program else []
        unknown += [each.unknown for each in inner if each.unknown]
        self._reading.add(
            ParsedCommand(
                program,
                rest,
                redirections,
                variables,
                place.via,
                span,
                place.host,
                place.piped,
                place.background,
                place.defines,
                tuple(dict.fromkeys(unknown)),
            )
        )
        if inner and len(place.via) >= MAX_TEXTS:
            raise Late
        for each in inner:
            here = place._replace(
                via=(*place.via, program or ""),
                host=each.host or place.host,
                redirections=redirections,
            )
            if each.text is not None:
                Walk(each.text, each.shell, self._reading, each.span or span).walk(here)
            elif each.words:
                self._run(each.words, each.variables, redirections, here, span)


def _operands(node: Node) -> Iterator[Node]:
    """Yield the words of a ``[ ]`` test, in order."""
    for child in node.children:
        if child.type in _WORDS or child.type in ("test_operator", "variable_name") or not child.is_named:
            if child.type not in ("[", "]"):
                yield child
        else:
            yield from _operands(child)


def parse_posix(text: str, shell: ShellKind) -> Parsed:
    """Parse a text for bash, zsh or sh."""
    if not installed("bash"):
        return Parsed(text, shell, (), (MISSING,))
    for _ in range(TRIES):
        reading = Reading()
        try:
            Walk(text, shell, reading).walk(CommandPlace(len(text)))
        except Late:
            reading.doubt("too much to be understood in time")
            continue
        except RecursionError:
            reading.doubt("too deep to be understood")
        break
    return Parsed(text, shell, tuple(reading.commands), tuple(reading.unknown), tuple(reading.functions))
