"""Identifies the HTTP client of an MCP request, to separate the processes of clients.

A named token is one client, however many MCP sessions it opens. Clients that share the unnamed
token are distinguished by their MCP session, or, with the protocol of 2026 that has no sessions, by
the client name they send. A client with that token could send another client's name, so clients
that must be isolated from each other need a token each.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from mcp.server.context import ServerRequestContext

from tillerman.sessions.workspace_tools.process_calls import Caller

IDLE = 30 * 60.0  # seconds until an idle MCP session counts as ended
TOKEN = "tillerman.token"  # key in the ASGI scope: the name of the request's token
_SESSION = b"mcp-session-id"


class Clients:
    """Tracks the open MCP sessions.

    Once a session has ended, any client with its token owns the processes it left running:
    otherwise no client could end them.
    """

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()  # in progress
        self._last: dict[str, float] = {}
        self._ended: set[str] = set()  # by their clients; a stream may still be open

    @contextmanager
    def request(self, scope: Mapping[str, Any]) -> Iterator[None]:
        """Marks a request of a client as in progress."""
        session = dict(scope["headers"]).get(_SESSION)
        if session is None:
            yield
            return
        owner = _owner(scope[TOKEN], "session", session)
        self._requests[owner] += 1
        try:
            yield
        finally:
            self._requests[owner] -= 1
            self._last[owner] = time.monotonic()
            if scope["method"] == "DELETE":
                self._ended.add(owner)
            self._forget()

    def caller(self, context: ServerRequestContext[Any, Any]) -> Caller:
        request = context.request
        if request is None:
            return Caller()
        token: str = request.scope[TOKEN]
        if token:
            owner = f"{token}/token/"
        elif session := dict(request.scope["headers"]).get(_SESSION):
            owner = _owner(token, "session", session)
        else:
            known = context.session.client_params
            owner = _owner(token, "name", known.client_info.name.encode() if known else b"")
        return Caller(owner, lambda other: self._owns(token, owner, other))

    def _owns(self, token: str, owner: str, other: str | None) -> bool:
        if other is None or other == owner:
            return True
        theirs, kind, _ = other.split("/")
        if token or theirs:
            return theirs == token
        return kind == "session" and not self._is_open(other)

    def _is_open(self, owner: str) -> bool:
        if owner in self._ended:
            return False
        last = self._last.get(owner)
        return self._requests[owner] > 0 or (last is not None and time.monotonic() < last + IDLE)

    def _forget(self) -> None:
        for owner in [one for one in self._last if not self._is_open(one)]:
            if not self._requests[owner]:
                del self._last[owner], self._requests[owner]
                self._ended.discard(owner)


def _owner(token: str, kind: Literal["session", "name"], value: bytes) -> str:
    """The owner id as stored, hashed because an MCP session id is the client's secret."""
    return f"{token}/{kind}/{hashlib.sha256(value).hexdigest()[:16]}"
