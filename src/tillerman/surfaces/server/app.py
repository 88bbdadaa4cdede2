"""The ASGI application: the guard, and behind it the routes of the table."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router, WebSocketRoute
from starlette.routing import Route as Path

from tillerman.store.row_codec import encode
from tillerman.surfaces.server import browser_sign_in
from tillerman.surfaces.server.dispatch import Dispatch, StreamEndpoint, allowed
from tillerman.surfaces.server.error_responses import DESCRIBED, HttpError, error_response
from tillerman.surfaces.server.guard import SIGN_IN, Guard, Receive, Scope, Send, respond
from tillerman.surfaces.server.openapi import document
from tillerman.surfaces.server.origin_check import OriginCheck
from tillerman.surfaces.server.routes import PREFIX, ROUTES, STREAMS
from tillerman.surfaces.server.service import Service


def application(service: Service, origins: OriginCheck, more: Sequence[BaseRoute] = ()) -> Guard:
    """The application of a service; `more` are routes besides those of the API."""
    routes: list[BaseRoute] = [
        Path(PREFIX + route.path, Dispatch(service, route).__call__, methods=[route.method])
        for route in ROUTES
    ]
    for stream in STREAMS:
        endpoint = StreamEndpoint(service, stream)
        routes.insert(0, Path(PREFIX + stream.path, endpoint, methods=["GET"]))
        routes.insert(0, WebSocketRoute(PREFIX + stream.path, endpoint))
    routes.append(Path(f"{PREFIX}/openapi.json", _openapi, methods=["GET"]))

    async def form(request: Request) -> Response:
        return await browser_sign_in.show_form(service, request)

    async def trade(request: Request) -> Response:
        return await browser_sign_in.trade(service, guard.failures, request)

    routes += [Path(SIGN_IN, form, methods=["GET"]), Path(SIGN_IN, trade, methods=["POST"])]
    guard = Guard(
        _Errors(Router([*routes, *more], redirect_slashes=False)), service.tokens, origins
    )
    service.refused = guard.refused
    return guard


async def _openapi(request: Request) -> Response:
    allowed(request.scope, "read")
    return Response(encode(document()), media_type="application/json")


class _Errors:
    """Gives errors of the router, and of routes without a handler of theirs, the form of all."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # the router then raises its errors
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
            told = HttpError(error.status_code, kind, str(error.detail), hint=DESCRIBED)
            await _tell(told, scope, send)
        except ClientDisconnect:
            return
        except Exception as error:
            await _tell(error, scope, send)


async def _tell(error: Exception, scope: Scope, send: Send) -> None:
    response = error_response(error)
    await respond(scope, send, response.status_code, bytes(response.body))
