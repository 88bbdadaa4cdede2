"""Decodes retried API errors from OpenCode's log, since ACP does not report them."""

from __future__ import annotations

import re

from tillerman.agents.opencode import failures
from tillerman.core.events import Notice

LOGGED = ("--print-logs", "--log-level=ERROR")
_ERROR = re.compile(
    r'level=ERROR .*message="stream error" .*\bsmall=false .*'
    r'error\.error="(?:AI_)?(\w+): ((?:[^"\\]|\\.)*)"'
)
_TRIED_AGAIN = ("rate_limited", "api_error")


def retry(line: str) -> Notice | None:
    """A retry notice; None for errors without a retry, which end the turn."""
    found = _ERROR.search(line)
    if found is None:
        return None
    words = found[2].replace('\\"', '"')
    failure = failures.failure({"name": "APIError", "data": {"message": words}})
    if failure.kind not in _TRIED_AGAIN:
        return None
    message = f"model API error: {words}; OpenCode retries if that may help"
    return Notice(level="warning", kind="retry", text=message, failure=failure)
