"""Names of a package that are imported when they are first used, so that a command loads only what it needs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def importer(package: str, homes: Mapping[str, str], *, below: str = "") -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package. What a type checker is shown stands beside it, below TYPE_CHECKING.

    Args:
        package: Its ``__name__``.
        homes: Its modules, and the names that each has, with spaces between them.
        below: The package that has these modules; by default itself.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{below or package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
