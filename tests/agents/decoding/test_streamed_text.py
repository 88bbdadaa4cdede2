"""Streamed text is recognized in the whole message, and costs no memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.agents.codex.wire import CodexWire
from tillerman.agents.cursor.wire import CursorWire
from tillerman.agents.decoding.streamed_text import Streamed
from tillerman.core.agent import Prompt
from tillerman.core.session_options import session_spec

SPEC = session_spec(cwd=Path("/proj"))
WORDS = "words without end " * 1000


def test_a_whole_message_that_begins_with_the_streamed_text_is_recognized() -> None:
    reported = Streamed()
    assert reported.begins("anything")
    for piece in ("Grüß", " dich", ", 🌍"):
        reported.add(piece)
    assert reported.length == len("Grüß dich, 🌍")
    assert reported.begins("Grüß dich, 🌍")
    assert reported.begins("Grüß dich, 🌍 und alle")
    assert not reported.begins("Grüß dich")
    assert not reported.begins("Gruß dich, 🌍 und alle")


def codex() -> tuple[CodexWire, bytes]:
    wire = CodexWire(SPEC)
    list(wire.greet())
    list(wire.prompt(Prompt("go")))
    list(wire.decode(b'{"id":1,"result":{"thread":{"id":"t"}}}'))
    params = {"threadId": "t", "itemId": "i", "delta": WORDS}
    return wire, json.dumps({"method": "item/agentMessage/delta", "params": params}).encode()


def cursor() -> tuple[CursorWire, bytes]:
    message = {"content": [{"type": "text", "text": WORDS}]}
    line = {"type": "assistant", "timestamp_ms": 1, "message": message}
    return CursorWire(SPEC), json.dumps(line).encode()


@pytest.mark.parametrize("agent", [codex, cursor])
def test_a_message_without_end_is_not_stored(
    agent: Callable[[], tuple[CodexWire | CursorWire, bytes]],
) -> None:
    wire, line = agent()
    tracemalloc.start()
    try:
        for _ in range(1000):  # 18 MB
            assert len(list(wire.decode(line))) == 1
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
