"""Answers an agent's requests in code: allows edits, denies commands, and answers questions.

python examples/answer_in_code.py [AGENT] [PROMPT]
"""

import asyncio
import sys

import tillerman
from tillerman import Answer
from tillerman.core.events import PermissionRequested, QuestionAsked


def decide(request: PermissionRequested) -> Answer:
    if request.tool in ("Write", "Edit"):
        return Answer("allow")
    return Answer("deny", note="only files may be changed")


async def reply(asked: QuestionAsked) -> Answer:
    """Takes the first choice of every question."""
    first = {one.text: one.choices[0].label if one.choices else "yes" for one in asked.questions}
    return Answer("allow", answers=first)


async def main(agent: str = "mock", prompt: str = "Write a greeting") -> None:
    result = await tillerman.ask(
        prompt, agent=agent, approve="ask", on_permission=decide, on_question=reply
    )
    for call in result.check().calls:
        print(f"{call.outcome:>10}  {call.title}")
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
