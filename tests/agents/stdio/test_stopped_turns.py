"""A turn that we stopped is cancelled, whatever its agent reports."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.agents.listening import listening
from tests.agents.plain import LONG_LIVED, PER_TURN, python
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Prompt
from tillerman.core.events import MessageChunk, TurnEnded
from tillerman.testing.test_host import PlainHost

# Says one word, and when it is stopped the given lines, and exits or not.
PROGRAM = """
def stopped(*_):
    for line in {lines}:
        print(line, flush=True)
    if {exits}:
        os._exit({code})

signal.signal(signal.SIGINT, stopped)
first = sys.stdin.readline()
print('{{"say": "At work."}}', flush=True)
if {one_turn}:
    time.sleep(30)
for line in sys.stdin:
    if "cancel" in line:
        stopped()
"""
REPORTS = [
    *('{"end": "completed"}', '{"end": "failed"}', '{"end": "cancelled"}'),
    '{"say": " Done."}\n{"end": "completed"}',
]


@pytest.mark.parametrize(
    ("agent", "report", "code"),
    [
        *product([LONG_LIVED], REPORTS, [None]),
        *product([PER_TURN], [*REPORTS, ""], [0, 1, 130]),
    ],
)
async def test_a_cancelled_turn_ends_as_cancelled_whatever_is_reported(
    host: PlainHost, project: Path, agent: StdioAgent, report: str, code: int | None
) -> None:
    lines = report.split("\n") if report else []
    one_turn = agent is PER_TURN
    program = PROGRAM.format(lines=lines, exits=code is not None, code=code, one_turn=one_turn)
    async with listening(agent, python(program, project), host) as talk:
        await talk.conversation.prompt(Prompt("go"))
        await talk.until(lambda: talk.text == "At work.")
        await talk.conversation.cancel()
        await talk.until(lambda: talk.of(TurnEnded))
        assert talk.of(TurnEnded) == [TurnEnded(reason="cancelled")]
        assert talk.of(MessageChunk)[0] == MessageChunk(message_id="m", text="At work.")


async def test_a_result_that_came_before_the_cancel_is_final(
    host: PlainHost, project: Path
) -> None:
    program = """
print('{"end": "completed"}\\n{"say": "Still here."}', flush=True)
time.sleep(30)
"""
    async with listening(PER_TURN, python(program, project), host) as talk:
        await talk.conversation.prompt(Prompt("go"))
        await talk.until(lambda: talk.text == "Still here.")
        await talk.conversation.cancel()
        await talk.until(lambda: talk.of(TurnEnded))
        assert talk.of(TurnEnded) == [TurnEnded(reason="completed")]
