"""Command palette entries: key actions, slash commands and open sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui import fuzzy

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp

Work = Callable[[], Any]
LAST = ("Cancel", "Quit")  # listed last, so that enter does not trigger them by accident
HELP = {  # additional help for actions
    "cancel_turn": "stop the agent's turn or a shell command",
    "leave": "sessions can be resumed",
    "pick_agent": "switch agent, show which are ready",
    "pick_model": "switch model",
    "pick_mode": "act, plan only, or answer only",
    "next_approval": "ask, edits, auto, plan: what runs without asking you",
    "pick_theme": "change the theme",
    "browse_sessions": "find, resume, fork, rename, delete and export sessions",
    "mcp_panel": "MCP servers of the agent and their tools",
    "new_tab": "start a new session in a new tab",
    "close_tab": "its session can be resumed",
    "repo_action": "next step for this branch",
    "repo_link": "copy the link of the pull request",
}


class PaletteEntry(NamedTuple):
    name: str
    help: str
    work: Work


class TillermanCommands(Provider):
    async def discover(self) -> Hits:
        for offer in self._offers():
            yield DiscoveryHit(Content(offer.name), offer.work, offer.name, offer.help)

    async def search(self, query: str) -> Hits:
        for offer in self._offers():
            if found := fuzzy.match(query, offer.name):
                shown = Content(offer.name)
                for at in found[1]:
                    shown = shown.stylize("underline", at, at + 1)
                yield Hit(found[0], shown, offer.work, offer.name, offer.help)

    def _offers(self) -> Iterator[PaletteEntry]:
        app: TillermanApp = self.app  # type: ignore[assignment]
        yield from sorted(actions(app), key=lambda offer: offer.name in LAST)
        for tab in app.tabs():
            if not tab.current:
                title = formatting.one_line(tab.title) or "new session"
                yield PaletteEntry(
                    f"Go to {title}", "an open session", partial(app.show_pane, tab.pane)
                )
        yield from _slash_commands(app)


def actions(app: TillermanApp) -> Iterator[PaletteEntry]:
    """Actions of the app, each once, with their key."""
    offered = set()
    for key, binding in app._bindings:
        action = binding.action
        if action in offered or action == "command_palette" or not binding.description:
            continue
        if "(" in action:  # a numbered action, such as a tab
            continue
        offered.add(action)
        own = binding.with_key(app._keymap.get(binding.id or "", key))
        help = f"{app.get_key_display(own)}  {HELP.get(action, binding.tooltip)}".rstrip()
        yield PaletteEntry(binding.description, help, partial(app.run_action, action))


def _slash_commands(app: TillermanApp) -> Iterator[PaletteEntry]:
    from tillerman.surfaces.tui.commands import COMMANDS

    for command in COMMANDS.values():
        yield PaletteEntry(command.name, command.help, partial(app.command, command.name))
