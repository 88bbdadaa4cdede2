"""A conversation with a program that requests approval by hook, as Copilot does over ACP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.agents.listening import Listener, listening
from tillerman.agents.copilot.agent import agent
from tillerman.core.agent import Prompt
from tillerman.core.errors import GateNotEnforced
from tillerman.core.events import (
    Answer,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    TurnEnded,
)
from tillerman.core.session_options import session_spec
from tillerman.testing import PlainHost

PROGRAM = Path(__file__).with_name("copilot_program.py")
DONE = TurnEnded(reason="completed")


@asynccontextmanager
async def talking(tmp_path: Path) -> AsyncIterator[Listener]:
    spec = session_spec(cwd=tmp_path, options={"binary": str(PROGRAM)})
    async with PlainHost.open(tmp_path) as host, listening(agent, spec, host) as listener:
        yield listener


async def ask(listener: Listener, text: str) -> PermissionRequested:
    before = len(listener.of(PermissionRequested))
    await listener.conversation.prompt(Prompt(text))
    await listener.until(lambda: len(listener.of(PermissionRequested)) > before)
    asked = listener.of(PermissionRequested)[-1]
    assert isinstance(asked, PermissionRequested)
    return asked


async def test_each_answer_reaches_the_hook(tmp_path: Path) -> None:
    async with talking(tmp_path) as listener:
        asked = await ask(listener, "touch one")
        assert (asked.title, asked.call_id) == ("Bash `touch one`", "c2")
        assert not (tmp_path / "one").exists()
        await listener.conversation.answer(asked.request_id, Answer("allow"))
        await listener.until(lambda: DONE in listener.events)
        assert (tmp_path / "one").exists()

        asked = await ask(listener, "touch two")
        denied = Answer("deny", note="herons nest there")
        await listener.conversation.answer(asked.request_id, denied)
        await listener.until(lambda: len(listener.of(TurnEnded)) == 2)
        assert "herons nest there" in listener.text

        asked = await ask(listener, "touch three")
        changed = Answer("allow", input={"command": "touch four"})
        await listener.conversation.answer(asked.request_id, changed)
        await listener.until((tmp_path / "four").exists)
    assert not (tmp_path / "two").exists()
    assert not (tmp_path / "three").exists()


async def test_a_cancel_denies_the_hooks_open_request(tmp_path: Path) -> None:
    async with talking(tmp_path) as listener:
        await ask(listener, "touch never")
        await listener.conversation.cancel()
        await listener.until(lambda: bool(listener.of(TurnEnded)))
        [finished] = listener.of(ToolFinished)
        assert isinstance(finished, ToolFinished)
        assert finished.outcome == "denied"
    assert not (tmp_path / "never").exists()


async def test_a_disconnected_hook_withdraws_its_request(tmp_path: Path) -> None:
    async with talking(tmp_path) as listener:
        asked = await ask(listener, "stop touch never")
        (tmp_path / "kill").touch()
        withdrawn = RequestAnswered(
            request_id=asked.request_id, answer=Answer("deny"), by="withdrawn"
        )
        await listener.until(lambda: withdrawn in listener.events)
        (tmp_path / "go-on").touch()
        await listener.until(lambda: DONE in listener.events)
    assert not (tmp_path / "never").exists()


async def test_without_hooks_it_does_not_declare_asks(tmp_path: Path) -> None:
    options = {"binary": str(PROGRAM), "hooks": False}
    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(GateNotEnforced):
            await agent.open(session_spec(cwd=tmp_path, options=options), host)
        spec = session_spec(cwd=tmp_path, options=options, approve="auto")
        conversation = await agent.open(spec, host)
        assert (conversation.asks, agent.info.asks - conversation.asks) == (
            frozenset(),
            {"read", "write", "shell", "network", "mcp"},
        )
        await conversation.close()
