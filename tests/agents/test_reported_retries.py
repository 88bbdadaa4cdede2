"""What each agent reports of a model call that it retries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.agents import load
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.events import Notice
from tillerman.core.session_options import session_spec
from tillerman.core.wire import DecodesStderr
from tillerman.testing.recording_player import listener

SPEC = session_spec(cwd=Path("/project"))
CLAUDE = (
    '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":%d,'
    '"error_status":%s,"error":"%s","session_id":"s","uuid":"u"}'
)
CODEX = (
    '{"method":"error","params":{"error":{"message":"Reconnecting... 1/5","codexErrorInfo":'
    '{"responseStreamDisconnected":{"httpStatusCode":%d}},"additionalDetails":"%s"},'
    '"willRetry":true,"threadId":"t","turnId":"u"}}'
)
ON_THE_STREAM = [
    ("claude", CLAUDE % (531, "401", "authentication_failed"), ("not_signed_in", 401, None)),
    ("claude", CLAUDE % (20000, "429", "rate_limit"), ("rate_limited", 429, 20.0)),
    ("claude", CLAUDE % (500, "529", "overloaded"), ("api_error", 529, None)),
    ("claude", CLAUDE % (500, "402", "billing_error"), ("billing", 402, None)),
    ("claude", CLAUDE % (500, "null", "unknown"), ("api_error", None, None)),
    ("codex", CODEX % (401, "unexpected status 401 Unauthorized"), ("not_signed_in", 401, None)),
    ("codex", CODEX % (429, "exceeded retry limit, last status: 429"), ("rate_limited", 429, None)),
    ("codex", CODEX % (503, "unexpected status 503"), ("api_error", 503, None)),
]
WARN = "[2026-11-16T22:34:33.563Z] [WARN] "
LOGGED = (
    'timestamp=2026-11-16T22:29:06.021Z level=ERROR run=e6be73fd message="stream error" '
    "providerID=scripted modelID=scripted session.id=ses_e1 small={small} agent={agent} "
    'mode=primary error.error="AI_APICallError: {words}"'
)
ON_STDERR = [
    (
        "gemini",
        f"{WARN}Attempt 1 failed: Rate limit reached\n"
        "Suggested retry after 20s.. Retrying after 23819ms...",
        ("rate_limited", None, 23.819),
    ),
    (
        "gemini",
        f"{WARN}Attempt 1 failed with status 503. Retrying with backoff... _ApiError: {{}}",
        ("api_error", 503, None),
    ),
    (
        "opencode",
        LOGGED.format(small="false", agent="build", words="Rate limit reached"),
        ("rate_limited", None, None),
    ),
    (
        "opencode",
        LOGGED.format(small="false", agent="build", words=r"Overloaded \"now\""),
        ("api_error", None, None),
    ),
]
NO_RETRY = [
    ("gemini", f"{WARN}Attempt 2 failed: Rate limit reached\nMax attempts reached"),
    ("gemini", "Attempt 1 failed: Rate limit reached. Retrying after 5667ms..."),  # of its end
    ("gemini", f"{WARN}Attempt 1 failed: a long story\n" + "more\n" * 20 + "Retrying after 1ms..."),
    ("opencode", LOGGED.format(small="true", agent="title", words="Rate limit reached")),
    ("opencode", LOGGED.format(small="false", agent="build", words="invalid x-api-key")),
    ("opencode", LOGGED.format(small="false", agent="build", words="Forbidden: key")),
]


@pytest.mark.parametrize(("agent", "line", "why"), ON_THE_STREAM)
def test_a_retry_on_the_stream_reports_what_failed(agent: str, line: str, why: object) -> None:
    made = load(agent)
    assert isinstance(made, StdioAgent)
    events = [one for one in listener(made).decode(line.encode()) if isinstance(one, Notice)]
    assert [_of(one) for one in events] == [("retry", why)]


@pytest.mark.parametrize(("agent", "lines", "why"), ON_STDERR)
def test_a_retry_on_stderr_reports_what_failed(agent: str, lines: str, why: object) -> None:
    assert [_of(one) for one in _on_stderr(agent, lines)] == [("retry", why)]


@pytest.mark.parametrize(("agent", "lines"), NO_RETRY)
def test_no_retry_is_reported_where_none_follows(agent: str, lines: str) -> None:
    assert _on_stderr(agent, lines) == []


def _on_stderr(agent: str, lines: str) -> list[Notice]:
    made = load(agent)
    assert isinstance(made, StdioAgent)
    wire = made.wire(SPEC)
    assert isinstance(wire, DecodesStderr)
    events = [event for line in lines.splitlines() for event in wire.decode_stderr(line)]
    return [event for event in events if isinstance(event, Notice)]


def _of(notice: Notice) -> tuple[str, object]:
    failure = notice.failure
    assert failure
    assert failure.hint
    return notice.kind, (failure.kind, failure.status, failure.retry_after)
