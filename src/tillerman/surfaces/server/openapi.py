"""The OpenAPI 3.1 document, made from the table of routes and the structs of the bodies."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from tillerman._version import __version__
from tillerman.surfaces.server.error_responses import ErrorBody
from tillerman.surfaces.server.route import Route, StreamRoute
from tillerman.surfaces.server.routes import PREFIX, ROUTES, STREAMS

_PARAMETER = re.compile(r"\{(\w+)(?::(\w+))?\}")
_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = """\
Sessions of coding agents: start, prompt, follow, answer. Every request needs a token in
`Authorization: Bearer TOKEN`. A token has a scope: `read` follows, `answer` also answers requests,
`drive` does everything. `Entry` is the same object that `tillerman run --json` prints."""


@cache
def document() -> dict[str, Any]:
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    made = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = PREFIX + _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, made)
    for stream in STREAMS:
        path = PREFIX + _PARAMETER.sub(r"{\1}", stream.path)
        paths.setdefault(path, {})["get"] = _stream(stream, made)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tillerman", "version": __version__, "description": _DESCRIPTION},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "The error, as `--json` prints it",
                    "content": {"application/json": {"schema": made[repr(ErrorBody)]}},
                }
            },
        },
    }


def _types() -> list[Any]:
    found: list[Any] = [ErrorBody]
    for route in ROUTES:
        found += [route.query, route.body, route.response]
    for stream in STREAMS:
        found += [stream.query, stream.item]
    unique = {repr(kind): kind for kind in found if kind is not None}
    return list(unique.values())


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.summary,
        "description": f"Scope: `{route.scope}`.",
        "tags": [route.path.split("/")[1]],
        "parameters": _parameters(route.path, route.query),
        "responses": {
            str(route.status): _success(route, schemas),
            "4XX": {"$ref": "#/components/responses/Error"},
            "5XX": {"$ref": "#/components/responses/Error"},
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[repr(route.body)]}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _stream(route: StreamRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    socket = " The same path is a WebSocket whose messages hold one or more entries, one per line."
    told = f"Scope: `{route.scope}`. `data` of each event is this object, `id` its number."
    return {
        "operationId": "follow_" + route.path.strip("/").split("/")[0],
        "summary": route.summary,
        "description": told + (socket if route.messages else ""),
        "tags": [route.path.split("/")[1]],
        "parameters": _parameters(route.path, route.query),
        "responses": {
            "200": {
                "description": "Server-sent events",
                "content": {
                    "text/event-stream": {
                        "schema": {"type": "string"},
                        "x-event-data": schemas[repr(route.item)],
                    }
                },
            },
            "4XX": {"$ref": "#/components/responses/Error"},
            "5XX": {"$ref": "#/components/responses/Error"},
        },
    }


def _success(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.response is None:
        return {"description": "Done"}
    return {
        "description": "The result",
        "content": {route.media: {"schema": schemas[repr(route.response)]}},
    }


def _parameters(path: str, query: type | None) -> list[dict[str, Any]]:
    found = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if kind == "number" else {"type": "string"},
        }
        for name, kind in _PARAMETER.findall(path)
    ]
    if query is None:
        return found
    _, components = msgspec.json.schema_components([query], ref_template=_REFERENCE)
    schema = components[query.__name__]
    for name, one in schema["properties"].items():
        required = name in schema.get("required", ())
        found.append({"name": name, "in": "query", "required": required, "schema": _plain(one)})
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter of a query is absent rather than null."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    plain = dict(options[0]) if len(options) == 1 else dict(schema)
    if schema.get("default") is not None:
        plain["default"] = schema["default"]
    return plain


def _name(route: Route) -> str:
    words = _PARAMETER.sub("", route.path).strip("/").replace("/", "_").replace("__", "_")
    verb = {"GET": "get", "POST": "post", "PATCH": "change", "DELETE": "delete"}[route.method]
    one = "_one" if route.path.endswith("}") else ""
    return f"{verb}_{words.strip('_')}{one}"
