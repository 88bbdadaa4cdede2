"""Events and entries as JSON."""

from __future__ import annotations

import json
import typing
from typing import Any

import msgspec
import pytest

from tillerman.core.events import (
    AgentReady,
    Answer,
    Cut,
    Diff,
    Entry,
    Event,
    Image,
    MessageChunk,
    PermissionRequested,
    Text,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    decode_entry,
    decode_event,
    encode,
)
from tillerman.core.failure import Failure, FailureKind
from tillerman.surfaces.exit_codes import exit_code

KINDS: tuple[Any, ...] = typing.get_args(Event)


def example(kind: Any) -> Any:
    """An event of the kind with each required field filled in."""
    values: dict[str, Any] = {
        "str": "x",
        "int": 1,
        "dict": {},
    }
    filled = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            words = str(field.type)
            if "Literal" in words:
                filled[field.name] = typing.get_args(field.type)[0]
            elif "tuple" in words:
                filled[field.name] = ()
            elif "Answer" in words:
                filled[field.name] = Answer("allow")
            else:
                filled[field.name] = values[field.type.__name__]
    return kind(**filled)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_survives_its_encoding(kind: Any) -> None:
    event = example(kind)
    assert decode_event(encode(event)) == event
    entry = Entry(session="s", seq=1, turn=0, at="2026-01-01T00:00:00Z", event=event)
    assert decode_entry(encode(entry)) == entry


def test_types_are_the_names_in_snake_case_and_all_different() -> None:
    tags = [json.loads(encode(example(kind)))["type"] for kind in KINDS]
    assert tags[:4] == ["agent_started", "agent_ready", "agent_exited", "turn_started"]
    assert len(set(tags)) == len(KINDS)


def test_an_entry_on_the_wire_has_the_documented_shape() -> None:
    entry = Entry(
        session="s1",
        seq=1,
        turn=1,
        at="2026-01-01T00:00:00.000Z",
        event=AgentReady(native_id="n1"),
    )
    assert encode(entry) == (
        b'{"session":"s1","seq":1,"turn":1,"at":"2026-01-01T00:00:00.000Z",'
        b'"event":{"type":"agent_ready","native_id":"n1"}}'
    )


def test_nested_parts_keep_their_kinds() -> None:
    event = ToolFinished(
        call_id="c",
        outcome="failed",
        content=(Text("t", Cut(5, "f")), Diff("p", old="a", new="b"), Image("image/png", "h")),
        parent="p",
    )
    assert decode_event(encode(event)) == event


def test_a_failure_travels_with_its_turn() -> None:
    failure = Failure(kind="rate_limited", message="slow", status=429, retry_after=2.5, hint="wait")
    event = TurnEnded(reason="failed", failure=failure, result={"a": [1, None]})
    assert decode_event(encode(event)) == event


@pytest.mark.parametrize(
    "stored",
    [
        '{"type":"teleported","to":"mars"}',
        '{"type":"message_chunk","message_id":7,"text":"x"}',
        '{"type":"turn_started"}',
        '{"no":"type"}',
        "[]",
        "not json",
        "",
    ],
)
def test_what_another_version_stored_decodes_to_unrecognized(stored: str) -> None:
    as_text, as_bytes = decode_event(stored), decode_event(stored.encode())
    assert as_text == as_bytes
    assert isinstance(as_text, Unrecognized)
    assert as_text.raw == stored
    assert as_text.why.startswith("stored by another version: ")


def test_bytes_that_are_no_text_decode_to_unrecognized() -> None:
    event = decode_event(b"\xff\xfe{")
    assert isinstance(event, Unrecognized)
    assert event.raw == "\ufffd\ufffd{"


def test_a_key_that_a_newer_version_adds_is_ignored() -> None:
    message = '{"type":"message_chunk","message_id":"m","text":"x","colour":"red"}'
    assert decode_event(message) == MessageChunk(message_id="m", text="x")


def test_events_are_immutable_values() -> None:
    event = TurnStarted(origin="prompt", prompt="go")
    with pytest.raises(AttributeError):
        event.prompt = "stay"  # type: ignore[misc]


def test_a_request_offers_allow_and_deny_unless_the_agent_says_otherwise() -> None:
    request = PermissionRequested(request_id="r", tool="Bash", title="Bash")
    assert [option.kind for option in request.options] == ["allow", "deny"]


def test_defaults_of_two_events_are_not_shared() -> None:
    one = PermissionRequested(request_id="r", tool="Bash", title="Bash")
    two = PermissionRequested(request_id="r", tool="Bash", title="Bash")
    one.input["x"] = 1
    assert two.input == {}


@pytest.mark.parametrize("kind", typing.get_args(FailureKind))
def test_every_failure_has_a_documented_exit_code(kind: Any) -> None:
    documented = {
        "not_installed": 3,
        "not_signed_in": 3,
        "denied": 4,
        "gate_bypassed": 4,
        "turn_limit": 5,
        "cost_limit": 5,
        "token_limit": 5,
        "schema_mismatch": 6,
        "timed_out": 124,
    }
    assert exit_code(Failure(kind=kind, message="x")) == documented.get(kind, 1)
