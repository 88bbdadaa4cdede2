"""Decodes retries from Gemini CLI's debug log: `Attempt 1 failed: …. Retrying …`.

Its normal stderr output is held back until it ends; the debug log has a time before each line.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from tillerman.agents.acp import failures
from tillerman.agents.gemini.launch import ROW
from tillerman.agents.jsonrpc.peer import RpcError
from tillerman.core.events import Notice

_BEGINS = re.compile(r"^\[[^\]]+\] \[WARN\] Attempt (\d+) failed(?: with status (\d+))?[.:] ?")
_RETRIES = re.compile(r"\.? ?Retrying (?:after (\d+)ms|with backoff)\.\.\.")
_LINES = 8  # maximum lines of a message


class Retries:
    """Parses log lines; an API error may have several, and the last one names the next step."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def read(self, line: str) -> Notice | None:
        if not (_BEGINS.match(line) or self._lines):
            return None
        self._lines = [line] if _BEGINS.match(line) else [*self._lines, line]
        if found := _RETRIES.search(line):
            message = "\n".join(self._lines)
            self._lines = []
            return _notice(message, float(found[1]) / 1000 if found[1] else None)
        if "Max attempts reached" in line or len(self._lines) == _LINES:
            self._lines = []
        return None


def _notice(message: str, after: float | None) -> Notice:
    attempt = _BEGINS.match(message)
    assert attempt
    status = int(attempt[2] or 0)
    words = _RETRIES.split(message.removeprefix(attempt[0]))[0].strip()
    words = words or f"status {status}"
    failure = failures.failure(RpcError(status, words), ROW)
    wait = "" if after is None else f" in {after:.1f} s"
    return Notice(
        level="warning",
        kind="retry",
        text=f"model API error: {words}; retrying{wait}, attempt {attempt[1]}",
        failure=replace(failure, retry_after=after if failure.kind == "rate_limited" else None),
    )
