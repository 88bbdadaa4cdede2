"""Anthropic Messages API of the scripted model: decodes requests, encodes replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tillerman.testing.model_double.api import (
    Beat,
    Body,
    Spoken,
    asks_for_a_suggestion,
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
    Fail,
    ModelMessage,
    ModelRequest,
    ModelToolCall,
    Say,
    Stall,
    Think,
)

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
_OWN_WORDS = {"overflow": "invalid_request_error", "quota": "billing_error"}


SENT_IN_STREAM: frozenset[str] = frozenset()


def kind(request: ModelRequest) -> str | None:
    match request.method, request.path.partition("?")[0]:
        case "POST", "/v1/messages/count_tokens":
            return "count"
        case "POST", "/v1/messages":
            if _is_chore(request.body):
                return "background"
            return "summary" if _wants_summary(request.body) else "turn"
    return None


def lane(body: Body) -> tuple[str, int]:
    return place(
        (message["role"] == "assistant", " ".join(_texts(message["content"])))
        for message in body.get("messages", [])
        if message["role"] in ("assistant", "user")
    )


def streams(request: ModelRequest) -> bool:
    return bool(request.body.get("stream"))


def background_reply(request: ModelRequest) -> ModelMessage:
    return formed(request.body.get("output_config", {}).get("format", {}).get("schema"))


def count(body: Body) -> Body:
    return {"input_tokens": tokens(body)}


def system_text(body: Body) -> str:
    return "\n".join(_texts(body.get("system", "")))


def user_text(body: Body) -> str:
    # system messages among the others count: text sent during a turn arrives in one
    messages = [m["content"] for m in body.get("messages", []) if m["role"] != "assistant"]
    return "\n".join(text for content in messages for text in _texts(content))


def blocks(body: Body, kind: str) -> list[dict[str, Any]]:
    """The content blocks of one kind in all messages, in order."""
    contents = [m["content"] for m in body.get("messages", []) if isinstance(m["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


def tool_results(body: Body) -> dict[str, str]:
    results = blocks(body, "tool_result")
    return {r["tool_use_id"]: "\n".join(_texts(r.get("content", ""))) for r in results}


def beats(reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
    yield event("message_start", message=_message(reply, reply_id, request, []))
    finished = yield from play(
        reply.parts,
        lambda index, part: _block(part, index, f"{reply_id}_{index}"),
        lambda index, _: iter([event("content_block_stop", index=index)]),
        lambda fail: event("error", error=_error(fail)),
    )
    if not finished:
        return
    yield event(
        "message_delta",
        delta={"stop_reason": _stop_reason(reply), "stop_sequence": None},
        usage={"output_tokens": reply.usage.output},
    )
    yield event("message_stop")


def whole(reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
    content = [
        _finished(part, f"{reply_id}_{index}") for index, part in enumerate(emitted_parts(reply))
    ]
    message = _message(reply, reply_id, request, content)
    message["stop_reason"] = _stop_reason(reply)
    message["usage"]["output_tokens"] = reply.usage.output
    return json.dumps(message).encode()


def failure(fail: Fail) -> tuple[int, Body]:
    status = 402 if fail.kind == "quota" else fail.status
    return status, {"type": "error", "error": _error(fail)}


def _is_chore(body: Body) -> bool:
    """Whether the CLI asks for itself (a title, a quota check), not for an agent."""
    if asks_for_a_suggestion(_last_prompt(body)):
        return True
    if body.get("tools"):
        return False
    wants_a_form = "format" in body.get("output_config", {})
    return wants_a_form or body.get("max_tokens", 4096) <= 512 or "haiku" in body.get("model", "")


def _wants_summary(body: Body) -> bool:
    """Whether the CLI requests a summary to replace the conversation."""
    last = _last_prompt(body)
    return "<analysis>" in last and "<summary>" in last


def _last_prompt(body: Body) -> str:
    prompts = [m["content"] for m in body.get("messages", []) if m["role"] == "user"]
    return " ".join(_texts(prompts[-1])).strip() if prompts else ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block["type"] == "text"]


def _stop_reason(reply: ModelMessage) -> str:
    calls = any(isinstance(part, ModelToolCall) for part in reply.parts)
    return reply.stop or ("tool_use" if calls else "end_turn")


def _error(fail: Fail) -> dict[str, str]:
    words = {None: _ERROR_KINDS.get(fail.status, "api_error")} | _OWN_WORDS
    return {"type": words.get(fail.kind, fail.kind or ""), "message": fail.message}


def _message(
    reply: ModelMessage, reply_id: str, request: ModelRequest, content: list[Body]
) -> Body:
    return {
        "id": f"msg_{reply_id}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "scripted"),
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.usage.input,
            "cache_creation_input_tokens": reply.usage.cache_write,
            "cache_read_input_tokens": reply.usage.cache_read,
            "output_tokens": 1,
        },
    }


def _block(part: Spoken, index: int, fallback_id: str) -> Iterator[Beat]:
    start = _finished(part, fallback_id)
    deltas: list[Body | Stall]
    match part:
        case Say():
            start["text"] = ""
            deltas = [_delta(piece, "text_delta", "text") for piece in paced(part)]
        case Think():
            signature, start["signature"], start["thinking"] = start["signature"], "", ""
            deltas = [_delta(piece, "thinking_delta", "thinking") for piece in paced(part)]
            deltas.append({"type": "signature_delta", "signature": signature})
        case ModelToolCall():
            start["input"] = {}
            arguments = ["", *pieces(json.dumps(part.input), 2)]
            deltas = [_delta(piece, "input_json_delta", "partial_json") for piece in arguments]
    yield event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        if isinstance(delta, Stall):
            yield delta
        else:
            yield event("content_block_delta", index=index, delta=delta)


def _delta(piece: Stall | str, kind: str, field: str) -> Body | Stall:
    return piece if isinstance(piece, Stall) else {"type": kind, field: piece}


def _finished(part: Spoken, fallback_id: str) -> Body:
    match part:
        case Say():
            return {"type": "text", "text": part.text}
        case Think():
            return {"type": "thinking", "thinking": part.text, "signature": f"sig_{fallback_id}"}
        case ModelToolCall():
            call_id = part.id or f"toolu_{fallback_id}"
            return {"type": "tool_use", "id": call_id, "name": part.name, "input": part.input}
