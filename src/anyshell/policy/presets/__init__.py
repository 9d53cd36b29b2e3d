"""The rules and profiles that anyshell comes with: files of rules, as data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ..._exceptions import PolicyError
from ..rules.loading import RuleFile, load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..rules.profiles import Profile

PRESETS = ("read-only", "workspace", "ask-everything", "trusted")


def load_preset(name: str) -> RuleFile:
    """The rules of a preset.

    Raises:
        PolicyError: There is none of that name.
    """
    if name not in PRESETS:
        raise PolicyError(f"there is no preset {name!r}: the presets are {', '.join(PRESETS)}")
    return _file(name)


def load_refused() -> RuleFile:
    """The rules that refuse under every preset."""
    return _file("refused")


def load_programs() -> Mapping[str, Profile]:
    """What the words of common programs mean."""
    return _file("programs").programs


@cache
def _file(name: str) -> RuleFile:
    return load(files(__package__).joinpath(f"{name}.toml").read_bytes(), name)
