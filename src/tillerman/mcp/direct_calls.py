"""Fast path for MCP tool calls over lines, without the SDK's dispatcher.

Dispatching a call in the SDK takes longer than most calls. The SDK handles everything that needs
more than a request and its result: progress, elicitation, other methods, and unusual messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCMessage, JSONRPCResponse

from tillerman.core.errors import TillermanError
from tillerman.sessions.workspace_tools.tool_runner import ToolCallResult, ToolRunner

META = "tillerman/result"

_logger = logging.getLogger(__name__)


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | None = None


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Arguments


class _Message(msgspec.Struct, frozen=True):
    method: str
    id: int | str | None = None
    params: dict[str, Any] = {}


_UNREADABLE = (msgspec.DecodeError, RecursionError)  # RecursionError: nested too deep
_calls = msgspec.json.Decoder(_Call)
_messages = msgspec.json.Decoder(_Message)


class DirectCalls:
    """Tool calls of one connection. `asks`: the client's user decides what the policy leaves
    open."""

    def __init__(self, bench: ToolRunner, *, asks: bool = False) -> None:
        self._bench = bench
        self._asks = asks
        self._hello: int | str | None = None  # id of the client's `initialize` request
        self._greeted = False  # `initialize` was answered
        self._open = False
        self._running: dict[int | str, asyncio.Task[None]] = {}

    def start(self, line: bytes, write: Callable[[bytes], Awaitable[None]]) -> bool:
        """Starts a tool call; returns False if the SDK must handle the line."""
        if self._open:
            with contextlib.suppress(*_UNREADABLE):
                call = _calls.decode(line)
                if (key := _key(call.id)) in self._running:
                    return False
                self._running[key] = asyncio.create_task(self._answer(key, call, write))
                return True
        self._note(line)
        return False

    def sent(self, message: JSONRPCMessage) -> None:
        """Observes a message that the SDK sends to the client."""
        if not self._greeted and isinstance(message, JSONRPCResponse):
            self._greeted = message.id == self._hello

    async def close(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Cancels running calls and answers them with an error, as the SDK does."""
        running = dict(self._running)
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        for key in running:
            await write(_error(key, CONNECTION_CLOSED, "Connection closed"))

    def _note(self, line: bytes) -> None:
        try:
            message = _messages.decode(line)
        except _UNREADABLE:
            return  # a response, or irrelevant here
        match message.method:
            case "initialize":
                able = message.params.get("capabilities")
                self._open = self._greeted = False
                self._hello = message.id
                if self._asks and (not isinstance(able, dict) or "elicitation" in able):
                    self._hello = None
            case "notifications/initialized":
                self._open = self._greeted
            case "notifications/cancelled":
                asked = message.params.get("requestId")
                if isinstance(asked, int | str) and (task := self._running.get(_key(asked))):
                    task.cancel()

    async def _answer(
        self, key: int | str, call: _Call, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        try:
            try:
                done = await self._bench.call(call.params.name, call.params.arguments or {})
            except TillermanError as error:
                done = ToolCallResult.refused(error)
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": call.id, "result": result(done)})
        except Exception:
            _logger.exception("%s failed", call.params.name)
            answer = _error(call.id, INTERNAL_ERROR, "internal error in tillerman")
        finally:
            self._running.pop(key, None)
        await write(answer)


def result(done: ToolCallResult) -> dict[str, Any]:
    """The result as the SDK would encode it.

    Structured data goes into `_meta`: clients show models structured content instead of the text,
    and escaped lines are hard to read.
    """
    content: list[dict[str, str]] = [{"type": "text", "text": done.text}]
    if done.image:
        image = {"type": "image", "data": done.image.data, "mimeType": done.image.mime}
        content.append(image)
    return {
        "_meta": {META: done.data},
        "content": content,
        "isError": done.outcome != "completed",
    }


def _error(request: int | str, code: int, message: str) -> bytes:
    error = {"code": code, "message": message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request, "error": error})


def _key(request: int | str) -> int | str:
    """Normalizes a request id: some clients send a number as a string."""
    try:
        return int(request)
    except ValueError:
        return request
