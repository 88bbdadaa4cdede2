"""The transition table of a turn: complete, and consistent with real turns."""

from __future__ import annotations

import pytest

from tillerman.sessions.runner.turn_state import (
    TRANSITIONS,
    TurnAction,
    TurnInput,
    TurnMachine,
    TurnState,
)


def test_every_input_has_a_transition_in_every_state() -> None:
    assert list(TRANSITIONS) == list(TurnInput)
    assert {len(row) for row in TRANSITIONS.values()} == {len(TurnState)}


def test_every_state_is_reached_and_left() -> None:
    reached = {cell.next for row in TRANSITIONS.values() for cell in row}
    assert reached == set(TurnState)
    for column, state in enumerate(TurnState):
        assert any(row[column].next is not state for row in TRANSITIONS.values())


def test_every_action_is_the_effect_of_an_input() -> None:
    assert {cell.action for row in TRANSITIONS.values() for cell in row} == set(TurnAction)


@pytest.mark.parametrize(
    ("inputs", "state"),
    [
        ("BEGIN SENT", TurnState.WORKING),
        ("BEGIN SENT AGENT_ENDED OVER", TurnState.IDLE),
        ("BEGIN CANNOT_START", TurnState.IDLE),
        ("BEGIN AGENT_BUSY AGENT_STARTED", TurnState.WORKING),
        ("BEGIN SENT AGENT_ENDED CAN_CONTINUE", TurnState.CONTINUING),
        ("BEGIN SENT AGENT_ENDED CAN_CONTINUE AGENT_GONE SENT", TurnState.WORKING),
        ("BEGIN SENT AGENT_ENDED CAN_CONTINUE CANNOT_CONTINUE OVER", TurnState.IDLE),
        ("BEGIN SENT AGENT_ENDED CAN_CONTINUE CANCEL OVER", TurnState.IDLE),
        ("AGENT_STARTED BEGIN AGENT_BUSY", TurnState.WORKING),
    ],
)
def test_a_turn_goes_through_its_states(inputs: str, state: TurnState) -> None:
    machine = TurnMachine()
    for name in inputs.split():
        machine.on(TurnInput[name])
    assert machine.state is state


def test_a_prompt_during_a_turn_is_queued_refused_or_steers_but_never_begins_another() -> None:
    prompts = (TurnInput.PROMPT, TurnInput.PROMPT_OR_REFUSE, TurnInput.STEER)
    machine = TurnMachine()
    machine.on(TurnInput.AGENT_STARTED)
    assert [machine.on(prompt) for prompt in prompts] == [
        TurnAction.QUEUE,
        TurnAction.REFUSE,
        TurnAction.STEER,
    ]
    machine.on(TurnInput.CAN_CONTINUE)
    assert [machine.on(prompt) for prompt in prompts] == [
        TurnAction.QUEUE,
        TurnAction.REFUSE,
        TurnAction.QUEUE,
    ]
