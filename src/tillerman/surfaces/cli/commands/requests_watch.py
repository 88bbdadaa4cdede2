"""`tillerman requests watch`: prints or answers the requests of all sessions as they arrive."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime

from tillerman.core.events import PermissionRequested, QuestionAsked, RequestAnswered, encode
from tillerman.core.terminal_sanitizer import json_safe
from tillerman.sessions.request_watch import Change, RequestOpened
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.follow import find_keyboard
from tillerman.surfaces.cli.views.output import colored, write
from tillerman.surfaces.rendering import formatting


def watch(options: Namespace) -> int:
    return asyncio.run(_watch(options))


async def _watch(options: Namespace) -> int:
    async with open_harness.harness(options) as harness:
        changes = harness.sessions.watch_requests()
        async with aclosing(changes):  # type: ignore[type-var]
            if options.json:
                await _print_entries(changes)
            elif keyboard := find_keyboard(options):
                from tillerman.surfaces.cli.commands.requests_answering import RequestQueueView

                counter = RequestQueueView(harness, keyboard, color=colored(options, sys.stdout))
                await counter.serve(changes)
            else:
                await _print_lines(changes)
    return 0


async def _print_entries(changes: AsyncIterator[Change]) -> None:
    reported: set[tuple[str, int]] = set()
    async for change in changes:
        entry = change.entry
        if (entry.session, entry.seq) not in reported:  # repeated when its owner exits
            reported.add((entry.session, entry.seq))
            await asyncio.to_thread(write, sys.stdout, json_safe(encode(entry)).decode() + "\n")


async def _print_lines(changes: AsyncIterator[Change]) -> None:
    lines = RequestLines()
    async for change in changes:
        text = "".join(f"{line}\n" for line in lines.of(change))
        await asyncio.to_thread(write, sys.stdout, text)


class RequestLines:
    """Formats each change as one or more sanitized lines."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], str] = {}

    def of(self, change: Change) -> list[str]:
        entry = change.entry
        when = datetime.now().astimezone().strftime("%H:%M:%S")
        event = entry.event
        match event:
            case PermissionRequested() | QuestionAsked():
                what = formatting.unmarked(formatting.asked(event))
                self._asked[entry.session, event.request_id] = what
                idle = isinstance(change, RequestOpened) and change.idle
                return [
                    f"{when}  {what}",
                    *([f"          {formatting.left_open(entry.session)}"] if idle else []),
                    f"          {formatting.how_to_answer(entry.session, event)}",
                ]
            case RequestAnswered():
                what = self._asked.pop((entry.session, event.request_id), "")
                return [f"{when}  {what} → {formatting.answered(event)}"]
        return []
