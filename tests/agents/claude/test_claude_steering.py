"""Steering: the turn continues until late prompts are answered, however late they arrive."""

from __future__ import annotations

from tests.agents.claude.claude_says import (
    assistant,
    init,
    prompted,
    receive,
    result,
    state,
    text_line,
)
from tillerman.agents.claude.wire import ClaudeWire
from tillerman.core.agent import Prompt
from tillerman.core.events import MessageChunk, TurnEnded, TurnStarted, UsageReported

COMPLETED = TurnEnded(reason="completed")


def steered(claude: ClaudeWire) -> str:
    [message] = claude.prompt(Prompt("and make it green"))
    return str(message["uuid"])


def lifecycle(word_id: str, word: str) -> dict[str, str]:
    return {"type": "command_lifecycle", "command_uuid": word_id, "state": word}


def kinds(events: list[object]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_messages_read_during_the_turn_do_not_delay_its_end() -> None:
    claude = prompted()
    receive(claude, state("running"))
    word = steered(claude)
    reported = receive(
        claude, lifecycle(word, "queued"), lifecycle(word, "started"), result("Green.")
    )
    assert reported[-1] == COMPLETED
    assert receive(claude, state("idle")) == []


def test_messages_sent_after_the_last_call_are_answered_in_the_same_turn() -> None:
    claude = prompted()
    receive(claude, state("running"))
    word = steered(claude)
    first = receive(
        claude, lifecycle(word, "queued"), assistant(text_line("Done.")), result("Done.")
    )
    assert kinds(first) == ["MessageChunk"]
    second = receive(
        claude, lifecycle(word, "started"), init(), assistant(text_line("Green.")), result("Green.")
    )
    assert not any(isinstance(event, TurnStarted) for event in second)
    assert [event.text for event in second if isinstance(event, MessageChunk)] == ["Green."]
    assert second[-1] == COMPLETED
    assert receive(claude, lifecycle(word, "completed"), state("idle")) == []


def test_without_a_report_about_them_idle_means_the_messages_are_answered() -> None:
    claude = prompted()
    receive(claude, state("running"))
    steered(claude)
    assert kinds(receive(claude, assistant(text_line("Done.")), result("Done."))) == [
        "MessageChunk"
    ]
    assert kinds(receive(claude, init(), assistant(text_line("Green.")), result("Green.")))[-1] == (
        "MessageChunk"
    )
    reported = receive(claude, state("idle"))
    assert isinstance(reported[0], UsageReported)
    assert reported[1:] == [COMPLETED]


def test_an_agent_that_never_reports_idle_ends_its_turn_at_once() -> None:
    claude = prompted()
    steered(claude)
    assert receive(claude, result("Done."))[-1] == COMPLETED


def test_an_interrupt_ends_the_turn_despite_waiting_messages() -> None:
    claude = prompted()
    receive(claude, state("running"))
    steered(claude)
    cut = result("", terminal_reason="aborted_streaming")
    assert receive(claude, cut)[-1] == TurnEnded(reason="cancelled")


def test_a_cancel_withdraws_waiting_messages() -> None:
    claude = prompted()
    taken, waiting = steered(claude), steered(claude)
    receive(claude, lifecycle(taken, "started"))
    assert [message["request"] for message in claude.cancel()] == [
        {"subtype": "cancel_async_message", "message_uuid": waiting},
        {"subtype": "interrupt"},
    ]
