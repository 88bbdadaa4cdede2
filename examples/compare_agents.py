"""Gives the same tasks to two agents, and prints a table of how they did.

    python examples/compare_agents.py [AGENT] [AGENT] [TASK…]

A task is done if its command succeeds in the folder where the agent worked.
"""

import asyncio
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import NamedTuple

import tillerman

TASKS = (
    "Write hello.txt that says hello => grep -qi hello hello.txt",
    "Write a program greet.py that prints a greeting => python3 greet.py",
)


class Score(NamedTuple):
    agent: str
    task: str
    done: bool
    result: tillerman.Result


async def attempt(harness: tillerman.Harness, agent: str, task: str) -> Score:
    prompt, _, command = task.rpartition(" => ")
    with TemporaryDirectory() as folder:
        async with await harness.start(agent, cwd=folder, approve="auto", timeout=600) as session:
            result = await session.ask(prompt)
        checked = await asyncio.to_thread(
            subprocess.run, command, shell=True, cwd=folder, capture_output=True
        )
    return Score(agent, prompt, checked.returncode == 0, result)


async def main(first: str = "mock", second: str = "mock", *tasks: str) -> None:
    async with tillerman.open() as harness, asyncio.TaskGroup() as group:
        attempts = [
            group.create_task(attempt(harness, agent, task))
            for task in tasks or TASKS
            for agent in (first, second)
        ]
    print(f"{'agent':<10} {'done':<5} {'status':<10} {'seconds':>7} {'US$':>8}  task")
    for score in (each.result() for each in attempts):
        done, result = "yes" if score.done else "no", score.result
        cost, took = result.cost_usd or 0, result.duration or 0
        print(
            f"{score.agent:<10} {done:<5} {result.status:<10} {took:>7.1f} {cost:>8.4f}  "
            f"{score.task[:50]}"
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
