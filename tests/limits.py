"""The tables of ``docs/reference/limits.md``, written from the code: ``python -m tests.limits``.

A bound is a number with a name in capitals in a module, or the default of an argument of `CLASSES`. The sentence of a bound
is the first paragraph of the docstring beneath; for an argument, the docstring of the class has the sentence. The first word
is the unit. The line of a number that is no bound ends with ``# no bound``.

On the page, ``<!-- bounds: WORD ... -->`` precedes a table. A word is a package, a module, a class or a constant, or
some of these from the outside in, joined by dots: ``ssh.process`` is also ``backends.ssh.posix.process``. The underscore of
a private package or module is left out. A bound is in the table whose word matches most closely. In a table, modules are in
the order of their own names: a move to another package changes no table.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyshell
from anyshell._files import HostFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "limits.md"
SOURCE = Path(anyshell.__file__).parent
CLASSES = (anyshell.OutputLimits, anyshell.ToolLimits, anyshell.ArtifactStore, anyshell.SSHOptions, HostFiles)

_TABLE = re.compile(r"^<!-- bounds: (.+) -->\n(?:\|.*\n)*", re.MULTILINE)
_HEAD = "<!-- bounds: {} -->\n| what | value | name |\n|---|---|---|\n"
_UNITS = {
    "Seconds": ((86400, "d"), (3600, "h"), (1, "s")),
    "Bytes": ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")),
}


class Bound(NamedTuple):
    """A number, or several numbers used in turn, with the sentence."""

    path: tuple[str, ...]  # packages, module, class, and the name
    name: str
    values: tuple[float, ...]
    sentence: str


def bounds() -> Iterator[Bound]:
    """Every bound: arguments first, then constants by module and line."""
    for made in CLASSES:
        told = inspect.getdoc(made) or ""
        for name, default in inspect.signature(made).parameters.items():
            if type(default.default) in (int, float):
                said = re.search(rf"^    {name}: (.*(?:\n {{8}}.*)*)", told, re.MULTILINE)
                path = (*public(made.__module__.split(".")), made.__name__, name)
                yield Bound(path, f"{made.__name__}({name}=)", (default.default,), cell(said and said[1]))
    for file in sorted(SOURCE.rglob("*.py"), key=lambda file: (file.stem.strip("_"), file)):
        if file.stem == "win32":  # numbers from a system's headers
            continue
        text = file.read_text(encoding="utf-8")
        lines, body = text.splitlines(), ast.parse(text).body
        for node, below in zip(body, [*body[1:], ast.Pass()], strict=True):
            match node:
                case ast.Assign([ast.Name(name)], value) if name.isupper() and (values := numbers(value)):
                    if "# no bound" not in lines[node.lineno - 1]:
                        path = (*public(file.relative_to(SOURCE).with_suffix("").parts), name)
                        yield Bound(path, name, values, cell(ast.get_docstring(ast.Module([below], []))))


def public(modules: Iterable[str]) -> Iterator[str]:
    """Modules without the underscores of private ones."""
    return (module.strip("_") for module in modules)


def numbers(node: ast.expr) -> tuple[float, ...]:
    """The value of an expression that consists only of numbers, or the values of a tuple of such expressions."""
    if isinstance(node, ast.Tuple):
        each = [numbers(element) for element in node.elts]
        return tuple(value for found in each for value in found) if all(each) else ()
    if any(not isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in ast.walk(node)):
        return ()
    value = eval(compile(ast.Expression(node), "", "eval"), {})  # only numbers and operators
    return (value,) if type(value) in (int, float) else ()


def cell(docstring: str | None) -> str:
    """The first paragraph of a docstring, as the cell of a table."""
    text = " ".join((docstring or "").partition("\n\n")[0].split())
    return text.replace("``", "`").replace("|", "\\|").removesuffix(".")


def shown(values: tuple[float, ...], unit: str) -> str:
    """Values in the largest unit that divides the first value: 64 KiB, 2 s."""
    for size, name in _UNITS.get(unit, ()):
        if size == 1 or (values[0] >= size and values[0] % size == 0):
            return ", ".join(f"{value / size:,.6g}" for value in values) + f" {name}"
    return ", ".join(f"{value:,}" for value in values)


def written(page: str) -> str:
    """The page with tables generated from the code.

    Raises:
        ValueError: A bound has no sentence, no unit, or no table.
    """
    tables: dict[str, dict[str, None]] = {words: {} for words in _TABLE.findall(page)}  # rows once, in order
    faults = []
    for path, name, values, sentence in bounds():
        unit = re.split(r"\W", sentence)[0]
        near, words = max((max(closeness(word, path) for word in words.split()), words) for words in tables)
        if not unit or (type(values[0]) is float and unit not in ("Seconds", "Share")):
            faults.append(f"{'.'.join(path)} has no sentence that begins with its unit")
        if near == (0, 0):
            faults.append(
                f"{'.'.join(path)} has no table: give one of {PAGE.name} its name, or its package's"
            )
        tables[words][f"| {sentence} | {shown(values, unit)} | `{name}` |\n"] = None
    if faults:
        raise ValueError("\n".join(faults))
    return _TABLE.sub(lambda found: _HEAD.format(found[1]) + "".join(tables[found[1]]), page)


def closeness(word: str, path: tuple[str, ...]) -> tuple[int, int]:
    """How closely a word matches the name of a bound: the place of the last part, then the number of parts; 0 without a match."""
    parts, rest = word.split("."), iter(path)
    return (path.index(parts[-1]) + 1, len(parts)) if all(part in rest for part in parts) else (0, 0)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
