"""Doors for other people's frameworks: one module each, imported when it is used, with an extra of the framework's name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs(package: str, extra: str, *, alone: str | None = None) -> Iterator[None]:
    """Import a framework, and say what to install where it is missing.

    Args:
        package: The imported package.
        extra: The extra of anyshell that installs it.
        alone: The distribution that the extra cannot install, since what that depends on rules anyshell's own needs out.

    Raises:
        ModuleNotFoundError: It is not installed.
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
