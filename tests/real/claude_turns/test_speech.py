"""Messages, thoughts and usage of the real Claude Code, as the entries of a session."""

from __future__ import annotations

import json

import pytest

from tests.real.desk import KEY, agent_text, ends, of, run, usages
from tests.real.standing import StandingDesk
from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    MessageChunk,
    ThoughtChunk,
    TurnEnded,
    TurnStarted,
)
from tillerman.testing.model_double.anthropic import user_text
from tillerman.testing.model_double.script import Say, Think, Usage, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.asyncio(loop_scope="module"),
]


async def test_text_arrives_in_chunks_that_join_to_the_whole(desk: StandingDesk) -> None:
    desk.double.scenarios["hello"] = [reply(Say("Hello from the script.", chunks=5))]
    session = await desk.start()

    log = await run(session, "@@hello@@ greet me")

    pieces = [chunk.text for chunk in of(log, MessageChunk)]
    assert (len(pieces) > 3, "".join(pieces)) == (True, "Hello from the script.")
    assert session.result().text == "Hello from the script."
    assert ends(log) == [TurnEnded(reason="completed")]
    assert "greet me" in user_text(desk.double.turns[0].body)


@pytest.mark.anew
async def test_a_session_begins_with_its_process_and_its_prompt(desk: StandingDesk) -> None:
    desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await desk.start()

    log = await run(session, "@@hello@@")

    assert [(e.agent, e.supervision) for e in of(log, AgentStarted)] == [
        ("claude", of(log, AgentStarted)[0].supervision)
    ]
    assert of(log, TurnStarted) == [TurnStarted(origin="prompt", prompt="@@hello@@")]
    [ready] = of(log, AgentReady)
    assert ready.model is not None
    assert desk.sessions.catalog.get(session.id).native_id == ready.native_id


async def test_thinking_is_separate_from_text(desk: StandingDesk) -> None:
    desk.double.scenarios["think"] = [reply(Think("First, consider."), Say("Considered."))]
    session = await desk.start()

    log = await run(session, "@@think@@")

    assert "".join(chunk.text for chunk in of(log, ThoughtChunk)) == "First, consider."
    assert len(of(log, ThoughtChunk)) == 2
    assert agent_text(log) == session.result().text == "Considered."


async def test_each_turn_reports_its_own_usage(desk: StandingDesk) -> None:
    first = Usage(input=1000, output=100, cache_read=50, cache_write=7)
    second = Usage(input=200, output=10, cache_read=5, cache_write=0)
    desk.double.scenarios["count"] = [
        reply(Say("One."), usage=first),
        reply(Say("Two."), usage=second),
    ]
    session = await desk.start()

    log = await run(session, "@@count@@") + await run(session, "and again")

    one, two = usages(log)
    assert (one.input_tokens, one.output_tokens, one.cached_tokens) == (1007, 100, 50)
    assert (two.input_tokens, two.output_tokens, two.cached_tokens) == (200, 10, 5)
    assert (one.context_used, two.context_used) == (1057, 205)
    assert one.context_limit == two.context_limit and one.context_limit
    assert one.cost_usd and two.cost_usd
    # the second turn is at least four times smaller in every count
    assert 0 < two.cost_usd * 4 < one.cost_usd


@pytest.mark.anew
async def test_each_entry_of_the_agent_stores_its_raw_line(desk: StandingDesk) -> None:
    desk.double.scenarios["hello"] = [reply(Think("Mm."), Say("Hello.", chunks=2))]
    session = await desk.start()

    log = await run(session, "@@hello@@")

    raws = {type(entry.event).__name__: desk.raw(entry) for entry in log}
    fields = {kind: json.loads(raw)["type"] for kind, raw in raws.items() if raw}
    assert fields == {
        "AgentReady": "system",
        "SettingsChanged": "system",
        "ThoughtChunk": "stream_event",
        "MessageChunk": "stream_event",
        "UsageReported": "result",
        "TurnEnded": "result",
    }


@pytest.mark.anew
async def test_the_key_is_in_no_entry_no_line_and_no_file(desk: StandingDesk) -> None:
    desk.double.scenarios["leak"] = [reply(Say(f"The key is {KEY}, I think.", chunks=7))]
    session = await desk.start()

    log = await run(session, "@@leak@@")
    raws = b"".join(desk.raw(entry) for entry in log)
    await session.close()

    assert agent_text(log) == "The key is [secret:ANTHROPIC_API_KEY], I think."
    stored = [path.read_bytes() for path in desk.paths.state.rglob("*") if path.is_file()]
    assert KEY.encode() not in b"".join([raws, *stored])
