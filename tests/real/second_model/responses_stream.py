"""OpenAI Responses: https://platform.openai.com/docs/api-reference/responses-streaming."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.real.second_model import sse
from tests.real.second_model.script import Broken, Call, Delivery, Part, Reply, Text, Thought, Usage
from tests.real.second_model.variation import Variation

REASON = {"length": "max_output_tokens", "refusal": "content_filter"}


class ResponsesStream:
    def __init__(self, reply: Reply | Broken, request: dict[str, Any], vary: Variation) -> None:
        self._reply, self._vary = reply, vary
        self._delivery = reply.delivery if isinstance(reply, Reply) else Delivery()
        self._usage = reply.usage if isinstance(reply, Reply) else Usage()
        self._custom = {
            tool.get("name") for tool in request.get("tools") or () if tool.get("type") == "custom"
        }
        self._base = {
            "id": vary.identifier("resp_", 48),
            "object": "response",
            "created_at": int(time.time()),
            "model": request.get("model", "unknown"),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "metadata": {},
        }
        self._sequence = 0
        self._done: list[dict[str, Any]] = []
        self._item: dict[str, Any] | None = None
        self._closing: list[tuple[str, dict[str, Any]]] = []
        self._ascii = vary.sometimes()

    def body(self) -> Iterator[bytes]:
        yield self._frame("response.created", response=self._response("in_progress"))
        if self._vary.sometimes():
            yield self._frame("response.in_progress", response=self._response("in_progress"))
        if self._delivery.unknown:
            yield self._frame("response.service_notice", level="info", detail={"queue": 3})
        for part in self._reply.parts:
            yield from self._close()
            yield from self._part(part)

    def finish(self) -> Iterator[bytes]:
        yield from self._close()
        assert isinstance(self._reply, Reply)
        kind = "completed" if self._reply.stop == "end" else "incomplete"
        yield self._frame(f"response.{kind}", response=self._final(self._reply))

    def failure(self) -> bytes:
        failed = self._response("failed")
        failed["error"] = {"code": "server_is_overloaded", "message": "Overloaded"}
        return self._frame("response.failed", response=failed)

    def keep_alive(self) -> bytes:
        return sse.KEEP_ALIVE

    def whole(self) -> dict[str, Any]:
        for _ in self.body():
            pass
        for _ in self._close():
            pass
        assert isinstance(self._reply, Reply)
        return self._final(self._reply)

    def _final(self, reply: Reply) -> dict[str, Any]:
        response = self._response("completed" if reply.stop == "end" else "incomplete")
        response["output"] = self._done
        if reply.stop != "end":
            response["incomplete_details"] = {"reason": REASON[reply.stop]}
        usage = self._usage
        response["usage"] = {
            "input_tokens": usage.fresh + usage.cached,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.fresh + usage.cached + usage.output,
        }
        return response

    def _part(self, part: Part) -> Iterator[bytes]:
        match part:
            case Text(text):
                yield from self._message(text)
            case Thought(text):
                yield from self._reasoning(text)
            case Call(name, arguments) if name in self._custom:
                text = arguments["input"]  # free text, not JSON
                yield from self._call(name, text, "custom_tool_call", "input", "_input")
            case Call(name):
                text = part.encoded()
                yield from self._call(name, text, "function_call", "arguments", "_arguments")

    def _message(self, text: str) -> Iterator[bytes]:
        item = {"id": self._vary.identifier("msg_", 48), "type": "message", "role": "assistant"}
        yield self._added({**item, "status": "in_progress", "content": []})
        at = {**self._at(item), "content_index": 0}
        yield self._frame("response.content_part.added", **at, part=output_text(""))
        for piece in self._vary.pieces(text, self._delivery):
            yield self._frame("response.output_text.delta", **at, delta=piece, logprobs=[])
        self._closing = [
            ("response.output_text.done", {**at, "text": text, "logprobs": []}),
            ("response.content_part.done", {**at, "part": output_text(text)}),
        ]
        self._item = {**item, "status": "completed", "content": [output_text(text)]}

    def _reasoning(self, text: str) -> Iterator[bytes]:
        item = {"id": self._vary.identifier("rs_", 48), "type": "reasoning"}
        yield self._added({**item, "summary": []})
        at = {**self._at(item), "summary_index": 0}
        empty, summary = ({"type": "summary_text", "text": each} for each in ("", text))
        yield self._frame("response.reasoning_summary_part.added", **at, part=empty)
        for piece in self._vary.pieces(text, self._delivery):
            yield self._frame("response.reasoning_summary_text.delta", **at, delta=piece)
        self._closing = [
            ("response.reasoning_summary_text.done", {**at, "text": text}),
            ("response.reasoning_summary_part.done", {**at, "part": summary}),
        ]
        self._item = {**item, "summary": [summary], "encrypted_content": None}

    def _call(self, name: str, text: str, kind: str, field: str, end: str) -> Iterator[bytes]:
        prefix = "fc_" if kind == "function_call" else "ctc_"
        event = f"response.{kind}{end}"
        identifiers = {
            "id": self._vary.identifier(prefix, 48),
            "call_id": self._vary.identifier("call_"),
        }
        item = {**identifiers, "type": kind, "name": name}
        yield self._added({**item, "status": "in_progress", field: ""})
        at = self._at(item)
        for piece in self._vary.pieces(text, self._delivery):
            yield self._frame(f"{event}.delta", **at, delta=piece)
        self._closing = [(f"{event}.done", {**at, field: text})]
        self._item = {**item, "status": "completed", field: text}

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._frame("response.output_item.added", output_index=len(self._done), item=item)

    def _at(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"item_id": item["id"], "output_index": len(self._done)}

    def _close(self) -> Iterator[bytes]:
        if self._item is None:
            return
        for kind, fields in self._closing:
            yield self._frame(kind, **fields)
        index = len(self._done)
        yield self._frame("response.output_item.done", output_index=index, item=self._item)
        self._done.append(self._item)
        self._item = None

    def _response(self, status: str) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        return {**self._base, **empty, "status": status}

    def _frame(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        if self._delivery.unknown:
            data["service_hint"] = {"shard": 7}
        return sse.event(data, kind, ascii_only=self._ascii)


def output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
