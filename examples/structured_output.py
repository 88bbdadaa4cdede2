"""Gets a typed answer, and stops an agent that spends more than its budget.

python examples/structured_output.py [AGENT] [PROMPT] [US DOLLARS]
"""

import asyncio
import sys
from typing import Literal

from msgspec import Struct

import tillerman

PROMPT = '[{"stop": {"summary": "Parses dates.", "risk": "low", "problems": ["no tests"]}}]'


class Review(Struct):
    summary: str
    risk: Literal["low", "medium", "high"]
    problems: list[str]


async def main(agent: str = "mock", prompt: str = PROMPT, budget: str = "0.50") -> int:
    result = await tillerman.ask(
        prompt, agent=agent, approve="readonly", output=Review, max_cost=float(budget)
    )
    try:
        review = result.output_as(Review)
    except tillerman.TurnFailed as error:  # over the budget, or no such answer
        print(f"{error.message} ({error.hint})")
        return 1
    print(f"risk {review.risk}: {review.summary}")
    for problem in review.problems:
        print(f"- {problem}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
