"""A conversation is read once, however its viewers come and go meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import pytest

from tests.surfaces.page.logs import generated_log
from tillerman.core.events import Entry
from tillerman.surfaces.page.conversation import PageConversation
from tillerman.surfaces.page.document import turns_html
from tillerman.surfaces.page.session_pages import SessionPages

PAGE = 40  # entries


class SlowLog:
    """A log on a slow disk."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def page(self, session: str, since: int) -> Sequence[Entry]:
        time.sleep(0.002)
        return [one for one in self._entries if one.seq > since][:PAGE]


@pytest.mark.parametrize("seed", range(12))
async def test_viewers_that_leave_early_do_not_make_entries_appear_twice(seed: int) -> None:
    chosen, entries = random.Random(seed), list(generated_log(seed))
    pages = SessionPages(SlowLog(entries))  # type: ignore[arg-type]

    async def view() -> str:
        async with pages.viewed("s") as page:
            return turns_html(page.conversation, 0)

    for _ in range(12):
        viewer = asyncio.create_task(view())
        await asyncio.sleep(chosen.random() * 0.01)
        viewer.cancel()
        await asyncio.wait([viewer])
    whole = PageConversation()
    for first in range(0, len(entries), PAGE):
        whole.add(entries[first : first + PAGE])
    whole.refresh()
    assert await view() == turns_html(whole, 0)
