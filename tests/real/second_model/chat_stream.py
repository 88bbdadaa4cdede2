"""OpenAI Chat Completions by its API reference; `reasoning_content` is Qwen's and DeepSeek's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.real.second_model import sse
from tests.real.second_model.script import (
    REASONS,
    Broken,
    Call,
    Delivery,
    Failure,
    Part,
    Reply,
    Text,
    Thought,
    Usage,
)
from tests.real.second_model.variation import Variation

STOPS = {"end": "stop", "length": "length", "refusal": "content_filter"}


class ChatStream:
    def __init__(self, reply: Reply | Broken, request: dict[str, Any], vary: Variation) -> None:
        self._reply, self._vary, self._request = reply, vary, request
        self._delivery = reply.delivery if isinstance(reply, Reply) else Delivery()
        self._usage = reply.usage if isinstance(reply, Reply) else Usage()
        self._head = {
            "id": vary.identifier("chatcmpl-", 29),
            "created": int(time.time()),
            "model": request.get("model", "unknown"),
            "system_fingerprint": vary.identifier("fp_", 10),
        }
        self._calls = 0
        self._ascii = vary.sometimes()
        self._repeats = vary.sometimes()  # role and empty id in every chunk, as DashScope does
        self._counts_last = vary.sometimes()  # usage in a separate chunk, as OpenAI sends it

    def body(self) -> Iterator[bytes]:
        if self._delivery.unknown:  # Azure opens with a chunk that has no choice
            yield self._frame([], prompt_filter_results=[{"prompt_index": 0}])
        yield self._delta({"role": "assistant", "content": "" if self._vary.sometimes() else None})
        for part in self._reply.parts:
            yield from self._part(part)

    def finish(self) -> Iterator[bytes]:
        assert isinstance(self._reply, Reply)
        counted = (self._request.get("stream_options") or {}).get("include_usage")
        usage = {"usage": self._counts()} if counted else {}
        stop = self._stop(self._reply)
        if self._counts_last:
            yield self._delta({}, stop)
            if counted:
                yield self._frame([], **usage)
        else:
            yield self._delta({}, stop, **usage)
        yield b"data: [DONE]\n\n"

    def failure(self) -> bytes:
        error_ = {"message": "Overloaded", "type": "server_error", "code": None, "param": None}
        return sse.event({"error": error_})

    def keep_alive(self) -> bytes:
        return sse.KEEP_ALIVE

    def whole(self) -> dict[str, Any]:
        assert isinstance(self._reply, Reply)
        parts = self._reply.parts
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(part.text for part in parts if isinstance(part, Text)),
            "refusal": None,
        }
        calls = [self._call(part) for part in parts if isinstance(part, Call)]
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._stop(self._reply)}
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._counts(),
        }

    def _part(self, part: Part) -> Iterator[bytes]:
        match part:
            case Text(text):
                for piece in self._vary.pieces(text, self._delivery):
                    yield self._delta({"content": piece})
            case Thought(text):
                for piece in self._vary.pieces(text, self._delivery):
                    yield self._delta({"reasoning_content": piece, "content": None})
            case Call():
                index, self._calls = self._calls, self._calls + 1
                pieces = self._vary.pieces(part.encoded(), self._delivery)
                first = "" if self._vary.sometimes() or not pieces else pieces.pop(0)
                yield self._delta({"tool_calls": [{"index": index, **self._call(part, first)}]})
                for piece in pieces:
                    more = {"index": index, "function": {"arguments": piece}}
                    again = {"id": "", "type": "function"} if self._repeats else {}
                    yield self._delta({"tool_calls": [more | again]})

    def _call(self, call: Call, arguments: str | None = None) -> dict[str, Any]:
        given = call.encoded() if arguments is None else arguments
        function = {"name": call.name, "arguments": given}
        return {"id": self._vary.identifier("call_"), "type": "function", "function": function}

    def _stop(self, reply: Reply) -> str:
        called = reply.stop == "end" and any(isinstance(part, Call) for part in reply.parts)
        return "tool_calls" if called else STOPS[reply.stop]

    def _counts(self) -> dict[str, Any]:
        usage = self._usage
        return {
            "prompt_tokens": usage.fresh + usage.cached,
            "completion_tokens": usage.output,
            "total_tokens": usage.fresh + usage.cached + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
        }

    def _delta(self, delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
        if self._repeats:
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._frame([choice], **fields)

    def _frame(self, choices: list[Any], **fields: Any) -> bytes:
        data = {**self._head, "object": "chat.completion.chunk", "choices": choices, **fields}
        if self._delivery.unknown:
            data["service_hint"] = {"shard": 7}
        return sse.event(data, ascii_only=self._ascii)


def error(failure: Failure, vary: Variation) -> tuple[dict[str, Any], dict[str, str]]:
    """The body of the two OpenAI APIs: https://platform.openai.com/docs/guides/error-codes."""
    kind, _, message = REASONS[failure.status]
    codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
    code = codes.get(failure.status)
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    headers = {"x-request-id": vary.identifier("req_")} if vary.sometimes() else {}
    if failure.retry_after is not None:
        headers["retry-after"] = str(failure.retry_after)
    return body, headers
