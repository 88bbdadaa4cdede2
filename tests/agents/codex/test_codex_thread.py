"""How a thread is opened, prompted, steered and cancelled."""

from __future__ import annotations

from tests.agents.codex.codex_says import (
    TURN,
    Talk,
    answer,
    begun,
    completed,
    delta,
    done,
    refuse,
    report,
)
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    Notice,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.failure import Failure

CANCELLED = TurnEnded(reason="cancelled")


def test_the_thread_is_requested_together_with_the_handshake() -> None:
    talk = Talk()
    assert talk.methods() == ["initialize", "initialized", "thread/start"]
    assert talk.last("thread/start")["params"] == {
        "cwd": "/proj",
        "sandbox": "read-only",
        "approvalPolicy": "untrusted",
        "approvalsReviewer": "user",
    }


def test_a_prompt_waits_for_the_thread() -> None:
    talk = Talk()
    talk.prompt("hello")
    assert "turn/start" not in talk.methods()
    assert talk.open() == [AgentReady(native_id="thread-1", model="gpt-5.5")]
    assert talk.last("turn/start")["params"]["input"][0]["text"] == "hello"


def test_a_thread_that_does_not_open_fails_the_turn_and_is_requested_again() -> None:
    talk = Talk(resume="gone")
    talk.prompt()
    [end] = talk.receive(refuse(talk.last("thread/resume"), "no rollout found for thread id gone"))
    assert end == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="history_lost",
            message="no rollout found for thread id gone",
            hint="the agent no longer has this conversation: start a new session",
        ),
    )
    talk.receive(answer(talk.last("initialize"), {}))
    talk.prompt()
    assert talk.methods().count("thread/resume") == 2
    assert talk.methods().count("initialize") == 1
    talk.open()
    assert talk.methods()[-1] == "turn/start"


def test_a_refused_handshake_is_repeated() -> None:
    talk = Talk()
    talk.receive(refuse(talk.last("initialize"), "no"), refuse(talk.last("thread/start"), "no"))
    talk.prompt()
    assert talk.methods()[3:] == ["initialize", "initialized", "thread/start"]


def test_a_thread_that_does_not_open_is_reported_at_the_next_prompt() -> None:
    talk = Talk()
    talk.receive(answer(talk.last("initialize"), {}))
    assert talk.receive(refuse(talk.last("thread/start"), "bad config")) == []
    talk.prompt()
    [end] = talk.receive(refuse(talk.last("thread/start"), "bad config"))
    failure = Failure(kind="agent_failed", message="opening the conversation failed: bad config")
    assert end == TurnEnded(reason="failed", failure=failure)


def test_a_turn_that_is_refused_fails() -> None:
    talk = Talk()
    talk.open()
    talk.prompt()
    [end] = talk.receive(refuse(talk.last("turn/start"), "thread is archived"))
    failure = Failure(kind="agent_failed", message="the turn failed: thread is archived")
    assert end == TurnEnded(reason="failed", failure=failure)


def test_messages_within_a_turn_wait_until_it_has_begun() -> None:
    talk = Talk()
    talk.prompt("one")
    talk.prompt("two")
    talk.open()
    talk.prompt("three")
    talk.receive(answer(talk.last("turn/start"), {"turn": {"id": TURN}}))
    assert talk.methods()[-1] == "turn/start"
    talk.receive(report("turn/started", turn={"id": TURN}))
    steers = [m["params"] for m in talk.sent if m.get("method") == "turn/steer"]
    assert [params["input"][0]["text"] for params in steers] == ["two", "three"]
    assert {params["expectedTurnId"] for params in steers} == {TURN}


def test_messages_too_late_for_the_turn_start_another() -> None:
    talk = Talk()
    talk.begin()
    talk.prompt("late")
    steer = talk.last("turn/steer")
    talk.receive(completed())
    assert talk.receive(refuse(steer, "no active turn to steer")) == [TurnStarted(origin="agent")]
    assert talk.last("turn/start")["params"]["input"][0]["text"] == "late"


def test_messages_refused_by_the_running_turn_are_reported() -> None:
    talk = Talk()
    talk.begin()
    talk.prompt("more")
    assert talk.receive(refuse(talk.last("turn/steer"), "a review cannot be steered")) == [
        Notice(
            level="warning",
            kind="session",
            text="a message during the turn was rejected: a review cannot be steered",
        )
    ]


def test_a_cancel_before_the_thread_is_open_ends_the_turn_when_it_is() -> None:
    talk = Talk()
    talk.prompt()
    talk.send(talk.wire.cancel())
    assert talk.open() == [AgentReady(native_id="thread-1", model="gpt-5.5"), CANCELLED]
    assert "turn/start" not in talk.methods()


def test_a_cancel_before_the_turn_has_begun_interrupts_it_when_it_has() -> None:
    talk = Talk()
    talk.open()
    talk.prompt()
    talk.send(talk.wire.cancel())
    talk.receive(answer(talk.last("turn/start"), {"turn": {"id": TURN}}))
    assert talk.methods()[-1] == "turn/start"
    talk.receive(report("turn/started"))
    assert talk.last("turn/interrupt")["params"] == {"threadId": "thread-1", "turnId": TURN}
    assert talk.receive(completed("interrupted")) == [CANCELLED]


def test_a_cancelled_turn_is_over_when_its_commands_are() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(begun("commandExecution", "c1", command="sleep 9"))
    talk.send(talk.wire.cancel())
    assert talk.receive(completed("interrupted")) == []
    clean = talk.last("thread/backgroundTerminals/clean")
    assert talk.receive(answer(clean, {})) == [
        ToolFinished(call_id="c1", outcome="cancelled"),
        CANCELLED,
    ]
    assert talk.receive(done("commandExecution", "c1", status="failed", exitCode=-1)) == []


def test_a_clean_up_that_is_refused_ends_the_turn_too() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(begun("commandExecution", "c1", command="sleep 9"))
    talk.receive(completed("interrupted"))
    reported = talk.receive(refuse(talk.last("thread/backgroundTerminals/clean"), "unknown method"))
    assert reported[-1] == CANCELLED


def test_the_end_of_another_turn_is_not_the_end_of_this_one() -> None:
    talk = Talk()
    talk.begin()
    assert talk.receive(completed(turn="turn-0")) == []
    assert talk.receive(completed()) == [TurnEnded(reason="completed")]
    assert talk.receive(completed()) == []


def test_an_agent_that_works_without_a_prompt_starts_its_own_turn() -> None:
    talk = Talk()
    talk.open()
    assert talk.receive(delta("m1", "By the way.")) == [
        TurnStarted(origin="agent"),
        MessageChunk(message_id="m1", text="By the way."),
    ]
    assert talk.receive(completed()) == [TurnEnded(reason="completed")]


def test_a_command_that_ends_after_its_turn_starts_no_turn() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(begun("commandExecution", "c1", command="/bin/bash -lc 'sleep 9'"), completed())
    assert talk.receive(done("commandExecution", "c1", status="completed", exitCode=0)) == [
        Notice(
            level="info",
            kind="session",
            text="Bash `sleep 9`, left running by an earlier turn, ended with exit code 0",
        )
    ]
