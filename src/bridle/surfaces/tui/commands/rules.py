"""/policy and /approve: the rules and the preset that count here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from bridle.core.errors import UsageError
from bridle.surfaces import rulebook
from bridle.surfaces.cli.output import Style
from bridle.surfaces.drawn import phrases, rulings
from bridle.surfaces.suggestion import suggestion
from bridle.surfaces.tui import cards
from bridle.surfaces.tui.colors import colored
from bridle.surfaces.tui.commands.command import agent_of, channel_of, config_of
from bridle.surfaces.tui.outline import Card

if TYPE_CHECKING:
    from bridle.surfaces.tui.app import BridleApp
    from bridle.surfaces.tui.session_pane import SessionPane


async def policy(app: BridleApp, words: str) -> None:
    pane = app.pane
    if words:
        _explain(pane, words)
    else:
        _list(pane)


def _list(pane: SessionPane) -> None:
    from bridle.sessions.remembered import Remembered

    config, channel = config_of(pane), channel_of(pane)
    remembered = Remembered.of(config.paths, channel.cwd).rules()
    rules = (*config.tightening, *remembered, *config.rules)
    notes = rulebook.notes(config.rules, config.tightening)
    told = cards.lines(
        f"approve: {channel.approve}" + ("" if rules else "; there are no rules beside it"),
        "/policy rm -rf build shows what is decided of a command, and why",
    )
    rows = list(rulings.rows(rules, notes))
    listed = [cards.table(rulings.RULES, rows, folded=("SAYS", "NOTE"))] if rows else []
    pane.tell(Card("What is decided without you", Group(*listed, told)))


def _explain(pane: SessionPane, words: str) -> None:
    tool, _, given = words.partition(" ")
    config, cwd = config_of(pane), channel_of(pane).cwd
    request = rulebook.request(*rulebook.call(tool, given.strip()), cwd)
    context = rulebook.context(cwd, pane.standing().mode, agent_of(pane))
    found = rulebook.policy(config, cwd, channel_of(pane).approve).explain(request, context)
    account = rulings.account(request, found, Style(True), verbose=False)
    pane.tell(Card(f"/policy {phrases.one_line(words, 60)}", colored("\n".join(account))))


async def approve(app: BridleApp, words: str) -> None:
    from bridle.surfaces.tui import approval

    if not words:
        app.action_pick_approval()
        return
    chosen = next((word for word in approval.WORDS if word == words), None)
    if chosen is None:
        raise UsageError(
            f"there is no preset {phrases.one_line(words)!r}",
            hint=suggestion(words, approval.WORDS),
        )
    await approval.choose(app.pane, chosen)
    app.pane.tell(Card(f"Approval: {chosen}", cards.lines(approval.WORDS[chosen])))
