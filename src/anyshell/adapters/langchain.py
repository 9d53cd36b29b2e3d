"""The shell tool as a tool of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import needs
from .bridge import Bridge

with needs("langchain_core", "langchain"):
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from pydantic import PrivateAttr

if TYPE_CHECKING:
    from ..tool import ShellResult, ShellTool


class _Shell(BaseTool):
    """Calls a `ShellTool`. The artifact of a message is the `ShellResult`."""

    _tool: ShellTool = PrivateAttr()
    _bridge: Bridge = PrivateAttr()

    def __init__(self, tool: ShellTool) -> None:
        definition = tool.definition
        super().__init__(
            name=definition.name,
            description=definition.description,
            args_schema=definition.parameters,
            response_format="content_and_artifact",
        )
        self._tool = tool
        self._bridge = Bridge()

    async def _arun(self, /, **params: Any) -> tuple[str, ShellResult]:
        result = await self._tool(params)
        return result.text, result

    def _run(self, /, **params: Any) -> tuple[str, ShellResult]:
        return self._bridge.wait(self._arun(**params))

    async def arun(self, *args: Any, **named: Any) -> Any:
        """Call the tool; the status of the returned message tells an error."""
        return _marked(await super().arun(*args, **named))

    def run(self, *args: Any, **named: Any) -> Any:
        """Call the tool from another thread."""
        return _marked(super().run(*args, **named))


def _marked(answer: Any) -> Any:
    if isinstance(answer, ToolMessage) and answer.artifact.is_error:
        answer.status = "error"
    return answer


def tool(tool: ShellTool) -> BaseTool:
    """Make a LangChain tool from a `ShellTool`, whose approver and limits hold.

    Call this in the event loop of the environment. The model is told `ShellResult.text`. The message's status is ``error`` if
    `ShellResult.is_error`, and the message's artifact is the `ShellResult`.
    """
    return _Shell(tool)
