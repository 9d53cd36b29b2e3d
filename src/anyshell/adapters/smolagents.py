"""The shell tool as a tool of smolagents."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .._exceptions import AnyshellError
from . import needs
from .bridge import Bridge

with needs("smolagents", "smolagents"):
    from smolagents import Tool

if TYPE_CHECKING:
    from ..tool import ShellResult, ShellTool


class ShellError(AnyshellError):
    """Nothing ran; smolagents shows the model the text of the result as an error.

    Attributes:
        result: The result of the tool.
    """

    def __init__(self, result: ShellResult) -> None:
        super().__init__(result.text)
        self.result = result


class _Shell(Tool):  # type: ignore[misc]  # smolagents has no types
    skip_forward_signature_validation = True  # `forward` takes the parameters of the tool
    output_type = "string"

    def __init__(self, tool: ShellTool) -> None:
        definition = tool.definition
        schema = definition.parameters
        self.name = definition.name
        self.description = definition.description
        self.inputs = {
            name: each if name in schema["required"] else {**each, "nullable": True}
            for name, each in schema["properties"].items()
        }
        self._signature = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.inputs]
        )
        self._tool = tool
        self._bridge = Bridge()
        super().__init__()

    def forward(self, *args: Any, **named: Any) -> str:
        """Carry out one call, from another thread than that of the event loop."""
        params = self._signature.bind_partial(*args, **named).arguments
        result = self._bridge.wait(self._tool(params))
        # A failed command returns its text: an exception would lose the results of all other calls of the step.
        if result.details.started is False:
            raise ShellError(result)
        return result.text


def tool(tool: ShellTool) -> Tool:
    """Make a smolagents tool from a `ShellTool`, whose approver and limits hold.

    Call this in the event loop of the environment. Run the agent in another thread: ``await asyncio.to_thread(agent.run, task)``.
    """
    return _Shell(tool)
