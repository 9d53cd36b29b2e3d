"""An agent on Anthropic's tool runner. The environment variables ANTHROPIC_API_KEY and ANTHROPIC_MODEL are required."""

import asyncio
import os
import sys

from anthropic import AsyncAnthropic

from anyshell import Environment, approve_all
from anyshell.adapters.anthropic import Bash

MODEL = os.environ["ANTHROPIC_MODEL"]


async def main(task: str) -> None:
    async with AsyncAnthropic() as client, Environment.detect() as env:
        bash = Bash(env, approver=approve_all)  # Anthropic's own tool: one persistent shell
        runner = client.beta.messages.tool_runner(
            model=MODEL, max_tokens=2000, tools=[bash], messages=[{"role": "user", "content": task}]
        )
        async for message in runner:
            print("".join(block.text for block in message.content if block.type == "text"))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "Which system is this?"))
