"""One row of the table of routes, and the call that its handler receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request

from tillerman.surfaces.server.guard import Receive, Send
from tillerman.surfaces.server.service import Service
from tillerman.surfaces.server.tokens import Client, Scope

Q = TypeVar("Q")
B = TypeVar("B")

SMALL_BODY = 1024 * 1024
LARGE_BODY = 48 * 1024 * 1024  # with files, as base64


class _Number(IntegerConvertor):
    regex = "[0-9]{1,15}"  # Python refuses to convert thousands of digits


register_url_convertor("number", _Number())


@dataclass(frozen=True)
class Call(Generic[Q, B]):
    """A request that was authorised and decoded."""

    service: Service
    client: Client
    path: dict[str, Any]  # the parameters of the path
    query: Q
    body: B
    request: Request


class Bytes(NamedTuple):
    """A response that is not JSON."""

    data: bytes
    media: str


@dataclass(frozen=True)
class Route:
    """A method on a path: who may call it, what it takes and gives, and what it does."""

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str  # below /api/v1
    scope: Scope
    summary: str
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    query: type | None = None
    body: type | None = None
    response: Any = None  # None: no content
    status: int = 200
    media: str = "application/json"
    body_limit: int = SMALL_BODY


Follow = Callable[[Service, dict[str, Any], Any, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class StreamRoute:
    """A path that sends server-sent events; with `messages` also by WebSocket."""

    path: str
    scope: Scope
    summary: str
    events: Follow
    messages: Follow | None
    query: type | None
    item: Any  # what each event holds
