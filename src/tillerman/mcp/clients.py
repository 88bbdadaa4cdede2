"""Which HTTP client of a server a request comes from.

A named token is one client, however many MCP sessions it opens. Clients that share the token
without a name are told apart by their MCP session, or, with the protocol of 2026 that has no
sessions, by the name they give. Whoever holds that token could give another's name, so clients
that must not meet have a token each.
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

IDLE = 30 * 60.0  # seconds after which an MCP session in which nothing is asked has ended
TOKEN = "tillerman.token"  # in the scope of a request: the name of the token it came with
_SESSION = b"mcp-session-id"


class Clients:
    """Which MCP sessions there are now. What one of them left running is anybody's with its token
    once it has ended: else nobody could end it."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()  # that are being answered
        self._last: dict[str, float] = {}
        self._ended: set[str] = set()  # by their clients; a stream of theirs may be open yet

    @contextmanager
    def request(self, scope: Mapping[str, Any]) -> Iterator[None]:
        """While a request of a client is being answered."""
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
    """As it is recorded: the id of a session is a secret of its client."""
    return f"{token}/{kind}/{hashlib.sha256(value).hexdigest()[:16]}"
