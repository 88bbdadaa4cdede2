"""JSON output: one entry per line on standard output, one write per page."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Sequence

from tillerman.core.events import Entry, encode
from tillerman.core.terminal_sanitizer import json_safe
from tillerman.surfaces.cli.views.output import write
from tillerman.surfaces.rendering.turn_outcome import Outcomes


class EntriesView:
    def __init__(self) -> None:
        self.outcomes = Outcomes()

    async def show(self, page: Sequence[Entry]) -> None:
        self.outcomes.note(page)
        if lines := self._lines(page):
            # In a thread: a slow reader must not block the session.
            await asyncio.to_thread(_write_all, b"".join(lines))

    async def report(self, text: str) -> None:
        await asyncio.to_thread(write, sys.stderr, text + "\n")

    async def close(self) -> None:
        pass

    def _lines(self, page: Sequence[Entry]) -> list[bytes]:
        return [encode(entry) + b"\n" for entry in page]


class SummaryView(EntriesView):
    def __init__(self) -> None:
        super().__init__()
        from tillerman.core.transcript.summary_events import Summary

        self._summary = Summary()

    def _lines(self, page: Sequence[Entry]) -> list[bytes]:
        return [encode(item) + b"\n" for entry in page for item in self._summary.add(entry)]

    async def close(self) -> None:
        await asyncio.to_thread(
            _write_all, b"".join(encode(item) + b"\n" for item in self._summary.close())
        )


def _write_all(data: bytes) -> None:
    left = memoryview(json_safe(data))
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:  # the pipe was set to non-blocking by our parent
            select.select([], [1], [])
