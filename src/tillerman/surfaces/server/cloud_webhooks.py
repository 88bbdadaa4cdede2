"""The HTTP route of webhooks about cloud agents: signed by their secret, without a token."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Path

from tillerman.core.cloud import CloudStatusChange
from tillerman.harness.webhook_inbox import LONGEST_BODY, WebhookInbox, WebhookRefused
from tillerman.surfaces.server.dispatch import read_body
from tillerman.surfaces.server.error_responses import HttpError, error_response
from tillerman.surfaces.server.guard import HOOKS


def webhook_route(
    inbox: WebhookInbox, received: Callable[[CloudStatusChange], None] = lambda change: None
) -> Path:
    async def receive(request: Request) -> Response:
        try:
            body = await read_body(request, LONGEST_BODY)
            change = inbox.receive(request.path_params["agent"], dict(request.headers), body)
        except WebhookRefused as error:
            told = HttpError(error.status, "webhook_refused", error.message, hint=error.hint)
            return error_response(told)
        except ClientDisconnect:
            return Response(status_code=400)
        except HttpError as error:
            return error_response(error)
        received(change)
        return JSONResponse({"received": change.agent})

    return Path(f"{HOOKS}{{agent}}", receive, methods=["POST"])


def receiver(inbox: WebhookInbox, received: Callable[[CloudStatusChange], None]) -> Starlette:
    """An application that receives webhooks and does nothing else."""
    return Starlette(routes=[webhook_route(inbox, received)])
