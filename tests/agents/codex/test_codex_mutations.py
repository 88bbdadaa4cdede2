"""No dropped, renamed or mistyped field makes a wire raise, or emit text twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.agents.codex.codex_playback import Player, encoded, lines, recordings
from tillerman.core.events import ToolFinished, ToolStarted, TurnEnded, decode_event
from tillerman.testing.recordings import changes


def _kind(message: dict[str, Any]) -> str:
    params = message.get("params") or {}
    item = params.get("item") or {}
    return f"{message.get('method')} {item.get('type')} {sorted(message)}"


def _changed() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen: dict[str, set[tuple[str, ...]]] = {}
    chosen = [one for one in recordings("app-server") if one.name != "large-output"]
    for recording in sorted(chosen, key=lambda one: len(lines(one))):  # each place in the shortest
        messages = lines(recording)
        for number, line in enumerate(messages):
            if line["dir"] == "out":
                continue
            places = seen.setdefault(_kind(line["msg"]), set())
            for what, changed in changes(json.dumps(line["msg"]).encode(), places):
                other = {"dir": "in", "msg": json.loads(changed)}
                yield (
                    f"{recording.name}:{number} {what}",
                    [
                        *messages[:number],
                        other,
                        *messages[number + 1 :],
                    ],
                )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.torture)])
def test_a_changed_line_breaks_nothing(each: int) -> None:
    """The short form runs one change of three; each place has seven."""
    count = 0
    for what, reported in islice(_changed(), 0, None, each):
        count += 1
        try:
            received = Player(reported).play()
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        ends = sum(isinstance(one, TurnEnded) for one in received)
        assert ends <= 1, what
        begun = Counter(one.call_id for one in received if isinstance(one, ToolStarted))
        ended = Counter(one.call_id for one in received if isinstance(one, ToolFinished))
        assert max(ended.values(), default=0) <= 1, what
        assert ended.keys() <= begun.keys(), what
    assert count > 2000 // each


def test_events_of_a_wire_can_be_stored() -> None:
    for recording in recordings("app-server"):
        for line in encoded(Player(lines(recording)).play()).splitlines():
            if not line.startswith(('{"reply"', '{"keep"')):
                assert type(decode_event(line)).__name__ != "Unrecognized"
