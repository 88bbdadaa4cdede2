"""The OpenAPI document describes every route, and every reference in it leads somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.surfaces.server.service_desk import API, Desk
from tillerman.surfaces.server.openapi import document
from tillerman.surfaces.server.routes import ROUTES, STREAMS

METHODS = ("get", "post", "patch", "delete")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield method, path, operation


def nested(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from nested(one)
    elif isinstance(value, list):
        for one in value:
            yield from nested(one)


def resolved(reference: str) -> Any:
    found: Any = document()
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_every_route_is_described() -> None:
    described = {(method, path) for method, path, _ in operations()}
    served = {(one.method.lower(), one.path) for one in ROUTES}
    served |= {("get", one.path) for one in STREAMS}
    assert described == {(method, API + re.sub(r":\w+\}", "}", path)) for method, path in served}


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_every_reference_leads_to_a_schema() -> None:
    references = {one["$ref"] for one in nested(document()) if "$ref" in one}
    assert len(references) > 40
    for one in references:
        assert resolved(one), one


def test_every_parameter_of_a_path_is_described() -> None:
    for _, path, operation in operations():
        described = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
        assert described == re.findall(r"\{(\w+)\}", path)


def test_every_schema_is_valid() -> None:
    for one in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(one)


@pytest.mark.timeout(60)
def test_what_is_served_is_as_described(desk: Desk) -> None:
    session = desk.start([{"write": "a.txt", "text": "x\n"}, {"say": "Done."}])
    desk.ended(session)
    assert desk.get("/openapi.json") == json.loads(msgspec.json.encode(document()))
    for path, served in (
        ("/sessions", "/sessions"),
        ("/sessions/{session}", f"/sessions/{session}"),
        ("/sessions/{session}/entries", f"/sessions/{session}/entries"),
        ("/sessions/{session}/turns/{turn}", f"/sessions/{session}/turns/1"),
        ("/sessions/{session}/turns/{turn}/diffs", f"/sessions/{session}/turns/1/diffs"),
        ("/requests", "/requests"),
        ("/processes", "/processes?all=true"),
        ("/agents/{agent}", "/agents/mock"),
        ("/agents/{agent}/models", "/agents/mock/models"),
        ("/health", "/health"),
        ("/me", "/me"),
        ("/tokens", "/tokens"),
    ):
        content = document()["paths"][API + path]["get"]["responses"]["200"]["content"]
        schema = {**content["application/json"]["schema"], "components": document()["components"]}
        Draft202012Validator(schema).validate(desk.get(served))
