"""The terminal interface on a separate screen, with the embedded agent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.dialogs.request_prompt import RequestPrompt
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox
from tillerman.surfaces.tui.session_pane import SessionPane

MAX_WAIT = 15.0
NAMES = {
    " ": "space", "!": "exclamation_mark", "@": "at", "/": "slash", ".": "full_stop", "-": "minus",
    "_": "underscore", ";": "semicolon", ":": "colon", '"': "quotation_mark", "\\": "backslash",
}  # fmt: skip


class Desk:
    """A user at the screen."""

    def __init__(self, app: TillermanApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def pane(self) -> SessionPane:
        return self.app.pane

    @property
    def box(self) -> PromptBox:
        return self.pane.box

    async def write(self, text: str) -> None:
        """Letter by letter, as fast as a terminal sends them: they are painted together."""
        await type_in(self.pilot, text)

    async def press(self, *keys: str) -> None:
        """Each key after the effect of the previous one."""
        await self.pilot.press(*keys)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Waits for it, and until it is painted."""
        if holds():
            return
        end = time.monotonic() + MAX_WAIT
        while not holds():
            assert time.monotonic() < end, self.seen()
            await asyncio.sleep(0.01)
        await self.pilot.pause(0)

    async def rests(self, turns: int) -> None:
        """Waits until so many turns have ended, and no work is running."""
        transcript = self.pane.transcript
        await self.until(lambda: len(transcript.turns) >= turns and not transcript.busy)

    def seen(self) -> str:
        """The screen's text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in strips)

    async def sees(self, text: str) -> None:
        await self.until(lambda: text in self.seen())

    async def asked(self, text: str) -> None:
        """Waits for the request, and until it accepts keys."""
        await self.sees(text)
        await self.until(lambda: self.pane.query_one(RequestPrompt).settled)


async def type_in(pilot: Pilot[Any], text: str) -> None:
    """Types in one burst."""
    for letter in text:
        pilot.app.post_message(events.Key(NAMES.get(letter, letter), letter))
    await pilot.pause()


@asynccontextmanager
async def desk(
    home: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    turns: list[list[dict[str, Any]]] | None = None,
    size: tuple[int, int] = (80, 24),
    **requested: Any,
) -> AsyncIterator[Desk]:
    """`turns` are the scripts of the agent, one for each prompt."""
    monkeypatch.setenv("TILLERMAN_HOME", str(home / "tillerman"))
    monkeypatch.setenv("TILLERMAN_MOCK_STATE", str(home / "mock"))
    home.mkdir(exist_ok=True)
    script = home / "script.json"
    script.write_text(json.dumps(turns or [[{"say": "You said: {prompt}"}]]))
    given = {"agent": "mock", "options": {"script": str(script)}, **requested}
    app = TillermanApp(project, requested=given)
    async with app.run_test(size=size) as pilot:
        found = Desk(app, pilot)
        await found.until(lambda: found.pane.channel is not None)
        yield found
        await found.press("ctrl+q")
        await found.until(lambda: app._exit)
