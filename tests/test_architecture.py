"""Rules of imports between modules, checked on the syntax trees."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anyshell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

PACKAGE = Path(anyshell.__file__).parent

FLOORS = {
    "_answers": 0,
    "_exceptions": 0,
    "_lazy": 0,
    "_waits": 0,
    "_win32": 0,
    "_types": 0,
    "_terminals": 0,
    "_private": 0,
    "abc": 0,
    "errors": 0,
    "types": 3,
    "output": 1,
    "shells": 1,
    "backends": 1,
    "policy": 1,
    "reach": 1,
    "_files": 1,
    "resolve": 1,
    "effects": 1,
    "_wrapped": 1,
    "recordings": 2,
    "_transfer": 1,
    "_engine": 2,
    "_runner": 2,
    "_stream": 2,
    "session": 2,
    "_environment": 2,
    "detached": 2,
    "fleet": 2,
    "jobs": 2,
    "terminal": 2,
    "trial": 2,
    "_sync": 2,
    "_twins": 2,
    "blocking": 2,
    "testing": 2,
    "tool": 3,
    "rendering": 4,
    "console": 4,
    "cli": 4,
    "__main__": 4,
    "acp": 5,
    "adapters": 5,
    "mcp": 5,
    "ray": 5,
    "rpc": 5,
}
"""The floor of every module. A floor imports only lower floors; modules of the first floor do not import each other."""

WITHIN = {
    "_answers": {"_exceptions", "_types"},
    "_private": {"_win32"},
    "_types": {"_exceptions", "_lazy"},
    "_terminals": {"_exceptions"},
    "_waits": {"_exceptions"},
    "abc": {"_lazy", "_types", "_exceptions"},
    "errors": {"_exceptions"},
    "_files": {"_transfer"},
    "policy": {"reach"},  # a file of rules may name one
    "_stream": {"_engine"},
    "_runner": {"_engine", "_stream", "jobs", "recordings", "terminal"},
    "session": {"_engine", "_runner"},
    "jobs": {"_engine"},
    "terminal": {"_engine"},
    "recordings": {"terminal"},  # the definition of a secret
    "_environment": {
        "_engine",
        "_runner",
        "_stream",
        "detached",
        "jobs",
        "session",
        "terminal",
        "trial",
    },
    "trial": {"_engine", "_runner"},
    "_sync": {"_environment", "_runner"},
    "_twins": {"_environment", "_sync"},
    "blocking": {"_twins"},
    "detached": {"_runner"},
    "fleet": {"_engine", "_environment", "_runner"},
    "__main__": {"cli"},
    "cli": {"console"},  # when it is asked for
}
"""Exceptions: modules that a module of the same floor may import."""


INNER_FLOORS: Mapping[str, Mapping[str, int]] = {
    "adapters": {
        "whole": 0,
        "anthropic": 1,
        "bridge": 0,
        "deepagents": 1,
        "harbor": 1,
        "inspect_ai": 1,
        "kaos": 1,
        "langchain": 1,
        "openai_agents": 1,
        "pydantic_ai": 1,
        "smolagents": 1,
        "strands": 1,
        "swerex": 1,
    },
    "backends.ssh": {
        "channel": 0,
        "connection": 0,
        "facts": 0,
        "files": 0,
        "process": 1,
        "posix": 2,
        "sessions": 2,
        "windows": 2,
        "backend": 3,
    },
    "output": {
        "cells": 0,
        "masked": 0,
        "sequences": 0,
        "patterns": 1,
        "selection": 2,
        "artifacts": 3,
        "text": 4,
        "minimize": 5,
        "pump": 5,
        "screen": 5,
    },
    "policy": {
        "characters": 0,
        "parse": 0,
        "redaction": 0,
        "audit": 1,
        "presets": 0,
        "rewrite": 0,
        "rules": 1,
        "approval": 2,
        "interception": 2,
        "view_limit": 0,
    },
    "rendering": {"people": 0, "rows": 0, "page": 1, "endings": 2, "views": 3},
    "tool": {
        "approvals": 0,
        "calls": 0,
        "hiding": 0,
        "host": 0,
        "limits": 0,
        "git": 0,
        "powershell": 0,
        "result": 0,
        "session": 0,
        "signals": 0,
        "unconfined": 0,
        "trying": 0,
        "updates": 0,
        "params": 1,
        "words": 1,
        "verdicts": 1,
        "decisions": 2,
        "definition": 2,
        "context": 3,
        "jobs": 4,
        "minimizing": 1,
        "extras": 2,
        "viewing": 0,
        "widening": 3,
        "run": 5,
        "builder": 6,
        "shell": 7,
    },
    "cli": {
        "process": 0,
        "printing": 1,
        "failure": 2,
        "host": 3,
        "terminal": 3,
        "help": 4,
        "options": 4,
        "program": 5,
        "commands": 5,
    },
}
"""The floors inside each package that has rooms. Rooms of one floor do not import each other."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    """The name of a module below anyshell; the name of the package itself is empty."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


