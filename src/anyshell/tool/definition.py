"""What a model is told about the tool, in the forms in which its maker wants to hear it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._descriptions import one_line
from .._types import exact
from .params import ShellParams

if TYPE_CHECKING:
    from .limits import ToolLimits

Format = Literal["openai", "anthropic", "mcp"]

_GUARDED = (
    " Those for pagers, editors and prompts (PAGER, EDITOR, GIT_ASKPASS, DEBIAN_FRONTEND and the like) cannot be "
    "set, since nobody could answer what they start."
)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it.

    Attributes:
        name: What the model calls it.
        description: What the model should know of it.
        parameters: The JSON schema of its parameters, with the limits in force.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    def as_format(self, format: Format = "anthropic") -> dict[str, Any]:  # noqa: A002 - as in schema --format
        """Give the definition as JSON in a form that an interface takes.

        Args:
            format: ``openai`` for an entry of ``tools`` in Chat Completions, ``anthropic`` for one in Messages,
                ``mcp`` for one in the answer to ``tools/list`` of the Model Context Protocol.
        """
        parameters = deepcopy(self.parameters)
        named: dict[str, Any] = {"name": self.name, "description": self.description}
        match format:
            case "openai":
                return {"type": "function", "function": {**named, "parameters": parameters}}
            case "anthropic":
                return {**named, "input_schema": parameters}
            case "mcp":
                return {**named, "inputSchema": parameters, "annotations": dict(_ANNOTATIONS)}
        raise ValueError(f"format must be 'openai', 'anthropic' or 'mcp', not {format!r}")


# What a shell can do, said in the protocol's own words: anything.
_ANNOTATIONS = {
    "title": "Run a shell command",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}


def schema(limits: ToolLimits, *, directory: str, guarded: bool) -> dict[str, Any]:
    """Build the JSON schema of the parameters.

    Args:
        limits: Those in force.
        directory: Where commands run that do not say otherwise.
        guarded: Whether hang guards win over variables of the same name.

    Returns:
        A schema without references, titles, unions or ``propertyNames``, all of which some interface rejects.
        That every optional parameter may be ``null`` is left out on purpose: it is accepted, since some models
        cannot leave a parameter out, and not worth telling.
    """
    properties = {name: _plain(told) for name, told in ShellParams.model_json_schema()["properties"].items()}
    properties["timeout"] |= {
        "default": _number(limits.default_timeout),
        "minimum": _number(limits.min_timeout),
        "maximum": _number(limits.max_timeout),
    }
    properties["command"]["minLength"] = 1
    properties["timeout"]["description"] += f" Without it: {exact(limits.default_timeout)} seconds."
    properties["cwd"]["description"] += (
        f" Relative paths start at {one_line(directory)}. Without cwd, the command runs there."
    )
    if guarded:
        properties["env"]["description"] += _GUARDED
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in told.get("anyOf", [told]) if kind.get("type") != "null"]
    kept = {key: kinds[0][key] for key in ("type", "additionalProperties") if key in kinds[0]}
    return {**kept, "description": told["description"]}


def _number(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds
