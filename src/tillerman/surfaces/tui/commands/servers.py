"""/mcp: lists and toggles the MCP servers of an agent, and lists their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError
from tillerman.surfaces.did_you_mean import suggestion
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.tui.commands.command import agent_of, channel_of
from tillerman.surfaces.tui.conversation import command_output

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp

_VERBS = ("list", "tools", "enable", "disable")


async def mcp(app: TillermanApp, words: str) -> None:
    if not words:
        app.action_mcp_panel()
        return
    verb, _, server = (part.strip() for part in words.partition(" "))
    if verb not in _VERBS:
        hint = suggestion(verb, _VERBS)
        raise UsageError(f"/mcp: unknown argument {formatting.one_line(verb)!r}", hint=hint)
    if bool(server) is (verb == "list"):
        wanted = "/mcp list" if verb == "list" else f"/mcp {verb} NAME"
        raise UsageError(f"usage: {wanted}", hint="/mcp list shows the names")
    pane = app.pane
    management = channel_of(pane).harness.management
    agent = agent_of(pane)
    with command_output.PendingOutput(
        pane, f"MCP servers of {formatting.one_line(agent)}", "asking it"
    ) as waiting:
        match verb:
            case "list":
                found = {agent: await management.mcp_servers(agent)}
                rows = [row[1:] for row in tables.servers(found)]
                none = command_output.lines("none: `tillerman mcp add NAME -- COMMAND` adds one")
                waiting.report(command_output.table(tables.SERVERS[1:], rows) if rows else none)
            case "tools":
                tools = await management.mcp_tools(agent, server)
                none = command_output.lines(f"{server} has no tools")
                waiting.report(
                    command_output.table(tables.TOOLS, tables.tools(tools)) if tools else none
                )
            case _:
                await management.mcp_switch(agent, server, verb == "enable")
                waiting.report(
                    command_output.lines(tables.switched(agent, server, verb == "enable"))
                )
