"""The rules and profiles that anyshell comes with, as data: files of rules in TOML."""

from __future__ import annotations

from importlib.resources import files
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
    return files(__package__).joinpath(f"{name}.toml").read_bytes()
