"""/theme, /help, /quit: commands of the screen itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from textual.binding import Binding

from tillerman.core.errors import UsageError
from tillerman.surfaces.did_you_mean import suggestion
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui import picker_actions
from tillerman.surfaces.tui.conversation import command_output
from tillerman.surfaces.tui.conversation.blocks import CommandBlock

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp


async def theme(app: TillermanApp, words: str) -> None:
    """Sets the theme and stores it in the user's config, like `config set screen.theme`."""
    if not words:
        app.action_pick_theme()
        return
    if words not in app.available_themes:
        hint = suggestion(words, app.available_themes)
        raise UsageError(f"unknown theme {formatting.one_line(words, 40)!r}", hint=hint)
    await picker_actions.keep_theme(app, words)
    app.pane.report(CommandBlock(f"Theme: {words}", command_output.lines("saved in your config")))


async def help(app: TillermanApp, words: str) -> None:
    from tillerman.surfaces.tui.commands import COMMANDS

    pane = app.pane
    if words:
        name = f"/{words.lstrip('/')}"
        if name not in COMMANDS:
            hint = suggestion(name, COMMANDS, "/help lists them")
            raise UsageError(f"unknown command: {formatting.one_line(name, 40)}", hint=hint)
        reported = COMMANDS[name]
        pane.report(
            CommandBlock(
                f"{reported.name} {reported.argument}".rstrip(), command_output.lines(reported.help)
            )
        )
        return
    listed = [(f"{one.name} {one.argument}".rstrip(), one.help) for one in COMMANDS.values()]
    own = " ".join(f"/{name.lstrip('/')}" for name in sorted(pane.transcript.commands))
    parts: list[RenderableType] = [
        command_output.table(("COMMAND", "WHAT"), listed),
        command_output.lines(""),
    ]
    parts.append(command_output.table(("KEY", "WHAT"), dict.fromkeys(_keys(app))))
    if own:
        parts += [command_output.lines("", f"commands of the agent: {own}")]
    pane.report(CommandBlock("Commands and keys", Group(*parts)))


def _keys(app: TillermanApp) -> Iterator[tuple[str, str]]:
    """Keys of the main screen, with the configured key map applied."""
    from tillerman.surfaces.tui.keys.focus_scopes import PLACES

    nodes = [node for name in ("prompt", "conversation", "request") for node in PLACES[name]]
    for node in dict.fromkeys(nodes):
        for binding in node.BINDINGS:
            if isinstance(binding, Binding) and binding.description and not _repeats(binding):
                keys = app._keymap.get(binding.id or "", binding.key).split(",")
                shown = (app.get_key_display(binding.with_key(key.strip())) for key in keys)
                yield " or ".join(shown), binding.description


def _repeats(binding: Binding) -> bool:
    """True for all but the first of numbered bindings such as tabs."""
    return "(" in binding.action and not binding.action.endswith("(1)")


async def leave(app: TillermanApp, words: str) -> None:
    await app.action_leave()
