"""The conversion of plain data to a reach, for rule files and for programs in other languages."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, get_args

from .._exceptions import InvalidCommand
from .values import Limits, Preset, Reach

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_PATHS: Final = ("read", "write", "hide", "protect")

REACH_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"enum": list(get_args(Preset))},
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(_PATHS, _TEXTS),
                "network": {"anyOf": [{"type": "boolean"}, _TEXTS]},
                "landlock": {"type": "boolean"},
                "limits": {
                    "type": "object",
                    "properties": {each.name: {"type": "integer", "minimum": 1} for each in fields(Limits)},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
        },
    ]
}
"""The JSON schema of a reach as plain data: the name of a preset, or the fields of a `Reach` except its variables."""


def read_reach(given: object) -> Reach:
    """Make a reach from the name of a preset, or from a table with the fields of a reach.

    Raises:
        InvalidCommand: The data is neither; the message names the field.
    """
    if isinstance(given, str):
        return Reach.preset(given)  # type: ignore[arg-type]  # it checks the name itself
    if not isinstance(given, dict):
        raise InvalidCommand(f"reach must be the name of a preset or a table, not {type(given).__name__}")
    values = dict(given)
    _known("reach", values, (*_PATHS, "network", "limits", "landlock"))
    for name in (*_PATHS, "network"):
        value = values.get(name)
        if name in values and not (
            isinstance(value, list) or (name == "network" and isinstance(value, bool))
        ):
            may = "true, false or a list of texts" if name == "network" else "a list of texts"
            raise InvalidCommand(f"reach: {name} must be {may}")
    if "limits" in values:
        limits = values["limits"]
        if not isinstance(limits, dict):
            raise InvalidCommand("reach: limits must be a table")
        _known("reach: limits", limits, [each.name for each in fields(Limits)])
        values["limits"] = Limits(**limits)
    return Reach(**values)


def _known(what: str, table: dict[Any, Any], names: tuple[str, ...] | list[str]) -> None:
    for name in table:
        if name not in names:
            raise InvalidCommand(f"{what}: {str(name)[:64]!r} is not a key; the keys are {', '.join(names)}")
