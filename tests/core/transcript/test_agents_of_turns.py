"""Which agent did the work of a turn, in a session that changes its agent."""

from __future__ import annotations

from tillerman.core.events import AgentStarted, Entry, Event, TurnEnded, TurnStarted
from tillerman.core.transcript.transcript import fold


def agents(*events: tuple[int, Event]) -> list[str | None]:
    """Of the turns of a log, given as pairs of turn and event."""
    entries = [
        Entry(session="s", seq=seq, turn=turn, at="2026-01-01T12:00:00.000Z", event=event)
        for seq, (turn, event) in enumerate(events, start=1)
    ]
    return [turn.agent for turn in fold(entries).turns]


START = TurnStarted(origin="prompt", prompt="x")
END = TurnEnded(reason="completed")


def test_a_handoff_between_turns_changes_only_the_turns_after_it() -> None:
    first, second = AgentStarted(agent="mock"), AgentStarted(agent="other")
    log = [(0, first), (1, START), (1, END), (1, second), (2, START), (2, END)]
    assert agents(*log) == ["mock", "other"]


def test_a_fallback_within_a_turn_changes_that_turn() -> None:
    first, second = AgentStarted(agent="mock"), AgentStarted(agent="other")
    assert agents((0, first), (1, START), (1, second), (1, END)) == ["other"]
