"""Replays a recording of Cursor into a wire."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tillerman.agents.cursor.wire import CursorWire
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import Event, MessageChunk, MessageWithdrawn, encode
from tillerman.core.session_options import session_spec

RECORDINGS = Path(__file__).parents[2] / "recordings" / "cursor"
SPEC = session_spec(cwd=Path("/proj"))
PROMPT = Prompt("go")


def recordings() -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.glob("*/wire.jsonl"))


def cases(file: str) -> Iterator[dict[str, Any]]:
    """Recorded runs of commands: the requests, and their results."""
    return map(json.loads, (RECORDINGS / file).read_text().splitlines())


def case(file: str, name: str) -> dict[str, Any]:
    return next(one for one in cases(file) if one["case"] == name)


def play(lines: Iterable[bytes], spec: SessionSpec = SPEC) -> list[Event]:
    wire = CursorWire(spec)
    wire.launch(spec, PROMPT)
    return [event for line in lines for event in wire.decode(line)]  # type: ignore[misc]


def received(recording: Path) -> list[Event]:
    return play(line for line in (recording / "wire.jsonl").read_bytes().splitlines() if line)


def decoded(*messages: dict[str, Any]) -> list[Event]:
    return play(json.dumps(message).encode() for message in messages)


def text_of(events: Iterable[Event]) -> str:
    messages: dict[str, str] = {}
    for event in events:
        match event:
            case MessageChunk(message_id=message_id, text=text):
                messages[message_id] = messages.get(message_id, "") + text
            case MessageWithdrawn(message_id=message_id):
                del messages[message_id]
    return "".join(messages.values())


def encoded(events: Iterable[Event]) -> bytes:
    return b"".join(encode(event) + b"\n" for event in events)
