"""The shell tool for the tool runner of Anthropic's SDK, also as Anthropic's own tool ``bash``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..tool import ShellTool
from . import needs

with needs("anthropic", "anthropic"):
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, ToolError

if TYPE_CHECKING:
    from anthropic.types.beta import BetaToolUnionParam

    from .._environment import Environment
    from ..abc import Approver
    from ..policy.rules import Policy
    from ..tool import ToolLimits


class Runnable(BetaAsyncBuiltinFunctionTool):
    """A `ShellTool` that ``client.beta.messages.tool_runner(tools=[...])`` calls.

    Args:
        tool: The tool that is called; its approver and limits hold.
        definition: The definition for the model.
    """

    def __init__(self, tool: ShellTool, definition: dict[str, Any]) -> None:
        self._tool = tool
        self._definition = definition

    def to_dict(self) -> BetaToolUnionParam:
        """Return the definition for the model."""
        return cast("BetaToolUnionParam", self._definition)

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Carry out one call.

        Raises:
            ToolError: The result is an error; the runner tells the model the same text as an error.
        """
        result = await self._tool(cast("Any", input))
        if result.is_error:
            raise ToolError(result.text)
        return result.text


def tool(tool: ShellTool) -> Runnable:
    """Make a tool for the SDK's runner from a `ShellTool`, with that tool's name and description."""
    return Runnable(tool, tool.definition.as_format("anthropic"))


class Bash(Runnable):
    """Anthropic's tool ``bash_20250124``, which Claude models know without a description: ``command`` and ``restart``.

    The shell lasts from call to call, until the environment is left or `aclose` is called.

    Args:
        env: An environment that was entered with ``async with``, whose shell is bash, zsh or sh.
        approver: The function that decides about every command, as for `ShellTool`.
        limits: The limits of a model's requests.
        policy: As for `ShellTool`.

    Raises:
        AnyshellError: The environment was not entered.
    """

    def __init__(
        self,
        env: Environment,
        *,
        approver: Approver,
        limits: ToolLimits | None = None,
        policy: Policy | None = None,
    ) -> None:
        tool = ShellTool(env, approver=approver, session=True, limits=limits, policy=policy)
        super().__init__(tool, {"type": "bash_20250124", "name": "bash"})

    async def aclose(self) -> None:
        """End the tool's shell."""
        await self._tool.aclose()
