"""Routes of the service itself: health, metrics, links and tokens, its description."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.errors import UsageError
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.guard import SIGN_IN
from tillerman.surfaces.server.route import Bytes, Call, Route
from tillerman.surfaces.server.tokens import LINK_SECONDS, StoredToken


async def health(call: Call[None, None]) -> bodies.Health:
    return call.service.health()


async def metrics(call: Call[None, None]) -> Bytes:
    service = call.service
    gauges = {
        "tillerman_sessions_owned": len(service.owned),
        "tillerman_agents_warm": service.harness.sessions.warm,
        "tillerman_sessions_working": len(service.owned.working),
        "tillerman_requests_open": len(service.harness.sessions.catalog.open_requests()),
        "tillerman_sessions_stored": service.harness.sessions.catalog.count(),
    }
    text = service.metrics.text(gauges, service.refused)
    return Bytes(text.encode(), "text/plain; version=0.0.4")


async def who_am_i(call: Call[None, None]) -> bodies.WhoAmI:
    return bodies.WhoAmI(call.client.name, call.client.scope, call.client.csrf)


async def create_link(call: Call[None, bodies.CreateLink]) -> bodies.SignInLink:
    service, scope = call.service, call.body.scope
    if not service.url:
        raise UsageError(
            "the service listens on no port, so there is nothing to open in a browser",
            hint="start it without --socket",
        )
    code = service.links.create(scope)
    return bodies.SignInLink(f"{service.url}{SIGN_IN}?code={code}", scope, LINK_SECONDS)


async def list_tokens(call: Call[None, None]) -> Sequence[bodies.TokenDocument]:
    return [_document(one) for one in call.service.tokens.valid()]


async def create_token(call: Call[None, bodies.CreateToken]) -> bodies.NewToken:
    body = call.body
    stored, secret = call.service.tokens.create(body.scope, name=body.name, days=body.days)
    return bodies.NewToken(secret, stored.id, stored.scope, stored.expires_at)


async def revoke_token(call: Call[None, None]) -> None:
    call.service.tokens.revoke(call.path["id"])


def _document(one: StoredToken) -> bodies.TokenDocument:
    return bodies.TokenDocument(
        one.id, one.name, one.kind, one.scope, one.created_at, one.expires_at
    )


ROUTES = (
    Route(
        "GET",
        "/health",
        "read",
        "Whether the service works, and what it runs",
        health,
        response=bodies.Health,
    ),
    Route(
        "GET",
        "/metrics",
        "read",
        "Counters for Prometheus",
        metrics,
        response=str,
        media="text/plain",
    ),
    Route("GET", "/me", "read", "Whose token this is", who_am_i, response=bodies.WhoAmI),
    Route(
        "POST",
        "/links",
        "drive",
        "Create a one-time link that signs in a browser",
        create_link,
        body=bodies.CreateLink,
        response=bodies.SignInLink,
        status=201,
    ),
    Route(
        "GET",
        "/tokens",
        "drive",
        "List the tokens and browsers, without their secrets",
        list_tokens,
        response=list[bodies.TokenDocument],
    ),
    Route(
        "POST",
        "/tokens",
        "drive",
        "Create a token with a smaller scope",
        create_token,
        body=bodies.CreateToken,
        response=bodies.NewToken,
        status=201,
    ),
    Route(
        "DELETE",
        "/tokens/{id}",
        "drive",
        "Revoke a token, or sign out a browser",
        revoke_token,
        status=204,
    ),
)
