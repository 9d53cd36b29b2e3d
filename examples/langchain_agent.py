"""A LangChain chain with the shell as a tool. The model is a script; a real model is ChatAnthropic(...).bind_tools([shell])."""

import asyncio

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from anyshell import Environment, ShellTool, approve_all
from anyshell.adapters import langchain

CALL = {"type": "tool_call", "id": "1", "name": "shell", "args": {"command": "uname -s"}}
model = FakeMessagesListChatModel(responses=[AIMessage("", tool_calls=[CALL]), AIMessage("done")])


async def main() -> None:
    async with Environment.detect() as env:
        shell = langchain.tool(ShellTool(env, approver=approve_all))
        messages: list[BaseMessage] = [HumanMessage("Which system is this?")]
        while True:
            answer = await model.ainvoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                break
            messages += [await shell.ainvoke(call) for call in answer.tool_calls]
        for message in messages:
            message.pretty_print()


asyncio.run(main())
