"""Slash commands: the command table and the dispatcher."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError
from tillerman.surfaces.did_you_mean import suggestion
from tillerman.surfaces.tui.commands import (
    agent,
    cloud,
    conversation,
    rules,
    screen,
    servers,
    sessions,
)
from tillerman.surfaces.tui.commands.command import Command
from tillerman.surfaces.tui.conversation import command_output

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp

__all__ = ["COMMANDS", "Command", "carry_out", "is_command"]

_ROWS = (
    Command("/login", "[AGENT]", "sign in with the agent's own command", agent.login),
    Command("/logout", "[AGENT]", "sign out with the agent's own command", agent.logout),
    Command("/status", "[AGENT|all]", "show who is signed in, and how to sign in", agent.status),
    Command("/models", "[AGENT]", "list the agent's models", agent.models),
    Command("/model", "[NAME]", "switch model", agent.model),
    Command("/mcp", "[enable|disable NAME]", "MCP servers; also: list, tools NAME", servers.mcp),
    Command("/agent", "[NAME]", "switch agent", agent.agent),
    Command("/mode", "[agent|plan|ask]", "act, plan only, or answer only", agent.mode),
    Command("/approve", "[PRESET|plan]", "what runs without asking you", rules.approve),
    Command("/cloud", "[launch TEXT]", "cloud agents; &TEXT launches one", cloud.cloud),
    Command("/new", "[AGENT]", "start a new session in a new tab", sessions.new),
    Command("/clear", "", "start a new session in this tab", sessions.clear),
    Command("/sessions", "[WORDS]", "list all sessions, or search them", sessions.browse),
    Command("/resume", "[ID]", "open an earlier session in a tab", sessions.resume),
    Command("/fork", "", "copy this session into a new tab", sessions.fork),
    Command("/diff", "[TURN|all]", "show the changes of the last turn", conversation.diff),
    Command("/cost", "", "tokens and cost per turn", conversation.cost),
    Command("/policy", "[TOOL INPUT]", "list the rules, or explain a decision", rules.policy),
    Command("/theme", "[NAME]", "change the theme", screen.theme),
    Command("/copy", "[code]", "copy the last message, or its code", conversation.copy),
    Command("/export", "[FILE] [FORMAT]", "export as markdown, html or jsonl", sessions.export),
    Command("/help", "[COMMAND]", "list commands and keys", screen.help),
    Command("/quit", "", "quit; sessions can be resumed", screen.leave),
)  # fmt: skip
COMMANDS: dict[str, Command] = {command.name: command for command in _ROWS}

_NAME = re.compile(r"/[A-Za-z][\w:-]*")  # does not match a path


def is_command(text: str, of_agent: tuple[str, ...] = ()) -> bool:
    """True for a known command or a typo; False for the agent's native commands and paths."""
    name = _first(text)
    if name in COMMANDS:
        return True
    return bool(_NAME.fullmatch(name)) and name[1:] not in {own.lstrip("/") for own in of_agent}


async def carry_out(app: TillermanApp, text: str) -> None:
    """Runs a command; errors are shown in the pane where it was typed."""
    pane = app.pane
    pane.conversation.action_end()
    before = pane.told
    name = _first(text)
    try:
        if (command := COMMANDS.get(name)) is None:
            raise UsageError(
                f"unknown command: {name}",
                hint=suggestion(name, COMMANDS, "/help lists them.")
                + " To send it to the agent, start with a space.",
            )
        words = text[len(name) :].strip()
        if words and not command.argument:
            raise UsageError(
                f"{name} takes no arguments", hint="/help lists the arguments of each command"
            )
        await command.run(app, words)
    except Exception as error:
        pane.complain(command_output.worded(error))
    if pane.told and pane.told is not before and pane.conversation.following:
        pane.conversation.bring(pane.told)


def _first(text: str) -> str:
    return (text.split(maxsplit=1) or [""])[0] if text.startswith("/") else ""
