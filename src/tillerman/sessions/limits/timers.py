"""Named timers, on the monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """`expired` receives the name of each timer that runs out."""

    def __init__(self, expired: Callable[[str], None]) -> None:
        self._expired = expired
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(self, name: str, seconds: float | None) -> None:
        """Starts or restarts a timer; None means no deadline."""
        self.stop(name)
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._running[name] = loop.call_later(seconds, self._expired, name)

    def stop(self, name: str) -> None:
        if timer := self._running.pop(name, None):
            timer.cancel()
