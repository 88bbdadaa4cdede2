"""Runs twenty sessions at once, and prints the answers in order.

    python examples/twenty_sessions.py [AGENT] [PROMPT] [NUMBER]

`{n}` in the prompt is replaced by the number of the session.
"""

import asyncio
import sys

import tillerman


async def one(harness: tillerman.Harness, agent: str, prompt: str) -> tillerman.Result:
    async with await harness.start(agent, approve="readonly", timeout=300) as session:
        return await session.ask(prompt)


async def main(
    agent: str = "mock", prompt: str = '[{"say": "This is number {n}."}]', number: str = "20"
) -> None:
    async with tillerman.open() as harness, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(harness, agent, prompt.replace("{n}", str(n))))
            for n in range(1, int(number) + 1)
        ]
    results = [task.result() for task in tasks]
    for n, result in enumerate(results, 1):
        print(f"{n:>3}  {result.status:<10} {result.text}")
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    print(f"{len(results)} sessions, {sum(costs):.4f} US dollars")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
