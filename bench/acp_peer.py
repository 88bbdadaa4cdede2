"""ACP client of the public SDK on the same updates; run by acp_client with its interpreter."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block

FLOOD = str(Path(__file__).with_name("acp_flood.py"))


class Counting(Client):  # type: ignore[misc]
    received = 0

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.received += 1


async def main(count: int) -> None:
    client = Counting()
    async with spawn_agent_process(client, sys.executable, FLOOD, str(count)) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd="/", mcp_servers=[])
        begin = time.process_time()
        await agent.prompt(session_id=session.session_id, prompt=[text_block("go")])
        while client.received < count:  # noqa: ASYNC110 - each is a separate task, some are late
            await asyncio.sleep(0)
        print(count / (time.process_time() - begin))


asyncio.run(main(int(sys.argv[1])))
