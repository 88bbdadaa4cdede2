"""The slash command type, and helpers shared by commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.config import Config
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.tui.app import TillermanApp
    from tillerman.surfaces.tui.session_controller import SessionController
    from tillerman.surfaces.tui.session_pane import SessionPane

Run = Callable[["TillermanApp", str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    name: str  # with the slash
    argument: str  # "" if it takes none
    help: str
    run: Run  # called with the text after the name


def channel_of(pane: SessionPane) -> SessionController:
    """The controller of the pane; set, since commands run after the harness is open."""
    assert pane.channel is not None
    return pane.channel


def row_of(pane: SessionPane) -> SessionRow:
    row = channel_of(pane).row
    if row is None:
        raise UsageError("the session has not started", hint="send a prompt to start it")
    return row


def config_of(pane: SessionPane) -> Config:
    """Config in effect in the session's folder."""
    return channel_of(pane).config


def agent_of(pane: SessionPane) -> str:
    """The agent of the session, or the one that will start it."""
    channel = channel_of(pane)
    if row := channel.row:
        return row.agent
    from tillerman.harness.agent_selection import select_agents

    model = channel.requested.get("model")
    return select_agents(config_of(pane), channel.agent, model, channel.cwd).names[0]


def refuse_while_busy(pane: SessionPane) -> None:
    channel = channel_of(pane)
    if channel.starting or (pane.transcript.busy and channel.running):
        raise UsageError(
            "The agent is still working", hint="Esc cancels the turn; /new starts another session"
        )
