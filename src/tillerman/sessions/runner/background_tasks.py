"""Background tasks of a session; an error in one is passed to a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tillerman.core.errors import TillermanError


class BackgroundTasks:
    def __init__(self, failed: Callable[[TillermanError], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(
            lambda _: work.close()
        )  # it may have been cancelled before its start
        return task

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TillermanError as error:
            self._failed(error)
