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
        """Call the tool; the message says whether that was an error."""
        return _marked(await super().arun(*args, **named))

    def run(self, *args: Any, **named: Any) -> Any:
        """Call the tool from another thread."""
        return _marked(super().run(*args, **named))


def _marked(answer: Any) -> Any:
    if isinstance(answer, ToolMessage) and answer.artifact.is_error:
        answer.status = "error"
    return answer


def tool(tool: ShellTool) -> BaseTool:
    """Make a tool of LangChain of a `ShellTool`, whose approver and limits hold.

    To be called in the event loop of the environment. A model is told `ShellResult.text`; the message's status is ``error``
    where `ShellResult.is_error`, and its artifact is the `ShellResult`.
    """
    return _Shell(tool)
