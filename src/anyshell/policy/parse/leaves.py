"""Patterns of the leaves that a shell reads as one token, and the known kinds of nodes."""

from __future__ import annotations

import re
from functools import cache

_DOLLAR = r"""\$(?=[\s"/.,:;%)\]|}=]|\Z)"""  # a dollar that begins no expansion
LEAVES = {
    "word": re.compile(rf"""(?:[^\s\\'"$`;&|<>()]|\\[^\n]|{_DOLLAR})+"""),
    "number": re.compile(r"-?[0-9a-fA-Fx#]+"),
    "raw_string": re.compile(r"'[^']*'"),
    "ansi_c_string": re.compile(r"\$'(?:[^'\\]|\\[^\n])*'"),
    "variable_name": re.compile(r"[A-Za-z_0-9]+"),
    "special_variable_name": re.compile(r"[@*#?$!_0-9-]"),
    "simple_expansion": re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])"),
    "test_operator": re.compile(r"-[A-Za-z]+"),
    "file_descriptor": re.compile(r"[0-9]+"),
    "brace_expression": re.compile(r"\{-?\w+\.\.-?\w+\}"),
    "comment": re.compile(r"#[^\n]*"),
    # Patterns of a case, and of [[ ]], which may have a pair of parentheses.
    "extglob_pattern": re.compile(r"""(?:[^\s\\'"$`;&|<>()]|\\[^\n])+"""),
    "regex": re.compile(r"""(?:[^\s\\'"$`;&<>]|\\[^\n]|\$(?=[\s)|]|\Z))+"""),
}
PIECES = re.compile(rf"""(?:[^"$`\\]|\\[\s\S]|{_DOLLAR})*""")
BODY = re.compile(rf"""(?:[^$`\\]|\\[\s\S]|{_DOLLAR}|\$')*""")

ALONE = re.compile(
    rf"{_DOLLAR}|\$(?=[A-Za-z_])"
)  # the grammar cuts $a/$b/c before the b; RUN matches the whole
# Possessive quantifiers: a text that does not match causes no backtracking.
RUN = re.compile(
    r"""(?:[^\s\\'"$`;&|<>(){}]|\$[A-Za-z_]\w*+|\$\{\w+\}|'[^']*'|"(?:[^"\\$`]|\$[A-Za-z_]\w*+|\$\{\w+\})*+")++"""
)

WORDS = frozenset(
    {
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "brace_expression",
        "command_name",
        "variable_assignment",
        "variable_name",
    }
)
ON_A_LINE = frozenset(
    {
        "command",
        "declaration_command",
        "unset_command",
        "file_redirect",
        "herestring_redirect",
        "variable_assignments",
        "redirected_statement",
        "negated_command",
        "unary_expression",
        "binary_expression",
        "parenthesized_expression",
    }
)
TIGHT = frozenset({"concatenation", "variable_assignment", "subscript", "command_name"})
SEQUENCES = frozenset(
    {
        "program",
        "compound_statement",
        "subshell",
        "do_group",
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "command_substitution",
        "process_substitution",
    }
)
_OTHERS = frozenset(
    {
        "list",
        "pipeline",
        "for_statement",
        "case_statement",
        "case_item",
        "function_definition",
        "test_command",
        "array",
    }
)
KNOWN = ON_A_LINE | TIGHT | SEQUENCES | _OTHERS
NOT_IN_SH = frozenset(
    {
        "ansi_c_string",
        "array",
        "brace_expression",
        "extglob_pattern of [[",
        "herestring_redirect",
        "process_substitution",
        "subscript",
        "((",
        "[[",
        "&>",
        "&>>",
        "|&",
        "+=",
        "select",
        "function",
        ";&",
        ";;&",
    }
)
NOT_IN_ZSH = frozenset({"array", "c_style_for_statement", "subscript", "((", ";;&", "select"})
KEYWORD = re.compile(r"[a-z]+|[{}!]|\[\[?|\]\]?")
METACHARACTERS = " \t\n;&|()<>"

_NAME = r"(?:[A-Za-z_]\w*|\d+|[@*#?$!-])"
_INDEX = r"(?:\[(?:[@*]|-?\d+|\$?[A-Za-z_]\w*)\])?"
_PLAIN = r"(?:[^'\"\\`{}$<>()&;\x00-\x1f]|\\[][/.\\*?+_ :-])"  # `_TEXTS` adds the marks \x01 and \x02
_OPERATORS = {
    "sh": r"(?::?[-+?=]|##?|%%?)TEXT*",
    "bash": r"(?::?[-+?=]|##?|%%?|//?[#%]?|\^\^?|,,?)TEXT*|: ?-?\d+(?::-?\d+)?",
}
_TEXTS = {False: rf"(?:{_PLAIN}|\x01|\x02|'[^'`$\\{{}}]*')", True: rf"(?:{_PLAIN}|\x01)"}


@cache
def expansions(shell: str, *, quoted: bool) -> re.Pattern[str]:
    """Return the pattern of an expansion, for bash or sh, in double quotes or not."""
    text = _TEXTS[quoted]
    index = _INDEX if shell == "bash" else ""
    indirect = rf"|!{_NAME}\[[@*]\]" if shell == "bash" else ""
    operators = _OPERATORS[shell].replace("TEXT", text)
    return re.compile(rf"\$\{{(?:#?{_NAME}{index}|{_NAME}{index}(?:{operators}){indirect})\}}")


ARITHMETIC = re.compile(r"[\w\s+\-*/%()<>=!&|^~?:,;$#{}\x01]*")
OPERAND = re.compile(r"\$\{?(?P<special>[@*0-9])|(?<![\w#])(?P<name>[A-Za-z_]\w*)")
NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
DELIMITER = re.compile(r"""'([^'\n]+)'|"([^"\\$`\n]+)"|\\?([\w.-]+)""")
