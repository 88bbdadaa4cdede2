"""Streams of entries and requests: server-sent events, and the same over WebSocket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from tillerman.sessions.request_watch import RequestOpened
from tillerman.store.row_codec import encode
from tillerman.surfaces.server.error_responses import HttpError
from tillerman.surfaces.server.guard import Receive, Send
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.session_feeds import HEARTBEAT
from tillerman.surfaces.server.tokens import Client

MOST_STREAMS = 512
TOKEN_CHECKED = 5.0  # seconds between looks whether a stream may go on
_GONE = (ClientDisconnected, WebSocketDisconnect, OSError)
_log = logging.getLogger("tillerman")
_ALIVE = b": alive\n\n"
EVENT_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


@contextmanager
def counted(service: Service) -> Iterator[None]:
    """Counts an open stream; refuses one too many."""
    if service.metrics.streams >= MOST_STREAMS:
        raise HttpError(
            429,
            "too_many_streams",
            f"{MOST_STREAMS} streams are open",
            hint="close some; one stream per session is enough",
        )
    service.metrics.streams += 1
    try:
        yield
    finally:
        service.metrics.streams -= 1


async def send_entries(
    service: Service, session: str, since: int, receive: Receive, send: Send
) -> None:
    """Sends the entries after this number as server-sent events, until the client leaves."""
    async with service.feeds.following(session) as feed:

        async def stream() -> None:
            at = since
            while not feed.closed:
                frame = await feed.frame(at)
                data = frame.stream if frame else _ALIVE
                await send({"type": "http.response.body", "body": data, "more_body": True})
                if frame:
                    service.metrics.deliveries += len(frame.encoded)
                    at = frame.last

        await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
        await until_the_end(service, stream, receive, "http.disconnect")
        with suppress(RuntimeError, OSError):
            await send({"type": "http.response.body", "body": b""})


async def send_messages(
    service: Service, session: str, since: int, receive: Receive, send: Send
) -> None:
    """Sends the entries after this number as messages of an accepted WebSocket."""
    async with service.feeds.following(session) as feed:

        async def stream() -> None:
            at = since
            while not feed.closed:
                frame = await feed.frame(at)
                if frame:
                    await send({"type": "websocket.send", "text": frame.message})
                    service.metrics.deliveries += len(frame.encoded)
                    at = frame.last

        await send({"type": "websocket.accept"})
        await until_the_end(service, stream, receive, "websocket.disconnect")
        with suppress(RuntimeError, OSError, ClientDisconnected):
            await send({"type": "websocket.close", "code": 1000})


async def send_requests(service: Service, receive: Receive, send: Send) -> None:
    """Sends the open requests of all sessions, then every change, as server-sent events."""

    async def stream() -> None:
        async for data in _request_events(service):
            await send({"type": "http.response.body", "body": data, "more_body": True})

    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
    await until_the_end(service, stream, receive, "http.disconnect")
    with suppress(RuntimeError, OSError):
        await send({"type": "http.response.body", "body": b""})


async def _request_events(service: Service) -> AsyncIterator[bytes]:
    async with aclosing(service.harness.sessions.watch_requests()) as changes:  # type: ignore[type-var]
        following = asyncio.ensure_future(anext(changes))
        try:
            while True:
                await asyncio.wait({following}, timeout=HEARTBEAT)
                if not following.done():
                    yield _ALIVE
                    continue
                change = following.result()
                name = b"opened" if isinstance(change, RequestOpened) else b"resolved"
                yield b"event: %b\ndata: %b\n\n" % (name, encode(change.entry))
                following = asyncio.ensure_future(anext(changes))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def while_allowed(service: Service, client: Client, receive: Receive, goodbye: str) -> Receive:
    """`receive`, which also says goodbye when the client's token is revoked or expires."""

    async def received() -> MutableMapping[str, Any]:
        waiting = asyncio.ensure_future(receive())
        try:
            while not (await asyncio.wait({waiting}, timeout=TOKEN_CHECKED))[0]:
                if not service.tokens.is_valid(client):
                    return {"type": goodbye}
            return waiting.result()
        finally:
            waiting.cancel()

    return received


async def until_the_end(
    service: Service, stream: Callable[[], Awaitable[None]], receive: Receive, goodbye: str
) -> None:
    """Runs the stream until the client leaves, or the service ends. What it sends is ignored."""

    async def left() -> None:
        while (await receive())["type"] != goodbye:
            pass

    tasks = {asyncio.ensure_future(work) for work in (stream(), left(), service.stopping.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, _GONE):
                _log.error("a stream ended", exc_info=result)
