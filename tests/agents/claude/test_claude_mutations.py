"""A missing, renamed or mistyped field never breaks a turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.claude.claude_playback import lines, name, play, recordings
from tillerman.core.events import TurnEnded, Unrecognized, decode_event, encode
from tillerman.core.wire import WireReply

Path_ = tuple[str | int, ...]

SAMPLED = (
    "2.1.197/background_task",
    "2.1.197/drop",
    "2.1.197/todo",
    "2.1.325/control_hooks",
    "2.1.325/control_ask_plan",
    "2.1.325/edit",
    "2.1.325/error_401",
    "2.1.325/subagent_background_stop_task",
)
OTHER_TYPES: tuple[Any, ...] = (None, 7, "x", [], {}, True, [None], 1e300, -1, [{}], 2**70)


@pytest.mark.parametrize("recording", [r for r in recordings() if name(r) in SAMPLED], ids=name)
def test_a_changed_field_never_fails_a_turn(recording: Path) -> None:
    _check(recording, every=41)


@pytest.mark.torture
@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_no_changed_field_of_any_recording_fails_a_turn(recording: Path) -> None:
    _check(recording, every=1)


def _check(recording: Path, every: int) -> None:
    messages = lines(recording)
    ends = sum(one["dir"] == "in" and one["msg"]["type"] == "result" for one in messages)
    tried = 0
    for number, one in enumerate(messages):
        if one["dir"] == "out":
            continue
        for path in _paths(one["msg"]):
            tried += 1
            if tried % every:
                continue
            for changed in _mutations(one["msg"], path, tried):
                mutated = [*messages[:number], {**one, "msg": changed}, *messages[number + 1 :]]
                unreported = one["msg"]["type"] == "result" and path == ("type",)
                _check_one(mutated, ends, unreported, f"line {number + 1}, {path}")
    assert tried > 0


def _check_one(mutated: list[dict[str, Any]], ends: int, unreported: bool, where: str) -> None:
    received = play(mutated)
    events = [one for one in received if not isinstance(one, WireReply)]
    assert [decode_event(encode(event)) for event in events] == events, where
    assert sum(isinstance(event, Unrecognized) for event in events) <= 1, where
    ended = sum(isinstance(event, TurnEnded) for event in events)
    assert ended <= ends if unreported else ended == ends, where


def _paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    items: Iterator[tuple[str | int, Any]] | enumerate[Any]
    match value:
        case dict():
            items = iter(value.items())
        case list():
            items = enumerate(value[:3])
        case _:
            return
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _mutations(msg: Any, path: Path_, seed: int) -> Iterator[Any]:
    """The line without the field, with it renamed, and with other types."""
    for how in ("drop", "rename", "retype"):
        changed = json.loads(json.dumps(msg))
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        match how, path[-1]:
            case "drop", key:
                del holder[key]
            case "rename", str(key):
                holder[f"{key}_x"] = holder.pop(key)
            case "retype", key:
                holder[key] = OTHER_TYPES[seed % len(OTHER_TYPES)]
        yield changed
