"""Opens pickers for the visible session and applies the choice: agent, model, mode, theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.errors import TillermanError
from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp


async def agent(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.commands.command import agent_of
    from tillerman.surfaces.tui.dialogs.agent_picker import AgentPicker

    harness = await app.opened()
    now = agent_of(app.pane)
    picker = AgentPicker(harness.management, harness.agents(), now, app.reports)
    chosen = await app.push_screen_wait(picker)
    if chosen and chosen != now:
        await _carry_out(app, f"/agent {chosen}")


async def model(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.commands.command import agent_of
    from tillerman.surfaces.tui.dialogs.model_picker import ModelPicker

    harness, pane = await app.opened(), app.pane
    now = pane.standing().model
    picker = ModelPicker(harness.management, agent_of(pane), now)
    chosen = await app.push_screen_wait(picker)
    if chosen and chosen != now:
        await _carry_out(app, f"/model {chosen}")


async def mode(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.commands.command import agent_of
    from tillerman.surfaces.tui.dialogs.mode_picker import ModePicker

    harness, pane = await app.opened(), app.pane
    now = pane.standing().mode or "agent"
    chosen = await app.push_screen_wait(ModePicker(harness.agent(agent_of(pane)), now))
    if chosen and chosen != now:
        await _carry_out(app, f"/mode {chosen}")


async def approval(app: TillermanApp) -> None:
    from tillerman.surfaces.tui import approval_preset as approvals

    await app.opened()
    pane, now = app.pane, approvals.current(app.pane)
    picker = approvals.ApprovalPicker(now, plans=approvals.plans(pane))
    chosen = await app.push_screen_wait(picker)
    if chosen and chosen != now:
        await _carry_out(app, f"/approve {chosen}")


async def next_approval(app: TillermanApp) -> None:
    from tillerman.surfaces.tui import approval_preset as approvals

    await app.opened()
    await approvals.choose_next(app.pane)


async def theme(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.dialogs.theme_picker import ThemePicker

    themes = app.available_themes
    dark = {name: theme.dark for name, theme in themes.items()}
    chosen = await app.push_screen_wait(ThemePicker(list(themes), app.theme, dark))
    if chosen:
        await keep_theme(app, chosen)


async def keep_theme(app: TillermanApp, name: str) -> None:
    """Applies the theme and stores it in the config."""
    import asyncio

    from tillerman.config.config_commands import set_value

    app.theme = name
    harness = await app.opened()
    try:
        await asyncio.to_thread(set_value, harness.paths, "screen.theme", name)
    except TillermanError as error:
        app.pane.complain(error)


async def session(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.dialogs.session_browser import SessionBrowser

    harness = await app.opened()
    here = [pane.channel.id for pane in app.panes if pane.channel and pane.channel.id]
    row = await app.push_screen_wait(SessionBrowser(harness, app.folder, here))
    app.retitle()
    if row:
        await app.open_pane(row)


async def servers(app: TillermanApp) -> None:
    from tillerman.surfaces.tui.commands.command import agent_of
    from tillerman.surfaces.tui.dialogs.mcp_panel import McpPanel

    harness = await app.opened()
    await app.push_screen_wait(McpPanel(harness.management, agent_of(app.pane)))


async def sure(app: TillermanApp, question: str, what: str, *, yes: str, no: str = "stay") -> bool:
    """Asks for confirmation before something is lost."""
    from rich.text import Text

    from tillerman.surfaces.tui.dialogs.confirmation import Confirmation

    confirmation = Confirmation(question, Text(formatting.one_line(what)), yes=yes, no=no)
    return await app.push_screen_wait(confirmation)


async def _carry_out(app: TillermanApp, line: str) -> None:
    """Runs a slash command as if typed, so that each action has one implementation."""
    from tillerman.surfaces.tui.commands import carry_out

    await carry_out(app, line)
    app.pane.post_message(app.pane.Changed(app.pane))
