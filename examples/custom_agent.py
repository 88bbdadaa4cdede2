"""Adds an agent: a program that reads prompts and writes JSON lines.

python examples/custom_agent.py [AGENT] [PROMPT]
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import tillerman
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, Prompt, SessionSpec
from tillerman.core.events import Event, MessageChunk, TurnEnded, Unrecognized
from tillerman.core.wire import Launch

PROGRAM = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"text": json.loads(line)["user"][::-1], "done": True}), flush=True)
"""


class ReversingWire:
    """Translates between the lines of the program and events."""

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec) -> None: ...
    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch([sys.executable, "-c", PROGRAM])

    def prompt(self, prompt: Prompt) -> list[dict[str, Any]]:
        return [{"user": prompt.text}]

    def decode(self, line: bytes) -> Iterator[Event]:
        match json.loads(line):
            case {"text": str(text), "done": True}:
                yield MessageChunk(message_id="1", text=text)
                yield TurnEnded(reason="completed")
            case _:
                yield Unrecognized(raw=line.decode())

    def greet(self, *args: object, **more: object) -> list[dict[str, Any]]:
        return []  # the program expects no other messages

    answer = cancel = configure = greet


async def main(agent: str = "reverse", prompt: str = "Hello") -> None:
    info = AgentInfo("reverse", "Reverse", frozenset({"streaming"}), runs_tools=False)
    tillerman.register_agent(StdioAgent(info, ReversingWire))
    print((await tillerman.ask(prompt, agent=agent)).check().text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
