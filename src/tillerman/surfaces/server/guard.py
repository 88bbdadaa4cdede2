"""The guard of every route and socket: host, origin and token, before anything else is read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from tillerman.core.errors import UsageError
from tillerman.surfaces.server.error_responses import refusal_body
from tillerman.surfaces.server.origin_check import Headers, OriginCheck, headers_of
from tillerman.surfaces.server.tokens import Client, TokenStore

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CLIENT = "tillerman.client"  # key of the scope
COOKIE = "tillerman"
CSRF_HEADER = "x-csrf-token"
SAFE = ("GET", "HEAD")
SIGN_IN = "/in"  # a path without a token: it takes the code of a one-time link
HOOKS = "/hooks/cloud/"  # paths without a token: what is sent there is signed

REMEMBERED = 60.0  # seconds for which a failed attempt slows others
LONGEST_DELAY = 2.0
_log = logging.getLogger("tillerman")
MOST_DELAYED = 32  # attempts that wait at the same time; more are refused at once


class FailedAttempts:
    """Slows attempts with wrong tokens. Requests with a right one are never delayed."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._waiting = 0

    async def slow(self) -> bool:
        """Waits longer after each failure; False if too many wait already."""
        now = time.monotonic()
        while self._times and self._times[0] < now - REMEMBERED:
            self._times.popleft()
        if self._waiting >= MOST_DELAYED:
            return False
        self._times.append(now)
        self._waiting += 1
        try:
            await asyncio.sleep(min(LONGEST_DELAY, 0.05 * 1.3 ** len(self._times)))
        finally:
            self._waiting -= 1
        return True


class Guard:
    """Passes on requests whose host, origin and token are right, with the client in the scope."""

    def __init__(self, app: App, tokens: TokenStore, origins: OriginCheck) -> None:
        self._app = app
        self._tokens = tokens
        self._origins = origins
        self.failures = FailedAttempts()
        self.refused: Counter[int] = Counter()  # by status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        headers = headers_of(scope)
        unix = scope.get("client") is None
        if refusal := self._origins.refusal(headers, unix=unix):
            await self._refuse(scope, send, *refusal)
            return
        if scope["path"] == SIGN_IN and scope["type"] == "http":
            if scope["method"] not in SAFE and not self._origins.is_own_page(headers):
                await self._refuse(scope, send, 403, "this form belongs to another page")
                return
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(HOOKS) and scope["type"] == "http":
            if b"origin" in headers:
                await self._refuse(scope, send, 403, "a browser sends no webhooks")
                return
            await self._app(scope, receive, send)
            return
        try:
            client = self._client(headers)
        except UsageError as error:  # the file of the tokens cannot be used
            _log.error("%s", error.message)
            await self._refuse(scope, send, 503, "the tokens of the service cannot be read")
            return
        if client is None:
            tried = b"authorization" in headers or COOKIE.encode() in b"".join(
                headers.get(b"cookie", ())
            )
            if tried and not await self.failures.slow():
                await self._refuse(scope, send, 429, "too many attempts with wrong tokens")
                return
            await self._refuse(scope, send, 401, "the token is missing or wrong")
            return
        by_cookie = client.csrf is not None
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if by_cookie and changes and not self._origins.is_own_page(headers):
            await self._refuse(scope, send, 403, "a browser must say which page sent the request")
            return
        scope[CLIENT] = client
        await self._app(scope, receive, send)

    def _client(self, headers: Headers) -> Client | None:
        given = headers.get(b"authorization", ())
        if given:
            word, _, secret = given[0].partition(b" ")
            if len(given) != 1 or word.lower() != b"bearer":
                return None
            return self._tokens.client(secret.strip())
        cookies = headers.get(b"cookie", ())
        if len(cookies) != 1:
            return None
        try:
            found = SimpleCookie(cookies[0].decode("latin-1")).get(COOKIE)
        except CookieError:
            return None
        return self._tokens.browser(found.value.encode()) if found else None

    async def _refuse(self, scope: Scope, send: Send, status: int, message: str) -> None:
        """Answers and closes the connection, since the rest of the request is not read."""
        self.refused[status] += 1
        hint = "send `Authorization: Bearer TOKEN`" if status == 401 else ""
        await respond(scope, send, status, refusal_body(status, message, hint))


async def respond(scope: Scope, send: Send, status: int, body: bytes) -> None:
    """Refuses a request, or a WebSocket before its handshake."""
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    head = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        head.append((b"www-authenticate", b"Bearer"))
    await send({"type": f"{kind}.start", "status": status, "headers": head})
    await send({"type": f"{kind}.body", "body": body})
