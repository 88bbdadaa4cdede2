"""Shows a session until it rests: picks the view, tells what waits, minds Ctrl-C."""

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

from tillerman.core.errors import TillermanError
from tillerman.core.events import Entry, PermissionRequested, QuestionAsked, RequestAnswered
from tillerman.surfaces.cli.views.json_view import EntriesView, SummaryView
from tillerman.surfaces.cli.views.keyboard import Keyboard
from tillerman.surfaces.cli.views.output import colored, is_terminal
from tillerman.surfaces.cli.views.plain_view import PlainView
from tillerman.surfaces.cli.views.view import ReachableSession, View, ViewContext
from tillerman.surfaces.exit_codes import CANCELLED
from tillerman.surfaces.rendering import formatting

SHOW_CURSOR = b"\x1b[?25h"
_log = logging.getLogger("tillerman")
PATIENCE = 0.5  # seconds in which the policy, or another terminal, has answered


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
    )  # Rich, while the agent starts
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
    """`pages` must be closable, as an async generator is."""
    async with aclosing(pages):  # type: ignore[type-var]
        async for page in pages:
            _log.debug("entries %d to %d", page[0].seq, page[-1].seq)
            await view.show(page)
            if helper:
                helper.note(page)


class NoticeView(Protocol):
    """Somebody who looks at what was shown."""

    def note(self, page: Sequence[Entry]) -> None: ...


class WaitNotice:
    """Says where to answer a request that nobody can answer here."""

    def __init__(self, view: View, session: str, limit: float | None) -> None:
        self._view = view
        self._session = session
        self._limit = limit
        self._open: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, page: Sequence[Entry]) -> None:
        loop = asyncio.get_running_loop()
        for entry in page:
            match entry.event:
                case PermissionRequested() | QuestionAsked() as request:
                    later = loop.call_later(PATIENCE, self._tell, request, entry.at)
                    self._open[request.request_id] = later
                case RequestAnswered(request_id=request_id):
                    if request_id in self._open:
                        self._open.pop(request_id).cancel()

    def _tell(self, request: PermissionRequested | QuestionAsked, since: str) -> None:
        limit = f" {formatting.until(since, self._limit)}, then denied" if self._limit else ""
        lines = [
            f"waiting for an answer{limit}: {formatting.unmarked(formatting.asked(request))}",
            f"  {formatting.how_to_answer(self._session, request)}",
        ]
        self._tasks.add(asyncio.create_task(self._view.tell("\n".join(lines))))


@contextmanager
def interruptible(
    cancel: Callable[[], Coroutine[Any, Any, None]], view: View, keyboard: Keyboard | None
) -> Iterator[None]:
    """A signal cancels the turn; one more, and the program leaves at once."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def end() -> None:
        if not tasks:
            tasks.add(asyncio.create_task(_cancel(cancel, view)))
            return
        if keyboard:
            keyboard.restore()
            os.write(1, SHOW_CURSOR)
        os._exit(CANCELLED)  # the warden ends the agent when we are gone

    def interrupt() -> None:
        if not (keyboard and keyboard.away):  # else it was meant for the editor
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
    await view.tell("cancelling; Ctrl-C again leaves at once")
    try:
        await cancel()
    except TillermanError as error:
        await view.tell(f"error: {error.message}")


async def paged(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Entries that are there at once come together."""
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
