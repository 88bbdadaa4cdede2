"""The API errors that OpenCode tries again after: its ACP says nothing of them, its log does."""

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
    """Of an error that it does not try again after, the end of the turn tells."""
    found = _ERROR.search(line)
    if found is None:
        return None
    words = found[2].replace('\\"', '"')
    failure = failures.failure({"name": "APIError", "data": {"message": words}})
    if failure.kind not in _TRIED_AGAIN:
        return None
    said = f"the model's API failed with {words}: OpenCode tries again where that may help"
    return Notice(level="warning", kind="retry", text=said, failure=failure)
