"""Replays a recording of Gemini CLI's one-way stream into a wire.

A recording is a folder with `wire.jsonl`: the output of one run of the CLI.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tillerman.agents.gemini.json_wire import GeminiStreamWire
from tillerman.core.agent import Prompt
from tillerman.core.events import Event
from tillerman.core.session_options import session_spec

RECORDINGS = Path(__file__).parents[2] / "recordings" / "gemini" / "0.61.0"
SPEC = session_spec(cwd=Path("/proj"))


def recordings() -> list[Path]:
    return sorted(path.parent for path in RECORDINGS.glob("*/wire.jsonl"))


def lines(recording: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (recording / "wire.jsonl").read_bytes().splitlines()]


def play(recording: Path) -> list[Event]:
    wire = GeminiStreamWire(SPEC)
    wire.launch(SPEC, Prompt("go"))
    messages = (recording / "wire.jsonl").read_bytes().splitlines()
    return [event for line in messages for event in wire.decode(line)]


def encoded(received: Iterable[Event]) -> str:
    return "".join(msgspec.json.encode(one).decode() + "\n" for one in received)
