"""Conversation with Gemini CLI over ACP, completed from its session files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tillerman.agents.decoding.fields import text
from tillerman.agents.gemini import stored_sessions
from tillerman.agents.gemini.plans import presented
from tillerman.agents.stdio.recorded_conversation import RecordedConversation
from tillerman.core.agent import AgentInfo, Host, SessionSpec
from tillerman.core.events import AgentReady, Event, PermissionRequested, UsageReported
from tillerman.core.wire import Wire


class GeminiConversation(RecordedConversation):
    """Adds cached tokens and plans to the events; `home` is the user's `.gemini`."""

    REVISED = RecordedConversation.REVISED | {PermissionRequested, UsageReported}

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float, home: Path
    ) -> None:
        super().__init__(
            info,
            wire,
            spec,
            host,
            grace,
            read=partial(stored_sessions.recorded, home),
            opened=partial(stored_sessions.drop_empty_files, home),
        )
        self._home = home
        self._counted: frozenset[str] = frozenset()  # messages of earlier turns

    async def revise(self, events: Sequence[Event]) -> Sequence[Event]:
        completed: list[Event] = []
        for event in await super().revise(events):
            match event:
                case AgentReady():
                    await self._cached_since()
                    completed.append(event)
                case UsageReported():
                    completed.append(_with_cached(event, await self._cached_since()))
                case PermissionRequested(tool="ExitPlanMode"):
                    completed.append(await self._with_plan(event))
                case _:
                    completed.append(event)
        return completed

    async def _cached_since(self) -> int:
        """The cached tokens of messages that were not counted before."""
        found = await asyncio.to_thread(stored_sessions.cached, self._home, self._native_id)
        fresh = found.keys() - self._counted
        self._counted = frozenset(found)
        return sum(found[id] for id in fresh)

    async def _with_plan(self, event: PermissionRequested) -> Event:
        path = text(event.input, "plan_path")
        plan = await asyncio.to_thread(presented, self._home, self._native_id, path)
        return replace(event, input={**event.input, "plan": plan}) if plan else event


def _with_cached(used: UsageReported, cached: int) -> UsageReported:
    cached = min(cached, used.input_tokens)
    if not cached:
        return used
    return replace(used, input_tokens=used.input_tokens - cached, cached_tokens=cached)
