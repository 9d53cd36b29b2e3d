"""``docs/explanation/architecture.md`` names every file of the package, and none that is gone.

A row of its tables of files begins with a package, and names a file by its name in code, followed by a colon. The row of a
package stands for its ``__init__``, too.
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

_ROW = re.compile(r"^\| `([\w/]+/)` \| (.+) \|$", re.MULTILINE)
_FILE = re.compile(r"`([\w.]+)`:")
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w-]+/[\w./-]*|\w+\.py")


def section(heading: str) -> str:
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def place(path: str) -> Path:
    """The file or directory that the page means."""
    outside = path.split("/")[0] in ("docs", "tests", "descriptions", "bench", "src")
    return TOP / path if outside else PACKAGE / path


def test_page_names_every_file_once_and_none_that_is_gone() -> None:
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".sh", ".ps1")
    }
    rows = [
        ("" if package == "anyshell/" else package, told)
        for package, told in _ROW.findall(section("The files"))
    ]
    named = Counter(
        package + (name if "." in name else f"{name}.py")
        for package, told in rows
        for name in _FILE.findall(told)
    )
    packages = {f"{package}__init__.py" for package, _ in rows}
    problems = [f"{file} has no place on the page" for file in sorted(files - set(named) - packages)]
    problems += [f"{file} is no file any more" for file in sorted((set(named) | packages) - files)]
    problems += [f"{file} stands there {count} times" for file, count in named.items() if count > 1]
    assert not problems, "\n".join(problems)


def test_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 200


def test_every_path_on_the_page_leads_somewhere() -> None:
    paths = {span for span in _SPAN.findall(TEXT) if _PATH.fullmatch(span)} - {"anyshell/"}
    assert not [path for path in sorted(paths) if not place(path).exists()]


def test_every_task_names_a_file_and_what_is_in_it() -> None:
    """A name beside a path, such as ``SHELLS``, stands in a file of the same row."""
    tasks = re.findall(r"^\| (.+?) \| (.+) \|$", section("Where to change what"), re.MULTILINE)[1:]
    assert len(tasks) >= 30
    problems = []
    for task, answer in tasks:
        spans = _SPAN.findall(answer)
        files = [place(span) for span in spans if _PATH.fullmatch(span)]
        if not files:
            problems.append(f"{task}: no file")
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
        problems += [
            f"{task}: {span} is in none of its files"
            for span in spans
            if span.isidentifier() and not re.search(rf"\b{span}\b", text)
        ]
    assert not problems, "\n".join(problems)


def test_floors_are_those_that_imports_are_held_to() -> None:
    drawn: dict[str, int] = {}
    floor = -1
    for line in section("Floors").split("```")[1].splitlines()[1:]:
        floor = int(line[0]) if line[0].isdigit() else floor
        drawn |= dict.fromkeys(FLOORS.keys() & set(line.partition("  what ")[0].split()), floor)
    assert drawn == {name: floor for name, floor in FLOORS.items() if name != "__main__"}
