"""An agent on OpenAI's Responses API. It needs OPENAI_API_KEY and OPENAI_MODEL."""

import asyncio
import json
import os
import sys
from typing import Any

from openai import AsyncOpenAI

from anyshell import Environment, ShellTool, approve_all

MODEL = os.environ["OPENAI_MODEL"]


async def main(task: str) -> None:
    client = AsyncOpenAI()
    async with Environment.detect() as env:
        tool = ShellTool(env, approver=approve_all)
        told: Any = tool.definition.as_format("responses")
        conversation: list[Any] = [{"role": "user", "content": task}]
        while True:
            answer = await client.responses.create(model=MODEL, input=conversation, tools=[told])
            conversation += answer.output
            calls = [item for item in answer.output if item.type == "function_call"]
            for call in calls:
                result = await tool(json.loads(call.arguments))
                conversation.append(
                    {"type": "function_call_output", "call_id": call.call_id, "output": result.text}
                )
            if not calls:
                break
        print(answer.output_text)
    await client.close()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Which system is this?"))
