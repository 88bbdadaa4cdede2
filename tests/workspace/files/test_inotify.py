"""Waiting for changes ends when it is cancelled, whatever happens at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tillerman.workspace.files import inotify
from tillerman.workspace.files.inotify import Inotify, InotifyEvent

EVENT = InotifyEvent(1, inotify.CREATE, b"a")


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize("steps", range(6))
async def test_a_wait_is_cancelled_though_something_happens_at_the_same_time(
    tmp_path: Path, seconds: float | None, steps: int
) -> None:
    with Inotify() as alarm:
        alarm.add(tmp_path, inotify.CREATE)
        waiting = asyncio.create_task(alarm.wait(seconds))
        await asyncio.sleep(0.01)
        alarm.put_back([EVENT])
        for _ in range(steps):
            await asyncio.sleep(0)
        was_done = waiting.done()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled() or was_done


async def test_a_wait_ends_at_its_time_or_with_the_first_change(tmp_path: Path) -> None:
    with Inotify() as alarm:
        alarm.add(tmp_path, inotify.CREATE)
        assert not await alarm.wait(0.01)
        waiting = asyncio.create_task(alarm.wait(60))
        await asyncio.sleep(0.01)
        (tmp_path / "a").touch()
        assert await waiting
        assert [one.name for one in alarm.read()] == [b"a"]
