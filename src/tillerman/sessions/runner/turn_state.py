"""States of a turn, and the transition table by which the runner decides what an input does."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class TurnState(Enum):
    IDLE = "idle"  # no turn is open
    STARTING = "starting"  # a prompt waits for the agent to start
    WORKING = "working"  # the agent works on the turn
    CONTINUING = "continuing"  # the agent stopped; a retry or another agent follows


class TurnInput(Enum):
    PROMPT = "prompt, queued if busy"
    PROMPT_OR_REFUSE = "prompt, refused if busy"
    STEER = "prompt, steering if busy"
    BEGIN = "a prompt is next to be sent"
    CANNOT_START = "the agent cannot be started"
    AGENT_BUSY = "the agent has just started its own turn"
    SENT = "the prompt is on its way"
    AGENT_STARTED = "the agent reports the start of a turn"
    AGENT_ENDED = "the agent reports the end of its turn"
    AGENT_GONE = "the agent exits"
    CAN_CONTINUE = "the fallback policy has a next step"
    CANNOT_CONTINUE = "the next step fails"
    CANCEL = "cancel"
    OVER = "the end of the turn is stored"


class TurnAction(Enum):
    NOTHING = "–"
    BEGIN = "connect, then send"
    QUEUE = "queue"
    STEER = "steer"
    REFUSE = "refuse"
    START = "start the turn"
    RESTART = "restart the limits"
    DECIDE = "continue or end"
    CONTINUE = "prepare the next prompt"
    END = "end the turn"
    INTERRUPT = "interrupt the agent"
    WARN = "store a warning"
    GO_ON = "next prompt, check, or rest"


class Transition(NamedTuple):
    action: TurnAction
    next: TurnState


Cell = TurnAction | tuple[TurnAction, TurnState]  # an action alone keeps the state


def _row(idle: Cell, starting: Cell, working: Cell, continuing: Cell) -> tuple[Transition, ...]:
    cells = zip(TurnState, (idle, starting, working, continuing), strict=True)
    return tuple(
        Transition(cell, state) if isinstance(cell, TurnAction) else Transition(*cell)
        for state, cell in cells
    )


_I, _A, _S = TurnInput, TurnAction, TurnState
_START = (_A.START, _S.WORKING)
_END = (_A.END, _S.WORKING)
_OVER = (_A.GO_ON, _S.IDLE)

# What each input does in each state: idle, starting, working, continuing.
TRANSITIONS: dict[TurnInput, tuple[Transition, ...]] = {
    _I.PROMPT: _row(_A.BEGIN, _A.BEGIN, _A.QUEUE, _A.QUEUE),
    _I.PROMPT_OR_REFUSE: _row(_A.BEGIN, _A.REFUSE, _A.REFUSE, _A.REFUSE),
    _I.STEER: _row(_A.BEGIN, _A.STEER, _A.STEER, _A.QUEUE),
    _I.BEGIN: _row((_A.NOTHING, _S.STARTING), _A.NOTHING, _A.NOTHING, _A.NOTHING),
    _I.CANNOT_START: _row(_A.NOTHING, (_A.NOTHING, _S.IDLE), _A.NOTHING, _A.NOTHING),
    _I.AGENT_BUSY: _row(_A.QUEUE, (_A.QUEUE, _S.IDLE), _A.QUEUE, _A.QUEUE),
    _I.SENT: _row(_START, _START, _A.NOTHING, (_A.RESTART, _S.WORKING)),
    _I.AGENT_STARTED: _row(_START, _START, _A.WARN, _A.WARN),
    _I.AGENT_ENDED: _row(_A.NOTHING, _A.NOTHING, _A.DECIDE, _A.WARN),
    _I.AGENT_GONE: _row(_A.NOTHING, _A.NOTHING, _A.DECIDE, _A.NOTHING),
    _I.CAN_CONTINUE: _row(_A.NOTHING, _A.NOTHING, (_A.CONTINUE, _S.CONTINUING), _A.NOTHING),
    _I.CANNOT_CONTINUE: _row(_A.NOTHING, _A.NOTHING, _A.END, _END),
    _I.CANCEL: _row(_A.INTERRUPT, _A.INTERRUPT, _A.INTERRUPT, _END),
    _I.OVER: _row(_A.GO_ON, _A.GO_ON, _OVER, _OVER),
}
_COLUMNS = {state: column for column, state in enumerate(TurnState)}


class TurnMachine:
    """The state of a session's turn; changes only by the table."""

    def __init__(self) -> None:
        self.state = TurnState.IDLE

    @property
    def open(self) -> bool:
        return self.state in (TurnState.WORKING, TurnState.CONTINUING)

    def on(self, input: TurnInput) -> TurnAction:
        """Makes the transition, and returns what the runner has to do."""
        action, self.state = TRANSITIONS[input][_COLUMNS[self.state]]
        return action
