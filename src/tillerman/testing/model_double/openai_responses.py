"""OpenAI Responses API of the scripted model: decodes requests, encodes replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tillerman.testing.model_double import openai_errors
from tillerman.testing.model_double.api import (
    Beat,
    Body,
    Spoken,
    emitted_parts,
    event,
    formed,
    paced,
    pieces,
    place,
    play,
    tokens,
)
from tillerman.testing.model_double.script import (
    ModelMessage,
    ModelRequest,
    ModelToolCall,
    Say,
    Stall,
    Think,
)

_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}

SENT_IN_STREAM = frozenset({"overflow"})
failure = openai_errors.failure


def kind(request: ModelRequest) -> str | None:
    match request.method, request.path.partition("?")[0]:
        case "POST", "/v1/responses/input_tokens":
            return "count"
        case "POST", "/v1/responses":
            reported = _turn_metadata(request.body)
            if reported.get("request_kind") == "compaction":
                return "summary"
            reviews = reported.get("subagent_kind") == "guardian"  # whether an action is allowed
            return "background" if reviews or not _offers_tools(request.body) else "turn"
    return None


def lane(body: Body) -> tuple[str, int]:
    # a reply is a sequence of items: its thoughts, its text, its calls
    runs = groupby(_items(body), key=_is_reply)
    return place(
        (by_model, " ".join(text for item in items for text in _user_texts(item)))
        for by_model, items in runs
    )


def streams(request: ModelRequest) -> bool:
    return bool(request.body.get("stream"))


def background_reply(request: ModelRequest) -> ModelMessage:
    return formed(request.body.get("text", {}).get("format", {}).get("schema"))


def count(body: Body) -> Body:
    return {"object": "response.input_tokens", "input_tokens": tokens(body)}


def system_text(body: Body) -> str:
    above = [item for item in _items(body) if item.get("role") in ("developer", "system")]
    texts = [text for item in above for text in _texts(item["content"])]
    return "\n".join([body.get("instructions") or "", *texts]).strip()


def user_text(body: Body) -> str:
    return "\n".join(text for item in _items(body) for text in _user_texts(item))


def tool_results(body: Body) -> dict[str, str]:
    results = [item for item in _items(body) if item.get("type", "").endswith("_call_output")]
    return {item["call_id"]: "\n".join(_texts(item["output"])) for item in results}


def beats(reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
    made = [
        _item(part, f"{reply_id}_{index}", request.body)
        for index, part in enumerate(emitted_parts(reply))
    ]
    yield event("response.created", response=_response(reply, reply_id, request, "in_progress"))
    finished = yield from play(
        reply.parts,
        lambda index, part: _begin(part, made[index], index),
        lambda index, part: _end(part, made[index], index),
        lambda fail: event(
            "response.failed",
            response=_response(reply, reply_id, request, "failed")
            | {"error": openai_errors.error(fail)},
        ),
    )
    if finished:
        response = _response(reply, reply_id, request, _status(reply)) | {"output": made}
        yield event(f"response.{_status(reply)}", response=response)


def whole(reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
    made = [
        _item(part, f"{reply_id}_{index}", request.body)
        for index, part in enumerate(emitted_parts(reply))
    ]
    response = _response(reply, reply_id, request, _status(reply)) | {"output": made}
    return json.dumps(response).encode()


def _items(body: Body) -> list[Body]:
    given = body.get("input", [])
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [item for item in given if item.get("type") != "additional_tools"]


def _is_reply(item: Body) -> bool:
    if item.get("type", "message") == "message":
        return bool(item["role"] == "assistant")
    return bool(item["type"] == "reasoning" or item["type"].endswith("_call"))


def _user_texts(item: Body) -> list[str]:
    return _texts(item["content"]) if item.get("role") == "user" else []


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if "text" in part]


def _turn_metadata(body: Body) -> Body:
    reported: Body = json.loads(body.get("client_metadata", {}).get("x-codex-turn-metadata", "{}"))
    return reported


def _status(reply: ModelMessage) -> str:
    return "incomplete" if reply.stop in _INCOMPLETE else "completed"


def _response(reply: ModelMessage, reply_id: str, request: ModelRequest, status: str) -> Body:
    usage = reply.usage
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "id": f"resp_{reply_id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": request.body.get("model", "scripted"),
        "output": [],
        "error": None,
        "incomplete_details": (
            {"reason": _INCOMPLETE[reply.stop or ""]} if status == "incomplete" else None
        ),
        "usage": None
        if status in ("in_progress", "failed")
        else {
            "input_tokens": read,
            "input_tokens_details": {
                "cached_tokens": usage.cache_read,
                "cache_write_tokens": usage.cache_write,
            },
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + usage.output,
        },
    }


def _item(part: Spoken, item_id: str, body: Body) -> Body:
    """The finished output item."""
    match part:
        case Say():
            content = [{"type": "output_text", "text": part.text, "annotations": []}]
            return {
                "type": "message",
                "id": f"msg_{item_id}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        case Think():
            return {
                "type": "reasoning",
                "id": f"rs_{item_id}",
                "summary": [{"type": "summary_text", "text": part.text}],
                "encrypted_content": f"sealed_{item_id}",
            }
        case ModelToolCall():
            call_id = part.id or f"call_{item_id}"
            return (
                _called(part, body)
                | {"call_id": call_id, "status": "completed"}
                | {"id": f"fc_{item_id}"}
            )


def _called(call: ModelToolCall, body: Body) -> Body:
    """A call in the form in which the request offers its tool."""
    offered = {tool.get("name"): tool.get("type") for tool in body.get("tools", [])}
    if offered.get(call.name) == "custom":
        return _custom(call, call.name)
    server, _, name = call.name.rpartition("__")
    if server and call.name not in offered:  # a tool of a namespace, such as an MCP server
        made = _custom if (server, name) in _written(body) else _function
        return made(call, name) | {"namespace": server}
    return _function(call, call.name)


def _offers_tools(body: Body) -> bool:
    return bool(body.get("tools") or _among_the_input(body))


def _among_the_input(body: Body) -> list[Body]:
    """Tools that are offered as part of the conversation."""
    given = body.get("input")
    items = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    return [tool for item in items for tool in item.get("tools") or ()]


def _written(body: Body) -> set[tuple[str, str]]:
    """Tools with a custom input language, with their namespaces."""
    return {
        (space["name"], tool["name"])
        for space in _among_the_input(body)
        for tool in space.get("tools", ())
        if tool.get("type") == "custom"
    }


def _custom(call: ModelToolCall, name: str) -> Body:
    text = "".join(map(str, call.input.values()))
    return {"type": "custom_tool_call", "name": name, "input": text}


def _function(call: ModelToolCall, name: str) -> Body:
    return {"type": "function_call", "name": name, "arguments": json.dumps(call.input)}


def _begin(part: Spoken, made: Body, index: int) -> Iterator[Beat]:
    at = {"item_id": made["id"], "output_index": index}
    match part:
        case Say():
            empty: Body = {"content": [], "status": "in_progress"}
            text = {"type": "output_text", "text": "", "annotations": []}
            opening = event("response.content_part.added", **at, content_index=0, part=text)
            name, where, sent = "output_text", {"content_index": 0}, paced(part)
        case Think():
            empty = {"summary": []}
            text = {"type": "summary_text", "text": ""}
            opening = event(
                "response.reasoning_summary_part.added", **at, summary_index=0, part=text
            )
            name, where, sent = "reasoning_summary_text", {"summary_index": 0}, paced(part)
        case ModelToolCall():
            custom = made["type"] == "custom_tool_call"
            name = "custom_tool_call_input" if custom else "function_call_arguments"
            field = "input" if custom else "arguments"
            empty, opening, where = {field: "", "status": "in_progress"}, b"", {}
            sent = iter(pieces(made[field], 2))
    yield event("response.output_item.added", output_index=index, item=made | empty)
    if opening:
        yield opening
    for piece in sent:
        if isinstance(piece, Stall):
            yield piece
        else:
            yield event(f"response.{name}.delta", **at, **where, delta=piece)


def _end(part: Spoken, made: Body, index: int) -> Iterator[bytes]:
    at = {"item_id": made["id"], "output_index": index}
    match part:
        case Say():
            inside = at | {"content_index": 0}
            yield event("response.output_text.done", **inside, text=part.text)
            yield event("response.content_part.done", **inside, part=made["content"][0])
        case Think():
            inside = at | {"summary_index": 0}
            yield event("response.reasoning_summary_text.done", **inside, text=part.text)
            yield event("response.reasoning_summary_part.done", **inside, part=made["summary"][0])
        case ModelToolCall() if made["type"] == "custom_tool_call":
            yield event("response.custom_tool_call_input.done", **at, input=made["input"])
        case ModelToolCall():
            yield event("response.function_call_arguments.done", **at, arguments=made["arguments"])
    yield event("response.output_item.done", output_index=index, item=made)
