"""Server side of one shim connection: reads the request, answers once, detects the disconnect.

A shim keeps its connection open for as long as it runs. So an open connection is a running process,
and one that is open past its deadline is a stopped process: the CLI behind it would soon continue
without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import cast

import msgspec

from tillerman.hooks.peer_credentials import peer_of
from tillerman.hooks.protocol import (
    HEADER_CAP,
    HookReply,
    ShimQuestion,
    read_question,
    refusal,
    write_answer,
)
from tillerman.hooks.socket_folder import Tokens

_SHORT = 1 / 8  # of a deadline, if less than the grace: the CLI's own timeout follows soon


class HookLimits(msgspec.Struct, frozen=True):
    asks: int = 256  # open at once
    connections: int = 1024  # connections
    held: int = 64 * 1024 * 1024  # bytes of all payloads
    arrival: float = 10.0  # seconds until a request must be complete
    leaving: float = 10.0  # seconds that an answered shim has to print and exit
    grace: float = 2.0  # seconds past a deadline, counted only while this process runs


class HookAsked:
    """A hook request that a shim waits on."""

    def __init__(self, connection: HookConnection, question: ShimQuestion, payload: bytes) -> None:
        self.id = f"hook-{os.urandom(8).hex()}"
        self.agent = question.agent
        self.event = question.event
        self.observing = question.observing
        self.deadline = question.deadline
        self.payload = payload
        self.gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the shim is gone; true if it had no answer by then: the ask is withdrawn."""
        self._connection = connection

    def reply(self, reply: HookReply) -> bool:
        """Sends the reply; False if the request was already answered or the shim has exited."""
        return self._connection.answer(reply)


class HookListener:
    """State shared by all connections: open connections, size limits, and callbacks."""

    def __init__(
        self,
        tokens: Tokens,
        limits: HookLimits,
        asked: Callable[[HookAsked], None],
        overdue: Callable[[int | None], None],
    ) -> None:
        self.tokens = tokens
        self.limits = limits
        self.arrival = limits.arrival
        self.asked = asked
        self.overdue = overdue
        self.connections: set[HookConnection] = set()
        self.open = 0
        self.held = 0

    def dismiss(self) -> None:
        for connection in list(self.connections):
            connection.drop()


class HookConnection(asyncio.Protocol):
    def __init__(self, listener: HookListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._pid: int | None = None
        self._came = bytearray()
        self._question: ShimQuestion | None = None
        self._asked: HookAsked | None = None
        self._done = False  # answered, refused, or too late for either
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0

    def answer(self, reply: HookReply) -> bool:
        if self._done or self._transport is None:
            return False
        self._release()
        self._send(reply)
        return True

    def drop(self) -> None:
        """Closes the connection, which is a deny for a shim without an answer."""
        if self._transport:
            self._transport.abort()
        self._over()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener.connections.add(self)
        if (
            len(self._listener.connections) > self._listener.limits.connections
            or not self._is_authorized()
        ):
            self.drop()
        else:
            self._expect(self._listener.arrival)

    def data_received(self, data: bytes) -> None:
        if self._asked:
            self.drop()  # a shim never sends more than it announced
        elif not self._done:  # otherwise it was refused already, and may finish sending
            self._came += data
            self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over()

    def _is_authorized(self) -> bool:
        assert self._transport
        try:
            peer = peer_of(self._transport.get_extra_info("socket"))
        except OSError:
            return False
        self._pid = peer.pid
        return peer.is_us

    def _read(self) -> None:
        if self._question is None:
            self._read_line()
        if self._done or self._question is None or len(self._came) < self._question.length:
            return
        if len(self._came) > self._question.length:
            self.drop()
        else:
            self._ask(self._question)

    def _read_line(self) -> None:
        from hmac import compare_digest

        end = self._came.find(b"\n", 0, HEADER_CAP)
        if end < 0 and len(self._came) < HEADER_CAP:
            return
        question = read_question(bytes(self._came[: max(end, 0)]))
        if question is None or not compare_digest(question.token, self._listener.tokens.ask):
            self.drop()
            return
        del self._came[: end + 1]
        self._question = question
        self._listener.held += question.length
        if self._listener.held > self._listener.limits.held:
            self._release()
            self._send(refusal("too many requests at once"))

    def _ask(self, question: ShimQuestion) -> None:
        self._asked = HookAsked(self, question, bytes(self._came))
        self._came.clear()
        self._listener.open += 1
        self._expect(question.deadline)
        if self._listener.open > self._listener.limits.asks:
            self.answer(refusal("too many open requests"))
        else:
            self._listener.asked(self._asked)

    def _send(self, reply: HookReply) -> None:
        assert self._transport and self._question
        answer = write_answer(self._listener.tokens.answer, self._question.nonce, reply)
        self._transport.write(self._wrapped(answer))
        with contextlib.suppress(OSError):  # it has just exited, which is reported separately
            self._transport.write_eof()
        left = self._due_at - asyncio.get_running_loop().time()
        self._expect(min(self._listener.limits.leaving, max(left, 0.0)))

    def _wrapped(self, answer: bytes) -> bytes:
        return answer

    def _expect(self, seconds: float) -> None:
        """Sets the deadline of the current step."""
        loop = asyncio.get_running_loop()
        self._stop_timer()
        self._due_at = loop.time() + seconds
        self._timer = loop.call_at(self._due_at, self._due)

    def _due(self) -> None:
        if self._asked and not self._done:
            self._release()  # the shim's own deadline has denied by now
            self._report_gone(withdrawn=True)
        whole = self._question.deadline if self._question else self._listener.arrival
        grace = min(self._listener.limits.grace, whole * _SHORT)
        self._timer = asyncio.get_running_loop().call_later(grace, self._late)

    def _late(self) -> None:
        self.drop()
        self._listener.overdue(self._pid)

    def _release(self) -> None:
        self._done = True
        if self._asked:
            self._listener.open -= 1

    def _over(self) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._stop_timer()
        self._listener.connections.discard(self)
        if self._question:
            self._listener.held -= self._question.length
        withdrawn = not self._done
        if withdrawn:
            self._release()
        self._report_gone(withdrawn=withdrawn)

    def _report_gone(self, *, withdrawn: bool) -> None:
        if self._asked and not self._asked.gone.done():
            self._asked.gone.set_result(withdrawn)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
