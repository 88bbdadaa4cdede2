"""Named timers, on the monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Timers:
    def __init__(self) -> None:
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(
        self, name: str, seconds: float | None, call: Callable[..., object], *args: Any
    ) -> None:
        """Starts or restarts a timer; None means no deadline."""
        self.stop(name)
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._running[name] = loop.call_later(seconds, call, *args)

    def stop(self, name: str) -> None:
        if clock := self._running.pop(name, None):
            clock.cancel()
