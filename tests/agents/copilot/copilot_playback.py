"""Replays recordings of Copilot's JSON lines into their wire."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.copilot.json_wire import CopilotJsonWire
from tillerman.core.agent import Prompt
from tillerman.core.events import Event
from tillerman.core.session_options import session_spec
from tillerman.core.wire import AttachmentBytes, WireReply

RECORDINGS = Path(__file__).parents[2] / "recordings" / "copilot"
SPEC = session_spec(cwd=Path("/proj"))

Said = Event | WireReply | AttachmentBytes


def recordings(surface: str) -> list[Path]:
    return sorted(path.parent for path in (RECORDINGS / surface).glob("*/wire.jsonl"))


def name(recording: Path) -> str:
    return recording.name


def lines(recording: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (recording / "wire.jsonl").read_text().splitlines()]


def play(recording: Path) -> list[Said]:
    wire = CopilotJsonWire(SPEC)
    wire.launch(SPEC, Prompt("go"))
    messages = (recording / "wire.jsonl").read_bytes().splitlines()
    return [one for line in messages for one in wire.decode(line)]


def encoded(received: Iterable[Said]) -> str:
    """As in a golden file: an event or a reply on each line."""
    return "".join(
        msgspec.json.encode({"reply": one.message} if isinstance(one, WireReply) else one).decode()
        + "\n"
        for one in received
        if not isinstance(one, AttachmentBytes)
    )
