"""Who works for a session: its agent, then the next ones, each told what was before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from bridle.core.account import Account
from bridle.core.agent import Conversation, Prompt
from bridle.core.errors import AgentError, AgentNotInstalled
from bridle.core.events import Notice, UserMessage
from bridle.core.failure import Failure, FailureKind
from bridle.sessions.connection import Connection
from bridle.sessions.meter import Meter
from bridle.sessions.outlook import Outlook
from bridle.sessions.relay import Found, Relay, Wait
from bridle.sessions.terms import Order

GO_ON = Prompt("Go on where you stopped: the rate limit is over.")
LEAST_COST = 0.01  # US dollars; an agent that may spend nothing would not begin


class Succession:
    """`past` is what the log says by now."""

    def __init__(
        self,
        line: Connection,
        relay: Relay,
        outlook: Outlook,
        meter: Meter,
        past: Callable[[], Awaitable[Account]],
        notices: Sequence[Notice],
    ) -> None:
        self._line = line
        self._relay = relay
        self._outlook = outlook
        self._meter = meter
        self._past = past
        self._untold = list(notices)

    def news(self) -> list[Notice]:
        """What there is to tell, now that there is a turn to tell it in."""
        told, self._untold = self._untold, []
        return told

    async def meet(self) -> Conversation:
        """The agent, or the first of the others that can be started."""
        while True:
            try:
                return await self._call()
            except AgentError as error:
                found = await self._relay.next()
                if found.order is None:
                    raise
                self._untold += self.takes_over(error.message, found)
                await self.pass_to(found.order)

    async def _call(self) -> Conversation:
        """An agent that died since its last turn is started again; one that dies at once is not."""
        for _ in range(2):
            conversation, _ = await asyncio.gather(self._line.open(), self._outlook.look())
            if conversation is self._line.conversation:
                break
        return conversation

    async def pass_to(self, order: Order) -> None:
        """What a person set and what was spent count for the next agent too."""
        spec = replace(order.spec, mode=self._line.spec.mode)
        if spec.max_cost is not None:
            spec = replace(spec, max_cost=max(LEAST_COST, spec.max_cost - self._meter.cost))
        await self._line.pass_to(order._replace(spec=spec))
        self._untold += order.terms.notices

    async def reminded(self, prompt: Prompt) -> tuple[Prompt, UserMessage | None]:
        """The prompt for an agent, with an account of what was before if it remembers nothing."""
        if not self._line.blank or not (past := await self._past()):
            return prompt, None
        told = past.earlier()
        return replace(prompt, text=f"{told}\n{prompt.text}"), UserMessage(text=told, how="handoff")

    async def task(self, prompt: Prompt, why: str) -> tuple[Prompt, UserMessage]:
        """The prompt for an agent that goes on with what another began."""
        files = await self._outlook.so_far()
        told = (await self._past()).unfinished(why, files)
        return replace(prompt, text=told), UserMessage(text=told, how="handoff")

    # -- words -----------------------------------------------------------------------------------

    def takes_over(self, why: str, found: Found) -> list[Notice]:
        """Who it is and why, or why it is nobody."""
        passed_over = "passed over" if found.order else "nobody goes on"
        notices = [_warning("fallback", f"{passed_over}: {one}") for one in found.passed_over]
        if found.order:
            names = self._line.agent.info.name, found.order.agent.info.name
            text = f"{names[0]} cannot go on ({why}): {names[1]} takes over"
            notices.insert(0, _warning("fallback", text))
        return notices

    def waits(self, wait: Wait) -> Notice:
        name = self._line.agent.info.name
        return _warning("retry", f"{name} is rate limited: it is asked again in {wait.seconds:g} s")


def as_failure(error: AgentError) -> Failure:
    kind: FailureKind = "agent_failed"
    if isinstance(error, AgentNotInstalled):
        kind = "not_installed"
    return Failure(kind=kind, message=error.message, hint=error.hint)


def _warning(kind: Literal["fallback", "retry"], text: str) -> Notice:
    return Notice(level="warning", kind=kind, text=text)
