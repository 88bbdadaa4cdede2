"""Parses a CLI's request: its API, and the scene that the newest prompt names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

SCENE = re.compile(r"@@([\w-]+)@@")

MODELS_ITEMS = ("reasoning", "function_call", "custom_tool_call")
"""Items of the Responses API that have no role."""


def api_of(path: str) -> str | None:
    """The API of a generating path, whatever prefix the base URL has."""
    route = path.partition("?")[0].rstrip("/")
    if route.endswith("/messages"):
        return "anthropic"
    if route.endswith("/responses"):
        return "responses"
    if route.endswith("/chat/completions"):
        return "chat"
    if route.endswith((":streamGenerateContent", ":generateContent")):
        return "gemini"
    return None


def streams(path: str, body: dict[str, Any]) -> bool:
    return ":streamGenerateContent" in path or body.get("stream") is True


def scene_of(body: dict[str, Any]) -> tuple[str, int] | None:
    """The scene that the newest prompt names, and the number of replies after it in the history.

    None for a side request, which has no tools.
    """
    if not body.get("tools"):
        return None
    scene, replies, by_model = None, 0, False
    for item in body.get("messages") or body.get("input") or body.get("contents") or ():
        before, by_model = by_model, _is_models(item)
        if by_model:
            replies += not before
        elif named := [name for text in strings(item) for name in SCENE.findall(text)]:
            scene, replies = named[-1], 0
    return (scene, replies) if scene else None


def _is_models(item: dict[str, Any]) -> bool:
    return item.get("role") in ("assistant", "model") or item.get("type") in MODELS_ITEMS


def strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from strings(each)
        case list():
            for each in value:
                yield from strings(each)


def side_answer(body: dict[str, Any]) -> str:
    """A title or a choice: an instance of the schema if one is given, otherwise two words."""
    for schema in schemas(body):
        return json.dumps(instance(schema))
    return "Short title"


def schemas(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    places = (
        ("output_config", "format", "schema"),
        ("output_format", "schema"),
        ("text", "format", "schema"),
        ("response_format", "json_schema", "schema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "responseSchema"),
    )
    for place in places:
        value: Any = body
        for step in place:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, dict):
            yield value


def instance(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    match str(schema.get("type", "object")).lower():
        case "object":
            properties = schema.get("properties") or {}
            return {name: instance(each) for name, each in properties.items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 1
        case _:
            return "Short title"
