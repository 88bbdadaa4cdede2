"""Tokens and cost are those of one turn, whatever the CLI reports."""

from __future__ import annotations

from typing import Any

from tests.agents.claude.claude_playback import RECORDINGS, lines, play
from tests.agents.claude.claude_says import init, message_start, prompted, receive, result, stream
from tillerman.core.agent import Prompt
from tillerman.core.events import UsageReported


def model(input: int, output: int, cost: float, **more: Any) -> dict[str, Any]:
    return {"inputTokens": input, "outputTokens": output, "costUSD": cost, **more}


def usages(received: list[Any]) -> list[UsageReported]:
    return [event for event in received if isinstance(event, UsageReported)]


def test_the_cost_of_a_turn_is_what_the_total_grew_by() -> None:
    claude = prompted()
    first = result(total_cost_usd=0.3, modelUsage={"opus": model(100, 10, 0.3)})
    second = result(total_cost_usd=0.4, modelUsage={"opus": model(140, 15, 0.4)})
    received = receive(claude, first)
    list(claude.prompt(Prompt("again")))
    assert usages(received + receive(claude, second)) == [
        UsageReported(input_tokens=100, output_tokens=10, cost_usd=0.3),
        UsageReported(input_tokens=40, output_tokens=5, cost_usd=0.1),
    ]


def test_after_a_resume_the_earlier_turns_do_not_count() -> None:
    """2.1.325 starts with the total of the whole conversation."""
    line = result(
        total_cost_usd=0.9,
        modelUsage={"opus": model(900, 90, 0.9)},
        model_usage_since_last_result={"opus": model(100, 10, 0.1)},
    )
    assert usages(receive(prompted(), line)) == [
        UsageReported(input_tokens=100, output_tokens=10, cost_usd=0.1)
    ]


def test_recorded_costs_of_a_resumed_conversation_are_those_of_its_turns() -> None:
    costs = [
        usages(play(lines(RECORDINGS / "2.1.325" / name)))[-1].cost_usd
        for name in ("resume_turn1", "resume_turn2")
    ]
    assert costs == [0.000806, 0.000806]


def test_a_total_that_restarts_counts_as_it_is() -> None:
    claude = prompted()
    receive(claude, result(total_cost_usd=0.3, modelUsage={"opus": model(100, 10, 0.3)}))
    anew = result(total_cost_usd=0.1, modelUsage={"opus": model(30, 3, 0.1)})
    assert usages(receive(claude, anew)) == [
        UsageReported(input_tokens=30, output_tokens=3, cost_usd=0.1)
    ]


def test_tokens_of_all_models_count_and_the_window_is_that_of_the_main_model() -> None:
    claude = prompted()
    usage = {"input_tokens": 50, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 7}
    start = stream({"type": "message_start", "message": {"id": "m1", "usage": usage}})
    models = {
        "opus": model(57, 9, 0.2, cacheReadInputTokens=300, contextWindow=200_000),
        "haiku": model(3, 1, 0.1, cacheCreationInputTokens=4, contextWindow=100_000),
    }
    received = receive(
        claude, init(model="opus"), start, result(total_cost_usd=0.3, modelUsage=models)
    )
    assert usages(received) == [
        UsageReported(context_used=357, call="begun"),
        UsageReported(
            input_tokens=64,
            output_tokens=10,
            cached_tokens=300,
            cost_usd=0.3,
            context_used=357,
            context_limit=200_000,
        ),
    ]


def test_an_agent_that_counts_nothing_reports_no_usage() -> None:
    assert usages(receive(prompted(), message_start("m1"), result("hi"))) == [UsageReported()]
