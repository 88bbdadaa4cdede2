"""Serves one editor: reads its lines, answers each request in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tillerman.agents.jsonrpc.peer import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    RpcError,
    RpcInvalid,
    RpcNotification,
    RpcRequest,
    RpcResponse,
)
from tillerman.core.errors import TillermanError
from tillerman.core.json_fields import parse
from tillerman.sessions.remote.line_stream import TooLong, id_at_end, lines
from tillerman.surfaces.acp.connection import EditorConnection
from tillerman.surfaces.acp.context import EditorContext
from tillerman.surfaces.acp.errors import CANCELLED, RpcFailure, rpc_error
from tillerman.surfaces.acp.methods import EditorMethods
from tillerman.surfaces.acp.settings import Offers

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

LONGEST_LINE = 64 * 1024 * 1024  # bytes: pictures of a prompt are in its line
MOST_REQUESTS = 256  # that are worked on at once

_logger = logging.getLogger(__name__)


class AcpServer:
    """`requested`: the options for sessions that the command line gives."""

    def __init__(
        self,
        harness: Harness,
        writer: asyncio.StreamWriter,
        agent: str | None = None,
        requested: dict[str, Any] | None = None,
    ) -> None:
        self._connection = EditorConnection(writer)
        self._offers = Offers(harness, self._settings_known)
        self._methods = EditorMethods(
            EditorContext(harness, self._connection, self._offers, agent, requested or {})
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of open requests, by their keys
        self._others: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Serves until the editor disconnects. Turns that run then go on to their end."""
        try:
            async for line in lines(reader, LONGEST_LINE):
                await self._receive(line)
            for session in list(self._methods.sessions.values()):
                await session.stop_following()
            for session in list(self._methods.sessions.values()):
                await session.rest()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._offers.close()
        await self._methods.close()
        tasks = [*self._tasks.values(), *self._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            await self._refuse(line.request_id, PARSE_ERROR, str(line))
            return
        found = parse(line)
        if isinstance(found, str):
            await self._refuse(id_at_end(line), PARSE_ERROR, f"the line is {found}")
            return
        match self._connection.peer.classify(found):
            case RpcRequest() as asked:
                await self._begin(asked)
            case RpcNotification(method="session/cancel", params=params):
                self._start(self._methods.cancel(params))
            case RpcNotification(method="$/cancel_request", params=params):
                self._withdraw(params.get("requestId"))
            case RpcResponse() as answered:
                list(answered.pass_on())
            case RpcInvalid(why) if "method" in found or not (
                "result" in found or "error" in found
            ):
                await self._refuse(None, INVALID_REQUEST, why)
            case _:
                pass  # a notification of another version, or the answer to a request withdrawn

    async def _refuse(self, id: int | str | None, code: int, why: str) -> None:
        error = RpcError(code, why)
        await self._connection.send([self._connection.peer.error_for(id, error)])

    async def _begin(self, asked: RpcRequest) -> None:
        peer = self._connection.peer
        if self._methods.named(asked.method) is None:
            await self._connection.send([peer.unknown(asked)])
        elif len(self._tasks) >= MOST_REQUESTS or asked.key in self._tasks:
            why = "this id is in use" if asked.key in self._tasks else "too many requests at once"
            await self._connection.send([peer.error(asked, INTERNAL_ERROR, why)])
        else:
            task = asyncio.create_task(self._answer(asked))
            self._tasks[asked.key] = task
            task.add_done_callback(lambda _: self._tasks.pop(asked.key, None))

    async def _answer(self, asked: RpcRequest) -> None:
        peer = self._connection.peer
        method = self._methods.named(asked.method)
        assert method is not None
        try:
            reply = await method(asked.params)
        except asyncio.CancelledError:
            told = peer.error_for(asked.id, RpcError(CANCELLED, "the request was cancelled"))
            await self._connection.send([told])
            return
        except Exception as error:
            if not isinstance(error, TillermanError | RpcFailure):
                _logger.exception("%s failed", asked.method)
            await self._connection.send([peer.error_for(asked.id, rpc_error(error))])
            return
        await self._connection.send([peer.result(asked, reply.result)])
        reply.after()

    def _withdraw(self, id: object) -> None:
        if not isinstance(id, int | str | float):
            return
        if task := self._tasks.get(RpcRequest(id, "", {}).key):
            task.cancel()

    def _settings_known(self) -> None:
        self._start(self._methods.settings_known())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._kept(work))
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _kept(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TillermanError as error:
            _logger.warning("%s", error.message)
        except Exception:
            _logger.exception("a notification failed")
