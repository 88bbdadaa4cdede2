"""OpenAI Chat Completions API of the scripted model: decodes requests, encodes replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tillerman.testing.model_double import openai_errors
from tillerman.testing.model_double.api import (
    Beat,
    Body,
    Spoken,
    asks_for_a_suggestion,
    data,
    emitted_parts,
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

SENT_IN_STREAM: frozenset[str] = frozenset()
_FINISH = {"max_tokens": "length", "refusal": "content_filter"}
failure = openai_errors.failure_of_a_compatible


def kind(request: ModelRequest) -> str | None:
    if (request.method, request.path.partition("?")[0]) != ("POST", "/v1/chat/completions"):
        return None
    if _wants_summary(request.body):
        return "summary"
    return "background" if _is_chore(request.body) else "turn"


def lane(body: Body) -> tuple[str, int]:
    return place(
        (message["role"] == "assistant", " ".join(_texts(message.get("content"))))
        for message in body.get("messages", [])
        if message["role"] in ("assistant", "user")
    )


def streams(request: ModelRequest) -> bool:
    return bool(request.body.get("stream"))


def background_reply(request: ModelRequest) -> ModelMessage:
    return formed(_form(request.body))


def count(body: Body) -> Body:
    return {"tokens": tokens(body)}


def system_text(body: Body) -> str:
    return _all_texts(body, "system", "developer")


def user_text(body: Body) -> str:
    return _all_texts(body, "user")


def tool_results(body: Body) -> dict[str, str]:
    results = [m for m in body.get("messages", []) if m["role"] == "tool"]
    return {m["tool_call_id"]: "\n".join(_texts(m["content"])) for m in results}


def beats(reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
    calls = [part for part in emitted_parts(reply) if isinstance(part, ModelToolCall)]

    def chunk(delta: Body, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data(_frame("chat.completion.chunk", reply_id, request) | {"choices": [choice]})

    def begin(index: int, part: Spoken) -> Iterator[Beat]:
        for delta in _deltas(part, f"{reply_id}_{index}", calls):
            yield delta if isinstance(delta, Stall) else chunk(delta)

    yield chunk({"role": "assistant", "content": ""})
    finished = yield from play(
        reply.parts,
        begin,
        lambda *_: iter(()),
        lambda fail: data({"error": openai_errors.error(fail)}),
    )
    if finished:
        yield chunk({}, _finish_reason(reply))
        last = _frame("chat.completion.chunk", reply_id, request)
        yield data(last | {"choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"


def whole(reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
    parts = list(enumerate(emitted_parts(reply)))
    calls = [
        _call(part, f"{reply_id}_{at}") for at, part in parts if isinstance(part, ModelToolCall)
    ]
    message: Body = {
        "role": "assistant",
        "content": "".join(part.text for _, part in parts if isinstance(part, Say)),
    }
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    frame = _frame("chat.completion", reply_id, request)
    return json.dumps(frame | {"choices": [choice], "usage": _usage(reply)}).encode()


_OF_MEMORY = ("You are now acting as the managed memory", "You are performing a managed memory")


def _wants_summary(body: Body) -> bool:
    """Whether the CLI requests a summary to replace the conversation."""
    above, last = system_text(body), _last_prompt(body)
    return (
        "<state_snapshot>" in above
        or above.startswith("You are a context summarization agent")
        or last.rstrip().endswith("respond only with the summary text.")
        or "</state_snapshot>\n\nDo not call tools" in last
    )


def _is_chore(body: Body) -> bool:
    """Whether the CLI asks for itself (a title, what to remember), not for an agent."""
    return (
        system_text(body).startswith(_OF_MEMORY)
        or asks_for_a_suggestion(_last_prompt(body))
        or _form(body) is not None
        or not body.get("tools")
    )


def _last_prompt(body: Body) -> str:
    prompts = [m for m in body.get("messages", []) if m["role"] == "user"]
    return " ".join(_texts(prompts[-1]["content"])) if prompts else ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if part["type"] == "text"]


def _all_texts(body: Body, *roles: str) -> str:
    messages = [m for m in body.get("messages", []) if m["role"] in roles]
    return "\n".join(text for message in messages for text in _texts(message["content"]))


def _form(body: Body) -> Body | None:
    form = body.get("response_format", {})
    schema: Body | None = form.get("json_schema", {}).get("schema")
    return {} if schema is None and form.get("type") == "json_object" else schema


def _finish_reason(reply: ModelMessage) -> str:
    calls = any(isinstance(part, ModelToolCall) for part in reply.parts)
    stop = reply.stop or ("tool_calls" if calls else "stop")
    return _FINISH.get(stop, stop)


def _frame(kind: str, reply_id: str, request: ModelRequest) -> Body:
    model = request.body.get("model", "scripted")
    return {"id": f"chatcmpl_{reply_id}", "object": kind, "created": 0, "model": model}


def _usage(reply: ModelMessage) -> Body:
    usage = reply.usage
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": read,
        "completion_tokens": usage.output,
        "total_tokens": read + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def _call(call: ModelToolCall, fallback_id: str) -> Body:
    return {
        "id": call.id or f"call_{fallback_id}",
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(call.input)},
    }


def _deltas(part: Spoken, fallback_id: str, calls: list[ModelToolCall]) -> Iterator[Body | Stall]:
    match part:
        case Say() | Think():
            field = "content" if isinstance(part, Say) else "reasoning_content"
            for piece in paced(part):
                yield piece if isinstance(piece, Stall) else {field: piece}
        case ModelToolCall():
            at = next(number for number, call in enumerate(calls) if call is part)
            made = _call(part, fallback_id)
            empty = made | {"function": {"name": part.name, "arguments": ""}}
            yield {"tool_calls": [{"index": at} | empty]}
            for piece in pieces(made["function"]["arguments"], 2):
                yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}
