"""Lazy imports: the names of a package are imported at their first use, so a command loads only what it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def importer(package: str, homes: Mapping[str, str], *, below: str = "") -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package. The names for type checkers stand beside the call, below TYPE_CHECKING.

    Args:
        package: The ``__name__`` of the package.
        homes: The package's modules, and for each module its names, separated by spaces.
        below: The package that has the modules; by default `package`.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{below or package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
