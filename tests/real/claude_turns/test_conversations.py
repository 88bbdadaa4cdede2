"""The settings of a conversation with the real Claude Code, which outlives its process."""

from __future__ import annotations

import base64

import pytest

from tests.real.desk import agent_text, ends, of, run, usages
from tests.real.standing import StandingDesk
from tillerman.core.agent import File
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    Attachment,
    Image,
    Notice,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from tillerman.testing.model_double.anthropic import blocks, system_text, user_text
from tillerman.testing.model_double.script import ModelToolCall, Say, Usage, attempts, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.asyncio(loop_scope="module"),
]


DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD"
    "hgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.anew
async def test_a_conversation_continues_in_a_new_process(desk: StandingDesk) -> None:
    desk.double.scenarios["resume"] = [reply(Say("First.")), reply(Say("Second."))]
    session = await desk.start()
    before = await run(session, "@@resume@@ remember the heron")

    await desk.reopen()
    log = await run(await desk.resume(session.id), "what was it?")

    assert agent_text(log) == "Second."
    assert [entry.turn for entry in log if isinstance(entry.event, TurnStarted)] == [2]
    assert of(log, AgentReady)[0].native_id == of(before, AgentReady)[0].native_id
    assert "remember the heron" in user_text(desk.double.turns[-1].body)
    assert "First." in str(desk.double.turns[-1].body["messages"])


@pytest.mark.anew
async def test_a_fork_diverges_and_leaves_the_original_unchanged(desk: StandingDesk) -> None:
    desk.double.scenarios["fork"] = [
        reply(Say("First.")),
        attempts(reply(Say("In the fork.")), reply(Say("In the original."))),
    ]
    session = await desk.start()
    await run(session, "@@fork@@ remember the heron")
    original = [entry.event for entry in desk.log(session)]

    await desk.reopen()
    fork = await desk.resume(session.id, fork=True)
    forked = await run(fork, "the way of the fork")
    resumed = await run(await desk.resume(session.id), "the way of the original")

    assert (agent_text(forked), agent_text(resumed)) == ("In the fork.", "In the original.")
    _, in_fork, in_original = (user_text(turn.body) for turn in desk.double.turns)
    assert "remember the heron" in in_fork
    assert "remember the heron" in in_original
    assert "the way of the fork" not in in_original
    [first] = [event.native_id for event in original if isinstance(event, AgentReady)]
    second, third = (of(log, AgentReady)[0].native_id for log in (forked, resumed))
    assert first == third != second
    assert [entry.event for entry in desk.log(fork)][: len(original)] == original


@pytest.mark.anew
async def test_usage_after_a_resume_is_that_of_the_turn(desk: StandingDesk) -> None:
    desk.double.scenarios["count"] = [
        reply(Say("One."), usage=Usage(input=5000, output=500)),
        reply(Say("Two."), usage=Usage(input=70, output=7)),
    ]
    session = await desk.start()
    [first] = usages(await run(session, "@@count@@"))

    await desk.reopen()
    [second] = usages(await run(await desk.resume(session.id), "go on"))

    assert (second.input_tokens, second.output_tokens) == (70, 7)
    assert first.cost_usd and second.cost_usd
    assert second.cost_usd * 10 < first.cost_usd


async def test_an_image_reaches_the_model_and_the_store(desk: StandingDesk) -> None:
    desk.double.scenarios["image"] = [reply(Say("A dot."))]
    session = await desk.start()

    log = await run(session, "@@image@@ what is it?", files=[File("dot.png", "image/png", DOT)])

    [image] = blocks(desk.double.turns[0].body, "image")
    assert image["source"]["media_type"] == "image/png"
    assert base64.b64decode(image["source"]["data"])[:8] == DOT[:8]
    [attached] = of(log, TurnStarted)[0].attachments
    assert attached == Attachment("dot.png", "image/png", attached.hash, len(DOT))
    assert desk.sessions.attachments.get(attached.hash) == DOT


async def test_an_image_that_a_tool_read_is_stored(desk: StandingDesk) -> None:
    file = desk.project / "dot.png"
    file.write_bytes(DOT)
    desk.double.scenarios["dot"] = [
        reply(ModelToolCall("Read", {"file_path": str(file)})),
        reply(Say("A dot.")),
    ]
    log = await run(await desk.start(), "@@dot@@")

    [image] = [part for done in of(log, ToolFinished) for part in done.content]
    assert isinstance(image, Image)
    stored = desk.sessions.attachments.get(image.hash)
    assert stored
    assert stored.startswith(DOT[:8])


