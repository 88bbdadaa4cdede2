"""Uses the first agent that can work; the next takes over when its quota ends.

python examples/fallback.py [AGENT,AGENT…] [PROMPT]
"""

import asyncio
import sys

import tillerman
from tillerman.core.events import Notice


async def main(agents: str = "claude,codex,mock", prompt: str = "Write a greeting") -> None:
    async with (
        tillerman.open() as harness,
        await harness.start(agents, approve="auto") as session,
    ):
        async for entry in session.run(prompt):
            if isinstance(entry.event, Notice) and entry.event.kind == "fallback":
                print(f"note: {entry.event.text}")
        result = session.result().check()
        print(f"{result.agent}{' (fallback)' if result.fallback else ''}: {result.text}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
