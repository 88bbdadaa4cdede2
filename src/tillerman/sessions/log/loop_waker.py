"""How the store's thread calls into a loop: one wake-up for all calls that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary


class LoopWaker:
    """One for each loop, which is not its to keep."""

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker]] = (
        WeakKeyDictionary()
    )

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._rung = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopWaker:
        return cls._of_loops.setdefault(loop, cls())

    def call(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any
    ) -> None:
        """From any thread; `callback` runs in the loop, after those of earlier calls."""
        self._calls.append(partial(callback, *args))
        self._ring(loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._rung:
            self._rung = True
            loop.call_soon_threadsafe(self._answer, loop)

    def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._rung = False  # first: who calls from now on rings again
        try:
            for _ in range(len(self._calls)):
                self._calls.popleft()()
        finally:
            if self._calls:  # one that went wrong takes no other with it
                self._ring(loop)
