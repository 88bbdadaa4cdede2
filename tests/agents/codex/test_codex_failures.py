"""Each error of Codex has a kind, and a hint if the user can fix it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents.codex.failures import failure, from_words, refusal
from tillerman.core.failure import Failure

KINDS = json.loads((Path(__file__).parents[2] / "recordings" / "codex" / "kinds.json").read_text())
OWN = {"other", "activeTurnNotSteerable", "sandboxError", "threadRollbackFailed"}


@pytest.mark.parametrize("word", KINDS["errors"])
def test_every_error_of_the_schema_has_a_failure_kind(word: str) -> None:
    for info in (word, {word: {"httpStatusCode": None}}):
        found = failure({"message": "it failed", "codexErrorInfo": info})
        assert (found.kind == "agent_failed") == (word in OWN)
        assert found.message == "it failed"


@pytest.mark.parametrize(
    ("info", "message", "kind", "status"),
    [
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "no", "not_signed_in", 401),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "no", "rate_limited", 429),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 503}}, "no", "api_error", 503),
        ("usageLimitExceeded", "You've hit your usage limit.", "rate_limited", None),
        ("usageLimitExceeded", "Quota exceeded. Check your plan.", "billing", None),
        ("other", "unexpected status 402 Payment Required", "billing", 402),
        (None, "Missing environment variable: `K`.", "not_signed_in", None),
        (7, "", "agent_failed", None),
    ],
)
def test_the_kind_is_read_from_the_status_then_the_code_then_the_message(
    info: Any, message: str, kind: str, status: int | None
) -> None:
    found = failure({"message": message, "codexErrorInfo": info})
    assert (found.kind, found.status) == (kind, status)


def test_a_message_that_embeds_a_whole_api_response_is_decoded() -> None:
    body = json.dumps({"error": {"message": "Bad request: nope", "code": "bad"}})
    assert failure({"message": body, "codexErrorInfo": "other"}) == Failure(
        kind="agent_failed", message="Bad request: nope"
    )


def test_a_message_alone_is_enough() -> None:
    assert from_words("exceeded retry limit, last status: 429 Too Many Requests") == Failure(
        kind="rate_limited",
        message="exceeded retry limit, last status: 429 Too Many Requests",
        status=429,
        hint="wait, or use another agent or model",
    )


def test_a_refusal_names_what_was_refused() -> None:
    assert refusal("the turn", "no reason").message == "the turn failed: no reason"
    assert refusal("x", "thread/resume failed: no rollout found for thread id y").hint == (
        "the agent no longer has this conversation: start a new session"
    )
