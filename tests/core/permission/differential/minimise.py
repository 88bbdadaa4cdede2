"""The smallest line that still fails for the same cause."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

_TOKENS = re.compile(r"\s+|[A-Za-z0-9_./-]+|.", re.DOTALL)
_MOST_TRIES = 250
_SECONDS = 8.0


def minimal(line: str, fails: Callable[[str], bool]) -> str:
    """Removes tokens, then characters, as long as it still fails."""
    budget = _Budget(fails)
    tokens = _reduced(_TOKENS.findall(line), budget)
    return "".join(_reduced(list("".join(tokens)), budget)).strip(" ")


def skeleton(line: str) -> str:
    """What lines with one cause have in common: without names and quoted text."""
    line = re.sub(r"'[^']*'", "'…'", line)
    line = re.sub(r"v\d+r?", "v", line)
    paths = r"\.{0,2}/?(?:mnt|ws|src|outside|out|\.git|\.env|hooks|a\.txt|deep|z|q|x)[\w./-]*"
    return re.sub(rf"(?<![\w-]){paths}", "p", line)


class _Budget:
    def __init__(self, fails: Callable[[str], bool]) -> None:
        self._fails = fails
        self._seen: dict[str, bool] = {}
        self._deadline = time.monotonic() + _SECONDS

    def fails(self, parts: list[str]) -> bool:
        text = "".join(parts)
        if text not in self._seen:
            if len(self._seen) >= _MOST_TRIES or time.monotonic() > self._deadline:
                return False
            self._seen[text] = self._fails(text)
        return self._seen[text]


def _reduced(parts: list[str], budget: _Budget) -> list[str]:
    size = max(1, len(parts) // 2)
    while size:
        at = 0
        while at < len(parts):
            shorter = parts[:at] + parts[at + size :]
            if shorter and budget.fails(shorter):
                parts = shorter
            else:
                at += size
        size //= 2
    return parts
