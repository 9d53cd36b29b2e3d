"""Adapters for agent frameworks: one module for each, imported on use, with an extra of the framework's name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs(package: str, extra: str, *, alone: str | None = None) -> Iterator[None]:
    """Guard the import of a framework; a missing package raises an error with the command that installs it.

    Args:
        package: The imported package.
        extra: The extra of anyshell that installs the package.
        alone: The distribution that the extra cannot install, since its dependencies conflict with anyshell's.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        first = f"pip install --no-deps {alone} && " if alone else ""
        raise ModuleNotFoundError(
            f"this adapter needs {package}, which is not installed: {first}pip install 'anyshell[{extra}]'",
            name=package,
        ) from None
