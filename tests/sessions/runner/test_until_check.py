"""A check after each turn: the agent continues until it succeeds, or the maximum is reached."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.events import Entry, Notice, TurnEnded, TurnStarted
from tillerman.sessions.run_settings import UntilSettings
from tillerman.sessions.runner.user_command import TAIL
from tillerman.sessions.session import Session

SAY: list[dict[str, Any]] = [{"say": "Done."}]
MAX_WAIT = 30.0


async def start(desk: Desk, until: UntilSettings, *turns: list[dict[str, Any]]) -> Session:
    desk.project.mkdir(exist_ok=True)
    path = desk.folder / "script.json"
    path.write_text(json.dumps(turns or [SAY] * 6))
    return await desk.start(str(path), until=until)


async def played(session: Session, prompt: str) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.run(prompt)]


def prompts(entries: list[Entry]) -> list[str | None]:
    return [entry.event.prompt for entry in entries if isinstance(entry.event, TurnStarted)]


def notices(entries: list[Entry]) -> list[tuple[str, str]]:
    events = [entry.event for entry in entries]
    stored = [event for event in events if isinstance(event, Notice) and event.kind == "session"]
    return [(event.level, event.text) for event in stored]


async def test_the_agent_is_sent_failures_until_the_check_passes(desk: Desk) -> None:
    command = "echo x >> n; grep -c x n; test $(grep -c x n) = 3"
    session = await start(desk, UntilSettings(command))
    entries = await played(session, "go")
    fails = f"`{command}` failed (exit code 1)"
    assert prompts(entries) == [
        "go",
        f"{fails}. Continue until it succeeds. Its output:\n\n1",
        f"{fails}. Continue until it succeeds. Its output:\n\n2",
    ]
    assert notices(entries) == [
        ("info", f"{fails}: the agent tries again, 1 of 3"),
        ("info", f"{fails}: the agent tries again, 2 of 3"),
        ("info", f"`{command}` succeeded"),
    ]


async def test_the_number_of_attempts_per_prompt_is_limited(desk: Desk) -> None:
    session = await start(desk, UntilSettings("exit 7", rounds=1))
    for prompt in ("go", "again"):
        entries = await played(session, prompt)
        assert prompts(entries) == [
            prompt,
            "`exit 7` failed (exit code 7). Continue until it succeeds.",
        ]
        assert notices(entries)[-1] == (
            "warning",
            "`exit 7` still fails (exit code 7) after 1 more turns",
        )


async def test_nothing_is_checked_after_a_turn_that_failed(desk: Desk) -> None:
    session = await start(desk, UntilSettings("touch checked; false"), [{"fail": "rate_limited"}])
    entries = await played(session, "go")
    ends = [entry.event for entry in entries if isinstance(entry.event, TurnEnded)]
    assert [end.reason for end in ends] == ["failed"]
    assert not (desk.project / "checked").exists()


async def test_prompts_of_the_user_come_before_the_next_attempt(desk: Desk) -> None:
    slow: list[dict[str, Any]] = [{"sleep": 0.5}, {"say": "Done."}]
    session = await start(desk, UntilSettings("false", rounds=1), slow, SAY, SAY, SAY)
    await session.prompt("go")
    await session.prompt("mine")
    async with asyncio.timeout(MAX_WAIT):
        await session.idle()
    entries = [entry async for entry in session.until_idle()]
    assert prompts(entries)[:2] == ["go", "mine"]


async def test_only_the_end_of_long_output_is_sent(desk: Desk) -> None:
    session = await start(desk, UntilSettings("seq 100000; echo last >&2; false", rounds=1))
    entries = await played(session, "go")
    message = prompts(entries)[1] or ""
    assert message.endswith("100000\nlast")
    assert len(message) < TAIL + 200


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + MAX_WAIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(word: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(process.name)
    return found


@pytest.mark.parametrize("how", ["cancel", "prompt", "close"])
async def test_a_check_can_be_cancelled_and_leaves_nothing_behind(desk: Desk, how: str) -> None:
    mark = f"600.{os.getpid()}{time.monotonic_ns() % 10_000_000}"
    once = f"test -e begun && exit; touch begun; sleep {mark}"
    session = await start(desk, UntilSettings(once))
    await session.prompt("go")
    await asyncio.to_thread(wait_until, (desk.project / "begun").exists)
    if how == "prompt":
        entries = await played(session, "other")
        assert prompts(entries) == ["other"]
    elif how == "cancel":
        await session.cancel()
        async with asyncio.timeout(MAX_WAIT):
            await session.idle()
    else:
        await session.close()
    await asyncio.to_thread(wait_until, lambda: not alive(mark))


async def test_a_check_that_cannot_run_ends_the_turn_normally(desk: Desk) -> None:
    session = await start(desk, UntilSettings("no-such-program-7321", rounds=0))
    entries = await played(session, "go")
    assert prompts(entries) == ["go"]
    ((level, text),) = notices(entries)
    assert (level, text.startswith("`no-such-program-7321` still fails")) == ("warning", True)
