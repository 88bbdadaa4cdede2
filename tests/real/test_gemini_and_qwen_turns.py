"""Turns with the real Gemini CLI and Qwen Code over ACP: messages, tools, decisions, cancels."""

from __future__ import annotations

import base64
import sys
from functools import reduce
from pathlib import Path

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    of,
    processes_with,
    run,
    shown,
    until,
    until_true,
    usages,
)
from tests.real.stages import Actor
from tests.real.standing import StandingDesk
from tillerman.core.agent import File
from tillerman.core.events import (
    AgentReady,
    Answer,
    Diff,
    MessageChunk,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.transcript.usage_totals import added
from tillerman.testing.model_double.script import (
    Attempts,
    Fail,
    ReplyHold,
    Say,
    Think,
    Usage,
    reply,
)
from tillerman.testing.model_double.server import api_of

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("gemini", "qwen"),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

COMPLETED = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
PIXEL = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\6\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8"
    b"\xff\xff?\0\5\xfe\2\xfe\xdc\xccY\xe7\0\0\0\0IEND\xaeB`\x82"
)


@pytest.fixture
def actor(standing: StandingDesk) -> Actor:
    assert isinstance(standing.player, Actor)
    return standing.player


@pytest.fixture
def any_desk(standing_desk: StandingDesk) -> Desk:
    """One conversation: each test adds a few turns."""
    return standing_desk


