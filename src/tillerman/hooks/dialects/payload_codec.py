"""Decodes a hook's stdin payload to a typed event, and encodes a typed reply for its stdout."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from tillerman.core.json_fields import Table, parse, storable
from tillerman.hooks.protocol import HookReply

_BOM = b"\xef\xbb\xbf"  # some CLIs write it on Windows


class HookEvent(Struct, frozen=True, kw_only=True):
    """The payload of one hook run.

    A field with a default may be missing or of another type; one without must be valid, since the
    decision depends on it. Keys that this version does not know are in `rest`.
    """

    event: str  # the CLI's event name
    rest: Table = field(default_factory=dict)


class UnreadablePayload(HookEvent, frozen=True, kw_only=True):
    """An unknown event, or one without a required field."""

    why: str


E = TypeVar("E", bound=HookEvent)


def table_of(payload: bytes) -> Table | str:
    """The JSON object in the payload, or an error text."""
    found = parse(payload.removeprefix(_BOM))
    return storable(found) if isinstance(found, dict) else found


def typed(kind: type[E], event: str, given: Table) -> E | UnreadablePayload:
    known: dict[str, Any] = {}
    for name, key, type_, required in _fields(kind):
        if key not in given:
            if required:
                return UnreadablePayload(event=event, rest=given, why=f"{event} has no {key}")
            continue
        try:
            known[name] = msgspec.convert(given[key], type_)
        except msgspec.ValidationError as error:
            if required:
                return UnreadablePayload(event=event, rest=given, why=f"{event}, {key}: {error}")
    keys = {key for _, key, _, _ in _fields(kind)} | {"hook_event_name"}
    rest = {key: value for key, value in given.items() if key not in keys}
    return kind(**known, event=event, rest=rest)


@cache
def _fields(kind: type[HookEvent]) -> tuple[tuple[str, str, Any, bool], ...]:
    return tuple(
        (field.name, field.encode_name, field.type, field.required)
        for field in msgspec.structs.fields(kind)
        if field.name not in ("event", "rest")
    )


def reply(reported: object) -> HookReply:
    """Encodes the reply for stdout; an empty reply produces no output."""
    out = msgspec.json.encode(reported)
    return HookReply() if out == b"{}" else HookReply(stdout=out)
