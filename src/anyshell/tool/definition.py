"""The definition of the tool for models, in the formats of their makers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._exceptions import AnyshellError
from .._types import exact
from .params import ShellParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from .limits import ToolLimits
    from .params import ToolFeatures

Format = Literal["openai", "responses", "anthropic", "mcp"]

_CWD_OF_A_SESSION = "The directory the shell goes to first, and stays in: absolute, relative or ~/DIR."
_ENV_OF_A_SESSION = "Variables the shell exports first; they stay."

_NAME = re.compile(r"[\w.-]{1,128}\Z")

CHARACTERS_OF_A_TOKEN = 4  # no bound: an estimate


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it.

    Attributes:
        name: The tool's name for the model.
        description: The tool's description for the model.
        parameters: The JSON schema of the parameters, with the limits in force.
        title: The tool's title for a person.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    title: str

    @property
    def tokens(self) -> int:
        """The estimated tokens of the definition in every request: its characters, with compact JSON, divided by four."""
        compact = json.dumps(self.parameters, separators=(",", ":"), ensure_ascii=False)
        return -(-len(self.name + self.description + compact) // CHARACTERS_OF_A_TOKEN)

    def as_format(self, format: Format = "anthropic", *, strict: bool = False) -> dict[str, Any]:  # noqa: A002 - as in schema --format
        """Return the definition as JSON in the format of a model interface.

        Args:
            format: The interface: ``openai`` for ``tools`` in Chat Completions, ``responses`` for ``tools`` in OpenAI's
                Responses, ``anthropic`` for ``tools`` in Messages, ``mcp`` for the answer to ``tools/list`` of the Model
                Context Protocol.
            strict: Whether to set ``strict: true``, for ``openai`` and ``responses`` alone. Every parameter is then
                required, and an optional parameter may be ``null``. A map with names of the model's choice (``env``) has
                no strict form and is left out.

        Raises:
            ValueError: The format is unknown, or has no strict form.
        """
        if strict and format not in ("openai", "responses"):
            raise ValueError(f"strict is for the formats 'openai' and 'responses' alone, not {format!r}")
        parameters = _strict(self.parameters) if strict else deepcopy(self.parameters)
        named: dict[str, Any] = {"name": self.name, "description": self.description}
        if strict:
            named["strict"] = True
        match format:
            case "openai":
                return {"type": "function", "function": {**named, "parameters": parameters}}
            case "responses":  # Responses takes a missing strict for true
                return {"type": "function", **named, "parameters": parameters, "strict": strict}
            case "anthropic":
                return {**named, "input_schema": parameters}
            case "mcp":
                return {
                    **named,
                    "inputSchema": parameters,
                    "annotations": {"title": self.title, **_ANNOTATIONS},
                }
        raise ValueError(f"format must be 'openai', 'responses', 'anthropic' or 'mcp', not {format!r}")


# The protocol's hints for a tool that can do anything.
_ANNOTATIONS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}


def schema(
    limits: ToolLimits, *, guarded: bool, features: ToolFeatures, silence: float | None = None
) -> dict[str, Any]:
    """Build the JSON schema of the parameters.

    Args:
        limits: The limits in force.
        guarded: Whether hang guards win over variables of the same name.
        features: The further abilities of the tool.
        silence: Seconds of silence after which a command is stopped; ``None`` is never.
    """
    properties = properties_of(ShellParams, features.keys)
    properties["timeout"] |= {
        "default": number(limits.default_timeout),
        "minimum": number(limits.min_timeout),
        "maximum": number(limits.max_timeout),
    }
    if "run_in_background" in features.keys:
        properties["timeout"]["description"] = (
            "Seconds; then it is stopped. None by default in the background."
        )
        del properties["timeout"]["default"]
    if features.terminals and not features.jobs:
        properties["run_in_background"]["description"] = "With pty: return once the program waits or works."
    if silence is not None:
        spared = [name for name in ("run_in_background", "pty") if name in features.keys]
        but = f", unless {' or '.join(spared)}" if spared else ""
        properties["timeout"]["description"] += (
            f" Stopped as well after {exact(silence)} s without output{but}."
        )
    if features.session:
        properties["cwd"]["description"] = _CWD_OF_A_SESSION
        properties["env"]["description"] = _ENV_OF_A_SESSION
    if guarded:
        but = " without pty" if features.terminals else ""
        properties["env"]["description"] += f" PAGER, EDITOR and the like cannot be set{but}."
    return object_of(properties, required=() if features.session else ("command",))


def properties_of(model: type[BaseModel], keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the schemas of a model's fields, without references, titles, unions or ``propertyNames``.

    Each of the left-out parts is rejected by some interface. The schema leaves out on purpose that an optional parameter
    may be ``null``: ``null`` is accepted only because some models cannot leave a parameter out.
    """
    told = model.model_json_schema()["properties"]
    return {name: _plain(told[name]) for name in keys}


def object_of(properties: dict[str, dict[str, Any]], *, required: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an object with the given properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in told.get("anyOf", [told]) if kind.get("type") != "null"]
    kept = {
        key: kinds[0][key] for key in ("type", "enum", "items", "additionalProperties") if key in kinds[0]
    }
    return {**kept, "description": told["description"]}


def _strict(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters in the form that OpenAI's function calling demands for ``strict``."""
    told: dict[str, Any] = {}
    for name, each in deepcopy(parameters["properties"]).items():
        if each.get("additionalProperties"):
            continue
        if name not in parameters["required"]:
            kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
            each["type"] = [*kinds, "null"]
            each.pop("default", None)  # null stands for the default
            if "enum" in each:
                each["enum"].append(None)
        told[name] = each
    return object_of(told, required=list(told))


def number(seconds: float) -> float:
    """Return a whole number as an int, as a person would write the number."""
    return int(seconds) if seconds == int(seconds) else seconds


def names_of(tools: Sequence[str]) -> tuple[str, ...]:
    """Return the names of other tools as a tuple.

    Raises:
        AnyshellError: `tools` is a single text, is not iterable, or has an invalid name.
    """
    given: Any = tools
    names: tuple[Any, ...] = (
        tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    )
    if not all(isinstance(name, str) and _NAME.match(name) for name in names):
        raise AnyshellError(
            f"tools must be names of tools, of letters, digits, _, - and ., not {tools!r}: for one, ('read',)"
        )
    return names
