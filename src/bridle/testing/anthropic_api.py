"""The Anthropic Messages API as a scripted model speaks it: requests read, replies encoded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from bridle.testing.model_script import (
    DEFAULT,
    Call,
    Cut,
    Fail,
    Hold,
    Reply,
    Say,
    Stall,
    Think,
    Usage,
)

Body: TypeAlias = dict[str, Any]
Beat: TypeAlias = bytes | Stall | Hold | Cut
"""What happens next on the connection: bytes to send, or a pause, or its end."""

_TAG = re.compile(r"@@([\w.-]*)(?::(\d+))?@@")
_NOT_THE_USER = re.compile(
    r"<(system-reminder|task-notification)>.*?</\1>", re.DOTALL
)  # the CLI's own words in a user message; they may quote a subagent
_ERROR_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def lane(body: Body) -> tuple[str, int]:
    """The scenario named last in what the user said, and how many replies it has had since."""
    scenario, replies = DEFAULT, 0
    for message in body.get("messages", []):
        match message["role"]:
            case "assistant":
                replies += 1
            case "user":
                said = _NOT_THE_USER.sub("", " ".join(_texts(message["content"])))
                if tags := _TAG.findall(said):
                    scenario, replies = tags[-1][0], int(tags[-1][1] or 0)
    return scenario, replies


def wants_summary(body: Body) -> bool:
    """Whether the CLI has a conversation summarised, to go on with the summary in its place."""
    prompts = [m["content"] for m in body.get("messages", []) if m["role"] == "user"]
    last = " ".join(_texts(prompts[-1])) if prompts else ""
    return "<analysis>" in last and "<summary>" in last


def summary_reply(scenario: str, step: int) -> Reply:
    """A summary with a tag in it, so that the conversation keeps its place in the script."""
    return Reply((Say(f"<summary>What went before: @@{scenario}:{step}@@</summary>"),))


def is_background(body: Body) -> bool:
    """Whether the CLI asks on its own account (a title, a quota check), not for an agent."""
    if body.get("tools"):
        return False
    wants_a_form = "format" in body.get("output_config", {})
    return wants_a_form or body.get("max_tokens", 4096) <= 512 or "haiku" in body.get("model", "")


def dull_reply(body: Body) -> Reply:
    """An answer to a chore that fits its form and that no test takes for the script's."""
    schema = body.get("output_config", {}).get("format", {}).get("schema")
    if schema is None:
        return Reply((Say("ok"),))
    return Reply((Say(json.dumps(dict.fromkeys(schema.get("required", []), "Scripted"))),))


def system_text(body: Body) -> str:
    return "\n".join(_texts(body.get("system", "")))


def user_text(body: Body) -> str:
    """All text the model is told, tool results aside.

    System messages among the others count: words sent in mid-turn arrive in one.
    """
    said = [m["content"] for m in body.get("messages", []) if m["role"] != "assistant"]
    return "\n".join(text for content in said for text in _texts(content))


def blocks(body: Body, kind: str) -> list[dict[str, Any]]:
    """The content blocks of one kind in all messages, in order."""
    contents = [m["content"] for m in body.get("messages", []) if isinstance(m["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


def tool_results(body: Body) -> dict[str, str]:
    """The text of each tool result the model is shown, by the id of its call."""
    results = blocks(body, "tool_result")
    return {r["tool_use_id"]: "\n".join(_texts(r.get("content", ""))) for r in results}


def beats(reply: Reply, message_id: str, model: str) -> Iterator[Beat]:
    """The reply as a server-sent stream; a pause or a cut leaves the block before it open."""
    yield _sse("message_start", message=_message(message_id, model, [], None, reply.usage))
    index, block_is_open = 0, False
    for number, part in enumerate(reply.parts):
        if isinstance(part, Say | Think | Call):
            if block_is_open:
                yield _sse("content_block_stop", index=index)
                index += 1
            yield from _block(part, index, f"{message_id}_{number}")
            block_is_open = True
        elif isinstance(part, Fail):
            yield _sse("error", error=_error(part))
            return
        else:
            yield part
            if isinstance(part, Cut):
                return
    if block_is_open:
        yield _sse("content_block_stop", index=index)
    yield _sse(
        "message_delta",
        delta={"stop_reason": _stop_reason(reply), "stop_sequence": None},
        usage={"output_tokens": reply.usage.output},
    )
    yield _sse("message_stop")


def whole(reply: Reply, message_id: str, model: str) -> bytes:
    """The reply as one JSON message, for a request that did not ask for a stream."""
    content = [
        _finished(part, f"{message_id}_{number}")
        for number, part in enumerate(reply.parts)
        if isinstance(part, Say | Think | Call)
    ]
    message = _message(message_id, model, content, _stop_reason(reply), reply.usage)
    return json.dumps(message).encode()


def failure(fail: Fail) -> tuple[dict[str, str], bytes]:
    """The headers and body of an HTTP error."""
    headers = {"content-type": "application/json"}
    if fail.retry_after is not None:
        headers["retry-after"] = f"{fail.retry_after:g}"
    return headers, json.dumps({"type": "error", "error": _error(fail)}).encode()


def token_count(body: Body) -> bytes:
    """A believable size: four characters a token."""
    return json.dumps({"input_tokens": math.ceil(len(json.dumps(body)) / 4)}).encode()


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def _stop_reason(reply: Reply) -> str:
    calls = any(isinstance(part, Call) for part in reply.parts)
    return reply.stop or ("tool_use" if calls else "end_turn")


def _error(fail: Fail) -> dict[str, str]:
    return {
        "type": fail.kind or _ERROR_KINDS.get(fail.status, "api_error"),
        "message": fail.message,
    }


def _message(
    message_id: str, model: str, content: list[Body], stop_reason: str | None, usage: Usage
) -> Body:
    return {
        "id": f"msg_{message_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output if stop_reason else 1,
        },
    }


def _block(part: Say | Think | Call, index: int, fallback_id: str) -> Iterator[Beat]:
    start = _finished(part, fallback_id)
    deltas: list[Body]
    match part:
        case Say():
            start["text"] = ""
            deltas = [{"type": "text_delta", "text": p} for p in _pieces(part.text, part.chunks)]
        case Think():
            signature, start["signature"], start["thinking"] = start["signature"], "", ""
            pieces = _pieces(part.text, part.chunks)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": signature})
        case Call():
            start["input"] = {}
            pieces = ["", *_pieces(json.dumps(part.input), 2)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield _sse("content_block_start", index=index, content_block=start)
    for delta in deltas:
        if not isinstance(part, Call) and part.delay:
            yield Stall(part.delay)
        yield _sse("content_block_delta", index=index, delta=delta)


def _finished(part: Say | Think | Call, fallback_id: str) -> Body:
    match part:
        case Say():
            return {"type": "text", "text": part.text}
        case Think():
            return {"type": "thinking", "thinking": part.text, "signature": f"sig_{fallback_id}"}
        case Call():
            call_id = part.id or f"toolu_{fallback_id}"
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": part.input}


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, math.ceil(len(text) / max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _sse(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()
