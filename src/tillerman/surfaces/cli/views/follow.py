"""Follows a session until it is idle: selects the view, reports open requests, handles Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

from tillerman.core.errors import CANCELLED, TillermanError
from tillerman.core.events import Entry, PermissionRequested, QuestionAsked, RequestAnswered
from tillerman.surfaces.cli.views.json_view import EntriesView, SummaryView
from tillerman.surfaces.cli.views.keyboard import Keyboard
from tillerman.surfaces.cli.views.output import colored, is_terminal
from tillerman.surfaces.cli.views.plain_view import PlainView
from tillerman.surfaces.cli.views.view import ReachableSession, View, ViewContext
from tillerman.surfaces.rendering import formatting

SHOW_CURSOR = b"\x1b[?25h"
_log = logging.getLogger("tillerman")
MAX_WAIT = 0.5  # seconds for the policy or another terminal to answer first


async def open_view(
    options: Namespace, session: ReachableSession, keyboard: Keyboard | None, scene: ViewContext
) -> View:
    match options.json:
        case "entries":
            return EntriesView()
        case "summary":
            return SummaryView()
    if not is_terminal(sys.stdout):
        return PlainView(resumable=scene.resumable)
    await asyncio.to_thread(
        __import__, "tillerman.surfaces.cli.views.live_view"
    )  # loads Rich while the agent starts
    from tillerman.surfaces.cli.views.live_view import LiveView

    color = colored(options, sys.stdout)
    view = LiveView(session, scene, color=color, keyboard=keyboard)
    view.open()
    return view


def find_keyboard(options: Namespace) -> Keyboard | None:
    return Keyboard.find() if not options.json and is_terminal(sys.stdout) else None


async def watch(
    pages: AsyncIterator[Sequence[Entry]], view: View, helper: NoticeView | None = None
) -> None:
    """Shows all pages. `pages` must have `aclose`, as an async generator does."""
    async with aclosing(pages):  # type: ignore[type-var]
        async for page in pages:
            _log.debug("entries %d to %d", page[0].seq, page[-1].seq)
            await view.show(page)
            if helper:
                helper.note(page)


class NoticeView(Protocol):
    """An observer of the shown entries."""

    def note(self, page: Sequence[Entry]) -> None: ...


class Reporter(Protocol):
    """Where lines for the user go."""

    async def report(self, text: str) -> None: ...


class WaitNotice:
    """Reports how to answer a request from another terminal, if there is no keyboard here.

    `advice` says once how to avoid such requests.
    """

    def __init__(
        self, view: Reporter, session: str, limit: float | None = None, advice: str = ""
    ) -> None:
        self._view = view
        self._session = session
        self._limit = limit
        self._advice = advice
        self._open: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, page: Sequence[Entry]) -> None:
        loop = asyncio.get_running_loop()
        for entry in page:
            match entry.event:
                case PermissionRequested() | QuestionAsked() as request:
                    later = loop.call_later(MAX_WAIT, self._report, request, entry.at)
                    self._open[request.request_id] = later
                case RequestAnswered(request_id=request_id):
                    if request_id in self._open:
                        self._open.pop(request_id).cancel()

    def _report(self, request: PermissionRequested | QuestionAsked, since: str) -> None:
        limit = f" {formatting.until(since, self._limit)}, then denied" if self._limit else ""
        lines = [
            f"waiting for an answer{limit}: {formatting.unmarked(formatting.asked(request))}",
            f"  {formatting.how_to_answer(self._session, request)}",
        ]
        if self._advice and isinstance(request, PermissionRequested):
            lines.append(f"  {self._advice}")
            self._advice = ""
        self._tasks.add(asyncio.create_task(self._view.report("\n".join(lines))))


@contextmanager
def interruptible(
    cancel: Callable[[], Coroutine[Any, Any, None]], view: View, keyboard: Keyboard | None
) -> Iterator[None]:
    """The first signal cancels the turn; a second one exits at once."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def end() -> None:
        if not tasks:
            tasks.add(asyncio.create_task(_cancel(cancel, view)))
            return
        if keyboard:
            keyboard.restore()
            os.write(1, SHOW_CURSOR)
        os._exit(CANCELLED)  # the warden ends the agent after our exit

    def interrupt() -> None:
        if not (keyboard and keyboard.away):  # else it is for the editor
            end()

    signals = {signal.SIGINT: interrupt, signal.SIGTERM: end, signal.SIGHUP: end}
    for number, handler in signals.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def _cancel(cancel: Callable[[], Coroutine[Any, Any, None]], view: View) -> None:
    await view.report("cancelling; press Ctrl-C again to exit immediately")
    try:
        await cancel()
    except TillermanError as error:
        await view.report(f"error: {error.message}")


async def paged(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Groups entries that are available at the same time into pages."""
    page: list[Entry] = []
    following = asyncio.ensure_future(anext(entries, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=0 if page else None)
            if page and (not done or len(page) >= 1_000):
                yield page
                page = []
            elif (entry := following.result()) is None:
                break
            else:
                page.append(entry)
                following = asyncio.ensure_future(anext(entries, None))
        if page:
            yield page
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
