"""Resumes a session by its id, while a second program follows it.

python examples/resume_and_follow.py [AGENT] [FIRST PROMPT] [SECOND PROMPT]
python examples/resume_and_follow.py --follow SESSION
"""

import asyncio
import sys

import tillerman
from tillerman.core.events import MessageChunk, TurnEnded


async def follow(session_id: str) -> None:
    """Prints what was said, then what is said, until the session is closed."""
    async with tillerman.open() as harness:
        print("following", flush=True)
        async for entry in harness.attach(session_id).entries():
            match entry.event:
                case MessageChunk(text=text):
                    print(text, end="", flush=True)
                case TurnEnded(reason=reason):
                    print(f" [turn {entry.turn} {reason}]", flush=True)


async def main(
    agent: str = "mock",
    first: str = '[{"say": "Hello."}]',
    second: str = '[{"say": "Before, you said: {before}"}]',
) -> None:
    async with tillerman.open() as harness:
        async with await harness.start(agent, approve="readonly") as session:
            await session.ask(first)
        async with await harness.resume(session.id) as resumed:
            follower = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--follow", resumed.id, stdout=asyncio.subprocess.PIPE
            )
            assert follower.stdout
            await follower.stdout.readline()  # it is attached from here on
            await resumed.ask(second)
        output, _ = await follower.communicate()
        print(output.decode())


if __name__ == "__main__":
    follows = sys.argv[1:2] == ["--follow"]
    asyncio.run(follow(sys.argv[2]) if follows else main(*sys.argv[1:]))
