"""ACP client throughput: updates per CPU second, tillerman against the public SDK.

The SDK is not part of this environment: `ACP_SDK_PYTHON` names an interpreter that has
`agent-client-protocol`; without it only tillerman is measured.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.core.agent import Prompt
from tillerman.core.events import AgentReady, MessageChunk, TurnEnded
from tillerman.core.session_options import session_spec
from tillerman.testing import PlainHost

COUNT = int(os.environ.get("BENCH_UPDATES", "60000"))
HERE = Path(__file__).parent


async def ours() -> float:
    """From the pipe of a supervised process to events."""
    command = (sys.executable, str(HERE / "acp_flood.py"), str(COUNT))
    agent = AcpAgent(AcpAgentRow(name="flood", command=command))
    received = 0
    with tempfile.TemporaryDirectory() as folder:
        async with PlainHost.open(Path(folder)) as host:
            spec = session_spec(cwd=Path(folder), approve="auto")  # it has nothing to ask
            conversation = await agent.open(spec, host)
            async for batch in conversation.batches():
                for event in (event for one in batch for event in one.events):
                    match event:
                        case MessageChunk():
                            received += 1
                        case AgentReady():
                            begin = time.process_time()
                            await conversation.prompt(Prompt("go"))
                        case TurnEnded():
                            took = time.process_time() - begin
                            await conversation.close()
    assert received == COUNT, received
    return COUNT / took


def theirs(python: str) -> float:
    command = [python, str(HERE / "acp_peer.py"), str(COUNT)]
    return float(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)


def main() -> None:
    rate = max(asyncio.run(ours()) for _ in range(3))
    print(f"ours {rate:,.0f} updates/CPU s")
    if python := os.environ.get("ACP_SDK_PYTHON"):
        peer = max(theirs(python) for _ in range(3))
        print(f"the SDK's {peer:,.0f} updates/CPU s: ours takes {rate / peer:.1f} times as many")


if __name__ == "__main__":
    main()
