# An agent for editors that speak ACP. The agent runs each prompt as a command in the editor's terminal.
import asyncio

import acp

from anyshell import Environment
from anyshell.acp import AcpBackend
from anyshell.backends import connect


class Runner(acp.Agent):
    def on_connect(self, conn):
        self.editor = conn

    async def initialize(self, protocol_version, **_):
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_):
        return acp.NewSessionResponse(session_id="1")

    async def prompt(self, prompt, session_id, **_):
        backend = AcpBackend(self.editor, session_id, connect("local"))
        async with Environment.detect(backend) as env:
            outcome = await env.run(prompt[0].text, timeout=600)
        ended = acp.update_agent_message_text(f"{outcome.status} {outcome.exit_code}")
        await self.editor.session_update(session_id, ended)
        return acp.PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(Runner()))
