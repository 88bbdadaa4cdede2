"""One script in every API of the scripted model, over plain HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tillerman.testing.model_double.script import (
    Close,
    ConnectionCut,
    Fail,
    ModelMessage,
    ModelToolCall,
    Say,
    Think,
    Usage,
    attempts,
    overflow,
    quota,
    reply,
)
from tillerman.testing.model_double.server import ModelDouble, api_of

pytestmark = pytest.mark.timeout(30)

Body = dict[str, Any]


@dataclass(frozen=True)
class Dialect:
    """How a client of one API sends requests, and where it finds the answer."""

    api: str
    path: str
    turn: Callable[[bool, str], Body]  # of the model or the user
    body: Callable[[list[Body]], Body]
    tool: Body
    text: Callable[[Body], str]

    def asking(self, *messages: str, tools: bool = True) -> Body:
        """A request whose messages alternate between user and model."""
        turns = [self.turn(number % 2 == 1, text) for number, text in enumerate(messages)]
        return self.body(turns) | ({"tools": [self.tool]} if tools else {})


RESPONSES = Dialect(
    "responses",
    "/v1/responses",
    lambda by_model, text: {
        "type": "message",
        "role": "assistant" if by_model else "user",
        "content": [{"type": "output_text" if by_model else "input_text", "text": text}],
    },
    lambda turns: {"model": "m-1", "instructions": "Be brief.", "input": turns},
    {"type": "function", "name": "shell"},
    lambda answer: str(answer["output"][0]["content"][0]["text"]),
)
CHAT = Dialect(
    "chat",
    "/v1/chat/completions",
    lambda by_model, text: {"role": "assistant" if by_model else "user", "content": text},
    lambda turns: {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Be brief."}, *turns],
    },
    {"type": "function", "function": {"name": "shell"}},
    lambda answer: str(answer["choices"][0]["message"]["content"]),
)
GEMINI = Dialect(
    "gemini",
    "/v1beta/models/m-1:generateContent",
    lambda by_model, text: {"role": "model" if by_model else "user", "parts": [{"text": text}]},
    lambda turns: {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": turns},
    {"functionDeclarations": [{"name": "shell"}]},
    lambda answer: str(answer["candidates"][0]["content"]["parts"][0]["text"]),
)
every_api = pytest.mark.parametrize("dialect", [RESPONSES, CHAT, GEMINI], ids=lambda d: d.api)


@pytest.fixture
async def double() -> AsyncIterator[ModelDouble]:
    async with ModelDouble() as running:
        yield running


async def post(double: ModelDouble, path: str, body: Body) -> tuple[int, bytes]:
    return await asyncio.to_thread(_post, double.base_url, path, body)


def _post(base_url: str, path: str, body: Body) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(base_url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body), {"x-goog-api-key": "sk-secret"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def reply_text(
    double: ModelDouble, dialect: Dialect, *messages: str, tools: bool = True
) -> str:
    _, raw = await post(double, dialect.path, dialect.asking(*messages, tools=tools))
    return dialect.text(json.loads(raw))


async def stream(double: ModelDouble, dialect: Dialect, **more: Any) -> list[Body]:
    """The data of each event of a streamed reply to `hi`."""
    path = dialect.path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    _, raw = await post(double, path, dialect.asking("hi") | {"stream": True} | more)
    blocks = raw.decode().removesuffix("\n\n").split("\n\n")
    lines = [block.split("\n")[-1].removeprefix("data: ") for block in blocks]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@every_api
async def test_the_step_is_the_number_of_replies_since_the_tag(
    double: ModelDouble, dialect: Dialect
) -> None:
    double.scenarios |= {"a": [reply(Say("a0")), reply(Say("a1"))], "b": [reply(Say("b0"))]}

    assert await reply_text(double, dialect, "@@a@@ go") == "a0"
    assert await reply_text(double, dialect, "@@a@@ go", "a0", "more") == "a1"
    assert await reply_text(double, dialect, "@@a@@ go", "a0", "now @@b@@") == "b0"
    assert [turn.api for turn in double.turns] == [dialect.api] * 3


@every_api
async def test_a_background_request_of_the_cli_takes_no_step(
    double: ModelDouble, dialect: Dialect
) -> None:
    double.scenarios["a"] = [attempts(reply(Say("first")), reply(Say("second")))]

    assert await reply_text(double, dialect, "@@a@@ title this", tools=False) == "ok"
    assert await reply_text(double, dialect, "@@a@@ go") == "first"
    assert [request.kind for request in double.requests] == ["background", "turn"]


@every_api
async def test_the_prompt_sent_to_the_model_can_be_read_again(
    double: ModelDouble, dialect: Dialect
) -> None:
    double.scenarios["a"] = [reply(Say("a0")), reply(Say("a1"))]

    await reply_text(double, dialect, "@@a@@ one", "a0", "two")

    [turn] = double.turns
    api = api_of(turn)
    assert (api.system_text(turn.body), api.user_text(turn.body)) == ("Be brief.", "@@a@@ one\ntwo")
    assert "sk-secret" not in repr(turn)


@every_api
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 429, 500])
async def test_a_failure_has_its_status_and_its_message(
    double: ModelDouble, dialect: Dialect, status: int
) -> None:
    double.scenarios[""] = [Fail(status, message="not today", retry_after=3)]

    found, raw = await post(double, dialect.path, dialect.asking("hi"))

    assert (found, json.loads(raw)["error"]["message"]) == (status, "not today")


@every_api
async def test_vendor_specific_errors_are_translated_for_the_others(
    double: ModelDouble, dialect: Dialect
) -> None:
    double.scenarios |= {"busy": [Fail(529)], "spent": [quota()], "long": [overflow()]}

    answers = [
        await post(double, dialect.path, dialect.asking(f"@@{name}@@"))
        for name in ("busy", "spent", "long")
    ]

    errors = [json.loads(raw)["error"] for _, raw in answers]
    words = [error.get("code") if dialect is not GEMINI else error["status"] for error in errors]
    assert [status for status, _ in answers] == [503, 402 if dialect is CHAT else 429, 400]
    assert words == (
        ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"]
        if dialect is GEMINI
        else ["server_is_overloaded", "insufficient_quota", "context_length_exceeded"]
    )


@every_api
async def test_a_cut_leaves_the_stream_unfinished(double: ModelDouble, dialect: Dialect) -> None:
    double.scenarios[""] = [reply(Say("half", chunks=1), ConnectionCut(after=0))]

    with pytest.raises(http.client.IncompleteRead) as broken:
        await stream(double, dialect)

    assert b"half" in broken.value.partial


@every_api
async def test_a_closed_stream_ends_properly_and_without_a_finish_reason(
    double: ModelDouble, dialect: Dialect
) -> None:
    double.scenarios[""] = [reply(Say("half", chunks=1), Close())]

    events = await stream(double, dialect)

    reported = json.dumps(events)
    assert "half" in reported
    assert not re.search(r"STOP|\"finish_reason\": \"|response.completed|message_stop", reported)


_ALL = reply(
    Think("Hmm.", chunks=1),
    Say("abcd", chunks=2),
    ModelToolCall("shell", {"cmd": "ls"}, id="c1"),
    usage=Usage(input=7, output=5, cache_read=3),
)


async def test_the_responses_api_streams_items(double: ModelDouble) -> None:
    double.scenarios[""] = [_ALL]

    events = await stream(double, RESPONSES)

    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "message",
        "function_call",
    ]
    assert response["output"][2] == {
        "type": "function_call",
        "id": "fc_0001_2",
        "call_id": "c1",
        "name": "shell",
        "arguments": '{"cmd": "ls"}',
        "status": "completed",
    }
    usage = response["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 5, 15)
    assert usage["input_tokens_details"]["cached_tokens"] == 3


async def test_a_tool_is_called_in_the_form_in_which_it_is_offered(double: ModelDouble) -> None:
    double.scenarios[""] = [
        reply(
            ModelToolCall("patch", {"input": "*** Begin"}),
            ModelToolCall("mcp__tiny__shout", {"text": "a"}),
        )
    ]
    tools = [{"type": "custom", "name": "patch"}, {"type": "function", "name": "shell"}]

    events = await stream(double, RESPONSES, tools=tools)

    patch, shout = events[-1]["response"]["output"]
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")
    assert (shout["type"], shout["namespace"], shout["name"]) == (
        "function_call",
        "mcp__tiny",
        "shout",
    )


async def test_a_tool_that_is_offered_among_the_input_is_called_in_its_language(
    double: ModelDouble,
) -> None:
    double.scenarios[""] = [reply(ModelToolCall("functions__exec", {"input": "text(1)"}))]
    space = {"type": "namespace", "name": "functions"}
    space |= {"tools": [{"type": "custom", "name": "exec"}]}  # type: ignore[dict-item]
    offer = {"type": "additional_tools", "role": "developer", "tools": [space]}

    events = await stream(double, RESPONSES, input=[offer, {"role": "user", "content": "go"}])

    [call] = events[-1]["response"]["output"]
    assert (call["type"], call["namespace"], call["name"], call["input"]) == (
        "custom_tool_call",
        "functions",
        "exec",
        "text(1)",
    )


@pytest.mark.parametrize(
    ("step", "last", "why"),
    [
        (reply(Say("x"), stop="max_tokens"), "response.incomplete", "max_output_tokens"),
        (reply(Say("x"), stop="refusal"), "response.incomplete", "content_filter"),
        (reply(Say("x"), Fail(500)), "response.failed", "server_error"),
        (overflow(), "response.failed", "context_length_exceeded"),
    ],
    ids=["cut short", "refused", "failed", "overflow"],
)
async def test_a_response_that_is_not_completed_gives_the_reason(
    double: ModelDouble, step: ModelMessage | Fail, last: str, why: str
) -> None:
    double.scenarios[""] = [step]

    event = (await stream(double, RESPONSES))[-1]

    details = event["response"]["incomplete_details"] or {}
    error = event["response"]["error"] or {}
    assert (event["type"], details.get("reason") or error.get("code")) == (last, why)


async def test_replies_of_several_items_count_as_one(double: ModelDouble) -> None:
    double.scenarios["a"] = [reply(Say(f"a{step}")) for step in range(3)]
    body = RESPONSES.asking("@@a@@ go")
    body["input"] += [
        {"type": "reasoning", "summary": []},
        RESPONSES.turn(True, "I look."),
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "one @@b@@"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
    ]

    _, raw = await post(double, RESPONSES.path, body)

    [turn] = double.turns
    assert RESPONSES.text(json.loads(raw)) == "a1"
    assert api_of(turn).tool_results(turn.body) == {"c1": "one @@b@@", "c2": "two"}


async def test_the_review_of_an_action_is_a_background_request_that_allows_it(
    double: ModelDouble,
) -> None:
    metadata = json.dumps({"request_kind": "turn", "subagent_kind": "guardian"})
    kinds = {"outcome": {"type": "string", "enum": ["allow", "deny"]}, "rationale": {}}
    schema = {"properties": kinds, "required": ["outcome", "rationale"]}
    more = {
        "client_metadata": {"x-codex-turn-metadata": metadata},
        "text": {"format": {"type": "json_schema", "schema": schema}},
    }

    _, raw = await post(double, RESPONSES.path, RESPONSES.asking("may it?") | more)

    assert json.loads(RESPONSES.text(json.loads(raw))) == {
        "outcome": "allow",
        "rationale": "Scripted",
    }
    assert [request.kind for request in double.requests] == ["background"]


async def test_the_chat_api_streams_deltas(double: ModelDouble) -> None:
    double.scenarios[""] = [_ALL]

    *chunks, last = await stream(double, CHAT)

    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Hmm."},
        {"content": "ab"},
        {"content": "cd"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "shell", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"cmd":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' "ls"}'}}]},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert (last["choices"], last["usage"]) == (
        [],
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
    )


@pytest.mark.parametrize(
    ("system", "prompt"),
    [
        ("You are now acting as the managed memory extraction subagent", "Remember."),
        ("Be brief.", "[SUGGESTION MODE: Suggest what the user might naturally type next.]"),
    ],
    ids=["memory", "suggestion"],
)
async def test_background_requests_with_tools_are_recognized_by_their_text(
    double: ModelDouble, system: str, prompt: str
) -> None:
    body = CHAT.asking("@@a@@ go", "a0", prompt)
    body["messages"][0]["content"] = system

    await post(double, CHAT.path, body)

    assert [request.kind for request in double.requests] == ["background"]


async def test_the_gemini_api_streams_parts(double: ModelDouble) -> None:
    double.scenarios[""] = [_ALL]

    chunks = await stream(double, GEMINI)

    parts = [chunk["candidates"][0]["content"]["parts"][0] for chunk in chunks]
    call = {"id": "c1", "name": "shell", "args": {"cmd": "ls"}}
    assert parts == [
        {"text": "Hmm.", "thought": True},
        {"text": "ab"},
        {"text": "cd"},
        {"functionCall": call, "thoughtSignature": "sig_0001_2"},
        {"text": ""},
    ]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert chunks[-1]["usageMetadata"] == {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "cachedContentTokenCount": 3,
        "totalTokenCount": 15,
    }


async def test_gemini_counts_tokens_and_reports_an_exhausted_quota(double: ModelDouble) -> None:
    double.scenarios[""] = [quota("All spent.")]

    counted = await post(double, "/v1beta/models/m-1:countTokens", GEMINI.asking("x" * 400))
    _, raw = await post(double, GEMINI.path, GEMINI.asking("hi"))

    assert 100 < json.loads(counted[1])["totalTokens"] < 200
    [detail] = json.loads(raw)["error"]["details"]
    assert "PerDay" in detail["violations"][0]["quotaId"]
