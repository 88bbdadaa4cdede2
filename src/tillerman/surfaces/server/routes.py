"""The table of all routes: what is served and what the OpenAPI document says are made from it."""

from __future__ import annotations

from typing import Any

from tillerman.core.events import Entry
from tillerman.surfaces.server import (
    agent_routes,
    request_routes,
    service_routes,
    session_routes,
    streams,
    turn_routes,
    workspace_routes,
)
from tillerman.surfaces.server.bodies import SinceQuery
from tillerman.surfaces.server.guard import Receive, Send
from tillerman.surfaces.server.route import Route, StreamRoute
from tillerman.surfaces.server.service import Service

PREFIX = "/api/v1"

ROUTES: tuple[Route, ...] = (
    *session_routes.ROUTES,
    *turn_routes.ROUTES,
    *request_routes.ROUTES,
    *agent_routes.ROUTES,
    *workspace_routes.ROUTES,
    *service_routes.ROUTES,
)


async def _events(
    service: Service, path: dict[str, Any], query: SinceQuery, receive: Receive, send: Send
) -> None:
    row = session_routes.row_of(service, path["session"])
    await streams.send_entries(service, row.id, query.since, receive, send)


async def _messages(
    service: Service, path: dict[str, Any], query: SinceQuery, receive: Receive, send: Send
) -> None:
    row = session_routes.row_of(service, path["session"])
    await streams.send_messages(service, row.id, query.since, receive, send)


async def _requests(
    service: Service, path: dict[str, Any], query: None, receive: Receive, send: Send
) -> None:
    await streams.send_requests(service, receive, send)


STREAMS: tuple[StreamRoute, ...] = (
    StreamRoute(
        "/sessions/{session}/events",
        "read",
        "Follow a session: every entry after `since`, then live ones, without a gap",
        _events,
        _messages,
        SinceQuery,
        Entry,
    ),
    StreamRoute(
        "/requests/events",
        "read",
        "Watch the requests of all sessions: events `opened` and `resolved`",
        _requests,
        None,
        None,
        Entry,
    ),
)
