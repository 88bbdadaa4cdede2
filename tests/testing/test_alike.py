"""Which differences between two logs are ignored, and which are not: the comparison itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.real.alike import comparable
from tillerman.core.events import (
    Entry,
    Event,
    MessageChunk,
    Text,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    UsageReported,
)


def bash(call: str, command: str) -> ToolStarted:
    return ToolStarted(
        call_id=call, tool="Bash", name="bash", title=command, input={"command": command}
    )


def done(call: str, output: str) -> ToolFinished:
    return ToolFinished(call_id=call, outcome="completed", content=(Text(output),))


LOG: list[Event] = [
    TurnStarted(origin="prompt", prompt="go"),
    MessageChunk(message_id="m1", text="I "),
    MessageChunk(message_id="m1", text="look."),
    bash("c1", "ls /home/one"),
    done("c1", "a\n"),
    bash("c2", "ls b"),
    done("c2", "b\n"),
    UsageReported(input_tokens=5, output_tokens=7),
    bash("c3", "ls c"),
    bash("c4", "ls d"),
    ToolUpdated(call_id="c3", content=(Text("c"),)),
    done("c3", "c\n"),
    done("c4", "d\n"),
    MessageChunk(message_id="m2", text="Done."),
    TurnEnded(reason="completed"),
]


def compared(log: list[Event], place: str = "/home/one") -> object:
    entries = [
        Entry(session="s", seq=number, turn=1, at="", event=event)
        for number, event in enumerate(log, 1)
    ]
    return comparable(entries, {place: "FOLDER"})


def swapped(one: int, other: int) -> list[Event]:
    log = LOG.copy()
    log[one], log[other] = log[other], log[one]
    return log


def test_chunks_ids_folders_progress_and_the_order_of_parallel_calls_are_ignored() -> None:
    other: list[Event] = [
        TurnStarted(origin="prompt", prompt="go"),
        MessageChunk(message_id="x", text="I look."),
        bash("a", "ls /home/two"),
        done("a", "a\n"),
        bash("b", "ls b"),
        ToolUpdated(call_id="b", content=(Text("b\n"),)),
        done("b", "b\n"),
        UsageReported(input_tokens=5, output_tokens=7),
        bash("d", "ls d"),
        bash("c", "ls c"),
        done("d", "d\n"),
        done("c", "c\n"),
        MessageChunk(message_id="y", text="Do"),
        MessageChunk(message_id="y", text="ne."),
        TurnEnded(reason="completed"),
    ]
    assert compared(other, "/home/two") == compared(LOG)


@pytest.mark.parametrize("number", [n for n, e in enumerate(LOG) if not isinstance(e, ToolUpdated)])
def test_a_missing_event_is_a_difference(number: int) -> None:
    assert compared(LOG[:number] + LOG[number + 1 :]) != compared(LOG)


@pytest.mark.parametrize(
    ("number", "event"),
    [
        (2, replace(LOG[2], text="look!")),
        (2, replace(LOG[2], message_id="m9")),
        (4, replace(LOG[4], outcome="failed")),
        (4, replace(LOG[4], content=(Text("A\n"),))),
        (5, replace(LOG[5], input={"command": "ls x"})),
        (7, replace(LOG[7], output_tokens=8)),
        (10, replace(LOG[10], content=(Text("z"),))),
        (11, replace(LOG[11], call_id="c4")),
        (14, replace(LOG[14], reason="failed")),
    ],
)
def test_another_event_is_a_difference(number: int, event: Event) -> None:
    log = LOG.copy()
    log[number] = event
    assert compared(log) != compared(LOG)


def test_the_order_of_sequential_calls_and_of_all_else_is_compared() -> None:
    sequential = [*LOG[:3], *LOG[5:7], *LOG[3:5], *LOG[7:]]
    assert compared(sequential) != compared(LOG)
    assert compared(swapped(13, 7)) != compared(LOG)
    assert compared(swapped(1, 2)) != compared(LOG)
