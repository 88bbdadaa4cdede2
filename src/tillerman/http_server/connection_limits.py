"""Connection limits of an HTTP server: timeouts for request heads, bodies and stalled readers.

Any local process can connect, with or without the token. The number of connections without a
request head is limited: above the limit the oldest is closed. A client that sends its request
immediately is read before that, since only some connections are accepted at a time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN = 5.0  # seconds from the connection to the last header
BODY_WITHIN = 30.0  # seconds from the last header to the end of the request
STALLED_FOR = 60.0  # seconds in which a client reads nothing of what is ready for it
MOST_WAITING = 256  # connections without a request; several times ACCEPTED_AT_ONCE
ACCEPTED_AT_ONCE = 64
QUEUED = 4096  # backlog in the kernel; a refused connection is retried after a second


class ConnectionLimits(uvicorn.Config):
    """Server config. `waiting`: connections without a request head, oldest first."""

    def __init__(self, app: Any, **settings: Any) -> None:
        # a header of a client must not say where it comes from
        common: dict[str, Any] = {"ws": "none", "lifespan": "on", "proxy_headers": False}
        super().__init__(app, http=HttpConnection, backlog=ACCEPTED_AT_ONCE, **(common | settings))
        self.waiting: dict[HttpConnection, None] = {}


class StalledReaders(asyncio.Protocol):
    """Closes the connection of a client that stopped reading."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_FOR, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reads_again()

    def connection_lost(self, exc: Exception | None) -> None:
        self._reads_again()
        super().connection_lost(exc)

    def _reads_again(self) -> None:
        if self._stalled:
            self._stalled.cancel()
            self._stalled = None


class HttpConnection(StalledReaders, H11Protocol):
    config: ConnectionLimits

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._upgraded = False
        self._awaited = ""  # the part of a request that the timer is for
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        waiting = self.config.waiting
        waiting[self] = None
        if len(waiting) > MOST_WAITING:
            next(iter(waiting))._give_up()
        self._set_timer()

    def handle_events(self) -> None:
        super().handle_events()
        self._set_timer()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._upgraded = True  # another protocol takes over the connection
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _set_timer(self) -> None:
        if self._upgraded:
            return
        if self.cycle is not None:
            self.config.waiting.pop(self, None)
        awaited = self._next_part()
        if awaited == self._awaited:
            return
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._awaited = awaited
        if awaited:
            seconds = HEAD_WITHIN if awaited == "head" else BODY_WITHIN
            self._timer = self.loop.call_later(seconds, self._give_up)

    def _next_part(self) -> str:
        """The part of a request that is still missing. Empty between two requests, where the
        server's keep-alive limit applies."""
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        return "head" if begun and self.conn.their_state is h11.IDLE else ""

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()

    def _stop_waiting(self) -> None:
        self.config.waiting.pop(self, None)
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: the caller has its own signal handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(QUEUED)  # asyncio sets the backlog to the number accepted at once
