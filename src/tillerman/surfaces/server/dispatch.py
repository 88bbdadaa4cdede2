"""Turns a request into a call of its route's handler, and the result into a response."""

from __future__ import annotations

import hmac
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from tillerman.core.errors import UsageError
from tillerman.store.row_codec import encode
from tillerman.surfaces.server.bodies import SinceQuery
from tillerman.surfaces.server.error_responses import DESCRIBED, HttpError, error_response
from tillerman.surfaces.server.guard import CLIENT, CSRF_HEADER, SAFE, Receive, Send, respond
from tillerman.surfaces.server.guard import Scope as AsgiScope
from tillerman.surfaces.server.route import SMALL_BODY, Bytes, Call, Route, StreamRoute
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.streams import counted, while_allowed
from tillerman.surfaces.server.tokens import Client, Scope

_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    # an exported page holds text of agents
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
}


class Dispatch:
    """The endpoint of one route."""

    def __init__(self, service: Service, route: Route) -> None:
        self._service = service
        self._route = route

    async def __call__(self, request: Request) -> Response:
        route = self._route
        try:
            response = _response(route, await route.handler(await self._call(request)))
        except ClientDisconnect:
            return Response(status_code=400)
        except HTTPException:
            raise
        except Exception as error:
            response = error_response(error)
        response.headers.update(_HEADERS)
        key = (route.method, route.path, response.status_code)
        self._service.metrics.requests[key] += 1
        return response

    async def _call(self, request: Request) -> Call[Any, Any]:
        client = allowed(request.scope, self._route.scope)
        return Call(
            self._service,
            client,
            dict(request.path_params),
            decoded_query(request, self._route.query),
            await self._body(request),
            request,
        )

    async def _body(self, request: Request) -> Any:
        route = self._route
        if route.body is None:
            return None
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HttpError(
                415, "not_json", "the body is not JSON", hint="send Content-Type: application/json"
            )
        if route.body_limit <= SMALL_BODY:
            return _decoded(await read_body(request, route.body_limit), route.body)
        async with self._service.large_bodies:
            return _decoded(await read_body(request, route.body_limit), route.body)


class StreamEndpoint:
    """The endpoint of a stream: server-sent events, or a WebSocket."""

    def __init__(self, service: Service, route: StreamRoute) -> None:
        self._service = service
        self._route = route

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        route = self._route
        request = WebSocket(scope, receive, send) if _is_socket(scope) else Request(scope)
        follow = route.messages if _is_socket(scope) else route.events
        try:
            client = allowed(scope, route.scope)
            query = decoded_query(request, route.query)
            if follow is None:
                raise HttpError(404, "not_found", "this stream has no WebSocket", hint=DESCRIBED)
            with counted(self._service):
                parameters = dict(request.path_params)
                goodbye = f"{scope['type']}.disconnect"
                receive = while_allowed(self._service, client, receive, goodbye)
                await follow(self._service, parameters, _resumed(request, query), receive, send)
        except Exception as error:
            response = error_response(error)
            await respond(scope, send, response.status_code, bytes(response.body))


def allowed(scope: AsgiScope, wanted: Scope) -> Client:
    """The client of the request, if its token has this scope."""
    client: Client = scope[CLIENT]
    if not client.may(wanted):
        raise HttpError(
            403,
            "scope",
            f"this needs a token of scope {wanted}; yours has {client.scope}",
            hint=f"`tillerman serve token --scope {wanted}` creates one",
        )
    if client.csrf is not None and not _is_socket(scope) and scope["method"] not in SAFE:
        given = [value for name, value in scope["headers"] if name == CSRF_HEADER.encode()]
        if len(given) != 1 or not hmac.compare_digest(given[0], client.csrf.encode()):
            raise HttpError(
                403, "csrf", f"a browser must send {CSRF_HEADER}", hint="GET /api/v1/me tells it"
            )
    return client


def decoded_query(request: Request | WebSocket, kind: type | None) -> Any:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise HttpError(
                400, "usage_error", f"the parameter {name!r} is given twice", hint=DESCRIBED
            )
        given[name] = value
    if kind is None:
        if given:
            raise HttpError(
                400, "usage_error", f"unknown parameter: {next(iter(given))!r}", hint=DESCRIBED
            )
        return None
    return msgspec.convert(given, kind, strict=False)


async def read_body(request: Request, limit: int) -> bytes:
    too_large = HttpError(
        413, "too_large", f"the body is larger than {limit >> 20} MB", hint="send less at a time"
    )
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large
        parts.append(part)
    return b"".join(parts)


def _decoded(data: bytes, kind: type) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise UsageError("the body is nested too deeply", hint=DESCRIBED) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the body is not UTF-8: {error}", hint=DESCRIBED) from None


def _response(route: Route, result: object) -> Response:
    if isinstance(result, Bytes):
        return Response(result.data, route.status, media_type=result.media)
    if route.response is None:
        return Response(status_code=route.status)
    return Response(encode(result), route.status, media_type=route.media)


def _is_socket(scope: AsgiScope) -> bool:
    return bool(scope["type"] == "websocket")


def _resumed(request: Request | WebSocket, query: Any) -> Any:
    """A browser that connects again names the last entry it has."""
    last = request.headers.get("last-event-id", "")
    if isinstance(query, SinceQuery) and last.isdecimal() and len(last) < 16:
        return replace(query, since=max(query.since, int(last)))
    return query
