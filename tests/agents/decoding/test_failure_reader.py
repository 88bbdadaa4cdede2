"""The failure reader: the first rule of a vendor's table that matches decides."""

from __future__ import annotations

import pytest

from tillerman.agents.decoding.failure_reader import (
    ANY_STATUS,
    KNOWN_STATUS,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
    by_name,
    by_text,
)
from tillerman.core.failure import Failure, history_lost

TABLE = FailureTable(
    rules=(
        FailureRule("history_lost", text="^no such session"),
        *by_name({"quota": "billing"}),
        FailureRule("context_overflow", status=ANY_STATUS, text="too long"),
        *KNOWN_STATUS,
        OTHER_STATUS,
        *by_text(("slow down", "rate_limited")),
        FailureRule("denied", text="forbidden", hint="ask somebody"),
    ),
    hints={"billing": "pay"},
    exits={41: FailureRule("not_signed_in", message="no key")},
    status_in_text=r"\(HTTP (\d{3})\)",
    retry_after_in_text=r"wait (\d+) s",
)


@pytest.mark.parametrize(
    ("message", "name", "status", "expected"),
    [
        ("x", "quota", 429, Failure(kind="billing", message="x", status=429, hint="pay")),
        (
            "Too long",
            "",
            400,
            Failure(
                kind="context_overflow",
                message="Too long",
                status=400,
                hint="start a new session, or let the agent /compact this one",
            ),
        ),
        ("too long", "", None, Failure(kind="agent_failed", message="too long")),
        (
            "x (HTTP 503)",
            "",
            None,
            Failure(
                kind="api_error",
                message="x (HTTP 503)",
                status=503,
                hint="try again in a moment",
            ),
        ),
        (
            "slow down, wait 7 s",
            "",
            None,
            Failure(
                kind="rate_limited",
                message="slow down, wait 7 s",
                retry_after=7.0,
                hint="wait, or use another agent or model",
            ),
        ),
        ("forbidden", "", None, Failure(kind="denied", message="forbidden", hint="ask somebody")),
        ("no such session 1", "", None, history_lost("no such session 1")),
        ("else", "unknown", None, Failure(kind="agent_failed", message="else")),
    ],
)
def test_the_first_rule_whose_conditions_all_hold_decides(
    message: str, name: str, status: int | None, expected: Failure
) -> None:
    assert TABLE.read(message, name=name, status=status) == expected


def test_a_rejected_request_has_no_advice_to_retry_unless_the_table_has_one() -> None:
    assert TABLE.read("x", status=422).hint == ""
    lenient = FailureTable(rules=(OTHER_STATUS,), retry_client_errors=True)
    assert lenient.read("x", status=422).hint == "try again in a moment"


def test_a_retry_delay_is_stored_only_with_a_rate_limit() -> None:
    assert TABLE.read("x", status=429, retry_after=2.0).retry_after == 2.0
    assert TABLE.read("x", status=503, retry_after=2.0).retry_after is None


def test_an_exit_code_is_read_with_the_last_line_of_stderr() -> None:
    assert TABLE.read_exit(41, "a\nsign in\n\n") == Failure(kind="not_signed_in", message="sign in")
    assert TABLE.read_exit(41, "") == Failure(kind="not_signed_in", message="no key")
    assert TABLE.read_exit(1, "sign in") is None
    assert TABLE.read_exit(None, "sign in") is None
