"""/theme, /help, /quit: the screen itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from bridle.core.errors import UsageError
from bridle.surfaces.drawn import phrases
from bridle.surfaces.suggestion import suggestion
from bridle.surfaces.tui import cards
from bridle.surfaces.tui.outline import Card

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from bridle.surfaces.tui.app import BridleApp


async def theme(app: BridleApp, words: str) -> None:
    """Kept in the user's config, as `bridle config set screen.theme` does."""
    if not words:
        app.action_pick_theme()
        return
    if words not in app.available_themes:
        hint = suggestion(words, app.available_themes)
        raise UsageError(f"there is no theme {phrases.one_line(words, 40)!r}", hint=hint)
    await app.keep_theme(words)
    app.pane.tell(Card(f"Theme: {words}", cards.lines("it is kept in your config")))


async def help(app: BridleApp, words: str) -> None:
    from bridle.surfaces.tui.commands import COMMANDS

    pane = app.pane
    if words:
        name = f"/{words.lstrip('/')}"
        if name not in COMMANDS:
            hint = suggestion(name, COMMANDS, "/help lists them")
            raise UsageError(f"no command is called {phrases.one_line(name, 40)}", hint=hint)
        told = COMMANDS[name]
        pane.tell(Card(f"{told.name} {told.argument}".rstrip(), cards.lines(told.help)))
        return
    listed = [(f"{one.name} {one.argument}".rstrip(), one.help) for one in COMMANDS.values()]
    own = " ".join(f"/{name.lstrip('/')}" for name in sorted(pane.transcript.commands))
    parts: list[RenderableType] = [cards.table(("COMMAND", "WHAT"), listed), cards.lines("")]
    parts.append(cards.table(("KEY", "WHAT"), dict.fromkeys(_keys(app))))
    if own:
        parts += [cards.lines("", f"the agent's own: {own}")]
    pane.tell(Card("Commands and keys", Group(*parts)))


def _keys(app: BridleApp) -> Iterator[tuple[str, str]]:
    """Of the box, of the conversation, and of all."""
    pane = app.pane
    nodes: list[DOMNode] = [pane.box, pane.conversation, pane, app.screen, app]
    for node in nodes:
        for binding in node._bindings.key_to_bindings.values():
            for one in binding:
                if one.description and not one.system:
                    yield app.get_key_display(one), phrases.one_line(one.description)


async def leave(app: BridleApp, words: str) -> None:
    await app.action_leave()
