"""/policy and /approve: policy rules, explained decisions and the approval preset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from tillerman.core.errors import UsageError
from tillerman.surfaces import policy_explain
from tillerman.surfaces.did_you_mean import suggestion
from tillerman.surfaces.rendering import formatting, policy_tables
from tillerman.surfaces.rendering.ansi_style import Style
from tillerman.surfaces.tui.commands.command import agent_of, channel_of, config_of
from tillerman.surfaces.tui.conversation import command_output
from tillerman.surfaces.tui.conversation.blocks import CommandBlock
from tillerman.surfaces.tui.terminal.ansi_colors import colored

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp
    from tillerman.surfaces.tui.session_pane import SessionPane


async def policy(app: TillermanApp, words: str) -> None:
    pane = app.pane
    if words:
        _explain(pane, words)
    else:
        _list(pane)


def _list(pane: SessionPane) -> None:
    from tillerman.sessions.permissions.project_rules import ProjectRules

    config, channel = config_of(pane), channel_of(pane)
    remembered = ProjectRules.of(config.paths, channel.cwd).rules()
    rules = (*config.tightening, *remembered, *config.rules)
    notes = policy_explain.notes(config.rules, config.tightening)
    reported = command_output.lines(
        f"approve: {channel.approve}" + ("" if rules else "; no other rules"),
        "/policy rm -rf build shows the decision on a command and the reason",
    )
    rows = list(policy_tables.rows(rules, notes))
    listed = (
        [command_output.table(policy_tables.RULES, rows, folded=("SAYS", "NOTE"))] if rows else []
    )
    pane.report(CommandBlock("Rules", Group(*listed, reported)))


def _explain(pane: SessionPane, words: str) -> None:
    tool, _, given = words.partition(" ")
    config, cwd = config_of(pane), channel_of(pane).cwd
    request = policy_explain.request(*policy_explain.call(tool, given.strip()), cwd)
    context = policy_explain.context(cwd, pane.standing().mode, agent_of(pane))
    found = policy_explain.policy(config, cwd, channel_of(pane).approve).explain(request, context)
    account = policy_tables.account(request, found, Style(True), verbose=False)
    pane.report(
        CommandBlock(f"/policy {formatting.one_line(words, 60)}", colored("\n".join(account)))
    )


async def approve(app: TillermanApp, words: str) -> None:
    from tillerman.surfaces.tui import approval_preset

    if not words:
        app.action_pick_approval()
        return
    chosen = next((word for word in approval_preset.WORDS if word == words), None)
    if chosen is None:
        raise UsageError(
            f"unknown preset {formatting.one_line(words)!r}",
            hint=suggestion(words, approval_preset.WORDS),
        )
    await approval_preset.choose(app.pane, chosen)
    app.pane.report(
        CommandBlock(f"Approval: {chosen}", command_output.lines(approval_preset.WORDS[chosen]))
    )
