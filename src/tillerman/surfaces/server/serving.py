"""Runs the service: opens its port and socket, and serves until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from starlette.routing import BaseRoute

from tillerman._version import __version__
from tillerman.core.timestamps import rfc3339
from tillerman.harness.harness import Harness
from tillerman.harness.webhook_inbox import WebhookInbox
from tillerman.http_server.connection_limits import ConnectionLimits, Server
from tillerman.http_server.websocket_connection import WebSocketConnection
from tillerman.surfaces.server import service_record
from tillerman.surfaces.server.app import application
from tillerman.surfaces.server.cloud_webhooks import webhook_route
from tillerman.surfaces.server.guard import App
from tillerman.surfaces.server.listening import ListenSettings, open_port, open_socket
from tillerman.surfaces.server.origin_check import OriginCheck
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.service_record import ServiceRecord
from tillerman.surfaces.server.tokens import TokenStore

MoreRoutes = Callable[[Service], Sequence[BaseRoute]]  # besides those of the API

SOCKET = "service"
LONGEST_MESSAGE = 64 * 1024  # of a client over WebSocket; nothing of it is read
KEEP_ALIVE = 30


@asynccontextmanager
async def serving(
    harness: Harness, settings: ListenSettings, more: MoreRoutes = lambda service: ()
) -> AsyncIterator[ServiceRecord]:
    """Serves inside the block."""
    settings.check()
    async with AsyncExitStack() as stack:
        stack.enter_context(service_record.held(harness.paths))
        path = harness.paths.socket(SOCKET)
        listeners = [stack.enter_context(open_socket(path))]
        stack.callback(path.unlink, missing_ok=True)
        url, hosts = "", list[str]()
        if not settings.socket_only:
            listeners.append(stack.enter_context(open_port(settings)))
            port = listeners[-1].getsockname()[1]
            url, hosts = settings.url(port), settings.hosts(port)
        tokens = TokenStore(service_record.folder_of(harness.paths))
        service = await stack.enter_async_context(Service(harness, tokens, url=url))
        inbox = WebhookInbox(harness.config, harness.paths, harness.management)
        routes = [*more(service), webhook_route(inbox)]
        app = application(service, OriginCheck(hosts, tls=settings.tls), routes)
        for listener in listeners:
            await stack.enter_async_context(accepting(app, listener, settings))
        stack.callback(service.stopping.set)
        record = ServiceRecord(
            pid=os.getpid(),
            socket=str(path),
            url=url,
            started_at=rfc3339(datetime.now(UTC)),
            version=__version__,
        )
        service_record.write(harness.paths, record)
        yield record


@asynccontextmanager
async def accepting(
    app: App, listener: socket.socket, settings: ListenSettings
) -> AsyncIterator[None]:
    """Serves the application on this socket inside the block."""
    tls = settings.tls and listener.family != socket.AF_UNIX
    config = ConnectionLimits(
        app,
        lifespan="off",
        ws=WebSocketConnection,
        ws_max_size=LONGEST_MESSAGE,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=1,
        ssl_certfile=settings.certificate if tls else None,
        ssl_keyfile=settings.key if tls else None,
    )
    # whoever sends garbage must not fill a log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config.load()
    server = Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])  # and not `serve`, which wakes up ten times a second
    try:
        yield
    finally:
        stopping = asyncio.ensure_future(server.shutdown([listener]))
        await asyncio.shield(stopping)
