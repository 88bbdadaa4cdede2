"""Conformance cases: messages, thoughts, streaming and usage."""

from __future__ import annotations

from tillerman.core.events import AgentReady, AgentStarted, MessageChunk, TurnStarted, UsageReported
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.model_double.script import Say, Think, Usage
from tillerman.testing.scenario import Scenario, agent_text, do, end, of, play, thought

WORDS = "One fine day in the middle of the night, two herons got up to write."
LINE = "Rows of the same kind follow: each of these chunks is longer than sixty-four letters.\n"
ALIKE = (
    (LINE, LINE, LINE, "End."),
    ("1", "10", "100", " of 100"),
    ("*", "**bold** and", " the rest"),
    ("ab", "ab", "abab", "ababab."),
)
SMALL = ("x", "", " ", " ", "\n", "\n", "\n\n", "", "    ", "y", "y", "y", "\t", "é", "", "z.")
STRANGE = "naïve – “quoted” 漢字 🪿 <b>&amp;</b> `code` \\n {json: true}"


@case("reports the model's text")
async def text(scene: Scenario) -> None:
    log = await play(await scene.start(), scene.script([Say(WORDS)]))
    assert agent_text(log) == WORDS, agent_text(log)
    assert end(log).reason == "completed", end(log)


@case("streams the text in the chunks in which it arrives", "streaming")
async def streams_text(scene: Scenario) -> None:
    session = await scene.start()
    log = await play(session, scene.script([Say(WORDS, chunks=6, delay=0.15)]))
    assert agent_text(log) == WORDS, agent_text(log)
    assert len(of(log, MessageChunk)) >= 3, of(log, MessageChunk)


@case("preserves every character")
async def strange_text(scene: Scenario) -> None:
    log = await play(await scene.start(), scene.script([Say(STRANGE)]))
    assert agent_text(log) == STRANGE, agent_text(log)


@case("reports a long text completely")
async def long_text(scene: Scenario) -> None:
    words = " ".join(f"word{number}" for number in range(9000))
    log = await play(await scene.start(), scene.script([Say(words, chunks=20)]))
    assert agent_text(log) == words, f"{len(agent_text(log))} characters of {len(words)}"


@case("keeps chunks of a single character, of blanks alone, and empty ones")
async def small_chunks(scene: Scenario) -> None:
    await _keeps(scene, SMALL)


@case("keeps chunks that repeat or continue the text before them")
async def alike_chunks(scene: Scenario) -> None:
    await _keeps(scene, *ALIKE)


@case("keeps an answer of 200 identical chunks")
async def repetitive_answer(scene: Scenario) -> None:
    await _keeps(scene, ("Same again. ",) * 199 + ("Same again.",))


async def _keeps(scene: Scenario, *answers: tuple[str, ...]) -> None:
    session = await scene.start()
    for chunks in answers:
        text = "".join(chunks)
        log = await play(session, scene.script([Say(text, chunks=chunks)]))
        assert agent_text(log) == text, (agent_text(log), text)
        assert end(log).reason == "completed", end(log)


@case("accepts several prompts in one conversation")
async def two_turns(scene: Scenario) -> None:
    session = await scene.start()
    first = await play(session, scene.script([Say("First.")]))
    second = await play(session, scene.script([Say("Second.")]))
    assert (agent_text(first), agent_text(second)) == ("First.", "Second."), (
        agent_text(first),
        agent_text(second),
    )
    turns = [entry.turn for entry in (*first, *second) if isinstance(entry.event, TurnStarted)]
    assert turns == [1, 2], turns


@case("reports its start and its native session id", "resume")
async def introduces_itself(scene: Scenario) -> None:
    log = await play(await scene.start(), scene.script([Say("Here.")]))
    assert [event.agent for event in of(log, AgentStarted)] == [scene.agent.info.name]
    assert all(event.native_id for event in of(log, AgentReady)), of(log, AgentReady)
    assert of(log, AgentReady), "it did not tell its own session id"


@case("reports its reasoning separately from its messages", "thinking")
async def thinking(scene: Scenario) -> None:
    log = await play(
        await scene.start(), scene.script([Think("Herons fish.", chunks=1), Say("Fish.")])
    )
    assert "Herons fish." in thought(log), thought(log)
    assert agent_text(log) == "Fish.", agent_text(log)


@case("reports the usage of a turn", "usage")
async def usage(scene: Scenario) -> None:
    log = await play(await scene.start(), scene.script([Say(WORDS)]))
    used = of(log, UsageReported)
    assert sum(one.output_tokens for one in used) > 0, used
    assert sum(one.input_tokens + one.cached_tokens for one in used) > 0, used


@case("counts the usage of each turn separately", "usage")
async def usage_of_a_turn(scene: Scenario) -> None:
    session = await scene.start()
    counts = []
    for _ in range(2):
        log = await play(session, scene.script([Say(WORDS)]))
        counts.append(sum(one.output_tokens for one in of(log, UsageReported)))
    assert counts[1] < 2 * counts[0], f"the second turn is counted with the first: {counts}"


@case("counts every model call of a turn once", "usage")
async def usage_of_calls(scene: Scenario) -> None:
    counted = [Usage(1_000, 11, 200), Usage(2_000, 23, 400), Usage(4_000, 47, 800)]
    first, second, third = counted
    prompt = scene.script(
        [first, do("shell", "echo one")],
        [second, do("shell", "echo two")],
        [third, Say("Both.")],
    )
    log = await play(await scene.start(approve="auto"), prompt)
    assert agent_text(log).endswith("Both."), (agent_text(log), end(log))
    used = of(log, UsageReported)
    total = [
        sum(getattr(one, name) for one in used)
        for name in ("input_tokens", "output_tokens", "cached_tokens")
    ]
    assert total == [7_000, 81, 1_400], (total, used)
