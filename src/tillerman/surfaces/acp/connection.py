"""The connection to one editor: sends lines in order, and awaits the answers to our requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tillerman.agents.jsonrpc.peer import RpcError, RpcPeer, Said
from tillerman.core.errors import TillermanError
from tillerman.core.json_fields import Table, storable

_encoder = msgspec.json.Encoder()


class EditorRefused(TillermanError):
    """The editor answered a request of ours with an error."""

    def __init__(self, method: str, error: RpcError) -> None:
        super().__init__(f"the editor rejected {method!r}: {error.message}")
        self.error = error


class EditorRequest:
    """A request to the editor; `reply` holds the result, or `EditorRefused`."""

    def __init__(self, peer: RpcPeer, method: str, params: Table) -> None:
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.message = peer.request(method, params, self._answered)
        self._peer = peer
        self._method = method

    def withdraw(self) -> Table:
        """Drops the request; returns the notification that tells the editor."""
        self._peer.forget(self.message)
        self.reply.cancel()
        return self._peer.notify("$/cancel_request", {"requestId": self.message["id"]})

    def _answered(self, result: Any, error: RpcError | None) -> Said:
        if self.reply.done():
            pass
        elif error:
            self.reply.set_exception(EditorRefused(self._method, error))
        else:
            self.reply.set_result(result)
        return iter(())


class EditorConnection:
    """A reader that falls behind slows only who writes to it: nothing is queued beyond a buffer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.peer = RpcPeer()
        self.gone = asyncio.Event()  # nobody reads any more
        self._writer = writer

    async def send(self, messages: Iterable[Table]) -> None:
        data = b"".join(_lines(messages))
        if not data or self.gone.is_set():
            return
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, RuntimeError):
            self.gone.set()

    async def request(self, method: str, params: Table, max_wait: float) -> Any:
        """Raises `EditorRefused` or `TimeoutError`."""
        request = EditorRequest(self.peer, method, params)
        await self.send([request.message])
        try:
            async with asyncio.timeout(max_wait):
                return await request.reply
        finally:
            self.peer.forget(request.message)

    def update(self, session: str, update: Table) -> Table:
        return self.peer.notify("session/update", {"sessionId": session, "update": update})

    def close(self) -> None:
        self._writer.close()


def _lines(messages: Iterable[Table]) -> Iterator[bytes]:
    for message in messages:
        try:
            yield _encoder.encode(message)
        except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
            yield _encoder.encode(storable(message))
        yield b"\n"
