"""MCP over streamable HTTP, on loopback only, protected by a token."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from tillerman.core.errors import UsageError
from tillerman.http_server import connection_limits
from tillerman.mcp import request_ids
from tillerman.mcp.clients import IDLE, TOKEN, Clients
from tillerman.sessions.remote.private_socket import LONGEST_LINE

PATH = "/mcp"
HOSTS = ("127.0.0.1", "localhost", "[::1]")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # clients may connect as soon as the port is known
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(
            f"cannot listen on port {port}: {error}", hint="use another port"
        ) from None
    return listener


async def serve_http(
    server: Server[Any], listener: socket.socket, tokens: Mapping[str, str], clients: Clients
) -> None:
    """Serves until this task is cancelled. `tokens` by name."""
    port = listener.getsockname()[1]
    hosts = [f"{host}:{port}" for host in HOSTS]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LONGEST_LINE,
        session_idle_timeout=IDLE,
        transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[]),
    )
    config = connection_limits.ConnectionLimits(
        guarded(app, hosts, tokens, clients),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    running = connection_limits.Server(config)
    serving = asyncio.ensure_future(running.serve([listener]))
    try:
        await asyncio.shield(serving)
    finally:
        running.should_exit = True
        await asyncio.wait([serving])


def guarded(app: App, hosts: list[str], tokens: Mapping[str, str], clients: Clients) -> App:
    """Refuses requests without a valid token, from web pages, or for another host name."""
    checked = ended_with_server(with_checked_ids(app))

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif why := refusal(scope, hosts):
            await _answer(send, *why)
        elif (name := token_of(scope, tokens)) is not None:
            scope[TOKEN] = name
            with clients.request(scope):
                await checked(scope, receive, send)
        else:
            await _answer(send, 401, "the token is missing or wrong")

    return guard


def ended_with_server(app: App) -> App:
    """Ends the response of a request that is cancelled, which happens when the server stops."""

    async def end(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await app(scope, receive, sending)
        except asyncio.CancelledError:
            if begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await _answer(send, 503, "the server has stopped")

    return end


def with_checked_ids(app: App) -> App:
    """Answers requests with an invalid id here: the server would treat them as notifications."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        length = int(dict(scope["headers"]).get(b"content-length", b"0"))
        if scope["method"] != "POST" or length > LONGEST_LINE:
            await app(scope, receive, send)
            return
        parts: list[MutableMapping[str, Any]] = []
        size, more = 0, True
        while more and size <= LONGEST_LINE:
            parts.append(await receive())
            if parts[-1]["type"] == "http.disconnect":
                return
            size += len(parts[-1].get("body", b""))
            more = parts[-1].get("more_body", False)
        if not more and (error := request_ids.refusal(b"".join(p.get("body", b"") for p in parts))):
            await _send(send, 400, error, b"application/json")
            return
        parts.reverse()

        async def replay() -> MutableMapping[str, Any]:
            return parts.pop() if parts else await receive()

        await app(scope, replay, send)

    return check


def refusal(scope: Scope, hosts: list[str]) -> tuple[int, str] | None:
    headers = _headers(scope)
    named = [host.encode() for host in hosts]
    if len(headers.get(b"host", ())) != 1 or headers[b"host"][0] not in named:
        return 421, "this is not the host you asked for"
    if b"origin" in headers or headers.get(b"sec-fetch-site", [b"none"]) != [b"none"]:
        return 403, "not for web pages"
    return None


def token_of(scope: Scope, tokens: Mapping[str, str]) -> str | None:
    """Returns the name of the request's token. Compares with all tokens, in constant time."""
    given = _headers(scope).get(b"authorization", ())
    found = None
    for name, secret in tokens.items():
        expected = b"Bearer " + secret.encode()
        if len(given) == 1 and hmac.compare_digest(given[0], expected):
            found = name
    return found


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


async def _answer(send: Send, status: int, text: str) -> None:
    """Sends an error and closes the connection, since the rest of the request is not read."""
    more = [(b"connection", b"close")]
    if status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    await _send(send, status, text.encode() + b"\n", b"text/plain; charset=utf-8", more)


async def _send(
    send: Send,
    status: int,
    body: bytes,
    kind: bytes,
    more: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
