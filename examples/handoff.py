"""Hands a session over: another agent goes on, and knows what was said, done and changed.

python examples/handoff.py [AGENT] [NEXT AGENT] [PROMPT] [NEXT PROMPT]
"""

import asyncio
import sys

import tillerman


async def main(
    agent: str = "mock",
    following: str = "codex",
    prompt: str = "Write a greeting",
    next_prompt: str = "Add a test for it",
) -> None:
    async with tillerman.open() as harness:
        session = await harness.start(agent, approve="auto")
        first = (await session.ask(prompt)).check()
        print(f"{first.agent}: {first.text}")

        session = await harness.handoff(session, following)
        second = (await session.ask(next_prompt)).check()
        print(f"{second.agent}: {second.text}")
        print("changed:", *sorted({file.path for file in (*first.files, *second.files)}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
