"""The back end of a chat bot: a session for each user, which is resumed when the user returns.

    python examples/chat_backend.py [AGENT]

Each line of the input is `USER: TEXT`; each answer is printed as it is written.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import aclosing

import tillerman
from tillerman.core.events import MessageChunk


class ChatBackend:
    def __init__(self, harness: tillerman.Harness, agent: str) -> None:
        self._harness = harness
        self._agent = agent
        self._ids: dict[str, str] = {}  # session of each user; a service stores them
        self._turn: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def reply(self, user: str, text: str) -> AsyncIterator[str]:
        """Yields the answer in pieces. Users do not wait for each other."""
        async with (
            self._turn[user],
            await self._session(user) as session,
            aclosing(session.run(text)) as entries,
        ):
            async for entry in entries:
                if isinstance(entry.event, MessageChunk):
                    yield entry.event.text

    async def _session(self, user: str) -> tillerman.Session:
        if user in self._ids:
            return await self._harness.resume(self._ids[user])
        session = await self._harness.start(self._agent, title=f"chat of {user}", approve="none")
        self._ids[user] = session.id
        return session


async def main(agent: str = "mock") -> None:
    async with tillerman.open() as harness:
        backend = ChatBackend(harness, agent)
        while line := await asyncio.to_thread(sys.stdin.readline):
            user, _, text = line.partition(": ")
            print(f"to {user}: ", end="")
            async for piece in backend.reply(user, text.strip()):
                print(piece, end="", flush=True)
            print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