ASKED_FOR = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Attribute,
    ast.Name,
)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The nodes of a module's syntax tree that the tests look at."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ASKED_FOR)]


@pytest.fixture(scope="module", autouse=True)
def _collected_by_count() -> Iterator[None]:
    """Turn garbage collection off: the syntax trees are a million objects without a cycle, and scanning takes longer than all the tests."""
    gc.disable()
    yield
    nodes.cache_clear()
    gc.enable()


@cache
def arrows() -> Mapping[str, Set[str]]:
    """The modules of anyshell that each module imports, including imports for types and inside functions."""
    known = {name_of(path) for path in modules()}
    found: dict[str, set[str]] = {}
    for path in modules():
        inside = path.relative_to(PACKAGE).parts[:-1]
        named = set()  # the name after "import" may be a module, or a name in a module
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                home = ".".join([*inside[: len(inside) - node.level + 1], *filter(None, [node.module])])
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "anyshell":
                home = (node.module or "").removeprefix("anyshell").removeprefix(".")
            else:
                if isinstance(node, ast.Import):
                    named |= {
                        alias.name.removeprefix("anyshell.")
                        for alias in node.names
                        if alias.name.startswith("anyshell.")
                    }
                continue
            for alias in node.names:
                whole = f"{home}.{alias.name}" if home else alias.name
                named.add(whole if whole in known else home)
        found[name_of(path)] = (named & known) - {name_of(path)}
    return found


def imported(path: Path) -> set[str]:
    """The parts of anyshell that a module imports. A public name imported from the package itself does not count."""
    return {name.partition(".")[0] for name in arrows()[name_of(path)]} - {""}


def test_modules_import_only_lower_floors() -> None:
    above = []
    for path in modules():
        own = part(path)
        if own == "__init__":
            continue  # the public names, each imported when it is used
        above += [
            f"{name_of(path)} (floor {FLOORS[own]}) imports {other} (floor {FLOORS[other]})"
            for other in imported(path) - {own} - WITHIN.get(own, set())
            if FLOORS[other] >= FLOORS[own]
        ]
    assert not above


def test_every_module_has_its_floor() -> None:
    assert {part(path) for path in modules()} - {"__init__"} == set(FLOORS)


@pytest.mark.parametrize("package", INNER_FLOORS)
def test_rooms_import_only_lower_floors(package: str) -> None:
    floors = INNER_FLOORS[package]
    above = []
    for name, others in arrows().items():
        own = room(name, package)
        for other in others if own else ():
            its = room(other, package)
            if its not in ("", own) and floors[its] >= floors[own]:
                above.append(f"{name} (floor {floors[own]}) imports {other} (floor {floors[its]})")
    assert not above


@pytest.mark.parametrize("package", INNER_FLOORS)
def test_every_room_has_its_floor(package: str) -> None:
    assert {room(name, package) for name in arrows()} - {""} == set(INNER_FLOORS[package])


def room(name: str, package: str) -> str:
    """The room of a module inside a package; empty for the package itself, and for modules outside."""
    return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else ""


def test_imports_have_no_cycles() -> None:
    """Imports for types count as well."""
    assert circles(arrows()) == set()


def circles(graph: Mapping[str, Set[str]]) -> set[frozenset[str]]:
    """The sets of modules in which each module reaches each other module by imports."""

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reach = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }


def test_import_cycles_are_detected() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f"}}
    assert circles(graph) == {frozenset("abc"), frozenset("fg")}


def test_commands_do_not_import_each_other() -> None:
    commands = "cli.commands"
    assert not [
        f"{name} imports {other}"
        for name, others in arrows().items()
        for other in others
        if room(name, commands) and room(other, commands) not in ("", room(name, commands))
    ]


def test_only_the_module_shells_quotes() -> None:
    quoting = []
    for path in modules():
        for node in nodes(path) if part(path) != "shells" else ():
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None)]
                quoting += [f"{name_of(path)} imports {name}" for name in names if name == "shlex"]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "quote" in node.name:
                quoting.append(f"{name_of(path)} defines {node.name}")
    assert quoting == ["_environment.facts defines quote"]  # it only passes its arguments on


