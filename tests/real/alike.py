"""Events of a turn without what may differ between two runs: ids, folders, times, pieces."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bridle.core.events import AgentExited, AgentReady, AgentStarted, Entry

IDS = ("message_id", "call_id", "request_id", "native_id", "task_id", "parent")

RANDOM = (
    re.compile(r"\bin \d+(\.\d+)? s\b"),  # of a wait with jitter
    re.compile(r"\b(msg|req|resp|call|toolu|chatcmpl)[_-]\w{4,}"),
)


def comparable(entries: Iterable[Entry], folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Each event as JSON; ids by order of appearance, chunks of one message joined."""
    names: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for entry in entries:
        if isinstance(entry.event, AgentStarted | AgentReady | AgentExited):
            continue  # of the process, before or after the prompt
        event = _renamed(msgspec.to_builtins(entry.event), names)
        event = _without(event, [str(folder) for folder in folders])
        before = found[-1] if found else {}
        if _same_message(before, event):
            found[-1] = before | {"text": before["text"] + event["text"]}
        else:
            found.append(event)
    return _finished_in_order(found)


def _finished_in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls of one reply run side by side: which of them ends first is the machine's business."""
    groups = itertools.groupby(events, lambda event: event["type"] == "tool_finished")
    return [
        event
        for finished, group in groups
        for event in (sorted(group, key=_call_number) if finished else group)
    ]


def _call_number(event: dict[str, Any]) -> int:
    return int(event["call_id"].rpartition("-")[2])


def difference(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> str:
    """What a person reads when they are not equal."""
    lines = [
        [json.dumps(each, ensure_ascii=False) for each in events] for events in (first, second)
    ]
    return "\n".join(difflib.unified_diff(*lines, "first", "second", n=1, lineterm=""))


def _same_message(before: dict[str, Any], event: dict[str, Any]) -> bool:
    if event["type"] not in ("message_chunk", "thought_chunk"):
        return False
    return all(before.get(key) == event.get(key) for key in ("type", "message_id", "parent"))


def _renamed(event: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    for key in IDS:
        if event.get(key):
            event[key] = names.setdefault(event[key], f"{key}-{len(names)}")
    return event


def _without(value: Any, folders: list[str]) -> Any:
    match value:
        case str():
            for folder in folders:
                value = value.replace(folder, "FOLDER")
            for pattern in RANDOM:
                value = pattern.sub("RANDOM", value)
            return value
        case dict():
            return {key: _without(each, folders) for key, each in value.items()}
        case list() | tuple():
            return [_without(each, folders) for each in value]
        case _:
            return value
