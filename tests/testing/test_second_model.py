"""The second scripted model over plain HTTP: in every API and variation, the whole reply
arrives."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.real.second_model import (
    Call,
    Delivery,
    Failure,
    Part,
    Reply,
    SecondModel,
    Step,
    Text,
    Thought,
    Usage,
)

pytestmark = pytest.mark.timeout(60)

Body = dict[str, Any]
PROMPT = "@@scene@@ go"
ASKED: dict[str, tuple[str, Body]] = {
    "anthropic": (
        "/v1/messages",
        {"stream": True, "tools": [{}], "messages": [{"role": "user", "content": PROMPT}]},
    ),
    "responses": (
        "/v1/responses",
        {
            "stream": True,
            "tools": [{"type": "function"}],
            "input": [{"role": "user", "content": [{"type": "input_text", "text": PROMPT}]}],
        },
    ),
    "chat": (
        "/v1/chat/completions",
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{}],
            "messages": [{"role": "user", "content": PROMPT}],
        },
    ),
    "gemini": (
        "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        {"tools": [{}], "contents": [{"role": "user", "parts": [{"text": PROMPT}]}]},
    ),
}
WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(Call, st.just("tool"), st.dictionaries(WORDS, VALUES, max_size=4))
PARTS = st.lists(st.builds(Text, WORDS) | st.builds(Thought, WORDS) | CALLS, min_size=1, max_size=4)
DELIVERIES = st.builds(
    Delivery,
    pieces=st.sampled_from(["mixed", "small", "whole"]),
    keep_alive=st.booleans(),
    unknown=st.booleans(),
    bytewise=st.booleans(),
)


@pytest.fixture(scope="module")
def model() -> Iterator[SecondModel]:
    with SecondModel() as running:
        yield running


@pytest.mark.parametrize("api", ASKED)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=PARTS, delivery=DELIVERIES, seed=st.integers(0, 1000))
def test_every_part_arrives_in_any_chunks(
    model: SecondModel, api: str, parts: list[Part], delivery: Delivery, seed: int
) -> None:
    model.seed = seed
    usage = Usage(fresh=7, output=5, cached=3)
    status, events = ask(model, api, Reply(tuple(parts), usage=usage, delivery=delivery))
    words = "".join(part.text for part in parts if isinstance(part, Text))
    thoughts = "".join(part.text for part in parts if isinstance(part, Thought))
    calls = [part.arguments for part in parts if isinstance(part, Call)]
    read = {"anthropic": read_anthropic, "responses": read_responses, "chat": read_chat}
    assert (status, read.get(api, read_gemini)(events)) == (200, (words, thoughts, calls, (10, 5)))


@pytest.mark.parametrize("api", ASKED)
def test_a_step_follows_from_the_history_and_an_attempt_from_the_count(
    model: SecondModel, api: str
) -> None:
    model.forget()
    steps: list[Step] = [Failure(500), Reply((Text("Done."),))]
    found = [ask(model, api, *steps)[0], ask(model, api, *steps)[0]]
    assert (found, [(one.step, one.attempt) for one in model.asked]) == (
        [500, 200],
        [(0, 0), (0, 1)],
    )


def ask(model: SecondModel, api: str, *tries: Step) -> tuple[int, list[Body]]:
    model.scenes["scene"] = [tries]
    if len(tries) == 1:
        model.forget()
    path, body = ASKED[api]
    connection = http.client.HTTPConnection(model.base_url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, list(events_of(answer.read())) if answer.status == 200 else []
    finally:
        connection.close()


def events_of(stream: bytes) -> Iterator[Body]:
    """By the HTML standard: lines, comments, fields."""
    for line in stream.decode().replace("\r\n", "\n").split("\n"):
        field, _, value = line.partition(": ")
        if field == "data" and value != "[DONE]":
            yield json.loads(value)


Read = tuple[str, str, list[Any], tuple[int, int]]


def read_anthropic(events: list[Body]) -> Read:
    blocks: dict[int, Body] = {}
    counts: Body = {}
    for event in events:
        match event:
            case {"type": "message_start", "message": {"usage": usage}}:
                counts |= usage
            case {"type": "content_block_start", "index": index, "content_block": block}:
                blocks[index] = {"type": block["type"], "said": ""}
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                fields = ("text", "thinking", "partial_json")
                blocks[index]["said"] += next((delta[f] for f in fields if f in delta), "")
            case {"type": "message_delta", "usage": usage}:
                counts |= usage
    assert events[-1]["type"] in ("message_stop", "ping")
    parsed = {
        kind: [block["said"] for block in blocks.values() if block["type"] == kind]
        for kind in ("text", "thinking", "tool_use")
    }
    given = counts["input_tokens"] + counts["cache_read_input_tokens"]
    calls = [json.loads(each) for each in parsed["tool_use"]]
    used = given, counts["output_tokens"]
    return "".join(parsed["text"]), "".join(parsed["thinking"]), calls, used


def read_responses(events: list[Body]) -> Read:
    def joined(kind: str) -> dict[str, str]:
        items: dict[str, str] = {}
        for event in events:
            if event["type"] == f"response.{kind}.delta":
                items[event["item_id"]] = items.get(event["item_id"], "") + event["delta"]
        return items

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    usage = events[-1]["response"]["usage"]
    return (
        "".join(joined("output_text").values()),
        "".join(joined("reasoning_summary_text").values()),
        [json.loads(each) for each in joined("function_call_arguments").values()],
        (usage["input_tokens"], usage["output_tokens"]),
    )


def read_chat(events: list[Body]) -> Read:
    text, thought, calls, usage = "", "", {}, {}
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            thought += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                calls[call["index"]] = calls.get(call["index"], "") + call["function"]["arguments"]
    used = usage["prompt_tokens"], usage["completion_tokens"]
    return text, thought, [json.loads(each) for each in calls.values()], used


def read_gemini(events: list[Body]) -> Read:
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    assert [event["candidates"][0].get("finishReason") for event in events][-1] == "STOP"
    usage = events[-1]["usageMetadata"]
    return (
        "".join(part["text"] for part in parts if "text" in part and not part.get("thought")),
        "".join(part["text"] for part in parts if part.get("thought")),
        [part["functionCall"]["args"] for part in parts if "functionCall" in part],
        (usage["promptTokenCount"], usage["candidatesTokenCount"]),
    )
