"""The type stub of the blocking twins, generated from the asynchronous classes: ``python -m tests.blocking_stub``."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyshell
from anyshell._twins import TWINS

if TYPE_CHECKING:
    from collections.abc import Iterator

STUB = Path(anyshell.__file__).with_name("blocking.pyi")
_HEAD = '# mypy: disable-error-code="overload-overlap"\n# A text is a sequence of texts, and one pattern for expect().\n"""The blocking twins of anyshell\'s classes, a line a method. Written by ``python -m tests.blocking_stub``."""\n\n'
_LISTENERS = """
Listener = Callable[[Channel, bytes], object]
FleetListener = Callable[[HostProgress, Channel, bytes], object]
"""
_WORD = re.compile(r"\w+")
_RENAMED = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
_PLAIN = {"AsyncIterator": "Iterator", "Surroundings": "Environment"}
_OWN = {*TWINS, "Listener", "FleetListener", "Iterator", "Callable", "Channel", "HostProgress", "Self"}


class _Names(ast.NodeTransformer):
    """Writes the annotations of a twin, and collects the imports for them."""

    def __init__(self, module: str) -> None:
        self.imports: set[str] = set()
        self._homes: dict[str, str] = {}
        found = sys.modules[module]
        package = module if hasattr(found, "__path__") else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(inspect.getsource(found))):
            if isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
                home = ".".join([*above, *filter(None, [node.module])])
                for alias in node.names:
                    self._homes[alias.asname or alias.name] = f"from {home} import {alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self._homes[alias.asname or alias.name] = f"import {alias.name}"
        self._module = module

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = _PLAIN.get(node.id, node.id)
        if name not in _OWN and not hasattr(builtins, name):
            self.imports.add(self._homes.get(name, f"from {self._module} import {name}"))
        return ast.Name(name)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node

    def text(self, node: ast.expr | None) -> str:
        """An annotation in the form of the stub."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        return "object" if node is None else ast.unparse(self.visit(node))


def _signature(names: _Names, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = function.args
    for each in (*arguments.args, arguments.vararg, *arguments.kwonlyargs):
        if each is not None and each.annotation is not None:
            each.annotation = ast.parse(names.text(each.annotation), mode="eval").body
    defaults = [*arguments.defaults, *arguments.kw_defaults]
    for default in filter(None, defaults):
        if not isinstance(default, ast.Constant):
            vars(default).update(vars(ast.Name("...")))  # a computed default is left out
            default.__class__ = ast.Name
    return f"({ast.unparse(arguments)}) -> {names.text(function.returns)}"


def _function(names: _Names, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    told = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ").replace("\\", "\\\\")
    body = f'r"""{told}"""' if told else "..."
    given = [ast.unparse(each) for each in node.decorator_list]
    decorators = "".join(f"    @{each}\n" for each in given if each in ("overload", "property"))
    return f"{decorators}    def {name}{_signature(names, node)}: {body}\n"


def _attributes(names: _Names, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The public attributes that a constructor sets."""
    given = {each.arg: each.annotation for each in (*node.args.args, *node.args.kwonlyargs)}
    for each in ast.walk(node):
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        if not isinstance(target, ast.Attribute) or target.attr.startswith("_"):
            continue
        value: ast.expr | None = getattr(each, "value", None)
        if isinstance(each, ast.AnnAssign):
            kind = names.text(each.annotation)
        elif isinstance(value, ast.Name) and value.id in given:
            kind = names.text(given[value.id])
        elif isinstance(value, ast.Constant):
            kind = type(value.value).__name__
        else:
            continue
        yield f"    @property\n    def {target.attr}(self) -> {kind}: ...\n"


def _class(name: str) -> tuple[str, set[str]]:
    kind = getattr(import_module(f"anyshell.{TWINS[name]}"), name)
    members: dict[str, list[str]] = {}
    imports: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("anyshell"):
            continue
        names = _Names(base.__module__)
        (tree,) = (
            each
            for each in ast.parse(inspect.getsource(sys.modules[base.__module__])).body
            if isinstance(each, ast.ClassDef) and each.name == base.__name__
        )
        own: dict[str, list[str]] = {}
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name == "__init__":
                for text in _attributes(names, node) if name != "Environment" else ():
                    own.setdefault(text, []).append(text)
                if name not in ("DetachedJobs", "Fleet", "ShellTool"):
                    continue
            elif node.name == "detect":
                node.returns = ast.Name("Environment")
                own["detect"] = [f"    @staticmethod\n{_function(names, node, 'detect')}"]
                continue
            elif node.name.startswith("_") and node.name not in (*_RENAMED, "__call__"):
                continue
            told = _RENAMED.get(node.name, node.name)
            own.setdefault(told, []).append(_function(names, node, told))
            if node.name == "__call__":
                own["call"] = [_function(names, node, "call")]
        # Of an overloaded function the stub has only the overloads.
        for member, texts in own.items():
            overloads = [text for text in texts if "@overload" in text]
            members.setdefault(member, overloads or texts)
        imports |= names.imports
    if "close" in members and "__enter__" not in members:
        members["with"] = [
            "    def __enter__(self) -> Self: ...\n    def __exit__(self, *_: object) -> None: ...\n"
        ]
    texts = [text for each in members.values() for text in each]
    return f"\nclass {name}:\n" + "".join(texts), imports


def stub() -> str:
    """The whole file."""
    classes = {name: _class(name) for name in sorted(TWINS)}
    known = {each.rpartition(" ")[2]: each for _, imports in classes.values() for each in sorted(imports)}
    imports = set(known.values()) | {
        "from collections.abc import Callable, Iterator",
        "from typing import Self, overload",
        "from anyshell._types import Channel",
        "from anyshell.fleet import HostProgress",
    }
    environment = classes["Environment"][0]
    detect = environment[environment.index("    def detect(") :].partition("\n    def ")[0]
    connect = detect.replace("    def detect", "def connect", 1).split("    @")[0]
    texts = "".join(text for text, _ in classes.values())
    text = f"{_LISTENERS}\n{connect}\n{texts}"
    words = set(_WORD.findall(text))
    used = [each for each in sorted(imports) if words & set(_WORD.findall(each.partition("import ")[2]))]
    return f"{_HEAD}{chr(10).join(used)}\n{text}"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