@pytest.mark.anew
async def test_text_and_thoughts_are_streamed_in_order(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["hello"] = [
        reply(Think("Let me see."), Say("Good morning to you.", chunks=4)),
        reply(Say("Good night.")),
    ]
    session = await any_desk.start()

    first = await run(session, "@@hello@@ go")
    second = await run(session, "@@hello:1@@ more")

    [ready] = of(first, AgentReady)
    assert ready.version == actor.version
    assert ready.model == (actor.stage.model or "qwen3-coder-plus")
    assert (agent_text(first), agent_text(second)) == ("Good morning to you.", "Good night.")
    assert len(of(first, MessageChunk)) == 4
    thought = "".join(chunk.text for chunk in of(first, ThoughtChunk))
    assert thought.split() == ["Let", "me", "see."]
    assert ends(any_desk.log(session)) == [COMPLETED, COMPLETED]


async def test_a_turn_reports_its_usage(any_desk: Desk, actor: Actor) -> None:
    used = Usage(input=100, output=20)
    any_desk.double.scenarios["use"] = [
        reply(actor.stage.shell("ls"), usage=used),
        reply(Say("Used."), usage=used),
        reply(Say("Again."), usage=used),
    ]
    session = await any_desk.start()

    first = reduce(added, usages(await run(session, "@@use@@ go")))
    second = reduce(added, usages(await run(session, "@@use:2@@ more")))

    assert (first.input_tokens, first.output_tokens) == (200, 40)
    assert (second.input_tokens, second.output_tokens) == (100, 20)


async def test_files_are_written_and_edited_and_reported_as_diffs(
    any_desk: Desk, actor: Actor
) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    any_desk.double.scenarios["files"] = [
        reply(stage.write(file, "one\ntwo\n")),
        reply(stage.read(file)),
        reply(stage.edit(file, "two", "three")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()

    log = await run(session, "@@files@@ go")

    assert file.read_text() == "one\nthree\n"
    assert [(call.tool, call.title) for call in of(log, ToolStarted)] == [
        ("Write", "Write `made.txt`"),
        ("Read", "Read `made.txt`"),
        ("Edit", "Edit `made.txt`"),
    ]
    written, read, edited = of(log, ToolFinished)
    assert [one.outcome for one in (written, read, edited)] == ["completed"] * 3
    assert written.content == (Diff(str(file), new="one\ntwo\n"),)
    [diff] = edited.content
    assert isinstance(diff, Diff)
    assert (diff.path, "three" in (diff.new or "")) == (str(file), True)
    assert [one.tool for one in of(log, PermissionRequested)] == ["Write", "Read", "Edit"]
    assert ends(log) == [COMPLETED]


async def test_a_command_is_requested_and_its_output_is_shown(any_desk: Desk, actor: Actor) -> None:
    command = "echo one; echo two > made.txt; cat made.txt"
    any_desk.double.scenarios["sh"] = [reply(actor.stage.shell(command)), reply(Say("Done."))]
    session = await any_desk.start()

    log = await run(session, "@@sh@@ go")

    [call], [end] = of(log, ToolStarted), of(log, ToolFinished)
    assert (call.tool, call.title, call.input["command"]) == ("Bash", f"Bash `{command}`", command)
    assert (end.outcome, shown(end).split()) == ("completed", ["one", "two"])
    [asked] = of(log, PermissionRequested)
    assert (asked.call_id, asked.input["command"]) == (call.call_id, command)
    assert [answer.by for answer in of(log, RequestAnswered)] == ["policy"]


async def test_a_command_that_fails_is_reported_where_the_agent_does(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["sh"] = [
        reply(actor.stage.shell("echo oops; touch made.txt; exit 3")),
        reply(Say("It failed.")),
    ]
    session = await any_desk.start()

    log = await run(session, "@@sh@@ go")

    [end] = of(log, ToolFinished)
    # Gemini CLI does not report the exit code.
    assert end.outcome == ("completed" if actor.agent == "gemini" else "failed")
    assert shown(end).strip() == "oops"
    assert ends(log) == [COMPLETED]


async def test_a_denied_call_does_not_run(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["no"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("I may not.")),
    ]
    session = await any_desk.start(approve="ask")

    await session.prompt("@@no@@ go")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("deny", note="use a pencil"))
    await session.idle()

    log = any_desk.log(session)
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert not (actor.project / "never.txt").exists()
    assert agent_text(log) == "I may not."
    assert ends(log) == [COMPLETED]


async def test_tools_of_an_mcp_server_are_requested_and_run(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["mcp"] = [
        reply(actor.stage.mcp("tiny", "shout", {"text": "hi"}, id="c_mcp")),
        reply(Say("Shouted.")),
    ]
    trust = {"trust": True} if actor.agent == "gemini" else {}
    session = await any_desk.start(approve="ask", servers={"tiny": SERVER}, options=trust)

    await session.prompt("@@mcp@@ go")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("allow"))
    await session.idle()

    assert (asked.tool, asked.input) == ("MCP", {"text": "hi"})
    log = any_desk.log(session)
    [end] = of(log, ToolFinished)
    assert (end.outcome, "HI" in shown(end)) == ("completed", True)
    last = any_desk.double.turns[-1]
    assert "HI" in api_of(last).tool_results(last.body)["c_mcp"]


async def test_an_image_reaches_a_model_with_image_support(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["see"] = [reply(Say("A dot."))]
    session = await any_desk.start(model=actor.stage.model or "qwen3-vl-plus")

    await run(session, "@@see@@ what is it?", files=[File("dot.png", "image/png", PIXEL)])

    body = str(any_desk.double.turns[0].body)
    # This one takes every model that variables or flags name for blind.
    blind = actor.version == "0.15.10"
    assert ("[Unsupported image file" in body, base64.b64encode(PIXEL).decode() in body) == (
        blind,
        not blind,
    )


async def test_a_system_prompt_reaches_the_model(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await any_desk.start(system="You are a kettle. Whistle.")

    await run(session, "@@hello@@ go")

    assert "You are a kettle. Whistle." in str(any_desk.double.turns[0].body)


async def test_an_extra_folder_may_be_read(any_desk: Desk, actor: Actor, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "far.txt").write_text("from afar\n")
    any_desk.double.scenarios["read"] = [
        reply(actor.stage.read(extra / "far.txt", id="c_read")),
        reply(Say("Read.")),
    ]
    session = await any_desk.start(folders=(extra,))

    log = await run(session, "@@read@@ go")

    assert [one.outcome for one in of(log, ToolFinished)] == ["completed"]
    last = any_desk.double.turns[-1]
    assert "from afar" in api_of(last).tool_results(last.body)["c_read"]


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_plan_and_ask_mode_write_nothing_even_if_allowed(
    any_desk: Desk, actor: Actor, mode: str
) -> None:
    any_desk.double.scenarios["try"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("I only look.")),
    ]
    session = await any_desk.start(mode=mode)

    log = await run(session, "@@try@@ go")

    assert not (actor.project / "never.txt").exists()
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert ends(log) == [COMPLETED]


async def test_an_interrupt_in_mid_text_ends_the_turn_and_the_session_continues(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start()

    await session.prompt("@@hang@@ go")
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@ go")

    log = any_desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It begins", "Still here.")


async def test_an_interrupt_in_a_command_ends_its_processes_and_the_session_continues(
    any_desk: Desk, actor: Actor
) -> None:
    busy = "touch begun; (while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios |= {
        "busy": [reply(actor.stage.shell(busy))],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start()
    home = f"HOME={actor.home}"

    def sleepers() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@busy@@ go")
    await until_true(lambda: len(sleepers()) > 1)
    await session.cancel()
    await session.idle()
    await until_true(lambda: not sleepers(), within=5)
    await run(session, "@@next@@ go")

    log = any_desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert [one.outcome for one in of(log, ToolFinished)] == ["cancelled"]
    assert agent_text(log) == "Still here."


async def test_an_interrupt_withdraws_the_open_request(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["ask"] = [reply(actor.stage.shell("echo x > never.txt"))]
    session = await any_desk.start(approve="ask")

    await session.prompt("@@ask@@ go")
    asked = await until(session, PermissionRequested)
    await session.cancel()
    await session.idle()

    log = any_desk.log(session)
    [answered] = of(log, RequestAnswered)
    assert (answered.request_id, answered.by) == (asked.request_id, "withdrawn")
    assert ends(log) == [CANCELLED]
    assert not (actor.project / "never.txt").exists()


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "not_signed_in"), (404, "model_not_found"), (400, "api_error")]
)
async def test_an_error_of_the_api_is_classified_and_the_session_continues(
    any_desk: Desk, actor: Actor, status: int, kind: str
) -> None:
    words = {401: "Incorrect key.", 404: "The model `x` does not exist", 400: "Bad thing."}
    any_desk.double.scenarios |= {
        "broken": [Fail(status, message=words[status])],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start()

    [end] = ends(await run(session, "@@broken@@ go"))
    await run(session, "@@next@@ go")

    assert end.failure
    assert (end.failure.kind, words[status] in end.failure.message) == (kind, True)
    assert agent_text(any_desk.log(session)) == "Still here."


@pytest.mark.agents("gemini")
@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limited"), (500, "api_error")])
async def test_gemini_gives_up_after_some_attempts(
    any_desk: Desk, actor: Actor, status: int, kind: str
) -> None:
    words = {429: "Resource has been exhausted.", 500: "Something broke."}
    any_desk.double.scenarios["busy"] = [Fail(status, message=words[status])]
    session = await any_desk.start()

    [end] = ends(await run(session, "@@busy@@ go"))

    assert end.failure
    assert end.failure.kind == kind
    assert len(any_desk.double.turns) == 2  # as its user's settings say


@pytest.mark.agents("qwen")
async def test_qwen_continues_after_a_short_rate_limit(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["busy"] = [Attempts([Fail(429), reply(Say("There."))])]
    session = await any_desk.start()

    log = await run(session, "@@busy@@ go")

    assert (agent_text(log), ends(log)) == ("There.", [COMPLETED])


@pytest.mark.agents("qwen")
async def test_a_question_is_forwarded_and_answered(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["ask"] = [
        reply(actor.stage.ask("Which colour?", "Red", "Blue", id="c_ask")),
        reply(Say("Blue it is.")),
    ]
    session = await any_desk.start(approve="ask")

    await session.prompt("@@ask@@ go")
    asked = await until(session, QuestionAsked)
    session.answer(asked.request_id, Answer("allow", answers={"Which colour?": "Blue"}))
    await session.idle()

    log = any_desk.log(session)
    assert [question.text for question in asked.questions] == ["Which colour?"]
    assert [call.tool for call in of(log, ToolStarted)] == ["Question"]
    assert [one.outcome for one in of(log, ToolFinished)] == ["completed"]
    assert "Blue" in str(any_desk.double.turns[-1].body["messages"][-1])
    assert agent_text(log) == "Blue it is."
