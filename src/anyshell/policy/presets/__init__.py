"""The rules and profiles that anyshell comes with, as data: files of rules in TOML."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PRESETS = ("read-only", "workspace", "ask-everything", "trusted")
"""Their names. Besides, ``refused`` has the rules under every preset, and ``programs`` the profiles."""

READING_VARIABLES: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "diff.autoRefreshIndex",
    "GIT_CONFIG_VALUE_0": "false",
}
"""What to run with that which ``read-only`` allows: git writes its index anew without these, even if all it does is look."""


def read(name: str) -> bytes:
    """A file as it is installed."""
    # pkgutil reads from a zip as importlib.resources does, whose import alone takes 7 ms.
    data = pkgutil.get_data(__package__, f"{name}.toml")
    if data is None:
        raise FileNotFoundError(f"{name}.toml is missing from this installation of anyshell")
    return data
