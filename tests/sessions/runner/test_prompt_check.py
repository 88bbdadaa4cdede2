"""A user's command checks each prompt first, and a refused prompt is not sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.errors import PromptRefused
from tillerman.core.events import TurnStarted
from tillerman.sessions.session import Session

MAX_WAIT = 30.0


async def start(desk: Desk, command: str, **run_settings: Any) -> Session:
    desk.project.mkdir(exist_ok=True)
    path = desk.folder / "script.json"
    path.write_text(json.dumps([[{"say": "Done."}]] * 4))
    return await desk.start(str(path), vet=command, **run_settings)


async def begun(session: Session, prompt: str) -> list[str | None]:
    async with asyncio.timeout(MAX_WAIT):
        entries = [entry async for entry in session.run(prompt)]
    return [entry.event.prompt for entry in entries if isinstance(entry.event, TurnStarted)]


async def test_it_reads_its_arguments_in_the_agents_folder(desk: Desk) -> None:
    session = await start(desk, "cat > read")
    assert await begun(session, "One\ntwo") == ["One\ntwo"]
    assert (desk.project / "read").read_text() == "One\ntwo"


async def test_a_refused_prompt_starts_no_turn_and_gives_the_reason(desk: Desk) -> None:
    session = await start(desk, "if grep -q sk-; then echo a key is in it; exit 1; fi")
    with pytest.raises(PromptRefused) as caught:
        await session.prompt("Use sk-7321")
    assert caught.value.message.endswith("rejected this prompt: a key is in it")
    assert caught.value.exit_code == 4
    entries = [entry async for entry in session.until_idle()]
    assert [entry for entry in entries if isinstance(entry.event, TurnStarted)] == []
    assert await begun(session, "Use another") == ["Use another"]


async def test_a_command_that_reads_nothing_and_prints_nothing_counts_too(desk: Desk) -> None:
    session = await start(desk, "exit 3")
    with pytest.raises(PromptRefused, match="rejected this prompt: exit code 3"):
        await session.prompt("x" * 1_000_000)


async def test_a_prompt_that_would_be_queued_is_checked_before(desk: Desk) -> None:
    session = await start(desk, "! grep -q no")
    await session.prompt("first")
    with pytest.raises(PromptRefused):
        await session.prompt("no", when_busy="queue")
    async with asyncio.timeout(MAX_WAIT):
        await session.idle()
    assert await begun(session, "second") == ["second"]
