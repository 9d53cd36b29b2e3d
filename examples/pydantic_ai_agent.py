"""An agent of Pydantic AI with the shell as a tool. The test model calls each tool once; a real model is "anthropic:…"."""

import asyncio

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from anyshell import Environment, ShellTool, approve_all

agent = Agent(TestModel(custom_output_text="done"), deps_type=ShellTool)


@agent.tool
async def shell(ctx: RunContext[ShellTool], command: str = "uname -s") -> str:
    """Run a command in a shell, and give what it printed."""
    return (await ctx.deps({"command": command, "timeout": 60})).text


async def main() -> None:
    async with Environment.detect() as env:
        answer = await agent.run("Which system is this?", deps=ShellTool(env, approver=approve_all))
        print(answer.output)


asyncio.run(main())
