"""Schedules calls from the store's thread on an event loop, with one wake-up for all pending."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary


class LoopWaker:
    """One per loop, to which it holds no reference."""

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker]] = (
        WeakKeyDictionary()
    )

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._scheduled = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopWaker:
        return cls._of_loops.setdefault(loop, cls())

    def call(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any
    ) -> None:
        """Thread-safe; `callback` runs in the loop, after those of earlier calls."""
        self._calls.append(partial(callback, *args))
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon_threadsafe(self._run_calls, loop)

    def _run_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled = False  # first: a later call must wake the loop again
        try:
            for _ in range(len(self._calls)):
                self._calls.popleft()()
        finally:
            if self._calls:  # an exception must not lose the other calls
                self._schedule(loop)
