"""While background work will start another turn, no reader sees the session as idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.claude.claude_playback import RECORDINGS, Said, lines, play
from tests.agents.claude.claude_says import (
    Line,
    assistant,
    calls,
    init,
    prompted,
    receive,
    result,
    state,
    system,
    text_line,
    tool_result,
    wake_up,
)
from tillerman.core.agent import Prompt
from tillerman.core.events import (
    BackgroundChanged,
    BackgroundTask,
    TurnEnded,
    TurnStarted,
    UsageReported,
)

WAKING = [
    "2.1.197/background_task",
    "2.1.325/background_task",
    "2.1.325/subagent_background",
    "2.1.325/subagent_background_permission",
    "2.1.325/subagent_background_state_events",
    "2.1.325/subagent_background_stop_task",
    "2.1.325/subagent_background_user",
    "2.1.325/subagent_default",
]


def resting(received: list[Said]) -> list[bool]:
    """After each event: whether no turn is open and no background task runs."""
    rest, turn, tasks = [], True, False
    for event in received:
        match event:
            case TurnStarted():
                turn = True
            case TurnEnded():
                turn = False
            case BackgroundChanged():
                tasks = event.tasks != ()
        rest.append(not turn and not tasks)
    return rest


@pytest.mark.parametrize("name", WAKING)
def test_a_recorded_session_with_a_wake_up_is_idle_only_at_its_end(name: str) -> None:
    recording = Path(RECORDINGS, name)
    received = play(lines(recording))
    assert any(isinstance(event, TurnStarted) for event in received)
    assert resting(received).index(True) == len(received) - 1


def started(task: str, call: str, run: str = "", **more: object) -> Line:
    return system(
        "task_started", task_id=task, tool_use_id=call, description=task, run_id=run, **more
    )


def listed(*tasks: tuple[str, str]) -> Line:
    live = [{"task_id": task, "run_id": run, "description": task} for task, run in tasks]
    return system("background_tasks_changed", tasks=live)


def over(task: str, status: str = "completed") -> list[Line]:
    return [
        system("task_updated", task_id=task, patch={"status": status}),
        system("task_notification", task_id=task, status=status),
    ]


def test_of_two_tasks_that_end_together_the_second_is_listed_until_its_own_wake_up() -> None:
    """As 2.1.325 writes it: both ends are reported before the first of the two turns."""
    claude = prompted()
    received = receive(
        claude,
        state("running"),
        listed(("a", "run_a"), ("b", "run_b")),
        result("started"),
        state("idle"),
        *over("a"),
        listed(("b", "run_b")),
        *over("b"),
        listed(),
        state("running"),
        init(),
        result("a is done", origin=wake_up("run_a")),
        init(),
        result("b is done", origin=wake_up("run_b")),
        state("idle"),
    )
    changes = [e for e in received if isinstance(e, BackgroundChanged | TurnStarted | TurnEnded)]
    a, b = BackgroundTask("a", "a"), BackgroundTask("b", "b")
    assert changes == [
        BackgroundChanged(tasks=(a, b)),
        TurnEnded(reason="completed"),
        TurnStarted(origin="agent"),
        BackgroundChanged(tasks=(b,)),
        TurnEnded(reason="completed"),
        TurnStarted(origin="agent"),
        BackgroundChanged(tasks=()),
        TurnEnded(reason="completed"),
    ]


def test_an_end_reported_before_the_idle_of_the_turn_waits_for_its_notification() -> None:
    """As 2.1.197 writes it: a task may end just before the turn does, and start another turn
    later."""
    claude = prompted()
    call = calls("c1", "Bash", command="sleep 1", run_in_background=True)
    updated, notified = over("a")
    received = receive(
        claude,
        state("running"),
        assistant(call),
        started("a", "c1"),
        tool_result("c1", "running in background"),
        updated,
        result("started"),
        state("idle"),
        state("running"),
        notified,
        init(),
        result("woke", origin=wake_up()),
        state("idle"),
    )
    assert resting(received).index(True) == len(received) - 1
    assert received[-1] == TurnEnded(reason="completed")


def test_a_killed_task_is_released_when_the_agent_is_idle() -> None:
    claude = prompted()
    receive(claude, state("running"), listed(("a", "run_a")), result("started"))
    killed = [*over("a", "killed"), listed()]
    assert receive(claude, *killed) == []
    assert receive(claude, state("idle")) == [BackgroundChanged(tasks=())]


def test_foreground_work_is_not_listed_as_background() -> None:
    claude = prompted()
    received = receive(
        claude,
        assistant(calls("c1", "Bash", command="sleep 8")),
        started("a", "c1"),
        *over("a"),
        tool_result("c1", "done"),
    )
    assert [event for event in received if isinstance(event, BackgroundChanged)] == []


def test_a_running_task_survives_the_idle_between_turns() -> None:
    claude = prompted()
    receive(claude, state("running"), listed(("a", "run_a")), result("started"))
    assert receive(claude, state("idle")) == []


def test_a_prompt_that_comes_during_a_wake_up_ends_with_its_own_result() -> None:
    claude = prompted()
    receive(
        claude, state("running"), listed(("a", "r")), result("started"), state("idle"), *over("a")
    )
    list(claude.prompt(Prompt("meanwhile")))
    received = receive(
        claude,
        listed(),
        init(),
        assistant(text_line("woke")),
        result("woke", origin=wake_up("r"), usage={"input_tokens": 3, "output_tokens": 1}),
        init(),
        assistant(text_line("here")),
        result("here", usage={"input_tokens": 4, "output_tokens": 2}),
    )
    assert received[-2:] == [
        UsageReported(input_tokens=7, output_tokens=3),
        TurnEnded(reason="completed"),
    ]
    assert sum(isinstance(event, TurnEnded) for event in received) == 1


def test_a_prompt_merged_into_a_wake_up_ends_when_the_agent_is_idle() -> None:
    claude = prompted()
    receive(
        claude, state("running"), listed(("a", "r")), result("started"), state("idle"), *over("a")
    )
    list(claude.prompt(Prompt("meanwhile")))
    received = receive(
        claude, listed(), init(), assistant(text_line("both")), result("both", origin=wake_up("r"))
    )
    assert not any(isinstance(event, TurnEnded) for event in received)
    assert receive(claude, state("idle"))[-1] == TurnEnded(reason="completed")
