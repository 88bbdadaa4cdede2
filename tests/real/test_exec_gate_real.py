"""Denied commands at execve, inside every real agent CLI and its own sandbox."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest

from tests.real.desk import MAX_WAIT, Desk
from tests.real.stages import Actor
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import Answer, Entry, Notice, PermissionRequested, ToolFinished
from tillerman.core.permission import Rule
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.newest,
    pytest.mark.timeout(180),
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
    pytest.mark.skipif(os.geteuid() != 0, reason="it is on by itself for root"),
]

# which program runs is known only when it runs
LINE = "read -r program < name.txt; $program kept.txt; touch made.txt"


async def play(session: Session, prompt: str) -> list[Entry]:
    entries = []
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.run(prompt):
            entries.append(entry)
            if isinstance(entry.event, PermissionRequested):
                with suppress(RequestNotOpen):
                    session.answer(entry.event.request_id, Answer("allow"), surface="test")
    return entries


async def test_its_shell_does_not_run_a_denied_program(any_desk: Desk, actor: Actor) -> None:
    stored, made = any_desk.project / "kept.txt", any_desk.project / "made.txt"
    stored.touch()
    (any_desk.project / "name.txt").write_text("rm\n")
    any_desk.double.scenarios["deny"] = [reply(actor.stage.shell(LINE)), reply(Say("done"))]
    rule = Rule("no-rm", "deny", commands=("rm *",))
    session = await any_desk.start(
        rules=(rule,), approve="auto", accept_advisory=True, options=actor.stage.options
    )
    entries = await play(session, "@@deny@@ go")
    notices = [entry.event.text for entry in entries if isinstance(entry.event, Notice)]
    outcomes = [entry.event for entry in entries if isinstance(entry.event, ToolFinished)]
    assert stored.exists()
    assert made.exists(), outcomes  # the rest of the line ran
    assert "`rm kept.txt` was not run: rule no-rm (tillerman) denies it" in notices, notices
