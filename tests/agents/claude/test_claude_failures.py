"""The failure of a turn has a kind, and a hint with the next step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.claude.claude_says import (
    assistant,
    message_start,
    prompted,
    receive,
    result,
    text_delta,
    text_line,
)
from tillerman.core.events import TurnEnded
from tillerman.core.failure import Failure


def failure(*lines: dict[str, Any]) -> Failure | None:
    ended = receive(prompted(), *lines)[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.reason == "failed") is (ended.failure is not None)
    return ended.failure


@pytest.mark.parametrize(
    ("word", "status", "kind"),
    [
        ("authentication_failed", 401, "not_signed_in"),
        ("authentication_failed", None, "not_signed_in"),
        ("billing_error", 402, "billing"),
        ("model_not_found", 404, "model_not_found"),
        ("rate_limit", 429, "rate_limited"),
        ("server_error", 529, "api_error"),
        ("max_output_tokens", None, "output_limit"),
        ("unknown", 400, "api_error"),
        ("brand_new", 401, "not_signed_in"),
        ("brand_new", None, "api_error"),
    ],
)
def test_an_api_error_is_classified_by_its_code_then_by_its_status(
    word: str, status: int | None, kind: str
) -> None:
    reported = assistant(text_line("it failed"), error=word)
    found = failure(reported, result("it failed", is_error=True, api_error_status=status))
    assert found is not None
    assert (found.kind, found.message, found.status) == (kind, "it failed", status)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"subtype": "error_max_turns", "errors": ["Reached 3"]}, "turn_limit"),
        ({"subtype": "error_max_budget_usd", "errors": ["Reached $1"]}, "cost_limit"),
        ({"result": "No.", "stop_reason": "refusal"}, "refused"),
        ({"result": "Prompt is too long"}, "context_overflow"),
        ({"result": "Request too large", "api_error_status": 413}, "context_overflow"),
        ({"subtype": "error_during_execution", "errors": ["boom"]}, "agent_failed"),
        ({"subtype": "error_of_tomorrow"}, "agent_failed"),
    ],
)
def test_a_result_that_is_an_error_is_classified(more: dict[str, Any], kind: str) -> None:
    found = failure({**result(), "is_error": True, **more})
    assert found is not None
    assert found.kind == kind
    assert found.message


def test_an_error_is_not_emitted_as_an_agent_message() -> None:
    reported = assistant(text_line("Not logged in"), error="authentication_failed")
    received = receive(prompted(), reported, result("Not logged in", is_error=True))
    assert received[-1] == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="not_signed_in",
            message="Not logged in",
            hint="run `claude auth login` or set ANTHROPIC_API_KEY",
        ),
    )
    assert len(received) == 2


def test_an_error_of_an_earlier_turn_does_not_fail_the_next() -> None:
    claude = prompted()
    receive(claude, assistant(text_line("x"), error="server_error"), result("x", is_error=True))
    assert receive(claude, {"type": "result", "subtype": "success"})[-1] == TurnEnded(
        reason="completed"
    )


def test_a_success_that_only_repeats_an_interrupted_message_is_a_broken_stream() -> None:
    lines = [
        message_start("m1"),
        text_delta("Part of"),
        assistant(text_line("Part of"), id="m2"),
        result("Part of", usage={"output_tokens": 0}),
    ]
    found = failure(*lines)
    assert found is not None
    assert found.kind == "stream_broken"


def test_a_success_with_more_text_than_the_interrupted_message_is_a_success() -> None:
    lines = [
        message_start("m1"),
        text_delta("Part of"),
        assistant(text_line("Part of a whole"), id="m2"),
        result("Part of a whole", usage={"output_tokens": 0}),
    ]
    assert failure(*lines) is None


def test_a_connection_lost_in_mid_message_is_a_broken_stream() -> None:
    lines = [
        message_start("m1"),
        text_delta("Part of"),
        assistant(text_line("API Error: Connection dropped"), error="server_error"),
        result("API Error: Connection dropped", is_error=True),
    ]
    found = failure(*lines)
    assert found is not None
    assert found.kind == "stream_broken"


def test_an_overload_in_mid_message_is_no_broken_stream() -> None:
    lines = [
        message_start("m1"),
        text_delta("Part of"),
        assistant(text_line("API Error: Repeated 529 Overloaded errors"), error="server_error"),
        result("API Error: Repeated 529 Overloaded errors", is_error=True),
    ]
    found = failure(*lines)
    assert found is not None
    assert found.kind == "api_error"
