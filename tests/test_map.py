"""``docs/explanation/architecture.md`` names every file of the package, and no other.

The first table of the page has the packages and the top-level modules, each with its floor. A row of the last table begins
with a package and names its files, each in code and followed by a colon; the row also stands for the ``__init__``.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import anyshell

from .test_architecture import FLOORS

PACKAGE = Path(anyshell.__file__).parent
TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "explanation" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")

_FILE = re.compile(r"`([\w.]+)`:")
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+/[\w./-]*|\w+\.py")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table in a section, without the header."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]


# The row of the package's own __init__ has no floor.
PARTS = {cells[-2].strip("`"): cells[0] for cells in rows("The packages")}
"""The floor of each package, whose name ends in a slash, and of each module at the top."""

FILES = [(cells[0].strip("`"), _FILE.findall(cells[1])) for cells in rows("The files")]


def place(path: str) -> Path:
    """The file or directory of a path on the page."""
    outside = path.split("/")[0] in ("docs", "tests", "descriptions", "bench", "src", ".github")
    return TOP / path if outside else PACKAGE / path


def test_page_names_every_file_once_and_no_other() -> None:
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".sh", ".ps1")
    }
    named = Counter(part for part in PARTS if not part.endswith("/"))
    named.update(
        package + (name if "." in name else f"{name}.py") for package, names in FILES for name in names
    )
    named.update({f"{package}__init__.py" for package, _ in FILES} - set(named))
    problems = [to_add(file) for file in sorted(files - set(named))]
    problems += [f"take out `{file}`: there is no such file" for file in sorted(set(named) - files)]
    problems += [
        f"name `{file}` once; it stands there {count} times" for file, count in named.items() if count > 1
    ]
    assert not problems, "\n".join(["In docs/explanation/architecture.md:", *problems])


def to_add(file: str) -> str:
    """The message for a file that is missing on the page."""
    package, _, name = file.rpartition("/")
    name = name.removesuffix(".py")
    if not package:
        return f'add the row "| FLOOR | `{file}` | what it is |" to the table of "The packages"'
    if package not in {each.rstrip("/") for each, _ in FILES}:
        return f'add the row "| `{package}/` | `{name}`: what it is. |" to the table of "The files"'
    return f'add "`{name}`: what it is." to a row of `{package}/`'


def test_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 200


def test_every_path_on_the_page_exists() -> None:
    paths = {span for span in _SPAN.findall(TEXT) if _PATH.fullmatch(span)}
    assert not [path for path in sorted(paths) if not place(path).exists()]


def test_every_change_names_a_file_with_its_names() -> None:
    """A name beside a path, such as ``SHELLS``, occurs in a file of the same row."""
    changes = rows("To change a thing")
    assert len(changes) >= 30
    problems = []
    for change, answer in changes:
        spans = _SPAN.findall(answer)
        files = [place(span) for span in spans if _PATH.fullmatch(span)]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
        problems += [f"{change}: names no file"] * (not files)
        problems += [
            f"{change}: {span} is in none of its files"
            for span in spans
            if span.isidentifier() and not re.search(rf"\b{span}\b", text)
        ]
    assert not problems, "\n".join(problems)


def test_floors_of_packages_are_those_of_their_imports() -> None:
    floors = {re.sub(r"/$|\.py$", "", part): int(floor) for part, floor in PARTS.items() if floor.isdigit()}
    assert floors == FLOORS
