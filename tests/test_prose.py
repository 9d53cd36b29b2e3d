"""The words that plain technical English does without, and the reasons that marks for tools need."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ["*.md", "bench/*", "descriptions/*", "docs/**/*", "src/**/*"]
SUFFIXES = {".md", ".ps1", ".py", ".sh"}
BANNED = re.compile(
    # Of a name too, such as nobody_reads.
    r"(?<![a-z])(?:nobody|somebody|anybody|everybody|whoever|unsaid|he|him|his|himself)(?![a-z])"
    r"|\bof (?:its|their) own accord\b",
    re.IGNORECASE,
)


OBSCURE = re.compile(
    BANNED.pattern
    + r"|^test_(?:who|so|nor|neither|and|but|there|it|they|of|that|this|whether|when|where|how|why|which|to)_",
    re.IGNORECASE,
)
"""The name of a test has the subject and what it does: no name continues that of the test before it."""


def test_names_of_tests_have_a_subject() -> None:
    found = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        if OBSCURE.search(name)
    ]
    assert not found, "\n".join(["write the subject first:", *found])


def test_texts_name_the_thing_that_is_meant() -> None:
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{number}: {match[0]}"
        for place in PLACES
        for path in sorted(ROOT.glob(place))
        if path.suffix in SUFFIXES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in BANNED.finditer(line)
    ]
    assert not found, "\n".join(["write the noun instead:", *found])


def test_docstrings_begin_with_their_noun() -> None:
    """``"The answer of a host"`` names the thing; ``"What a host said"`` has the reader find it."""
    begins = re.compile(r'^ *r?"""(?:What|Which|Who|How|Where|That)\b', re.MULTILINE)
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, match.start()) + 1}"
        for path, text in texts.items()
        for match in begins.finditer(text)
    ]
    assert not found, "\n".join(["write the noun first:", *found])


def test_docstrings_name_their_subject() -> None:
    """``"Whether the command was killed"`` stands alone; ``"Whether it was killed"`` needs the docstring of the class."""
    leads = re.compile(r"(?:\w+ ){0,2}(?:it|its|they|them|their)\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef | ast.FunctionDef | ast.Module)
        if leads.match(text := ast.get_docstring(node) or "")
    ]
    assert not found, "\n".join(["name what the pronoun stands for:", *found])


def test_glossary_names_what_there_is() -> None:
    names = re.findall(
        r"`([A-Z]\w+)(?:\.\w+)?`", (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    )
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    defined = set(re.findall(r"^(?:class )?([A-Z]\w+)\b(?=[(:]| = )", source, re.MULTILINE))
    assert len(names) > 30
    assert not set(names) - defined


def test_ignores_have_their_reason_beside_them() -> None:
    bare = re.compile(r"# (?:type: ignore\[[\w,-]+\]|noqa: [A-Z]\w+(?:, [A-Z]\w+)*) *$")
    found = []
    for place in ("bench", "examples", "src", "tests"):
        for path in sorted((ROOT / place).rglob("*.py")):
            lines = ["", *path.read_text(encoding="utf-8").splitlines()]
            found += [
                f"{path.relative_to(ROOT).as_posix()}:{number}"
                for number, line in enumerate(lines)
                if bare.search(line) and not lines[number - 1].lstrip().startswith("#")
            ]
    assert not found, "\n".join(["write the reason behind the ignore:", *found])
