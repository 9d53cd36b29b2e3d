"""The rules and profiles that anyshell comes with, as data: files of rules in TOML."""

from __future__ import annotations

import pkgutil

PRESETS = ("read-only", "workspace", "ask-everything", "trusted")
"""Their names. Besides, ``refused`` has the rules under every preset, and ``programs`` the profiles."""


def read(name: str) -> bytes:
    """A file as it is installed."""
    # pkgutil reads from a zip as importlib.resources does, whose import alone takes 7 ms.
    data = pkgutil.get_data(__package__, f"{name}.toml")
    if data is None:
        raise FileNotFoundError(f"{name}.toml is missing from this installation of anyshell")
    return data
