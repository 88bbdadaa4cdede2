"""A session's turns: how they start, how requests are answered, and that each ends exactly once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Conversation, Host, Prompt, SessionSpec
from tillerman.core.errors import PromptWithdrawn, RequestNotOpen, SessionBusy
from tillerman.core.events import (
    AgentExited,
    Answer,
    Entry,
    FileChange,
    FilesChanged,
    MessageChunk,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UserMessage,
)
from tillerman.core.session_options import with_options
from tillerman.core.wire import Launch
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session


def agent_text(entries: list[Entry], turn: int | None = None) -> str:
    return "".join(
        entry.event.text
        for entry in entries
        if isinstance(entry.event, MessageChunk) and turn in (None, entry.turn)
    )


def ends(entries: list[Entry]) -> list[tuple[int, TurnEnded]]:
    return [(e.turn, e.event) for e in entries if isinstance(e.event, TurnEnded)]


async def play(session: Session, steps: list[dict[str, object]]) -> list[Entry]:
    return [entry async for entry in session.run(json.dumps(steps))]


async def first(session: Session, kind: type) -> Entry:
    async with asyncio.timeout(10):
        async for entry in session.entries():
            if isinstance(entry.event, kind):
                return entry
    raise AssertionError(f"no {kind.__name__}")


async def test_a_late_reader_sees_the_same_entries_as_an_early_one(desk: Desk) -> None:
    session = await desk.start()
    early = [entry async for entry in session.run("hello")]
    late = desk.sessions.log.since(session.id)
    assert early == late
    assert [entry.seq for entry in late] == list(range(1, len(late) + 1))


async def test_changes_on_disk_during_the_turn_are_reported_whatever_made_them(desk: Desk) -> None:
    session = await desk.start()
    entries = await play(
        session, [{"write": "a.txt", "text": "one\n"}, {"run": "echo two > b.txt"}]
    )
    assert [e.event for e in entries if isinstance(e.event, FilesChanged)] == [
        FilesChanged(
            files=(
                FileChange("a.txt", "added", added=1, removed=0),
                FileChange("b.txt", "added", added=1, removed=0),
            )
        )
    ]


async def test_a_person_answers_once_and_the_second_answer_is_refused(desk: Desk) -> None:
    session = await desk.start("permission", approve="ask")
    await session.prompt("go")
    asked = (await first(session, PermissionRequested)).event
    assert isinstance(asked, PermissionRequested)
    session.answer(asked.request_id, Answer("allow"), surface="test")
    with pytest.raises(RequestNotOpen):
        session.answer(asked.request_id, Answer("deny"), surface="elsewhere")
    await session.idle()
    answered = (await first(session, RequestAnswered)).event
    assert answered == RequestAnswered(
        request_id=asked.request_id, answer=Answer("allow"), by="person", surface="test"
    )
    assert (desk.project / "note.txt").read_text() == "written by the mock\n"


async def test_a_denied_write_does_not_happen_and_the_agent_gets_the_reason(desk: Desk) -> None:
    session = await desk.start("permission", approve="ask")
    await session.prompt("go")
    asked = (await first(session, PermissionRequested)).event
    assert isinstance(asked, PermissionRequested)
    session.answer(asked.request_id, Answer("deny", note="not today"))
    await session.idle()
    assert "not today" in session.result().text
    assert not (desk.project / "note.txt").exists()


async def test_an_answer_may_change_the_input(desk: Desk) -> None:
    session = await desk.start("permission", approve="ask")
    await session.prompt("go")
    asked = (await first(session, PermissionRequested)).event
    assert isinstance(asked, PermissionRequested)
    session.answer(asked.request_id, Answer("allow", input={**asked.input, "text": "changed\n"}))
    await session.idle()
    assert (desk.project / "note.txt").read_text() == "changed\n"


async def test_a_timeout_is_a_denial(desk: Desk) -> None:
    session = await desk.start("permission", approve="ask", limits=TurnLimits(request=0.2))
    await session.ask("go")
    answered = (await first(session, RequestAnswered)).event
    assert isinstance(answered, RequestAnswered)
    assert (answered.by, answered.answer.option) == ("timeout", "deny")
    assert not (desk.project / "note.txt").exists()


async def test_a_question_waits_for_its_answer(desk: Desk) -> None:
    session = await desk.start("question", approve="auto")
    await session.prompt("go")
    asked = (await first(session, QuestionAsked)).event
    assert isinstance(asked, QuestionAsked)
    session.answer(asked.request_id, Answer("allow", answers={asked.questions[0].text: "blue"}))
    await session.idle()
    assert "blue" in session.result().text


async def test_in_plan_mode_a_write_is_denied_although_everything_is_allowed(desk: Desk) -> None:
    spec = replace(desk.spec("permission"), mode="plan")
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings(approve="auto"))
    await session.ask("go")
    answered = (await first(session, RequestAnswered)).event
    assert isinstance(answered, RequestAnswered)
    assert (answered.by, answered.answer.option) == ("policy", "deny")
    assert not (desk.project / "note.txt").exists()


async def test_cancelling_ends_the_turn_once_and_keeps_the_text(desk: Desk) -> None:
    session = await desk.start("hang")
    await session.prompt("go")
    await first(session, MessageChunk)
    await session.cancel()
    await session.idle()
    entries = desk.sessions.log.since(session.id)
    assert ends(entries) == [(1, TurnEnded(reason="cancelled"))]
    assert agent_text(entries).startswith("Now")


async def test_an_agent_that_ignores_everything_is_killed_with_its_tree(desk: Desk) -> None:
    session = await desk.start()
    await session.prompt(json.dumps([{"say": "Ready."}, {"deaf": True}, {"hang": True}]))
    await first(session, MessageChunk)
    await session.close()
    entries = desk.sessions.log.since(session.id)
    assert ends(entries) == [(1, TurnEnded(reason="cancelled"))]


async def test_a_turn_that_takes_too_long_fails_as_timed_out(desk: Desk) -> None:
    session = await desk.start("hang", limits=TurnLimits(turn=0.3))
    result = await session.ask("go")
    assert result.status == "failed"
    assert result.failure and result.failure.kind == "timed_out"


async def test_silence_is_a_limit_of_its_own_but_not_while_a_request_is_open(desk: Desk) -> None:
    session = await desk.start("permission", approve="ask", limits=TurnLimits(idle=0.3))
    await session.prompt("go")
    asked = (await first(session, PermissionRequested)).event
    assert isinstance(asked, PermissionRequested)
    await asyncio.sleep(0.6)
    session.answer(asked.request_id, Answer("allow"))
    await session.idle()
    assert session.result().status == "completed"
    result = await session.ask(json.dumps([{"hang": True}]))
    assert result.failure and result.failure.kind == "timed_out"


async def test_a_second_prompt_waits_its_turn(desk: Desk) -> None:
    session = await desk.start()
    await session.prompt(json.dumps([{"sleep": 0.2}, {"say": "one"}]))
    await session.prompt(json.dumps([{"say": "two"}]), when_busy="queue")
    await session.idle()
    entries = desk.sessions.log.since(session.id)
    assert [agent_text(entries, 1), agent_text(entries, 2)] == ["one", "two"]
    assert [end for _, end in ends(entries)] == [TurnEnded(reason="completed")] * 2


async def test_a_second_prompt_can_be_refused(desk: Desk) -> None:
    session = await desk.start("hang")
    await session.prompt("go")
    with pytest.raises(SessionBusy):
        await session.prompt("more", when_busy="refuse")


async def test_messages_in_the_middle_of_a_turn_steer_it(desk: Desk) -> None:
    session = await desk.start("steer")
    await session.prompt("go")
    await first(session, MessageChunk)
    await session.prompt("left", when_busy="steer")
    await session.idle()
    entries = desk.sessions.log.since(session.id)
    assert "Going this way: left" in agent_text(entries)
    assert [e.event for e in entries if isinstance(e.event, UserMessage)] == [
        UserMessage(text="left", how="steer")
    ]
    assert len(ends(entries)) == 1


async def test_the_session_is_not_idle_before_the_background_work_has_woken_the_agent(
    desk: Desk,
) -> None:
    session = await desk.start("background")
    entries = [entry async for entry in session.run("go")]
    starts = [(e.turn, e.event.origin) for e in entries if isinstance(e.event, TurnStarted)]
    assert starts == [(1, "prompt"), (2, "agent")]
    assert agent_text(entries, 2) == "The kettle boils."
    assert [turn for turn, _ in ends(entries)] == [1, 2]


async def test_an_agent_that_crashes_fails_the_turn_and_the_next_prompt_resumes_it(
    desk: Desk,
) -> None:
    session = await desk.start()
    result = await session.ask(json.dumps([{"say": "Remember me."}, {"crash": "SIGKILL"}]))
    assert result.status == "failed"
    assert result.failure and result.failure.kind == "agent_crashed"
    again = await session.ask(json.dumps([{"say": "Before: {before}"}]))
    assert again.status == "completed"
    assert "Remember me." in again.text
    assert [turn for turn, _ in ends(desk.sessions.log.since(session.id))] == [1, 2]


async def test_unknown_and_malformed_lines_are_stored_and_the_turn_continues(desk: Desk) -> None:
    session = await desk.start()
    entries = await play(
        session,
        [
            {"line": "not json at all"},
            {"line": '{"type":"from tomorrow","x":1}'},
            {"line": '{"type":"text","id":"m","text":"\\ud800"}'},
            {"say": "still here"},
        ],
    )
    strange = [e.event.raw for e in entries if isinstance(e.event, Unrecognized)]
    assert strange[:2] == ["not json at all", '{"type":"from tomorrow","x":1}']
    assert agent_text(entries).endswith("still here")
    assert ends(entries) == [(1, TurnEnded(reason="completed"))]


async def test_a_long_tool_output_is_cut_in_its_event_and_complete_in_its_file(desk: Desk) -> None:
    session = await desk.start(output_cap=1000)
    entries = await play(session, [{"run": "seq 1 2000"}])
    result = session.transcript().turns[0]
    whole = "".join(f"{i}\n" for i in range(1, 2001))
    (text,) = [
        part
        for e in entries
        if e.event.__class__.__name__ == "ToolFinished"
        for part in e.event.content
    ]
    assert len(text.text) < 1200
    assert text.text.startswith("1\n2\n") and text.text.endswith("1999\n2000\n")
    assert text.cut and text.cut.spill
    assert (desk.paths.spill / session.id / text.cut.spill).read_text() == whole
    assert result.status == "completed"


async def test_past_the_cap_of_a_turn_text_is_counted_and_dropped_with_a_notice(
    desk: Desk,
) -> None:
    session = await desk.start(turn_cap=20_000)
    entries = await play(session, [{"flood": 1, "of": "lines"}, {"say": "end"}])
    notices = [e.event for e in entries if isinstance(e.event, Notice)]
    assert [notice.kind for notice in notices] == ["truncated", "truncated"]
    assert "dropped" in notices[1].text
    assert sum(len(e.event.text) for e in entries if isinstance(e.event, MessageChunk)) < 25_000
    assert ends(entries) == [(1, TurnEnded(reason="completed"))]


async def test_a_secret_split_over_chunks_never_reaches_the_store(desk: Desk) -> None:
    secret = "sesame-4711-open-0815"
    session = await desk.start(secrets=[("MAGIC", secret)])
    steps: list[dict[str, object]] = [
        {"send": {"type": "text", "id": "m1", "text": f"it is {secret[:7]}"}},
        {"send": {"type": "text", "id": "m1", "text": f"{secret[7:]}!"}},
        {"run": f"echo {secret}"},
    ]
    script = desk.folder / "script.json"
    script.write_text(json.dumps([steps]))
    entries = [entry async for entry in session.run(str(script))]
    assert agent_text(entries) == "it is [secret:MAGIC]!"
    await session.close()
    stored = [path for path in desk.paths.state.rglob("*") if path.is_file()]
    assert stored
    raws = [desk.sessions.log.raw(session.id, entry.seq) or b"" for entry in entries]
    everything = b"".join(path.read_bytes() for path in stored) + b"".join(raws)
    assert secret.encode() not in everything
    assert secret[:7].encode() not in b"".join(raws)


async def test_the_messages_of_a_turn_can_be_searched_once_it_is_over(desk: Desk) -> None:
    session = await desk.start()
    await play(session, [{"say": "The quick brown fox."}])
    await session.close()
    hits = desk.sessions.search.search("quick fox")
    assert {(hit.session, hit.turn, hit.role) for hit in hits} == {
        (session.id, 1, "agent"),
        (session.id, 1, "user"),
    }


async def test_a_missing_binary_reports_how_to_install_it_and_leaves_no_open_turn(
    desk: Desk, tmp_path: Path
) -> None:
    from tillerman.agents import load
    from tillerman.core.errors import AgentNotInstalled

    spec = with_options(desk.spec(), options={"binary": "no-such-program"})
    session = await desk.sessions.start(load("claude"), spec, desk.run_settings())
    with pytest.raises(AgentNotInstalled) as error:
        await session.prompt("hello")
    assert "npm install" in error.value.hint
    await session.idle()
    assert desk.sessions.catalog.open_turns() == []


class _Quitter(MockWire):
    """Exits as soon as it runs."""

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch(["sh", "-c", "echo out of order >&2; exit 3"])


async def test_an_agent_that_ends_before_it_is_prompted_fails_the_turn(desk: Desk) -> None:
    agent = StdioAgent(desk.agent.info, _Quitter)
    session = await desk.sessions.start(agent, desk.spec(), desk.run_settings())
    async with asyncio.timeout(10):
        results = [await session.ask("hello"), await session.ask("are you there?")]
    assert [result.status for result in results] == ["failed", "failed"]
    assert [result.failure and result.failure.kind for result in results] == ["agent_crashed"] * 2
    entries = desk.sessions.log.since(session.id)
    assert [turn for turn, _ in ends(entries)] == [1, 2]
    assert "out of order" in next(
        entry.event.detail for entry in entries if isinstance(entry.event, AgentExited)
    )


class Slow(StdioAgent):
    """Starts when it is allowed to."""

    def __init__(self) -> None:
        super().__init__(INFO, MockWire)
        self.let = asyncio.Event()
        self.opened = 0

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        self.opened += 1
        await self.let.wait()
        return await super().open(spec, host)


async def test_a_prompt_is_withdrawn_while_its_agent_starts(desk: Desk) -> None:
    desk.agent = slow = Slow()
    session = await desk.start()
    prompting = asyncio.create_task(session.prompt("too early"))
    await asyncio.sleep(0)
    await session.cancel()
    with pytest.raises(PromptWithdrawn, match="before the agent had started"):
        await prompting
    await session.idle()
    assert session.last_seq == 0
    slow.let.set()
    result = await session.ask("now")
    assert (result.status, slow.opened) == ("completed", 1)
    prompts = [
        entry.event.prompt
        for entry in desk.sessions.log.since(session.id, 0, 100)
        if isinstance(entry.event, TurnStarted)
    ]
    assert prompts == ["now"]
