"""Anthropic Messages: https://platform.claude.com/docs/build-with-claude/streaming."""

from __future__ import annotations

import json
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

STOPS = {"end": "end_turn", "length": "max_tokens", "refusal": "refusal"}


class AnthropicStream:
    def __init__(self, reply: Reply | Broken, request: dict[str, Any], vary: Variation) -> None:
        self._reply, self._vary = reply, vary
        self._delivery = reply.delivery if isinstance(reply, Reply) else Delivery()
        self._usage = reply.usage if isinstance(reply, Reply) else Usage()
        self._model = request.get("model", "unknown")
        self._id = vary.identifier("msg_01")
        self._index = -1
        self._open = False
        self._ascii = vary.sometimes()

    def body(self) -> Iterator[bytes]:
        yield self._frame("message_start", message=self._message([], None, output=1))
        if self._delivery.unknown:
            yield self._frame("service_notice", level="info", detail={"queue": 3})
        for part in self._reply.parts:
            yield from self._close()
            yield from self._part(part)

    def finish(self) -> Iterator[bytes]:
        yield from self._close()
        assert isinstance(self._reply, Reply)
        stop = {"stop_reason": self._stop(self._reply), "stop_sequence": None}
        counts: dict[str, Any] = {"output_tokens": self._usage.output}
        if self._vary.sometimes():  # "cumulative": the input may be counted again
            counts = self._counts(self._usage.output)
        yield self._frame("message_delta", delta=stop, usage=counts)
        yield self._frame("message_stop")

    def failure(self) -> bytes:
        return self._frame("error", error={"type": "overloaded_error", "message": "Overloaded"})

    def keep_alive(self) -> bytes:
        return self._frame("ping")

    def whole(self) -> dict[str, Any]:
        assert isinstance(self._reply, Reply)
        content = [self._block(part) for part in self._reply.parts]
        return self._message(content, self._stop(self._reply), output=self._usage.output)

    def _part(self, part: Part) -> Iterator[bytes]:
        self._index, self._open = self._index + 1, True
        yield self._frame(
            "content_block_start", index=self._index, content_block=self._block(part, empty=True)
        )
        if self._index == 0 and self._vary.sometimes():
            yield self._frame("ping")
        match part:
            case Text(text):
                yield from self._deltas("text_delta", "text", text)
            case Thought(text):
                yield from self._deltas("thinking_delta", "thinking", text)
                signature = self._vary.identifier("Er", 60)
                yield from self._deltas("signature_delta", "signature", signature, whole=True)
            case Call():
                yield from self._deltas("input_json_delta", "partial_json", "", whole=True)
                yield from self._deltas("input_json_delta", "partial_json", part.encoded())

    def _deltas(self, kind: str, field: str, text: str, *, whole: bool = False) -> Iterator[bytes]:
        pieces = [text] if whole else self._vary.pieces(text, self._delivery)
        for piece in pieces:
            delta: dict[str, Any] = {"type": kind, field: piece}
            yield self._frame("content_block_delta", index=self._index, delta=delta)

    def _block(self, part: Part, *, empty: bool = False) -> dict[str, Any]:
        match part:
            case Text(text):
                return {"type": "text", "text": "" if empty else text}
            case Thought(text):
                return {"type": "thinking", "thinking": "" if empty else text, "signature": ""}
            case Call(name):
                given = {} if empty else json.loads(part.encoded())
                identifier = self._vary.identifier("toolu_01", 22)
                return {"type": "tool_use", "id": identifier, "name": name, "input": given}

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = False
            yield self._frame("content_block_stop", index=self._index)

    def _stop(self, reply: Reply) -> str:
        called = reply.stop == "end" and any(isinstance(part, Call) for part in reply.parts)
        return "tool_use" if called else STOPS[reply.stop]

    def _message(self, content: list[Any], stop: str | None, *, output: int) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**self._counts(output), "service_tier": "standard"},
        }

    def _counts(self, output: int) -> dict[str, Any]:
        return {
            "input_tokens": self._usage.fresh,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self._usage.cached,
            "output_tokens": output,
        }

    def _frame(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, **fields}
        if self._delivery.unknown:
            data["service_hint"] = {"shard": 7}
        return sse.event(data, kind, ascii_only=self._ascii)


def error(failure: Failure, vary: Variation) -> tuple[dict[str, Any], dict[str, str]]:
    kind, _, message = REASONS[failure.status]
    request_id = vary.identifier("req_011")
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    headers = {"request-id": request_id}
    if failure.retry_after is not None:
        headers["retry-after"] = str(failure.retry_after)
    return body, headers
