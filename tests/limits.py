"""The tables of ``docs/reference/limits.md``, written from the code: ``python -m tests.limits``.

A bound is a number that a module gives a name in capitals, or that is the default of an argument of `CLASSES`. Its sentence
is the first paragraph of the docstring beneath it; an argument's is in the docstring of its class. The first word is the
unit. A number that bounds nothing ends its line with ``# no bound``.

On the page, ``<!-- bounds: WORD ... -->`` stands before a table. A word is a package, a module, a class or a constant, or
some of these from the outside in, joined by dots: ``ssh.process`` is also ``backends.ssh.posix.process``. The underscore of
a private package or module is left out. A bound stands where a word names it most closely. In a table, modules are in the
order of their own names: a move to another package changes nothing.
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
    """A number, or several that are taken in turn, with its sentence."""

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
        if file.stem == "win32":  # its numbers are those of a system's headers
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
    """The number that an expression of nothing but numbers stands for, or those of a tuple of such."""
    if isinstance(node, ast.Tuple):
        each = [numbers(element) for element in node.elts]
        return tuple(value for found in each for value in found) if all(each) else ()
    if any(not isinstance(part, ast.Constant | ast.BinOp | ast.operator) for part in ast.walk(node)):
        return ()
    value = eval(compile(ast.Expression(node), "", "eval"), {})  # numbers and operators, as was just seen
    return (value,) if type(value) in (int, float) else ()


def cell(docstring: str | None) -> str:
    """The first paragraph of a docstring, as a table has it."""
    text = " ".join((docstring or "").partition("\n\n")[0].split())
    return text.replace("``", "`").replace("|", "\\|").removesuffix(".")


def shown(values: tuple[float, ...], unit: str) -> str:
    """Values in the largest unit of which the first is a multiple: 64 KiB, 2 s."""
    for size, name in _UNITS.get(unit, ()):
        if size == 1 or (values[0] >= size and values[0] % size == 0):
            return ", ".join(f"{value / size:,.6g}" for value in values) + f" {name}"
    return ", ".join(f"{value:,}" for value in values)


def written(page: str) -> str:
    """The page with its tables as the code has them.

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
    """How near to a bound's own name a word names it: the place of its last part, then its parts; 0 when it does not."""
    parts, rest = word.split("."), iter(path)
    return (path.index(parts[-1]) + 1, len(parts)) if all(part in rest for part in parts) else (0, 0)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
