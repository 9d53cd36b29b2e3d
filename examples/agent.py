"""An agent without a framework: a loop between a model and one tool. The model is a script; replace the script by your model."""

import asyncio
from typing import Any

from anyshell import Environment, ShellTool, approve_all

SCRIPT = iter([{"command": "ls /no-such-place"}, {"command": "uname -s"}])


async def ask_model(tools: list[Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
    call = next(SCRIPT, None)
    return {"call": call} if call else {"text": f"I have read {len(messages)} messages."}


async def main() -> None:
    async with Environment.detect() as env:
        tool = ShellTool(env, approver=approve_all)  # ask_on_terminal asks you first
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Which system is this?"}]
        while "text" not in messages[-1]:
            answer = await ask_model([tool.definition.as_format("openai")], messages)
            messages.append({"role": "assistant", **answer})
            if "call" in answer:
                result = await tool(answer["call"])
                messages.append({"role": "tool", "content": result.text, "is_error": result.is_error})
        print(*messages, sep="\n")


asyncio.run(main())
