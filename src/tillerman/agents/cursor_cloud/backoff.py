"""When to send a request again: full jitter, bounded, never before the server's Retry-After."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple

LONGEST_WAIT = 120.0  # seconds; a server that asks for more is reported instead


class Backoff(NamedTuple):
    base: float = 1.0  # seconds
    cap: float = 30.0
    tries: int = 6

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds before the next try; `attempt` is the number of failed ones, from 1."""
        limit = min(self.cap, self.base * 2.0 ** min(attempt - 1, 30))
        return max(random.uniform(0, limit), retry_after or 0.0)


def retry_after(header: str | None, now: float | None = None) -> float | None:
    """The seconds of a Retry-After header, which is a number or a date; None if it is neither."""
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - (time.time() if now is None else now))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
