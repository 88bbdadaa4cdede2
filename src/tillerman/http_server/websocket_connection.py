"""WebSocket connections that close when their client stops reading."""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tillerman.http_server.connection_limits import StalledReaders


class WebSocketConnection(StalledReaders, WebSocketsSansIOProtocol):
    pass
