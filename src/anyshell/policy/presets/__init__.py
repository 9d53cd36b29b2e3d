"""The rules and profiles that anyshell comes with, as data: files of rules in TOML."""

from __future__ import annotations

from importlib.resources import files

PRESETS = ("read-only", "workspace", "ask-everything", "trusted")
"""Their names. Besides, ``refused`` has the rules under every preset, and ``programs`` the profiles."""


def read(name: str) -> bytes:
    """A file as it is installed."""
    return files(__package__).joinpath(f"{name}.toml").read_bytes()