async def test_a_text_file_reaches_the_model_with_its_name(desk: StandingDesk) -> None:
    desk.double.scenarios["file"] = [reply(Say("Read."))]
    session = await desk.start()

    await run(session, "@@file@@ read it", files=[File("a.txt", "text/plain", b"rare words\n")])

    reported = user_text(desk.double.turns[0].body)
    assert "rare words" in reported
    assert "a.txt" in reported


async def test_an_unsupported_file_is_refused_and_starts_no_turn(
    desk: StandingDesk,
) -> None:
    desk.double.scenarios["next"] = [reply(Say("Still here."))]
    session = await desk.start()

    with pytest.raises(Unsupported):
        await session.prompt("look", files=[File("a.bin", "application/x-thing", b"\xff\xfe")])
    await session.idle()
    log = await run(session, "@@next@@")

    assert [event.prompt for event in of(desk.log(session), TurnStarted)] == ["@@next@@"]
    assert agent_text(log) == "Still here."


async def test_a_system_prompt_is_added_to_the_cli_s_own(desk: StandingDesk) -> None:
    desk.double.scenarios["system"] = [reply(Say("Brief."))]
    session = await desk.start(system="--Be brief, parrot.")

    await run(session, "@@system@@")

    system = system_text(desk.double.turns[0].body)
    assert "--Be brief, parrot." in system
    assert "Claude Code" in system


async def test_an_extra_folder_may_be_written_to(desk: StandingDesk) -> None:
    folder = desk.folder / "more"
    folder.mkdir()
    write = {"file_path": str(folder / "made.txt"), "content": "x"}
    desk.double.scenarios["folder"] = [reply(ModelToolCall("Write", write)), reply(Say("Written."))]
    session = await desk.start(folders=(folder,), approve="edits")

    await run(session, "@@folder@@")

    assert (folder / "made.txt").read_text() == "x"
    reported = system_text(desk.double.turns[0].body) + user_text(desk.double.turns[0].body)
    assert str(folder) in reported


async def test_a_command_of_the_cli_is_a_turn_that_needs_no_model(desk: StandingDesk) -> None:
    session = await desk.start()

    log = await run(session, "/context")

    assert "Context Usage" in agent_text(log)
    assert ends(log) == [TurnEnded(reason="completed")]
    assert desk.double.turns == []


@pytest.mark.anew
async def test_a_compacted_conversation_is_reported_and_continues(desk: StandingDesk) -> None:
    desk.double.scenarios["long"] = [reply(Say(text)) for text in ("One.", "Two.", "Three.")]
    session = await desk.start()
    await run(session, "@@long@@")
    await run(session, "again")

    log = await run(session, "/compact") + await run(session, "and now?")

    assert [event.kind for event in of(log, Notice)] == ["compaction"]
    assert ends(log) == [TurnEnded(reason="completed")] * 2
    assert agent_text(log, 4) == "Three."
    assert "@@long@@" not in user_text(desk.double.turns[-1].body)


async def test_an_answer_in_a_schema_is_the_turn_s_result(desk: StandingDesk) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["colour", "count"],
    }
    answer = {"colour": "blue", "count": 3}
    desk.double.scenarios["schema"] = [
        reply(ModelToolCall("StructuredOutput", answer)),
        reply(Say("Told.")),
    ]
    session = await desk.start(output_schema=schema, approve="readonly")

    log = await run(session, "@@schema@@")

    assert ends(log) == [TurnEnded(reason="completed", result=answer)]
    assert session.result().output == answer


async def test_a_limit_on_turns_ends_the_turn_with_that_reason_and_the_next_prompt_continues(
    desk: StandingDesk,
) -> None:
    call = {"command": "echo on", "description": "on"}
    desk.double.scenarios |= {
        "long": [
            reply(ModelToolCall("Bash", call)),
            reply(ModelToolCall("Bash", call)),
            reply(Say("never said")),
        ],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start(max_turns=1)

    log = await run(session, "@@long@@")

    [end] = ends(log)
    assert end.failure is not None
    assert (end.reason, end.failure.kind) == ("failed", "turn_limit")
    assert len(desk.double.turns) == 1
    assert agent_text(await run(session, "@@next@@")) == "Still here."


async def test_a_limit_on_cost_ends_the_turn_with_that_reason(desk: StandingDesk) -> None:
    call = {"command": "echo on", "description": "on"}
    dear = Usage(input=500_000, output=50_000)
    desk.double.scenarios["dear"] = [reply(ModelToolCall("Bash", call), usage=dear)] * 3
    session = await desk.start(max_cost=0.5)

    log = await run(session, "@@dear@@")

    [end] = ends(log)
    assert end.failure is not None
    assert (end.reason, end.failure.kind) == ("failed", "cost_limit")
    assert len(desk.double.turns) == 1
    [usage] = usages(log)
    assert usage.cost_usd and usage.cost_usd > 0.5
