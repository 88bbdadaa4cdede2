"""Prints what an agent says and does, as it happens.

python examples/stream.py [AGENT] [PROMPT]
"""

import asyncio
import sys

import tillerman
from tillerman.core.events import MessageChunk, ToolFinished, ToolStarted


async def main(agent: str = "mock", prompt: str = "Write a greeting") -> None:
    async for entry in tillerman.query(prompt, agent=agent, approve="auto"):
        match entry.event:
            case MessageChunk(text=text):
                print(text, end="", flush=True)
            case ToolStarted(title=title):
                print(f"\n[{title}]", end=" ")
            case ToolFinished(outcome=outcome):
                print(outcome)
    print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
