"""An agent on OpenAI's Responses API. The environment variables OPENAI_API_KEY and OPENAI_MODEL are required."""

import asyncio
import json
import os
import sys
from typing import Any

from openai import AsyncOpenAI

from anyshell import Environment, ShellTool, approve_all


async def main(task: str) -> None:
    async with AsyncOpenAI() as client, Environment.detect() as env:
        tool = ShellTool(env, approver=approve_all)
        tools: Any = [tool.definition.as_format("responses")]
        said: list[Any] = [{"role": "user", "content": task}]
        while True:
            answer = await client.responses.create(model=os.environ["OPENAI_MODEL"], input=said, tools=tools)
            said += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            for call in calls:
                text = (await tool(json.loads(call.arguments))).text
                said.append({"type": "function_call_output", "call_id": call.call_id, "output": text})
            if not calls:
                return print(answer.output_text)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Which system is this?"))
