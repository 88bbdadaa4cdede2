"""An output schema: the answer is validated, repaired once if requested, or the turn fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sessions.relay_desk import Second, agent_text, entries_of, fallback, notices, of, script
from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.core.errors import UsageError
from tillerman.core.events import Entry, TurnEnded, UserMessage
from tillerman.core.program.answer_format import AnswerFormat, NoJson, read_answer, request_for
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.output_schema_check import check_schema
from tillerman.surfaces.exit_codes import exit_code

BIRD = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}
TAKES_SCHEMAS = Second(can=INFO.can | {"schema"})


async def play(
    desk: Desk, *turns: list[dict[str, Any]], format: AnswerFormat, agent: Any = None
) -> tuple[list[Entry], Any]:
    spec = desk.spec(script(desk, "a", *turns))
    run_settings = desk.run_settings(answer=format)
    session = await desk.sessions.start(
        agent or desk.agent, spec, run_settings, fallback=FallbackPolicy()
    )
    return await entries_of(session), session.result()


def kind(entries: list[Entry]) -> str | None:
    (end,) = of(entries, TurnEnded)
    return end.failure.kind if end.failure else None


FITTING = {
    "plain": '{"bird": "heron"}',
    "with space": '\n {"bird": "heron"}\n',
    "in a block": 'Here it is:\n```json\n{"bird": "heron"}\n```\nThat is all.',
}


@pytest.mark.parametrize("text", FITTING.values(), ids=FITTING)
async def test_an_answer_that_fits_is_the_result(desk: Desk, text: str) -> None:
    entries, result = await play(desk, [{"say": text}], format=AnswerFormat(BIRD))
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed", result={"bird": "heron"})]
    assert result.output == {"bird": "heron"}


WRONG = {
    "prose": ("A heron.", "the answer is not JSON: Expecting value: line 1 column 1 (char 0)"),
    "another type": ('{"bird": 7}', "at $.bird, 7 is not of type 'string'"),
    "missing": ("{}", "at $, 'bird' is a required property"),
    "two blocks": ('```\n{"bird": "a"}\n```\n```\n{"bird": "b"}\n```', "the answer is not JSON"),
    "NaN": ("NaN", "the answer is not JSON: NaN is not a JSON value"),
    "infinite": ("[1e999]", "the answer is not JSON: 1e999 is not a JSON value"),
    "deep": ("[" * 100_000, "the answer is not JSON: it is nested too deeply"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
async def test_an_answer_that_does_not_fit_fails_with_a_kind_and_an_exit_code_of_its_own(
    desk: Desk, text: str, problem: str
) -> None:
    entries, result = await play(desk, [{"say": text}], format=AnswerFormat(BIRD))
    (end,) = of(entries, TurnEnded)
    assert (end.reason, end.failure.kind) == ("failed", "schema_mismatch")
    assert end.failure.message.startswith(f"the answer does not match the output schema: {problem}")
    assert exit_code(end.failure) == 6
    assert result.text == text  # it is not lost


async def test_structured_output_separate_from_the_text_is_validated_too(desk: Desk) -> None:
    format = AnswerFormat(BIRD)
    entries, _ = await play(desk, [{"say": "So."}, {"stop": {"bird": "heron"}}], format=format)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed", result={"bird": "heron"})]
    entries, _ = await play(desk, [{"say": "So."}, {"stop": {"bird": 7}}], format=format)
    assert kind(entries) == "schema_mismatch"


async def test_a_repair_attempt_is_optional(desk: Desk) -> None:
    steps = [{"say": "A heron."}], [{"say": '{"bird": "heron"}'}]
    entries, result = await play(desk, *steps, format=AnswerFormat(BIRD, repair=True))
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed", result={"bird": "heron"})]
    (asked,) = of(entries, UserMessage)
    assert asked.how == "repair"
    assert "the answer is not JSON" in asked.text
    assert json.dumps(BIRD) in asked.text
    assert result.text == '{"bird": "heron"}'
    assert [one[0] for one in notices(entries)] == ["retry"]


async def test_a_failed_repair_is_final(desk: Desk) -> None:
    steps = [{"say": "A heron."}], [{"say": '{"bird": 7}'}], [{"say": '{"bird": "heron"}'}]
    entries, result = await play(desk, *steps, format=AnswerFormat(BIRD, repair=True))
    assert kind(entries) == "schema_mismatch"
    assert result.text == '{"bird": 7}'
    assert len(of(entries, UserMessage)) == 1


async def test_only_an_agent_without_native_schemas_is_prompted_in_text(desk: Desk) -> None:
    steps = [{"say": "{prompt}"}]
    asked, _ = await play(desk, steps, format=AnswerFormat(BIRD))
    assert request_for(BIRD) in agent_text(asked)
    native, _ = await play(desk, steps, format=AnswerFormat(BIRD), agent=TAKES_SCHEMAS)
    assert agent_text(native) == "do it"


async def test_the_next_agent_is_prompted_in_text_as_well(desk: Desk) -> None:
    quota = {"fail": "billing", "message": "the quota is used up"}
    spec = desk.spec(script(desk, "a", [quota]))
    others = fallback(desk, (Second(), script(desk, "b", [{"say": "{prompt}"}])))
    session = await desk.sessions.start(
        TAKES_SCHEMAS, spec, desk.run_settings(answer=AnswerFormat(BIRD)), fallback=others
    )
    entries = await entries_of(session)
    assert request_for(BIRD) in agent_text(entries)
    assert kind(entries) == "schema_mismatch"


async def test_a_turn_that_failed_by_itself_keeps_its_reason(desk: Desk) -> None:
    entries, _ = await play(desk, [{"fail": "refused"}], format=AnswerFormat(BIRD, repair=True))
    assert kind(entries) == "refused"


@pytest.mark.parametrize("schema", [{"type": "birds"}, {"required": "bird"}, {"items": 7}])
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(UsageError, match="the output schema is not a valid JSON Schema"):
        check_schema(schema)


async def test_references_of_a_schema_are_not_fetched(desk: Desk) -> None:
    schema = {"$ref": "http://127.0.0.1:9/bird.json"}
    entries, _ = await play(desk, [{"say": "{}"}], format=AnswerFormat(schema))
    (end,) = of(entries, TurnEnded)
    assert "refers to 'http://127.0.0.1:9/bird.json', which is not in it" in end.failure.message


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
PROSE = st.text(st.characters(exclude_characters="`", exclude_categories=["Cs"]), max_size=50)


@settings(max_examples=300, deadline=None)
@given(value=JSON, before=PROSE, after=PROSE, indent=st.sampled_from([None, 2]))
def test_any_value_is_read_alone_or_from_the_only_block_in_text(
    value: Any, before: str, after: str, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    assert read_answer(text) == value
    assert read_answer(f"Words: {before}\n```json\n{text}\n```\n{after}") == value


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=100))
def test_any_agent_output_is_a_value_or_not_json(text: str) -> None:
    try:
        json.dumps(read_answer(text), allow_nan=False)
    except NoJson:
        with pytest.raises(ValueError):
            json.dumps(json.loads(text), allow_nan=False)
