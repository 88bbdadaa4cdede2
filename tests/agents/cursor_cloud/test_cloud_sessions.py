"""Whole sessions with a cloud agent: launch, stream, follow-up, cancel, resume, faults."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_cloud import KEY, CursorCloud, Fault, StreamedEvent, recorded_events
from tillerman.agents import load
from tillerman.agents.cursor_cloud import connection, conversation
from tillerman.agents.cursor_cloud.client import CursorCloudClient
from tillerman.agents.cursor_cloud.connection import ApiSettings
from tillerman.core.agent import File, Prompt
from tillerman.core.cloud import CloudLaunch
from tillerman.core.errors import AgentError, NotSignedIn, UsageError
from tillerman.core.events import (
    AgentReady,
    Event,
    MessageChunk,
    Notice,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
    encode,
)
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session
from tillerman.store.database import Database
from tillerman.testing.conformance import check_agent

REPOSITORY = "https://github.com/your-org/your-repo"


class CloudDesk:
    def __init__(self, folder: Path, cloud: CursorCloud) -> None:
        self.cloud = cloud
        self.project = folder / "project"
        self.project.mkdir()
        self.paths = find_paths({"TILLERMAN_HOME": str(folder / "home")})
        self.database = Database.open(self.paths.store)
        self.sessions = Sessions(self.paths, self.database)
        self.agent = load("cursor-cloud")

    def settings(self, key: str | None = KEY) -> RunSettings:
        environment = {"PATH": os.environ["PATH"]}
        secrets = [("CURSOR_API_KEY", key)] if key else []
        environment |= {"CURSOR_API_KEY": key} if key else {}
        return RunSettings(approve="auto", environment=environment, secrets=secrets)

    def spec(self, options: Any = None, **spec: Any) -> Any:
        given = {"base_url": self.cloud.url, "repository": REPOSITORY, "ref": "main"}
        return session_spec(cwd=self.project, options=given | (options or {}), **spec)

    async def start(self, *, key: str | None = KEY, options: Any = None, **spec: Any) -> Session:
        return await self.sessions.start(self.agent, self.spec(options, **spec), self.settings(key))

    async def resume(self, id: str, **spec: Any) -> Session:
        row = self.sessions.catalog.get(id)
        return await self.sessions.resume(row, self.agent, self.spec(**spec), self.settings())


@pytest.fixture
async def desk(
    tmp_path: Path, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CloudDesk]:
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    desk = CloudDesk(tmp_path, cloud)
    yield desk
    await desk.sessions.close()
    desk.database.close()


async def turn(session: Session, text: str, *files: File) -> list[Event]:
    async with asyncio.timeout(30):
        await session.prompt(text, files=files)
        await session.idle()
    return events_of(session)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def events_of(session: Session) -> list[Event]:
    return [entry.event for entry in session._log.since(session.id)]


def test_it_conforms() -> None:
    with pytest.warns(UserWarning, match="cursor-cloud is advisory"):
        check_agent(load("cursor-cloud"))


async def test_a_prompt_launches_an_agent_and_its_stream_is_in_the_log(desk: CloudDesk) -> None:
    session = await desk.start(model="composer-2")
    events = await turn(session, "Add a README")
    [agent] = desk.cloud.agents.values()
    assert agent.body["prompt"] == {"text": "Add a README"}
    assert agent.body["repos"] == [{"url": REPOSITORY, "startingRef": "main"}]
    assert AgentReady(native_id=agent.id, model="composer-2") in events
    assert [event.title for event in events if isinstance(event, ToolStarted)] == [
        "Read `README.md`", "Bash ``",
    ]  # fmt: skip
    [used] = [event for event in events if isinstance(event, UsageReported)]
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (13420, 1450, 21300)
    assert any("pull/123" in event.text for event in events if isinstance(event, Notice))
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    assert ended.reason == "completed"


async def test_the_options_of_the_config_say_where_it_works(desk: CloudDesk) -> None:
    pull_request = f"{REPOSITORY}/pull/7"
    await turn(await desk.start(options={"create_pull_request": True, "ref": "next"}), "One")
    await turn(await desk.start(options={"pull_request": pull_request}), "Two")
    await turn(await desk.start(options={"branch": "feature/readme"}), "Three")
    first, second = desk.cloud.agents.values()
    assert first.body["autoCreatePR"] and first.body["repos"][0]["startingRef"] == "next"
    assert second.body["repos"] == [{"url": REPOSITORY, "prUrl": pull_request}]
    [third] = desk.cloud.v0.values()
    assert third.body["target"]["branchName"] == "feature/readme"


async def test_a_second_prompt_is_a_follow_up_of_the_same_agent(desk: CloudDesk) -> None:
    session = await desk.start()
    await turn(session, "One")
    events = await turn(session, "Two")
    [agent] = desk.cloud.agents.values()
    assert [run.prompt["text"] for run in agent.runs] == ["One", "Two"]
    ended = [event.reason for event in events if isinstance(event, TurnEnded)]
    assert ended == ["completed", "completed"]


async def test_a_resumed_session_continues_its_cloud_agent(desk: CloudDesk) -> None:
    session = await desk.start()
    await turn(session, "One")
    await session.close()
    again = await desk.resume(session.id)
    await turn(again, "Two")
    [agent] = desk.cloud.agents.values()
    assert [run.prompt["text"] for run in agent.runs] == ["One", "Two"]


async def test_a_session_that_is_resumed_while_its_agent_works_follows_it(
    desk: CloudDesk,
) -> None:
    desk.cloud.hold = True
    session = await desk.start()
    await session.prompt("One")
    await until(lambda: desk.cloud.agents)
    [agent] = desk.cloud.agents.values()
    await asyncio.sleep(0.2)
    await session.close()
    assert agent.runs[0].status == "RUNNING"  # closing does not stop it
    again = await desk.resume(session.id)
    assert agent.runs[0].held
    desk.cloud.hold = False
    async with asyncio.timeout(20):
        prompting = asyncio.create_task(again.prompt("Two"))
        await asyncio.sleep(0.3)
        agent.runs[0].held.set()
        await prompting
        await again.idle()
    starts = [event for event in events_of(again) if isinstance(event, TurnStarted)]
    assert [start.origin for start in starts] == ["prompt", "agent", "prompt"]
    assert [run.prompt["text"] for run in agent.runs] == ["One", "Two"]


async def test_a_cancelled_turn_stops_the_run(desk: CloudDesk) -> None:
    desk.cloud.hold = True
    session = await desk.start()
    await session.prompt("One")
    await until(lambda: any(isinstance(event, MessageChunk) for event in events_of(session)))
    async with asyncio.timeout(20):
        await session.cancel()
        await session.idle()
    [agent] = desk.cloud.agents.values()
    assert agent.runs[0].status == "CANCELLED"
    ended = [event for event in events_of(session) if isinstance(event, TurnEnded)]
    assert [one.reason for one in ended] == ["cancelled"]


async def test_a_run_that_cannot_be_stopped_does_not_hold_the_turn(
    desk: CloudDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation.CloudConversation.__init__, "__kwdefaults__", {
        "wake_file": None, "grace": 0.3,
    })  # fmt: skip
    desk.cloud.hold = True
    session = await desk.start()
    await session.prompt("One")
    await until(lambda: any(isinstance(event, MessageChunk) for event in events_of(session)))
    desk.cloud.fault = lambda asked: (
        Fault(status=400, body=b"{}") if "cancel" in asked.path else None
    )
    async with asyncio.timeout(20):
        await session.cancel()
        await session.idle()
    events = events_of(session)
    assert any(isinstance(e, Notice) and "could not be stopped" in e.text for e in events)
    assert [e.reason for e in events if isinstance(e, TurnEnded)] == ["cancelled"]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "not_signed_in"), (403, "not_signed_in"), (400, "agent_failed")]
)
async def test_a_refused_launch_fails_the_turn_with_the_next_step(
    desk: CloudDesk, status: int, kind: str
) -> None:
    session = await desk.start()
    desk.cloud.fault = lambda _: Fault(status=status, body=b'{"error":"No","message":"Not so"}')
    events = await turn(session, "One")
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    assert ended.failure and ended.failure.kind == kind
    assert ended.failure.message == "Not so" and ended.failure.hint


async def test_a_failed_run_fails_the_turn_with_its_reason(desk: CloudDesk) -> None:
    first, *_, result, done = recorded_events()
    error = '{"status":"ERROR","text":"The environment could not be started."}'
    desk.cloud.script = lambda: [first, result._replace(data=error), done]
    events = await turn(await desk.start(), "One")
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    assert ended.failure and ended.failure.message == "The environment could not be started."


async def test_unknown_statuses_and_events_do_not_fail_a_session(desk: CloudDesk) -> None:
    first, *_, result, done = recorded_events()
    odd = StreamedEvent("1-0", "hologram", '{"depth":3}')
    desk.cloud.script = lambda: [first, odd, result._replace(data='{"status":"ASCENDED"}'), done]
    events = await turn(await desk.start(), "One")
    raw = [event.raw for event in events if isinstance(event, Unrecognized)]
    assert any("hologram" in one for one in raw) and any("ASCENDED" in one for one in raw)
    assert [event.reason for event in events if isinstance(event, TurnEnded)] == ["completed"]


async def test_an_image_is_sent_and_another_file_is_refused(desk: CloudDesk) -> None:
    session = await desk.start()
    await turn(session, "Look", File("a.png", "image/png", b"\x89PNG"))
    [agent] = desk.cloud.agents.values()
    assert agent.body["prompt"]["images"] == [{"data": "iVBORw==", "mimeType": "image/png"}]


async def test_an_agent_with_a_webhook_is_polled(desk: CloudDesk) -> None:
    webhook = {"webhook_url": "https://x.example", "webhook_secret": "s" * 32}
    session = await desk.start(options=webhook)
    events = await turn(session, "One")
    [agent] = desk.cloud.v0.values()
    assert agent.body["webhook"] == {"url": "https://x.example", "secret": "s" * 32}
    assert [event.text for event in events if isinstance(event, MessageChunk)] == ["Done."]
    events = await turn(session, "Two")
    assert [event.text for event in events if isinstance(event, MessageChunk)] == ["Done."] * 2


async def test_a_webhook_at_another_process_wakes_a_polling_session(
    cloud: CursorCloud, tmp_path: Path
) -> None:
    client = CursorCloudClient(ApiSettings(KEY, cloud.url), tmp_path, first_poll=600)
    launch = CloudLaunch(Prompt(""), repository=REPOSITORY, branch="b")
    talk = conversation.CloudConversation(client, launch, None, wake_file=lambda _: tmp_path / "w")
    await talk.prompt(Prompt("One"))
    await until(lambda: sum("conversation" in asked.path for asked in cloud.asked) == 1)
    await asyncio.sleep(0.2)
    (tmp_path / "w").touch()
    async with asyncio.timeout(10):
        async for batch in talk.batches():
            if any(isinstance(event, TurnEnded) for line in batch for event in line.events):
                break
    await talk.close()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"key": None}, NotSignedIn, "has no API key"),
        ({"options": {"repository": None}}, UsageError, "needs a repository"),
        ({"options": {"webhook_url": "https://x.example"}}, UsageError, "only one of"),
        ({"options": {"repository": 7}}, UsageError, "not a text"),
        ({"mode": "ask"}, AgentError, "ask mode"),
    ],
)
async def test_what_cannot_work_is_refused_before_anything_is_sent(
    desk: CloudDesk, given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        session = await desk.start(**given)
        await session.prompt("One")
    assert not desk.cloud.asked


async def test_the_key_of_the_config_is_used_and_stored_nowhere(
    desk: CloudDesk, tmp_path: Path
) -> None:
    said = StreamedEvent("1-0", "assistant", f'{{"text":"key {KEY}"}}')
    desk.cloud.script = lambda: [recorded_events()[0], said, *recorded_events()[-2:]]
    events = await turn(await desk.start(key=None, options={"api_key": KEY}), "One")
    assert [event.reason for event in events if isinstance(event, TurnEnded)] == ["completed"]
    assert KEY.encode() not in b"".join(encode(event) for event in events)
    await desk.sessions.close()
    with sqlite3.connect(desk.paths.store) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


def test_the_default_address_is_the_vendors() -> None:
    assert connection.check_settings("crsr_0123456789", None).base_url == "https://api.cursor.com"
