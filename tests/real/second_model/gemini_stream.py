"""Gemini streamGenerateContent: https://ai.google.dev/api/generate-content (CR LF lines)."""

from __future__ import annotations

import base64
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

STOPS = {"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}


class GeminiStream:
    def __init__(self, reply: Reply | Broken, request: dict[str, Any], vary: Variation) -> None:
        self._reply, self._vary = reply, vary
        self._delivery = reply.delivery if isinstance(reply, Reply) else Delivery()
        self._usage = reply.usage if isinstance(reply, Reply) else Usage()
        self._model = request.get("model", "unknown")
        self._id = vary.identifier("", 22)
        self._ids = vary.sometimes()
        self._ascii = vary.sometimes()
        self._last: dict[str, Any] | None = None
        calls = [isinstance(part, Call) for part in reply.parts]
        self._together = calls == sorted(calls) and vary.sometimes()  # all calls in one chunk

    def body(self) -> Iterator[bytes]:
        pieces = [piece for part in self._reply.parts for piece in self._pieces(part)]
        if isinstance(self._reply, Reply) and pieces and self._vary.sometimes():
            self._last = pieces.pop()
        calls: list[dict[str, Any]] = []
        for piece in pieces:
            if "functionCall" in piece and self._together:
                calls.append(piece)
                continue
            yield self._frame([piece])
        if calls:
            yield self._frame(calls)

    def finish(self) -> Iterator[bytes]:
        """The end is in the last part, or in an extra empty one."""
        assert isinstance(self._reply, Reply)
        last = self._last or {"text": ""}
        if not self._last and self._vary.sometimes():
            last["thoughtSignature"] = self._signature()
        yield self._frame([last], STOPS[self._reply.stop])

    def failure(self) -> bytes:
        error_ = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}
        return sse.event({"error": error_}, end="\r\n")

    def keep_alive(self) -> bytes:
        """None: the service sends no comments, and its own client cannot parse them."""
        return b""

    def whole(self) -> dict[str, Any]:
        assert isinstance(self._reply, Reply)
        parts = [piece for part in self._reply.parts for piece in self._pieces(part)]
        return self._chunk(parts, STOPS[self._reply.stop])

    def _pieces(self, part: Part) -> Iterator[dict[str, Any]]:
        match part:
            case Text(text):
                yield from ({"text": each} for each in self._vary.pieces(text, self._delivery))
            case Thought(text):
                yield {"text": text, "thought": True}  # a summary comes as one part
            case Call(name):
                call = {"name": name, "args": json.loads(part.encoded())}
                if self._ids:
                    call["id"] = self._vary.identifier("", 8).lower()
                yield {"functionCall": call, "thoughtSignature": self._signature()}

    def _signature(self) -> str:
        return base64.b64encode(self._vary.identifier("", 30).encode()).decode()

    def _chunk(self, parts: list[Any], finish: str | None) -> dict[str, Any]:
        usage = self._usage
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        counts = {
            "promptTokenCount": usage.fresh + usage.cached,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "totalTokenCount": usage.fresh + usage.cached + usage.output,
        }
        if usage.cached:
            counts["cachedContentTokenCount"] = usage.cached
        if usage.reasoning:
            counts["thoughtsTokenCount"] = usage.reasoning
        data = {
            "candidates": [candidate],
            "usageMetadata": counts,
            "modelVersion": self._model,
            "responseId": self._id,
        }
        if self._delivery.unknown:
            data["serviceHint"] = {"shard": 7}
            candidate["unknownRatings"] = [{"category": "SERVICE_CATEGORY_NEW", "score": 0.25}]
        return data

    def _frame(self, parts: list[Any], finish: str | None = None) -> bytes:
        data = sse.event(self._chunk(parts, finish), end="\r\n", ascii_only=self._ascii)
        for separator in "\u2028\u2029":  # as in protobuf's JSON; its client cuts lines there
            data = data.replace(separator.encode(), json.dumps(separator)[1:-1].encode())
        return data


def error(failure: Failure, vary: Variation) -> tuple[dict[str, Any], dict[str, str]]:
    """google.rpc.Status as the API returns it. A retry delay is in a RetryInfo, not in a header."""
    _, status, message = REASONS[failure.status]
    details: list[dict[str, Any]] = []
    if failure.retry_after is not None:
        delay = f"{failure.retry_after}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    body = {"error": {"code": failure.status, "message": message, "status": status}}
    if details:
        body["error"]["details"] = details
    return body, {}
