"""`tillerman demo`: runs a turn with the embedded agent, shows the session and replays it."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import RequestNotOpen
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import colored, emit, is_terminal, table, width
from tillerman.surfaces.cli.views.view import ViewContext
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.core.events import Entry
    from tillerman.harness.harness import Harness
    from tillerman.sessions.session import Session
    from tillerman.surfaces.cli.views.keyboard import Keyboard
    from tillerman.surfaces.cli.views.view import View

PROMPT = "Write a program that greets me, and try it out."
A_MOMENT = 1.0  # seconds before the demo answers without a keyboard
MAX_WAIT = 5.0  # seconds before it answers if a user is present


def demo(options: Namespace) -> int:
    options.json = None
    if options.keep:
        folder = tempfile.mkdtemp(prefix="tillerman-demo-")
        code = asyncio.run(_demo(options, Path(folder)))
        emit(f"kept: {folder}")
        return code
    with tempfile.TemporaryDirectory(prefix="tillerman-demo-") as folder:
        return asyncio.run(_demo(options, Path(folder)))


async def _demo(options: Namespace, folder: Path) -> int:
    async with open_harness.harness(options, folder) as harness:
        style = Style(colored(options, sys.stdout))
        emit(
            style("bold", "1. A turn"),
            style("dim", f'tillerman run -a mock --approve edits "{PROMPT}"'),
            "",
        )
        scene = ViewContext(folder, resumable=False, prompts=True)  # the folder is temporary
        first = await harness.start("mock", cwd=folder, approve="edits", title="tillerman demo")
        code = await _turn(options, first, scene, keyboard=True)
        await first.close()

        emit("", style("bold", "2. It is stored"), style("dim", "tillerman sessions list"), "")
        emit(_list(harness, folder, style))

        emit("", style("bold", "3. It can be replayed"))
        emit(style("dim", f'tillerman run -a replay:{first.id} "again"'), "")
        second = await harness.start(
            f"replay:{first.id}",
            cwd=folder,
            options={"speed": "full"},
            title="tillerman demo, replayed",
        )
        again = await _turn(options, second, scene, keyboard=False)
    emit(
        "",
        "Next, try your own agents: "
        + style("bold", "tillerman doctor")
        + " shows which are ready.",
    )
    return code or again


async def _turn(options: Namespace, session: Session, scene: ViewContext, *, keyboard: bool) -> int:
    from tillerman.surfaces.cli.views import follow

    keys = follow.find_keyboard(options) if keyboard else None
    view = await _view(options, session, keys, scene)
    try:
        with follow.interruptible(session.cancel, view, keys):
            await session.prompt(PROMPT)
            helper = Helper(session, view, MAX_WAIT if keys else A_MOMENT)
            await follow.watch(session.pages_until_idle(), view, helper)
    finally:
        await view.close()
    return view.outcomes.exit_code


async def _view(
    options: Namespace, session: Session, keys: Keyboard | None, scene: ViewContext
) -> View:
    if is_terminal(sys.stdout):
        from tillerman.surfaces.cli.views import follow

        return await follow.open_view(options, session, keys, scene)
    from tillerman.surfaces.cli.views.scroll_view import ScrollView

    return ScrollView(color=colored(options, sys.stdout), resumable=scene.resumable)


class Helper:
    """Answers permission requests that the user leaves unanswered."""

    def __init__(self, session: Session, view: View, max_wait: float) -> None:
        self._session = session
        self._view = view
        self._max_wait = max_wait
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, page: Sequence[Entry]) -> None:
        from tillerman.core.events import PermissionRequested

        for entry in page:
            if isinstance(entry.event, PermissionRequested):
                self._tasks.add(asyncio.create_task(self._answer(entry.event)))

    async def _answer(self, request: Any) -> None:
        from tillerman.core.events import Answer

        await asyncio.sleep(self._max_wait)
        with suppress(RequestNotOpen):  # answered by the policy or the user before
            self._session.answer(request.request_id, Answer("allow"), surface="demo")


def _list(harness: Harness, folder: Path, style: Style) -> str:
    from tillerman.surfaces.rendering import tables

    rows = harness.sessions.catalog.list(cwd=str(folder.resolve()), limit=3)
    return table(map(tables.session, rows), tables.SESSIONS, style, width())
