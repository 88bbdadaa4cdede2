"""A conversation with Gemini CLI over ACP: checked against its own files of the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from bridle.agents.fields import text
from bridle.agents.gemini import store
from bridle.agents.gemini.plans import presented
from bridle.agents.recorded import RecordedConversation
from bridle.core.agent import AgentInfo, Heard, Host, SessionSpec
from bridle.core.events import Event, PermissionRequested
from bridle.core.wire import Wire


class GeminiConversation(RecordedConversation):
    """`home` is the user's `.gemini`."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float, home: Path
    ) -> None:
        super().__init__(
            info,
            wire,
            spec,
            host,
            grace,
            read=partial(store.recorded, home),
            opened=partial(store.drop_empty_files, home),
        )
        self._home = home

    async def heard(self) -> AsyncIterator[Sequence[Heard]]:
        async for batch in super().heard():
            if any(_presents_a_plan(event) for heard in batch for event in heard.events):
                yield [Heard(raw, await self._with_plans(e), kept) for raw, e, kept in batch]
            else:
                yield batch
            del batch

    async def _with_plans(self, events: Sequence[Event]) -> list[Event]:
        return [await self._with_plan(event) for event in events]

    async def _with_plan(self, event: Event) -> Event:
        if not (isinstance(event, PermissionRequested) and _presents_a_plan(event)):
            return event
        path = text(event.input, "plan_path")
        plan = await asyncio.to_thread(presented, self._home, self._native_id, path)
        return replace(event, input={**event.input, "plan": plan}) if plan else event


def _presents_a_plan(event: Event) -> bool:
    return isinstance(event, PermissionRequested) and event.tool == "ExitPlanMode"
