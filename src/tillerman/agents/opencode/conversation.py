"""Conversation over ACP, completed from OpenCode's database: token usage, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from tillerman.agents.decoding.fields import Table
from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.agents.opencode.failures import of_answer
from tillerman.agents.opencode.stored_usage import counted, database, last_answer
from tillerman.agents.stdio.revised_conversation import RevisedConversation
from tillerman.core.events import AgentReady, Event, TurnEnded, UsageReported


class CountedConversation(RevisedConversation):
    REVISED = frozenset({AgentReady, TurnEnded})
    _native_id = ""
    _before: TokenCounts | None = None  # total before the turn; None: unknown
    _answered = ""  # the last answer before the turn

    async def revise(self, events: Sequence[Event]) -> Sequence[Event]:
        checked: list[Event] = []
        for event in events:
            match event:
                case AgentReady(native_id=native_id):
                    self._native_id = native_id
                    await self._answer()
                    self._before = await self._counted()
                    if not self._before and not self._spec.resume:
                        self._before = TokenCounts()  # may be stored only with its first prompt
                case TurnEnded():
                    last = checked[-1] if checked else None
                    if isinstance(last, UsageReported):
                        checked[-1:] = await self._used(last)
                    else:
                        checked += await self._used(None)
                    checked.append(await self._complete(event))
                    continue
            checked.append(event)
        return checked

    async def _complete(self, end: TurnEnded) -> TurnEnded:
        """A failure that ACP does not report, or of which it has less than is stored."""
        answer = await self._answer()
        failure = of_answer(answer) if answer and end.reason != "cancelled" else None
        return replace(end, reason="failed", failure=failure) if failure else end

    async def _answer(self) -> Table | None:
        """The answer that was stored since the last call."""
        place = database(self._host.variable)
        found = await asyncio.to_thread(last_answer, place, self._native_id)
        if found is None or found.id == self._answered:
            return None
        self._answered = found.id
        return found.data

    async def _used(self, reported: UsageReported | None) -> list[UsageReported]:
        """The usage of the turn; as reported by ACP if the database has none."""
        before, self._before = self._before, await self._counted()
        if before is None or self._before is None:
            return [reported] if reported else []
        used = self._before.minus(before)
        if not reported and not any(used):
            return []
        reported = reported or UsageReported()
        return [
            replace(
                reported,
                input_tokens=used.input,
                output_tokens=used.output,
                cached_tokens=used.cached,
                cost_usd=used.cost or reported.cost_usd,
            )
        ]

    async def _counted(self) -> TokenCounts | None:
        return await asyncio.to_thread(counted, database(self._host.variable), self._native_id)
