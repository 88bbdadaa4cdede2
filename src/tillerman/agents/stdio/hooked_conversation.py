"""Conversation with one process for all turns, whose hook requests permission for every call."""

from __future__ import annotations

from typing import Protocol

from tillerman.agents.stdio.conversation import StdioConversation
from tillerman.agents.stdio.hook_requests import HookRequests
from tillerman.core.agent import AgentInfo, DecodedLine, Host, SessionSpec
from tillerman.core.events import Answer, Event, PermissionRequested
from tillerman.core.wire import Wire
from tillerman.hooks.protocol import HookReply
from tillerman.hooks.server import HookAsked


class HookedWire(Wire, Protocol):
    def hooked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply: ...
    def rule(self, ask: str, answer: Answer) -> HookReply | None: ...  # None: not asked by a hook
    def gone(self, ask: str) -> list[Event]: ...  # the hook no longer waits for an answer


class HookedConversation(HookRequests, StdioConversation):
    """`asks_between_turns`: work started in a turn may send requests after the turn."""

    def __init__(
        self,
        info: AgentInfo,
        wire: HookedWire,
        spec: SessionSpec,
        host: Host,
        grace: float,
        *,
        asks_between_turns: bool = False,
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._hook_wire = wire
        self._asks_between_turns = asks_between_turns

    async def answer(self, request_id: str, answer: Answer) -> None:
        ruling = self._hook_wire.rule(request_id, answer)
        if ruling is None:
            await super().answer(request_id, answer)
        else:
            self._reply(request_id, ruling)

    async def cancel(self) -> None:
        self._dismiss("the turn was cancelled")
        await super().cancel()

    async def close(self) -> None:
        self._dismiss("the session has ended")
        await super().close()
        await self._stop_listening()

    def _may_ask(self) -> bool:
        return not self._cancelling and (self._turn_open or self._asks_between_turns)

    def _asked(self, asked: HookAsked) -> DecodedLine:
        match self._hook_wire.hooked(asked.id, asked.payload):
            case HookReply(exit=0) as reply:  # needs no decision
                asked.reply(reply)
                return DecodedLine(None, ())
            case HookReply() as reply:
                return self._refuse(asked, reply.stderr.decode("utf-8", "replace").strip())
            case event:
                return DecodedLine(asked.payload, [event])

    def _withdrawn(self, ask: str) -> DecodedLine:
        return DecodedLine(None, self._hook_wire.gone(ask))
