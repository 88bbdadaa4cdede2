"""Sessions with fallback agents, and the entries about the switch."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import Entry, MessageChunk, Notice
from tillerman.core.wire import Launch
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan
from tillerman.sessions.session import Session


class Second(StdioAgent):
    """The mock under another name."""

    def __init__(self, name: str = "second", *, can: frozenset[str] = INFO.can) -> None:
        super().__init__(replace(INFO, name=name, can=can), MockWire)


class Missing(StdioAgent):
    def __init__(self, name: str = "missing") -> None:
        super().__init__(replace(INFO, name=name), MissingWire)


class MissingWire(MockWire):
    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch(["no-such-program-anywhere"])


def script(desk: Desk, name: str, *turns: list[dict[str, Any]]) -> str:
    path = desk.folder / f"{name}.json"
    path.write_text(json.dumps(turns))
    return str(path)


def fallback(
    desk: Desk, *others: tuple[StdioAgent, str], rules: FallbackRules | None = None
) -> FallbackPolicy:
    orders = {
        agent.info.name: LaunchPlan(agent, desk.spec(path), desk.run_settings())
        for agent, path in others
    }

    async def call(name: str) -> LaunchPlan:
        return orders[name]

    return FallbackPolicy(rules or FallbackRules(), list(orders), call)


async def start(desk: Desk, path: str, fallback: FallbackPolicy, **run_settings: Any) -> Session:
    return await desk.sessions.start(
        desk.agent, desk.spec(path), desk.run_settings(**run_settings), fallback=fallback
    )


async def entries_of(session: Session, prompt: str = "do it") -> list[Entry]:
    async with asyncio.timeout(30):
        return [entry async for entry in session.run(prompt)]


def of(entries: list[Entry], kind: type) -> list[Any]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def agent_text(entries: list[Entry]) -> str:
    return "".join(event.text for event in of(entries, MessageChunk))


def notices(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in of(entries, Notice)]
