"""A bare broadcast on uvicorn and websockets: sends the messages of a file to all clients.

python -m bench.server_bare FILE CLIENTS    (prints its port; starts when all have connected)
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvicorn


async def main(file: Path, clients: int) -> None:
    messages = [one.decode() for one in msgspec.msgpack.decode(file.read_bytes())]
    connected, everybody = 0, asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal connected
        await send({"type": "websocket.accept"})
        connected += 1
        if connected == clients:
            everybody.set()
        await everybody.wait()
        for message in messages:
            await send({"type": "websocket.send", "text": message})
        await receive()

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
    )
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
