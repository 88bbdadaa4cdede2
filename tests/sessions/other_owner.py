"""A session that another process owns: started, followed, killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

from tests import CHECKOUT
from tests.sessions.session_desk import Desk
from tillerman.core.events import Entry, decode_entry
from tillerman.sessions.session import AttachedSession


class Owner:
    """The other terminal."""

    def __init__(self, process: asyncio.subprocess.Process, session: str) -> None:
        self.process = process
        self.session = session

    @classmethod
    async def start(cls, desk: Desk, script: str, approve: str = "ask") -> Owner:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.sessions.owner", desk.folder, script, approve),
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        async with asyncio.timeout(20):
            return cls(process, (await process.stdout.readline()).decode().strip())

    async def printed(self) -> list[Entry]:
        assert self.process.stdout
        async with asyncio.timeout(20):
            return [decode_entry(line) async for line in self.process.stdout]

    async def die(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


async def until(attached: AttachedSession, kind: type, seen: list[Entry]) -> Entry:
    async with asyncio.timeout(20):
        async for entry in attached.entries():
            seen.append(entry)
            if isinstance(entry.event, kind):
                return entry
    raise AssertionError(f"the owner ended without a {kind.__name__}")


async def everything(attached: AttachedSession) -> list[Entry]:
    async with asyncio.timeout(20):
        return [entry async for entry in attached.entries()]
