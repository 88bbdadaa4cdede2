"""Names of agent capabilities: some are declared by the agent, some follow from its methods."""

from __future__ import annotations

from tillerman.core.agent import Agent
from tillerman.core.agent_admin import METHODS

CAPABILITIES = {
    "streaming": "text arrives as it is written",
    "thinking": "its reasoning is shown",
    "resume": "goes on with an earlier conversation, in a new process",
    "fork": "copies a conversation and goes on in the copy",
    "steer": "takes words in the middle of a turn",
    "cancel": "stops a turn and stays usable",
    "permissions": "asks before it acts",
    "changed_input": "does a call with other input, when that is what was allowed",
    "questions": "asks the user questions with choices",
    "modes": "plans without acting",
    "model": "takes a model by name",
    "effort": "takes a level of effort",
    "images": "takes images",
    "mcp": "takes MCP servers",
    "system": "takes a system prompt",
    "folders": "takes extra folders",
    "schema": "answers in a given JSON schema",
    "subagents": "starts agents of its own",
    "background": "works on after its turn and wakes by itself",
    "usage": "reports tokens, and some agents cost",
    "cost": "reports what a turn costs",
    "retries": "reports when it asks its model again",
    "limits": "takes limits on turns and cost",
    "tools": "takes lists of allowed and denied tools",
    "sandbox": "confines the commands it runs",
    "install": "tells where it is installed",
    "auth": "tells who is signed in",
    "about": "tells its plan, endpoint and the like",
    "models": "lists its models",
    "login": "signs in",
    "logout": "signs out",
    "sessions": "lists its own sessions",
    "create": "makes a session of its own before any prompt",
    "history": "gives what was said in its own sessions",
    "servers": "lists its MCP servers",
    "server-tools": "lists the tools of an MCP server",
    "server-add": "adds and removes MCP servers",
    "server-switch": "enables and disables MCP servers",
}

REPORTS_COST = frozenset({"cost", "limits"})  # with one of these, a cost limit needs no price table


def capabilities(agent: Agent) -> frozenset[str]:
    return agent.info.can | {word for word, has in METHODS.items() if isinstance(agent, has)}
