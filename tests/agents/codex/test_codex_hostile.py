"""A Codex that violates the protocol: a turn ends once, by its own end."""

from __future__ import annotations

from tests.agents.codex.codex_says import TURN, Talk, answer, report
from tillerman.core.events import TurnEnded


def ended(turn: str) -> dict[str, object]:
    return report("turn/completed", turn={"id": turn, "status": "completed"})


def test_a_repeated_end_of_the_last_turn_does_not_end_the_next() -> None:
    talk = Talk()
    talk.begin()
    assert talk.receive(ended(TURN)) == [TurnEnded(reason="completed")]
    assert talk.receive(ended(TURN)) == []
    talk.prompt("more")
    assert talk.receive(ended(TURN)) == []
    talk.receive(answer(talk.last("turn/start"), {"turn": {"id": "turn-2"}}))
    assert talk.receive(ended("turn-of-nobody")) == []
    talk.receive(report("turn/started", turn={"id": "turn-2"}))
    assert talk.receive(ended(TURN)) == []
    assert talk.receive(ended("turn-2")) == [TurnEnded(reason="completed")]
