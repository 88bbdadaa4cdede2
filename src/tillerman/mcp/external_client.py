"""The external MCP client of a served workspace, as an agent that is never prompted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from tillerman.core.agent import AgentInfo, DecodedLine, Host, Mode, Prompt, SessionSpec
from tillerman.core.errors import Unsupported
from tillerman.core.events import AgentExited, AgentStarted, Answer, Event, TurnEnded, TurnStarted

INFO = AgentInfo(name="mcp", title="MCP client", can=frozenset({"modes"}), prompted=False,
                 runs_tools=False)  # fmt: skip


class ExternalClientAgent:
    info = INFO

    async def open(self, spec: SessionSpec, host: Host) -> ExternalClientConversation:
        return ExternalClientConversation(host.level)


class ExternalClientConversation:
    """One turn that lasts as long as the client is connected."""

    asks = INFO.asks

    def __init__(self, level: str) -> None:
        self._level = level
        self._over = asyncio.Event()

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        yield _say(AgentStarted(agent=INFO.name, supervision=self._level))
        yield _say(TurnStarted(origin="agent"))
        await self._over.wait()
        yield _say(TurnEnded(reason="completed"))
        yield _say(AgentExited(code=0))

    def prompt(self, prompt: Prompt) -> Coroutine[Any, Any, None]:
        raise Unsupported(
            INFO.name, "prompts", hint="`tillerman run` starts a session with an agent"
        )

    async def steer(self, prompt: Prompt) -> None:
        await self.prompt(prompt)

    async def answer(self, request_id: str, answer: Answer) -> None: ...

    async def cancel(self) -> None:
        self._over.set()

    async def configure(self, *, model: str | None = None, mode: Mode | None = None) -> None: ...

    async def close(self) -> None:
        self._over.set()


def _say(event: Event) -> Sequence[DecodedLine]:
    return [DecodedLine(None, [event])]
