"""Who may import whom, held by walking the imports."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

import anyshell

PACKAGE = Path(anyshell.__file__).parent

FLOORS = {
    "_answers": 0,
    "_exceptions": 0,
    "_waits": 0,
    "_types": 0,
    "_terminals": 0,
    "_private": 0,
    "abc": 0,
    "output": 1,
    "shells": 1,
    "backends": 1,
    "policy": 1,
    "_variables": 1,
    "_descriptions": 1,
    "_files": 1,
    "_wrapped": 1,
    "recordings": 2,
    "_transfer": 1,
    "_engine": 2,
    "_snapshot": 2,
    "_stream": 2,
    "session": 2,
    "_environment": 2,
    "detached": 2,
    "fleet": 2,
    "jobs": 2,
    "terminal": 2,
    "_sync": 2,
    "testing": 2,
    "tool": 3,
    "rendering": 4,
    "console": 4,
    "cli": 4,
    "__main__": 4,
}
"""The floor of every module. A floor imports those below it; on the first, none imports another."""

WITHIN = {
    "_answers": {"_exceptions", "_types"},
    "_types": {"_exceptions"},
    "_terminals": {"_exceptions"},
    "abc": {"_types", "_exceptions"},
    "_files": {"_transfer"},
    "_stream": {"_engine"},
    "session": {"_engine"},
    "jobs": {"_engine"},
    "_snapshot": {"_engine"},
    "terminal": {"_engine"},
    "recordings": {"terminal"},  # what is a secret
    "_environment": {
        "_engine",
        "_snapshot",
        "_stream",
        "detached",
        "jobs",
        "recordings",
        "session",
        "terminal",
    },
    "_sync": {"_environment"},
    "detached": {"_engine", "_environment"},  # of the environment the types alone
    "fleet": {"_engine", "_environment"},
    "__main__": {"cli"},
    "cli": {"console"},  # when it is asked for
}
"""What may be imported on one's own floor."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of anyshell that a module imports, for types as well."""
    inside = list(path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = inside[: len(inside) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                found |= {(base + name.split("."))[0] for name in names if name}
            elif node.module and node.module.split(".")[0] == "anyshell":
                rest = node.module.split(".")[1:]
                found |= {rest[0]} if rest else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("anyshell.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    own = part(path)
    if own == "__init__":
        return  # the public names, each imported when it is used
    for other in imported(path) - {own}:
        if other not in FLOORS:
            continue  # a public name taken from the package itself
        below = FLOORS[other] < FLOORS[own] or other in WITHIN.get(own, set())
        assert below, f"{own} (floor {FLOORS[own]}) imports {other} (floor {FLOORS[other]})"


def test_every_module_has_its_floor() -> None:
    assert {part(path) for path in modules()} - {"__init__"} == set(FLOORS)


def test_the_values_import_one_another_in_no_circle() -> None:
    """Imports for types count as well."""
    below = {
        path.stem: {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is not None
        }
        for path in (PACKAGE / "_types").glob("*.py")
    }
    order = [*graphlib.TopologicalSorter(below).static_order()]  # a circle is an error
    assert order[-1] == "__init__"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_shells_quotes(path: Path) -> None:
    if part(path) == "shells":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        assert "shlex" not in names, f"{path.name} imports shlex"
        if isinstance(node, ast.ImportFrom):
            assert node.module != "shlex", f"{path.name} imports from shlex"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert "quote" not in node.name, f"{path.name} defines {node.name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_local_backend_asks_for_the_platform(path: Path) -> None:
    """The command line, which is a program on this machine, may ask as well."""
    if path.is_relative_to(PACKAGE / "backends" / "local") or part(path) == "cli":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("sys", "platform"), ("os", "name")}, path.name
        assert not (isinstance(node, ast.Name) and node.id == "platform"), path.name


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_backends_name_a_backend(path: Path) -> None:
    if part(path) == "backends":
        return
    text = path.read_text()
    assert "backends.local" not in text, path.name
    assert "LocalBackend" not in text, path.name
    assert "SSHBackend" not in text, path.name


def test_what_only_ssh_needs_is_loaded_for_ssh_alone() -> None:
    """asyncssh takes a quarter of a second to import."""
    program = (
        "import anyshell.tool, anyshell.cli.program, anyshell._sync, sys; print('asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_changes_the_state_of_the_process(path: Path) -> None:
    forbidden = {"chdir", "fchdir", "umask", "putenv", "unsetenv", "set_event_loop_policy"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in forbidden, f"{path.name} uses {node.attr}"
            if node.attr == "signal" and isinstance(node.value, ast.Name) and node.value.id == "signal":
                in_a_child = path.name == "forking.py"  # before it becomes another program
                assert part(path) == "cli" or in_a_child, f"{path.name} sets a signal handler"
