"""Conversation with Copilot over ACP whose ends are completed from its session file.

Over ACP it reports every answer as complete, also one that a limit or a filter cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from tillerman.agents.acp import failures
from tillerman.agents.copilot.stored_sessions import finish_reason, folder
from tillerman.agents.stdio.hooked_conversation import HookedConversation
from tillerman.agents.stdio.revised_conversation import RevisedConversation
from tillerman.core.events import AgentReady, Event, TurnEnded

_STOPS = {"length": "max_tokens", "content_filter": "refusal"}  # as ACP names them
_WRITES = 0.5  # seconds that it may take to store the end of an answer
_POLL = 0.05


class CopilotConversation(RevisedConversation):
    REVISED = frozenset({AgentReady, TurnEnded})
    _native_id = ""

    async def revise(self, events: Sequence[Event]) -> Sequence[Event]:
        checked: list[Event] = []
        for event in events:
            match event:
                case AgentReady(native_id=native_id):
                    self._native_id = native_id
                case TurnEnded(reason="completed"):
                    checked.append(await self._complete(event))
                    continue
            checked.append(event)
        return checked

    async def _complete(self, end: TurnEnded) -> TurnEnded:
        failure = failures.stopped(_STOPS.get(await self._reason(), ""))
        return replace(end, reason="failed", failure=failure) if failure else end

    async def _reason(self) -> str:
        place = folder(self._host.variable)
        until = asyncio.get_running_loop().time() + _WRITES
        while True:
            reason = await asyncio.to_thread(finish_reason, place, self._native_id)
            if reason is not None or asyncio.get_running_loop().time() >= until:
                return reason or ""
            await asyncio.sleep(_POLL)


class HookedCopilotConversation(CopilotConversation, HookedConversation):
    """One whose hook requests permission."""
