"""Gemini API of the scripted model: decodes requests, encodes replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tillerman.testing.model_double.api import (
    Beat,
    Body,
    Spoken,
    data,
    emitted_parts,
    formed,
    paced,
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

SENT_IN_STREAM: frozenset[str] = frozenset()
_PATH = re.compile(r"/v1(?:beta|alpha)?/models/([^/:?]+):(\w+)")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}
_OWN_WORDS = {"overflow": "INVALID_ARGUMENT", "quota": "RESOURCE_EXHAUSTED"}
_FINISH = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_ERROR_DETAIL = "type.googleapis.com/google.rpc."


def kind(request: ModelRequest) -> str | None:
    found = _PATH.match(request.path)
    if request.method != "POST" or not found:
        return None
    match found[2]:
        case "countTokens":
            return "count"
        case "streamGenerateContent" | "generateContent":
            if "<state_snapshot>" in system_text(request.body):
                return "summary"
            chore = _form(request.body) is not None or not request.body.get("tools")
            return "background" if chore else "turn"
    return None


def lane(body: Body) -> tuple[str, int]:
    return place(
        (content.get("role") == "model", " ".join(_texts(content)))
        for content in body.get("contents", [])
    )


def streams(request: ModelRequest) -> bool:
    return ":streamGenerateContent" in request.path


def background_reply(request: ModelRequest) -> ModelMessage:
    return formed(_form(request.body))


def count(body: Body) -> Body:
    return {"totalTokens": tokens(body)}


def system_text(body: Body) -> str:
    return "\n".join(_texts(body.get("systemInstruction", {})))


def user_text(body: Body) -> str:
    reported = [content for content in body.get("contents", []) if content.get("role") != "model"]
    return "\n".join(text for content in reported for text in _texts(content))


def tool_results(body: Body) -> dict[str, str]:
    parts = [part for content in body.get("contents", []) for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return {result.get("id") or result["name"]: _result_text(result) for result in results}


def beats(reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
    def chunk(parts: list[Body], finish: str | None = None) -> bytes:
        return data(_response(reply, reply_id, request, parts, finish))

    def begin(index: int, part: Spoken) -> Iterator[Beat]:
        for made in _parts(part, f"{reply_id}_{index}"):
            yield made if isinstance(made, Stall) else chunk([made])

    finished = yield from play(
        reply.parts, begin, lambda *_: iter(()), lambda fail: data(failure(fail)[1])
    )
    if finished:
        yield chunk([{"text": ""}] if reply.parts else [], _finish_reason(reply))


def whole(reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
    parts = [_whole_part(part, f"{reply_id}_{at}") for at, part in enumerate(emitted_parts(reply))]
    response = _response(reply, reply_id, request, parts, _finish_reason(reply))
    return json.dumps(response).encode()


def failure(fail: Fail) -> tuple[int, Body]:
    status = 503 if fail.status == 529 else fail.status  # a status of another vendor
    words = {None: _STATUSES.get(status, "UNKNOWN")} | _OWN_WORDS
    error: Body = {
        "code": status,
        "message": fail.message,
        "status": words.get(fail.kind, fail.kind),
        "details": [],
    }
    if fail.kind == "quota":
        spent = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
        detail = {"@type": f"{_ERROR_DETAIL}QuotaFailure", "violations": [spent]}
        error["details"].append(detail)
    if fail.retry_after is not None:
        delay = f"{fail.retry_after:g}s"
        error["details"].append({"@type": f"{_ERROR_DETAIL}RetryInfo", "retryDelay": delay})
    return status, {"error": error}


def _texts(content: Body) -> list[str]:
    return [part["text"] for part in content.get("parts", []) if "text" in part]


def _result_text(result: Body) -> str:
    response: Any = result["response"]
    reported = response.get("output", response.get("error", response))
    return reported if isinstance(reported, str) else json.dumps(reported)


def _form(body: Body) -> Body | None:
    config = body.get("generationConfig", {})
    schema: Body | None = config.get("responseJsonSchema") or config.get("responseSchema")
    wants_json = config.get("responseMimeType") == "application/json"
    return {} if schema is None and wants_json else schema


def _finish_reason(reply: ModelMessage) -> str:
    return _FINISH.get(reply.stop or "", reply.stop or "STOP")


def _response(
    reply: ModelMessage, reply_id: str, request: ModelRequest, parts: list[Body], finish: str | None
) -> Body:
    usage = reply.usage
    read = usage.input + usage.cache_read + usage.cache_write
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    found = _PATH.match(request.path)
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": read,
            "candidatesTokenCount": usage.output,
            "cachedContentTokenCount": usage.cache_read,
            "totalTokenCount": read + usage.output,
        },
        "modelVersion": found[1] if found else "scripted",
        "responseId": f"resp_{reply_id}",
    }


def _parts(part: Spoken, fallback_id: str) -> Iterator[Body | Stall]:
    if isinstance(part, ModelToolCall):
        yield _whole_part(part, fallback_id)
        return
    for piece in paced(part):
        if isinstance(piece, Stall):
            yield piece
        else:
            yield {"text": piece} | ({"thought": True} if isinstance(part, Think) else {})


def _whole_part(part: Spoken, fallback_id: str) -> Body:
    match part:
        case Say():
            return {"text": part.text}
        case Think():
            return {"text": part.text, "thought": True}
        case ModelToolCall():
            call = {"id": part.id or f"call_{fallback_id}", "name": part.name, "args": part.input}
            return {"functionCall": call, "thoughtSignature": f"sig_{fallback_id}"}
