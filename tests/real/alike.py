"""Events of a turn without what may differ between two runs: ids, folders, times, chunks."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    Entry,
    Event,
    Notice,
    SettingsChanged,
)

Events = list[dict[str, Any]]

IDS = ("message_id", "call_id", "request_id", "task_id", "parent")
OF_CALLS = ("permission_requested", "request_answered", "tool_started", "tool_updated")
MOUNT_POINT = re.compile(r"\.(codex|agents|git) was created and has been removed")
"""Codex's sandbox mounts over these; one that stays long enough to be seen is removed."""
RANDOM = (
    re.compile(r"\bin \d+(\.\d+)? s\b"),  # a wait with jitter
    re.compile(r", request id: \S+\b"),  # some services send one
    re.compile(r"\b(msg|req|resp|call|toolu|chatcmpl)[_-]\w{4,}"),
)


def comparable(
    entries: Iterable[Entry], places: Mapping[str, str], estimated: Collection[str] = ()
) -> Events:
    """Each event as JSON; `places` names the folders and addresses of each run, and `estimated` the
    fields whose numbers the CLI computes from its own prompts."""
    events = [
        _neutral(msgspec.to_builtins(entry.event), places)
        for entry in entries
        if not _by_chance(entry.event)
    ]
    events = [{k: v for k, v in event.items() if k not in estimated} for event in events]
    return list(_joined(_renamed(_calls_in_order(_without_progress(events)))))


def _by_chance(event: Event) -> bool:
    match event:
        case AgentStarted() | AgentReady() | AgentExited():
            return True  # of the process, before or after the prompt
        case SettingsChanged(commands=commands):
            return commands is not None  # at the start of a conversation, when it likes
        case Notice(kind="files", text=text):
            return MOUNT_POINT.match(text) is not None
        case _:
            return False


def difference(first: Events, second: Events) -> str:
    """A readable diff if they are not equal."""
    a, b = ([json.dumps(event, ensure_ascii=False) for event in each] for each in (first, second))
    return "\n".join(difflib.unified_diff(a, b, "first", "second", n=1, lineterm=""))


def _without_progress(events: Events) -> Events:
    """Drops the partial output of a running command, which is reported or not by chance."""
    ends = {
        event["call_id"]: json.dumps(event) for event in events if event["type"] == "tool_finished"
    }
    return [
        event
        for event in events
        if event["type"] != "tool_updated"
        or event.get("title")
        or not all(
            json.dumps(part.get("text", part))[1:-1] in ends.get(event["call_id"], "")
            for part in event.get("content", ())
        )
    ]


def _calls_in_order(events: Events) -> Events:
    """Groups events of parallel calls by call, because their order varies."""
    found: Events = []
    running: dict[str, Events] = {}
    calls: dict[str, str] = {}  # by request
    for event in events:
        kind = event["type"]
        if kind not in (*OF_CALLS, "tool_finished"):
            found += _flat(running)
            running = {}
            found.append(event)
            continue
        call = event.get("call_id") or calls.get(event.get("request_id", ""), "")
        if "request_id" in event:
            calls[event["request_id"]] = call
        if call not in running and all(_ended(each) for each in running.values()):
            found += _flat(running)
            running = {}
        running.setdefault(call, []).append(event)
    return found + _flat(running)


def _ended(events: Events) -> bool:
    return any(event["type"] == "tool_finished" for event in events)


def _flat(running: dict[str, Events]) -> Events:
    def place(events: Events) -> str:
        without = [{k: v for k, v in event.items() if k not in IDS} for event in events]
        return json.dumps(without, sort_keys=True)

    return [event for events in sorted(running.values(), key=place) for event in events]


def _renamed(events: Events) -> Events:
    """Replaces ids by their order of appearance."""
    names: dict[str, str] = {}
    return [
        event | {key: names.setdefault(event[key], f"{key} {len(names)}") for key in ids}
        for event in events
        for ids in [[key for key in IDS if event.get(key)]]
    ]


def _joined(events: Events) -> Iterator[dict[str, Any]]:
    """Joins the chunks of one message."""
    last: dict[str, Any] = {}
    for event in events:
        chunk = event["type"] in ("message_chunk", "thought_chunk")
        if chunk and {**event, "text": ""} == {**last, "text": ""}:
            last = last | {"text": last["text"] + event["text"]}
            continue
        if last:
            yield last
        last = event
    if last:
        yield last


def _has_jitter(key: str, value: Any) -> bool:
    return key == "retry_after" and isinstance(value, float) and not value.is_integer()


def _neutral(value: Any, places: Mapping[str, str]) -> Any:
    match value:
        case str():
            for place, name in places.items():
                value = value.replace(place, name)
            for pattern in RANDOM:
                value = pattern.sub("", value)
            return value
        case dict():
            return {
                k: v if k in IDS else _neutral(v, places)
                for k, v in value.items()
                if not _has_jitter(k, v)
            }
        case list() | tuple():
            return [_neutral(each, places) for each in value]
        case _:
            return value
