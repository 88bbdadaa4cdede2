"""Sends requests to a warden held by another process: list programs, signal, kill."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tillerman.supervision.client.child_processes import GONE_WITHIN
from tillerman.supervision.protocol.channel import unframe
from tillerman.supervision.protocol.rendezvous import connect_to_warden


async def programs(folder: Path) -> list[str] | None:
    """Returns the names of the running programs; None when the warden has ended."""
    answer = await _ask(folder, "list")
    return [row[1] for row in answer[1]] if answer else None


async def signal(folder: Path, name: str, number: int) -> bool:
    """Signals a program. Returns False when no program of that name runs."""
    answer = await _ask(folder, "signal", name, int(number))
    return answer is not None and answer[0] == "signalled"


async def kill(folder: Path, name: str) -> bool:
    """Kills the whole process tree and waits for its end; False when no such program runs."""
    answer = await _ask(folder, "kill", name)
    return answer is not None and answer[0] == "gone"


async def _ask(folder: Path, *message: Any) -> tuple[Any, ...] | None:
    """Returns the single answer; None when no warden listens or it ended meanwhile."""
    loop = asyncio.get_running_loop()
    try:
        end = connect_to_warden(str(folder), *message)
    except OSError:
        return None
    end.setblocking(False)
    buffer = bytearray()
    try:
        async with asyncio.timeout(GONE_WITHIN):
            while data := await loop.sock_recv(end, 65536):
                buffer += data
                for answer in unframe(buffer):
                    return tuple(answer)
    except (OSError, TimeoutError):
        pass
    finally:
        end.close()
    return None
