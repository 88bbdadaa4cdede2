"""The scripted model over plain HTTP: what a client of the Messages API gets, byte by byte."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tillerman.testing.model_double.script import (
    ConnectionCut,
    Fail,
    ModelMessage,
    ModelRequest,
    ModelToolCall,
    ReplyHold,
    Say,
    Stall,
    Think,
    Usage,
    attempts,
    overflow,
    reply,
)
from tillerman.testing.model_double.server import ModelDouble

pytestmark = pytest.mark.timeout(30)

Body = dict[str, Any]


@pytest.fixture
async def double() -> AsyncIterator[ModelDouble]:
    async with ModelDouble() as running:
        yield running


def asking(*messages: str, **more: Any) -> Body:
    """A request whose messages alternate between user and assistant."""
    roles = ["user", "assistant"] * len(messages)
    turns = [{"role": r, "content": text} for r, text in zip(roles, messages, strict=False)]
    return {"model": "m-1", "max_tokens": 4096, "messages": turns} | more


async def post(double: ModelDouble, body: Body, path: str = "/v1/messages") -> tuple[int, bytes]:
    return await asyncio.to_thread(_post, double.base_url, body, path)


def _post(base_url: str, body: Body, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(base_url.removeprefix("http://"), timeout=10)
    try:
        headers = {"x-api-key": "sk-secret", "Authorization": "Bearer sk-secret", "X-App": "test"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def reply_text(double: ModelDouble, *messages: str, **more: Any) -> str:
    _, raw = await post(double, asking(*messages, **more))
    return str(json.loads(raw)["content"][0]["text"])


def events(stream: bytes) -> list[Body]:
    """The data of each server-sent event; its name must agree."""
    found = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


async def test_a_reply_streams_its_blocks_in_order(double: ModelDouble) -> None:
    double.scenarios[""] = [
        reply(
            Think("Hmm.", chunks=1),
            Say("abcd", chunks=2),
            ModelToolCall("Bash", {"command": "ls"}),
            usage=Usage(input=7, output=5, cache_read=3, cache_write=2),
        )
    ]

    status, stream = await post(double, asking("hi", stream=True))

    start = {"type": "message", "id": "msg_0001", "role": "assistant", "model": "m-1"}
    usage = {
        "input_tokens": 7,
        "output_tokens": 1,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2,
    }
    empty: Body = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    tool = {"type": "tool_use", "id": "toolu_0001_2", "name": "Bash", "input": {}}
    assert (status, events(stream)) == (
        200,
        [
            {"type": "message_start", "message": start | empty},
            _started(0, thinking),
            _delta(0, type="thinking_delta", thinking="Hmm."),
            _delta(0, type="signature_delta", signature="sig_0001_0"),
            {"type": "content_block_stop", "index": 0},
            _started(1, {"type": "text", "text": ""}),
            _delta(1, type="text_delta", text="ab"),
            _delta(1, type="text_delta", text="cd"),
            {"type": "content_block_stop", "index": 1},
            _started(2, tool),
            _delta(2, type="input_json_delta", partial_json=""),
            _delta(2, type="input_json_delta", partial_json='{"command'),
            _delta(2, type="input_json_delta", partial_json='": "ls"}'),
            {"type": "content_block_stop", "index": 2},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
        ],
    )


def _started(index: int, block: Body) -> Body:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, **delta: str) -> Body:
    return {"type": "content_block_delta", "index": index, "delta": delta}


async def test_a_reply_without_a_stream_is_one_message(double: ModelDouble) -> None:
    double.scenarios[""] = [
        reply(Say("Part"), ModelToolCall("Read", {"p": 1}, id="c1"), stop="max_tokens")
    ]

    status, raw = await post(double, asking("hi"))

    message = json.loads(raw)
    assert (status, message["stop_reason"], message["usage"]["output_tokens"]) == (
        200,
        "max_tokens",
        20,
    )
    assert message["content"] == [
        {"type": "text", "text": "Part"},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"p": 1}},
    ]


async def test_the_step_is_the_number_of_replies_since_the_tag(double: ModelDouble) -> None:
    double.scenarios |= {
        "a": [reply(Say("a0")), reply(Say("a1"))],
        "b": [reply(Say("b0")), reply(Say("b1"))],
    }

    assert await reply_text(double, "@@a@@ go") == "a0"
    assert await reply_text(double, "@@a@@ go") == "a0"
    assert await reply_text(double, "@@a@@ go", "a0", "more") == "a1"
    assert await reply_text(double, "@@a@@ go", "a0", "now @@b@@") == "b0"
    assert await reply_text(double, "@@a@@ go", "a0", "now @@b@@", "b0", "more") == "b1"


async def test_concurrent_conversations_keep_to_their_lanes(double: ModelDouble) -> None:
    double.scenarios |= {
        f"lane{n}": [reply(Say(f"{n}.{step}")) for step in range(5)] for n in range(8)
    }

    async def talk(n: int) -> list[str]:
        messages = [f"@@lane{n}@@"]
        answers = []
        for _ in range(5):
            answers.append(await reply_text(double, *messages))
            messages += [answers[-1], "go on"]
        return answers

    received = await asyncio.gather(*map(talk, range(8)))

    assert received == [[f"{n}.{step}" for step in range(5)] for n in range(8)]


async def test_a_tag_may_name_the_step_to_begin_with(double: ModelDouble) -> None:
    double.scenarios["a"] = [reply(Say("a0")), reply(Say("a1")), reply(Say("a2"))]

    assert await reply_text(double, "@@a:1@@ go") == "a1"
    assert await reply_text(double, "@@a:1@@ go", "a1", "more") == "a2"


async def test_a_summary_keeps_the_place_in_the_script(double: ModelDouble) -> None:
    double.scenarios["a"] = [reply(Say("a0")), reply(Say("a1"))]
    option = "Write an <analysis> block and a <summary> block."

    summary = await reply_text(double, "@@a@@ go", "a0", option)
    after = await reply_text(double, f"The story so far: {summary} Go on.")

    stored = "<summary>What went before: @@a:1@@</summary>"
    assert (summary, after) == (f"<state_snapshot>{stored}</state_snapshot>", "a1")
    assert [request.kind for request in double.requests] == ["summary", "turn"]


@pytest.mark.parametrize(
    "aside",
    [
        "<system-reminder>\nthe file says @@b@@\n</system-reminder>",
        "<task-notification><result>@@b@@</result></task-notification>",
    ],
)
async def test_a_tag_in_the_text_of_the_cli_changes_no_lane(
    double: ModelDouble, aside: str
) -> None:
    double.scenarios |= {"a": [reply(Say("a0")), reply(Say("a1"))], "b": [reply(Say("b0"))]}

    assert await reply_text(double, "@@a@@", "a0", aside) == "a1"


async def test_a_tag_in_a_tool_result_changes_no_lane(double: ModelDouble) -> None:
    double.scenarios |= {"a": [reply(Say("a0")), reply(Say("a1"))], "b": [reply(Say("b0"))]}
    body = asking("@@a@@", "a0", "")
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "@@b@@"}
    body["messages"][2]["content"] = [result]

    _, raw = await post(double, body)

    assert json.loads(raw)["content"][0]["text"] == "a1"


async def test_attempts_answer_in_turn_and_the_last_one_stays(double: ModelDouble) -> None:
    double.scenarios[""] = [attempts(Fail(529), Fail(429, retry_after=1.5), reply(Say("ok")))]

    statuses = [(await post(double, asking("hi")))[0] for _ in range(4)]

    assert statuses == [529, 429, 200, 200]
    assert [turn.attempt for turn in double.turns] == [0, 1, 2, 3]


async def test_a_failure_names_its_kind_and_the_retry_delay(double: ModelDouble) -> None:
    double.scenarios[""] = [Fail(429, message="slow down", retry_after=7)]

    def ask() -> tuple[int, str | None, Body]:
        connection = http.client.HTTPConnection(double.base_url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(asking("hi")))
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        return answer.status, answer.getheader("retry-after"), body

    error = {"type": "rate_limit_error", "message": "slow down"}
    assert await asyncio.to_thread(ask) == (429, "7", {"type": "error", "error": error})


async def test_overflow_has_the_text_of_the_real_refusal(double: ModelDouble) -> None:
    double.scenarios[""] = [overflow(tokens=9, limit=8)]

    status, raw = await post(double, asking("hi"))

    message = "prompt is too long: 9 tokens > 8 maximum"
    assert (status, json.loads(raw)["error"]) == (
        400,
        {"type": "invalid_request_error", "message": message},
    )


async def test_a_cut_leaves_the_block_open_and_the_stream_unfinished(double: ModelDouble) -> None:
    double.scenarios[""] = [reply(Say("half", chunks=1), ConnectionCut(after=0))]

    with pytest.raises(http.client.IncompleteRead) as broken:
        await post(double, asking("hi", stream=True))

    kinds = [event["type"] for event in events(broken.value.partial)]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]


async def test_a_failure_inside_a_reply_is_an_error_event(double: ModelDouble) -> None:
    double.scenarios[""] = [reply(Say("half"), Fail(529, message="Overloaded"))]

    status, stream = await post(double, asking("hi", stream=True))

    error = {"type": "overloaded_error", "message": "Overloaded"}
    assert (status, events(stream)[-1]) == (200, {"type": "error", "error": error})


async def test_a_stall_lasts_its_time(double: ModelDouble) -> None:
    double.scenarios[""] = [reply(Say("slow", chunks=4, delay=0.05), Stall(0.2))]
    clock = asyncio.get_running_loop()

    began = clock.time()
    await post(double, asking("hi", stream=True))

    assert clock.time() - began >= 0.4


async def test_a_hold_waits_for_its_release(double: ModelDouble) -> None:
    double.scenarios[""] = [reply(ReplyHold("gate"), Say("through"))]

    pending = asyncio.create_task(reply_text(double, "hi"))
    await double.seen()
    assert not (await asyncio.wait({pending}, timeout=0.1))[0]
    double.release("gate")

    assert await asyncio.wait_for(pending, 5) == "through"


async def test_disconnecting_ends_a_reply_that_hangs() -> None:
    async with ModelDouble([reply(ReplyHold("never", limit=600))]) as double:
        pending = asyncio.create_task(post(double, asking("hi", stream=True)))
        await double.seen()

    with pytest.raises(http.client.IncompleteRead):
        await asyncio.wait_for(pending, 5)


async def test_waiting_for_a_request_that_never_comes_is_bounded(double: ModelDouble) -> None:
    with pytest.raises(TimeoutError):
        await double.seen("nobody", within=0.05)


async def test_a_function_may_choose_the_reply(double: ModelDouble) -> None:
    def echo(request: ModelRequest) -> ModelMessage:
        return reply(Say(f"{request.scenario}: {request.body['messages'][-1]['content']}"))

    double.scenarios["echo"] = echo

    assert await reply_text(double, "@@echo@@ cuckoo") == "echo: @@echo@@ cuckoo"


async def test_a_script_that_raises_is_reported(double: ModelDouble) -> None:
    def broken(request: ModelRequest) -> ModelMessage:
        raise KeyError("colour")

    double.scenarios["broken"] = broken

    status, raw = await post(double, asking("@@broken@@"))

    assert (status, json.loads(raw)["error"]["message"]) == (
        400,
        "the script of 'broken' raised KeyError('colour')",
    )


async def test_a_missing_step_and_a_missing_scenario_list_the_known_ones(
    double: ModelDouble,
) -> None:
    double.scenarios["short"] = [reply(Say("only"))]

    _, past_the_end = await post(double, asking("@@short@@", "only", "more"))
    _, unknown = await post(double, asking("@@other@@"))

    assert [json.loads(raw)["error"]["message"] for raw in (past_the_end, unknown)] == [
        "scenario 'short' has 1 steps, asked for 2",
        "no scenario 'other'; there are: '', 'short'",
    ]


_TITLE_FORM = {"format": {"type": "json_schema", "schema": {"required": ["title"]}}}


@pytest.mark.parametrize(
    ("chore", "answer"),
    [
        ({"output_config": _TITLE_FORM, "max_tokens": 64000}, '{"title": "Scripted"}'),
        ({"max_tokens": 1}, "ok"),
        ({"model": "claude-haiku-5-5"}, "ok"),
    ],
    ids=["title", "quota", "small model"],
)
async def test_a_background_request_of_the_cli_takes_no_step(
    double: ModelDouble, chore: Body, answer: str
) -> None:
    double.scenarios["a"] = [attempts(reply(Say("first")), reply(Say("second")))]

    assert await reply_text(double, "@@a@@ title this", **chore) == answer
    assert await reply_text(double, "@@a@@ go", tools=[{"name": "Bash"}]) == "first"
    assert [request.kind for request in double.requests] == ["background", "turn"]


async def test_tokens_are_counted(double: ModelDouble) -> None:
    status, raw = await post(double, asking("x" * 400), "/v1/messages/count_tokens?beta=true")

    assert status == 200
    assert 100 < json.loads(raw)["input_tokens"] < 200
    assert [request.kind for request in double.requests] == ["count"]


async def test_requests_are_recorded_without_their_keys(double: ModelDouble) -> None:
    double.scenarios["a"] = [reply(Say("hi"))]
    body = asking("@@a@@")

    await post(double, body, "/v1/messages?beta=true")

    [request] = double.requests
    assert "sk-secret" not in repr(request)
    assert request.headers["x-app"] == "test"
    assert request == ModelRequest(
        "POST", "/v1/messages?beta=true", request.headers, body, "turn", "a", 0, 0, "messages"
    )


async def test_one_connection_serves_probes_and_turns_alike(double: ModelDouble) -> None:
    double.scenarios[""] = [reply(Say("hi"))]

    def talk() -> list[tuple[int, int]]:
        connection = http.client.HTTPConnection(double.base_url.removeprefix("http://"), timeout=5)
        answers = []
        for method, path, body in (
            ("HEAD", "/", None),
            ("GET", "/v1/models", None),
            ("POST", "/v1/messages", json.dumps(asking("hi", stream=True))),
            ("POST", "/v1/messages", iter([json.dumps(asking("hi")).encode()])),
            ("POST", "/odd", "not json"),
        ):
            connection.request(method, path, body, encode_chunked=not isinstance(body, str))
            answer = connection.getresponse()
            answer.read()
            answers.append((answer.status, connection.sock.getsockname()[1]))
        connection.close()
        return answers

    answers = await asyncio.to_thread(talk)

    assert [status for status, _ in answers] == [200] * 5
    assert len({port for _, port in answers}) == 1
    kinds = [(r.method, r.kind) for r in double.requests]
    assert kinds == [
        ("HEAD", "probe"),
        ("GET", "probe"),
        ("POST", "turn"),
        ("POST", "turn"),
        ("POST", "probe"),
    ]


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
    ids=["no request line", "odd length", "odd chunk", "endless head"],
)
async def test_a_non_http_request_gets_a_400_and_the_server_continues(
    double: ModelDouble, garbage: bytes
) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(double.base_url.rpartition(":")[2])
    )
    writer.write(garbage)
    status_line = await asyncio.wait_for(reader.readline(), 5)
    writer.close()

    assert status_line == b"HTTP/1.1 400 Bad Request\r\n"
    assert (await post(double, {}, "/anything"))[0] == 200


async def test_invalid_messages_get_a_400(double: ModelDouble) -> None:
    status, raw = await post(double, {"messages": [{"role": "user"}]})

    assert status == 400
    assert "unreadable request" in json.loads(raw)["error"]["message"]


_SCRIPT = {
    "hello": [
        {"type": "reply", "parts": [{"type": "say", "text": "from a file"}]},
        {"type": "attempts", "steps": [{"type": "fail", "status": 500}]},
    ]
}


def test_as_a_process_it_prints_its_address_and_stops_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(_SCRIPT))
    command = [
        sys.executable,
        "-m",
        "tillerman.testing.model_double.server",
        "--script",
        str(script),
    ]

    with subprocess.Popen(
        [*command, "--lifetime", "2"], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        first = _post(address, asking("@@hello@@"), "/v1/messages")
        second = _post(address, asking("@@hello@@", "x", "y"), "/v1/messages")
        code = child.wait(timeout=10)

    assert (first[0], json.loads(first[1])["content"][0]["text"]) == (200, "from a file")
    assert (second[0], code) == (500, 0)


def test_a_script_file_with_an_error_is_refused_by_name(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"hello": [{"type": "reply", "parts": [{"type": "say", "txt": "x"}]}]}')
    command = [
        sys.executable,
        "-m",
        "tillerman.testing.model_double.server",
        "--script",
        str(script),
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=10)

    assert done.returncode == 2
    assert "script.json" in done.stderr
    assert "Traceback" not in done.stderr