def test_only_the_local_backend_checks_the_platform() -> None:
    """The command line and the packages that confine commands may check the platform as well."""
    asking = []
    for path in modules():
        if path.is_relative_to(PACKAGE / "backends" / "local") or part(path) in ("cli", "reach", "trial"):
            continue
        for node in nodes(path):
            asked = isinstance(node, ast.Name) and node.id == "platform"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                asked = (node.value.id, node.attr) in {("sys", "platform"), ("os", "name")}
            asking += [name_of(path)] * asked
    assert not asking


def test_only_the_backends_name_a_backend() -> None:
    names = ("backends.local", "LocalBackend", "SSHBackend")
    texts = {name_of(path): path.read_text() for path in modules() if part(path) != "backends"}
    assert not [f"{module} names {name}" for module, text in texts.items() for name in names if name in text]


def test_asyncssh_is_not_loaded_without_ssh() -> None:
    """asyncssh takes a quarter of a second to import."""
    program = (
        "import anyshell.tool, anyshell.cli.program, anyshell._sync, sys; print('asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_no_module_changes_the_process_state() -> None:
    forbidden = {"chdir", "fchdir", "umask", "putenv", "unsetenv", "set_event_loop_policy"}
    changing = []
    for path in modules():
        # These run in a child before exec, or as a separate program on a host.
        own = ("forking.py", "inside.py", "view.py", "host_proxy.py")
        may_handle = part(path) == "cli" or path.name in own or path == PACKAGE / "trial" / "files.py"
        for node in nodes(path):
            if not isinstance(node, ast.Attribute):
                continue
            handles = node.attr == "signal" and isinstance(node.value, ast.Name) and node.value.id == "signal"
            if node.attr in forbidden or (handles and not may_handle):
                changing.append(f"{name_of(path)} uses {node.attr}")
    assert not changing


def test_no_module_uses_private_names_of_another_package() -> None:
    used: dict[Path, set[str]] = {}
    taken = []
    for path in modules():
        names = used.setdefault(path.parent, set())
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls", "super()"):
                names.add(node.attr)
            elif isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
                taken.append((path, node.attr))
    # Methods of a NamedTuple, and of the os module, which are public.
    public = {"_asdict", "_replace", "_exit"}
    ours = set().union(*used.values()) - public
    assert not [
        f"{name_of(path)}: {name}" for path, name in taken if name in ours and name not in used[path.parent]
    ]


def test_no_module_imports_a_private_name() -> None:
    known = {name_of(path).rpartition(".")[2] for path in modules()}
    assert not [
        f"{name_of(path)}: {alias.name}"
        for path in modules()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if re.match(r"_(?!_)", alias.name) and alias.name not in known
    ]


def test_class_names_are_unique() -> None:
    """The POSIX and Windows halves of a class share a name, and so do the adapters for frameworks."""
    found: dict[str, list[str]] = {}
    for path in modules():
        halves = {"local", "ssh"} & {*path.relative_to(PACKAGE).parts}
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and node.name[0] != "_" and part(path) != "adapters":
                home = f"half of {min(halves)}" if halves else name_of(path)
                found.setdefault(node.name, []).append(home)
    assert not {name for name, homes in found.items() if len({*homes}) > 1 or len(homes) > 2}


LONGEST_WITHOUT_COMMENT = 35
"""Lines of a function below its docstring."""


def test_long_functions_have_a_comment() -> None:
    comment = re.compile(r"(?:^|\s)# (?!noqa|type:|pragma)")
    lacking = []
    for path in modules():
        lines = path.read_text().splitlines()
        for node in nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            last, body = node.end_lineno or 0, node.body[1:] if ast.get_docstring(node) else node.body
            length = last - body[0].lineno + 1 if body else 0
            if length > LONGEST_WITHOUT_COMMENT and not any(map(comment.search, lines[node.lineno : last])):
                lacking.append(f"{name_of(path)}.{node.name} has {length} lines")
    assert not lacking


LARGEST_MODULE = 600
"""Lines."""

LARGEST_CLASS = 500
"""Lines."""


def test_no_module_or_class_is_too_large() -> None:
    large = []
    for path in modules():
        lines = len(path.read_text().splitlines())
        large += [f"{name_of(path)} has {lines} lines"] * (lines > LARGEST_MODULE)
        for node in nodes(path):
            lines = (node.end_lineno or 0) - node.lineno + 1 if isinstance(node, ast.ClassDef) else 0
            if lines > LARGEST_CLASS:
                large.append(f"{name_of(path)}.{getattr(node, 'name', '')} has {lines} lines")
    assert not large
