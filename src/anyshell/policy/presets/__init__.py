"""Rules and profiles that are part of anyshell, as data: rule files in TOML."""

from __future__ import annotations

import pkgutil

PRESETS = ("read-only", "workspace", "ask-everything", "trusted")
"""Names of the presets. Other files: ``refused`` (rules under every preset), ``programs`` and ``powershell`` (profiles)."""


def read(name: str) -> bytes:
    """Return the content of an installed rule file."""
    # pkgutil reads from a zip as importlib.resources does, but the import of importlib.resources alone takes 7 ms.
    data = pkgutil.get_data(__package__, f"{name}.toml")
    if data is None:
        raise FileNotFoundError(f"{name}.toml is missing from this installation of anyshell")
    return data
