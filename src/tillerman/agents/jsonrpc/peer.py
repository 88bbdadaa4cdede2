"""JSON-RPC peer over lines, without I/O: decodes incoming and builds outgoing messages.

The order of messages is the order of the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.core.events import Event
from tillerman.core.wire import AttachmentBytes, WireReply

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int | float
Said = Iterator[Event | WireReply | AttachmentBytes]


class RpcError(NamedTuple):
    code: int
    message: str
    data: Any = None


class RpcRequest(NamedTuple):
    """A request from the other side; it waits for `RpcPeer.result` or `RpcPeer.error`."""

    id: Id
    method: str
    params: Table

    @property
    def key(self) -> str:
        """The id as text; `1` and `"1"` stay distinct."""
        return msgspec.json.encode(self.id).decode()


class RpcNotification(NamedTuple):
    """A notification from the other side."""

    method: str
    params: Table


class RpcResponse(NamedTuple):
    """The response to one of our requests, with its callback."""

    then: Callable[[Any, RpcError | None], Said]
    result: Any
    error: RpcError | None

    def pass_on(self) -> Said:
        return self.then(self.result, self.error)


class RpcInvalid(NamedTuple):
    why: str


Message = RpcRequest | RpcNotification | RpcResponse | RpcInvalid


class RpcPeer:
    """One side of a connection; `version`: whether messages carry the `jsonrpc` member."""

    def __init__(self, *, version: bool = True) -> None:
        self._envelope: Table = {"jsonrpc": "2.0"} if version else {}
        self._waiting: dict[Id, Callable[[Any, RpcError | None], Said]] = {}
        self._next = 0

    def request(
        self, method: str, params: Table, then: Callable[[Any, RpcError | None], Said]
    ) -> Table:
        """Builds a request; `then(result, error)` is called with the response."""
        id, self._next = self._next, self._next + 1
        self._waiting[id] = then
        return {**self._envelope, "id": id, "method": method, "params": params}

    def notify(self, method: str, params: Table | None = None) -> Table:
        message = {**self._envelope, "method": method}
        return message if params is None else {**message, "params": params}

    def result(self, asked: RpcRequest, result: Any) -> Table:
        return {**self._envelope, "id": asked.id, "result": result}

    def error(self, asked: RpcRequest, code: int, message: str, data: Any = None) -> Table:
        return self.error_for(asked.id, RpcError(code, message, data))

    def error_for(self, id: Id | None, error: RpcError) -> Table:
        """Builds an error response; None: the id of the request is unknown."""
        told: Table = {"code": error.code, "message": error.message}
        if error.data is not None:
            told["data"] = error.data
        return {**self._envelope, "id": id, "error": told}

    def forget(self, request: Table) -> None:
        """Gives up on the response to this request of ours."""
        self._waiting.pop(request["id"], None)

    def unknown(self, asked: RpcRequest) -> Table:
        return self.error(asked, METHOD_NOT_FOUND, f"{asked.method!r} is not supported")

    def receive(self, line: bytes) -> Message:
        message = parse(line)
        if isinstance(message, str):
            return RpcInvalid(message)
        return self.classify(message)

    def classify(self, message: Table) -> Message:
        id, method = message.get("id"), text(message, "method")
        if "id" in message and not _is_id(id):
            return RpcInvalid(f"an id that is neither a string nor a number: {id!r}")
        if method:
            params = table(message, "params")
            if "id" not in message:
                return RpcNotification(method, params)
            return RpcRequest(id, method, params)  # type: ignore[arg-type]
        if "id" not in message or not ("result" in message or "error" in message):
            return RpcInvalid("neither a request nor an answer")
        then = self._waiting.pop(id, None)  # type: ignore[arg-type]
        if then is None:
            return RpcInvalid(f"an answer to a request that is not open: {id!r}")
        return RpcResponse(then, message.get("result"), _error(message))


def _is_id(id: object) -> bool:
    return isinstance(id, str | int | float) and not isinstance(id, bool)


def _error(message: Table) -> RpcError | None:
    if message.get("error") is None:
        return None
    error = table(message, "error")
    code = error.get("code")
    return RpcError(
        code=code if type(code) is int else count(error, "code"),
        message=text(error, "message") or "no reason was given",
        data=error.get("data"),
    )
