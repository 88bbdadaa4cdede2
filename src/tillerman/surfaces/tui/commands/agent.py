"""/login, /logout, /status, /models, /model, /agent, /mode: agent commands."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from textual.app import SuspendNotSupported

from tillerman.core.agent_admin import SignInCommand
from tillerman.core.errors import TillermanError, UsageError
from tillerman.surfaces import sign_in
from tillerman.surfaces.did_you_mean import suggestion
from tillerman.surfaces.rendering import agent_reports, formatting, tables
from tillerman.surfaces.tui.commands.command import (
    agent_of,
    channel_of,
    config_of,
    refuse_while_busy,
)
from tillerman.surfaces.tui.conversation import command_output
from tillerman.surfaces.tui.conversation.blocks import CommandBlock

if TYPE_CHECKING:
    from tillerman.harness.agent_admin import AgentAdmin, AgentStatus
    from tillerman.surfaces.tui.app import TillermanApp
    from tillerman.surfaces.tui.session_pane import SessionPane


async def login(app: TillermanApp, words: str) -> None:
    pane = app.pane
    management = channel_of(pane).harness.management
    name = words or agent_of(pane)
    argv = management.login(name)
    waiting = command_output.PendingOutput(
        pane, f"Signing in to {formatting.one_line(name)}", "opening browser"
    )
    await _sign(app, management, name, argv, waiting, sign_in.signed_in_now)


async def logout(app: TillermanApp, words: str) -> None:
    pane = app.pane
    management = channel_of(pane).harness.management
    name = words or agent_of(pane)
    argv = management.logout(name)
    waiting = command_output.PendingOutput(
        pane, f"Signing out of {formatting.one_line(name)}", "asking it"
    )
    await _sign(app, management, name, argv, waiting, sign_in.signed_out_now)


async def _sign(
    app: TillermanApp,
    management: AgentAdmin,
    name: str,
    argv: Sequence[str],
    waiting: command_output.PendingOutput,
    outcome: Callable[[AgentAdmin, str], Awaitable[str]],
) -> None:
    """Suspends the screen while the agent's command uses the terminal; sessions continue."""
    with waiting:
        try:
            with app.batch_update(), app.suspend():
                failed = await _run(management, name, argv)
        except SuspendNotSupported:
            raise UsageError(
                "the terminal cannot be handed to another program",
                hint=f"run it in a terminal: {sign_in.shown(management, name, argv)}",
            ) from None
        if failed:
            raise failed
        waiting.report(command_output.lines(await outcome(management, name)))


async def _run(management: AgentAdmin, name: str, argv: Sequence[str]) -> TillermanError | None:
    """Returns the error instead of raising, since the screen must be resumed first."""
    try:
        await sign_in.run(management, name, argv, sys.stdout)
    except TillermanError as error:
        return error
    except KeyboardInterrupt:
        return UsageError("interrupted", hint="use the command again")
    return None


async def status(app: TillermanApp, words: str) -> None:
    pane = app.pane
    management = channel_of(pane).harness.management
    if words == "all":
        await _status_of_all(app, management)
        return
    name = words or agent_of(pane)
    management.agent(name)  # raises if it is unknown
    with command_output.PendingOutput(
        pane, f"Status of {formatting.one_line(name)}", f"querying {name}"
    ) as waiting:
        report, about = await management.full_report(name)
        style = "green" if report.ready else "yellow"
        reported = [Text(agent_reports.state(report), style=style)]
        reported += map(Text, agent_reports.details(report, about))
        signed_out = report.account and not report.account.signed_in
        if signed_out and isinstance(management.agent(name), SignInCommand):
            reported.append(command_output.lines(f"sign in here with /login {name}", style="dim"))
        waiting.report(Group(*reported))


async def _status_of_all(app: TillermanApp, management: AgentAdmin) -> None:
    from tillerman.harness.agent_admin import AgentStatus
    from tillerman.surfaces.query_agents import ask_all

    with command_output.PendingOutput(
        app.pane, "Status of all agents", "querying all agents"
    ) as waiting:
        answers = (await ask_all(management.names(), management.report)).values()
        found = [agent_reports.status(one) for one in answers if isinstance(one, AgentStatus)]
        waiting.report(command_output.table(agent_reports.STATUS, found))


async def models(app: TillermanApp, words: str) -> None:
    pane = app.pane
    name = words or agent_of(pane)
    with command_output.PendingOutput(
        pane, f"Models of {formatting.one_line(name)}", f"querying {name}"
    ) as waiting:
        listed = {name: await channel_of(pane).harness.models(name)}
        body = command_output.table(tables.MODELS[1:], (row[1:] for row in tables.models(listed)))
        note = [command_output.lines(tables.SHIPPED, style="dim")] if tables.shipped(listed) else []
        waiting.report(
            Group(body, *note, command_output.lines("select one with /model NAME", style="dim"))
        )


async def model(app: TillermanApp, words: str) -> None:
    if not words:
        app.action_pick_model()
        return
    pane = app.pane
    if len(words.split()) > 1:
        raise UsageError("a model name has no spaces", hint="/models lists them")
    await channel_of(pane).configure(model=words)
    pane.report(
        CommandBlock(f"Model: {formatting.one_line(words)}", command_output.lines(_from_when(pane)))
    )


async def mode(app: TillermanApp, words: str) -> None:
    if not words:
        app.action_pick_mode()
        return
    pane = app.pane
    chosen = next((mode for mode in tables.MODES if mode == words), None)
    if chosen is None:
        raise UsageError(
            f"unknown mode {formatting.one_line(words)!r}", hint=suggestion(words, tables.MODES)
        )
    await channel_of(pane).configure(mode=chosen)
    pane.report(CommandBlock(f"Mode: {chosen}", command_output.lines(tables.MODES[chosen])))


async def agent(app: TillermanApp, words: str) -> None:
    """Selects the starting agent before the first prompt; later hands the session over."""
    if not words:
        app.action_pick_agent()
        return
    from tillerman.harness.agent_selection import select_agents

    pane = app.pane
    channel = channel_of(pane)
    management = channel.harness.management
    name = select_agents(config_of(pane), words, None, channel.cwd).names[0]
    management.agent(name)  # raises if it is unknown
    shown = formatting.one_line(words)
    if channel.id is None:
        channel.choose(words)
        with command_output.PendingOutput(pane, f"Agent: {shown}", f"querying {name}") as waiting:
            waiting.report(command_output.lines(*_ready(await management.report(name))))
        return
    refuse_while_busy(pane)
    before = agent_of(pane)
    with command_output.PendingOutput(
        pane, f"Agent: {shown}", f"{before} hands over to {name}"
    ) as waiting:
        await pane.hand_over(words)
        waiting.report(
            command_output.lines(f"with your next prompt it gets a summary of what {before} did")
        )


def _ready(report: AgentStatus) -> list[str]:
    if report.ready:
        return ["ready; it starts with your first prompt"]
    return [agent_reports.state(report), *agent_reports.next_steps([report])]


def _from_when(pane: SessionPane) -> str:
    return (
        "applies from the next prompt" if channel_of(pane).id else "applies from the first prompt"
    )
