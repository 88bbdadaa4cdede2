"""Replay: a stored session is replayed unchanged, without its agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agents.listening import listening
from tillerman.agents.replay import agent
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.errors import Unsupported, UsageError
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Answer,
    BackgroundChanged,
    BackgroundTask,
    Entry,
    Event,
    FileChange,
    FilesChanged,
    MessageChunk,
    PermissionRequested,
    RequestAnswered,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UserMessage,
    encode,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import session_spec
from tillerman.testing.test_host import PlainHost

DONE = TurnEnded(reason="completed")
ALLOW = Answer("allow")


def chunk(text: str) -> MessageChunk:
    return MessageChunk(message_id="m", text=text)


def asked(request_id: str) -> PermissionRequested:
    return PermissionRequested(request_id=request_id, tool="Bash", title="Bash `true`")


FIRST: list[Event] = [
    AgentStarted(agent="claude"),
    AgentReady(native_id="abc", model="opus"),
    TurnStarted(origin="prompt", prompt="one"),
    chunk("hello"),
    asked("r1"),
    RequestAnswered(request_id="r1", answer=ALLOW, by="person", surface="cli"),
    UserMessage(text="two", how="queued"),
    BackgroundChanged(tasks=(BackgroundTask("b"),)),
    FilesChanged(files=(FileChange("a", "added"),)),
    DONE,
    TurnStarted(origin="agent"),
    BackgroundChanged(tasks=()),
    chunk("I woke"),
    DONE,
]
SECOND: list[Event] = [
    TurnStarted(origin="prompt", prompt="two"),
    chunk("bye"),
    AgentExited(code=1),
    TurnEnded(reason="failed", failure=Failure(kind="agent_crashed", message="fell")),
]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path / "recording.jsonl", FIRST + SECOND)


def record(path: Path, events: Sequence[Event], gap: float = 0.001) -> Path:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    lines = []
    for number, event in enumerate(events):
        at = (start + timedelta(seconds=number * gap)).isoformat().replace("+00:00", "Z")
        lines.append(encode(Entry(session="s", seq=number + 1, turn=1, at=at, event=event)))
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def spec(path: Path, **options: Any) -> SessionSpec:
    return session_spec(cwd=path.parent, options={"file": str(path), "speed": "full", **options})


async def test_each_prompt_plays_the_next_recorded_one(host: PlainHost, recording: Path) -> None:
    async with listening(agent, spec(recording), host) as replay:
        await replay.turn("anything")
        await replay.until(lambda: len(replay.of(TurnEnded)) == 2)
        await replay.turn("anything else")
    assert replay.events == [
        AgentStarted(agent="replay"),
        AgentReady(native_id="1", model="opus"),
        chunk("hello"),
        asked("r1"),
        RequestAnswered(request_id="r1", answer=ALLOW, by="person", surface="cli"),
        BackgroundChanged(tasks=(BackgroundTask("b"),)),
        DONE,
        TurnStarted(origin="agent"),
        BackgroundChanged(tasks=()),
        chunk("I woke"),
        DONE,
        AgentReady(native_id="2", model="opus"),
        chunk("bye"),
        TurnEnded(reason="failed", failure=Failure(kind="agent_crashed", message="fell")),
        AgentExited(code=0),
    ]


async def test_an_answer_of_the_host_replaces_the_recorded_one(
    host: PlainHost, recording: Path
) -> None:
    async with listening(agent, spec(recording), host, answer=Answer("deny")) as replay:
        await replay.turn("one")
        assert replay.of(RequestAnswered) == []


async def test_with_ask_the_request_waits_again(host: PlainHost, recording: Path) -> None:
    async with listening(agent, spec(recording, ask=True), host) as replay:
        await replay.conversation.prompt(Prompt("one"))
        await replay.until(lambda: replay.of(PermissionRequested))
        with pytest.raises(TimeoutError):
            await replay.until(lambda: replay.of(TurnEnded), within=0.1)
        await replay.conversation.answer("r1", Answer("deny"))
        await replay.until(lambda: len(replay.of(TurnEnded)) == 2)
        assert replay.of(RequestAnswered) == []


async def test_it_continues_after_the_replayed_prompts(host: PlainHost, recording: Path) -> None:
    again = session_spec(cwd=recording.parent, resume="1", options=spec(recording).native.options)
    async with listening(agent, again, host) as replay:
        await replay.turn("two")
        assert replay.text == "bye"


async def test_prompts_past_the_recording_fail_with_the_reason(
    host: PlainHost, recording: Path
) -> None:
    again = session_spec(cwd=recording.parent, resume="2", options=spec(recording).native.options)
    async with listening(agent, again, host) as replay:
        turn = await replay.turn("three")
        message = "the recording has 2 prompts, and no more"
        assert turn[-1] == TurnEnded(
            reason="failed", failure=Failure(kind="agent_failed", message=message)
        )


async def test_a_recording_that_breaks_off_ends_its_turn(host: PlainHost, tmp_path: Path) -> None:
    path = record(tmp_path / "cut.jsonl", SECOND[:2])
    async with listening(agent, spec(path), host) as replay:
        turn = await replay.turn("two")
        failure = Failure(kind="stream_broken", message="the recording ends during the turn")
        assert turn[-2:] == [chunk("bye"), TurnEnded(reason="failed", failure=failure)]


@pytest.mark.parametrize(
    ("speed", "least", "most"), [("recorded", 1.5, 9), (3, 0.5, 1.4), ("full", 0, 0.4)]
)
async def test_it_plays_at_the_given_speed(
    host: PlainHost, tmp_path: Path, speed: Any, least: float, most: float
) -> None:
    events = [TurnStarted(origin="prompt"), chunk("a"), chunk("b"), DONE]
    path = record(tmp_path / "slow.jsonl", events, gap=0.5)
    async with listening(agent, spec(path, speed=speed), host) as replay:
        start = time.monotonic()
        await replay.turn("go")
        assert least <= time.monotonic() - start < most


async def test_cancel_cuts_the_turn_short(host: PlainHost, tmp_path: Path) -> None:
    path = record(tmp_path / "slow.jsonl", FIRST, gap=60)
    async with listening(agent, spec(path, speed=0.01), host) as replay:
        await replay.conversation.prompt(Prompt("one"))
        await replay.until(lambda: replay.of(AgentReady))
        await replay.conversation.cancel()
        await replay.until(lambda: replay.events[-1] == TurnEnded(reason="cancelled"))


async def test_closing_it_within_a_turn_ends_the_turn_once(host: PlainHost, tmp_path: Path) -> None:
    path = record(tmp_path / "slow.jsonl", FIRST, gap=60)
    async with listening(agent, spec(path, speed=0.01), host) as replay:
        await replay.conversation.prompt(Prompt("one"))
        await replay.until(lambda: replay.of(AgentReady))
    assert replay.events[-2:] == [TurnEnded(reason="cancelled"), AgentExited(code=0)]


async def test_an_event_of_another_version_is_stored(host: PlainHost, tmp_path: Path) -> None:
    path = record(tmp_path / "new.jsonl", [TurnStarted(origin="prompt"), chunk("x"), DONE])
    path.write_text(path.read_text().replace("message_chunk", "hologram"))
    async with listening(agent, spec(path), host) as replay:
        await replay.turn("go")
        (unknown,) = replay.of(Unrecognized)
        assert isinstance(unknown, Unrecognized)
        assert unknown.raw == '{"type":"hologram","message_id":"m","text":"x"}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file": None}, "nothing to replay"),
        ({"file": "none.jsonl"}, "cannot read none.jsonl: No such file"),
        ({"speed": "slow"}, "unknown speed: 'slow'"),
        ({"speed": -1}, "unknown speed: -1"),
    ],
)
async def test_an_unplayable_recording_is_refused(
    host: PlainHost, recording: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await agent.open(spec(recording, **options), host)


async def test_an_invalid_file_is_named_with_its_line(host: PlainHost, recording: Path) -> None:
    with recording.open("a") as file:
        file.write('{"type":"result"}\n')
    with pytest.raises(UsageError, match=r"recording.jsonl:19 is not an entry of a session"):
        await agent.open(spec(recording), host)


async def test_it_cannot_be_steered_or_configured(host: PlainHost, recording: Path) -> None:
    async with listening(agent, spec(recording), host) as replay:
        with pytest.raises(Unsupported):
            await replay.conversation.steer(Prompt("left"))
        with pytest.raises(Unsupported):
            await replay.conversation.configure(model="opus")
        await asyncio.sleep(0)
