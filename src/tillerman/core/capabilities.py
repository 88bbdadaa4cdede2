"""Names of agent capabilities: some are declared by the agent, some follow from its methods."""

from __future__ import annotations

from tillerman.core.agent import Agent
from tillerman.core.agent_admin import METHODS as ADMIN_METHODS
from tillerman.core.cloud import CloudAccess, CloudWebhooks

METHODS = ADMIN_METHODS | {"cloud": CloudAccess, "webhooks": CloudWebhooks}

CAPABILITIES = {
    "streaming": "streams text as it is generated",
    "thinking": "shows its reasoning",
    "resume": "resumes an earlier conversation in a new process",
    "fork": "forks a conversation",
    "steer": "accepts messages during a turn",
    "cancel": "can cancel a turn and stay connected",
    "permissions": "requests approval before it acts",
    "changed_input": "accepts an approval that changes a call's input",
    "questions": "asks the user questions with choices",
    "modes": "can plan without acting",
    "model": "accepts a model name",
    "effort": "accepts a reasoning effort",
    "images": "accepts images",
    "mcp": "accepts MCP servers",
    "system": "accepts a system prompt",
    "folders": "accepts additional folders",
    "schema": "answers according to a JSON schema",
    "subagents": "starts subagents",
    "background": "works in the background and starts turns by itself",
    "usage": "reports tokens; some agents also report cost",
    "cost": "reports the cost of a turn",
    "retries": "reports when it retries a model call",
    "limits": "accepts limits on turns and cost",
    "tools": "accepts lists of allowed and denied tools",
    "sandbox": "runs commands in a sandbox",
    "install": "reports where it is installed",
    "auth": "reports who is signed in",
    "about": "reports account details such as plan and endpoint",
    "models": "lists its models",
    "login": "signs in",
    "logout": "signs out",
    "sessions": "lists its own sessions",
    "create": "creates its own session before the first prompt",
    "history": "reads the messages of its own sessions",
    "servers": "lists its MCP servers",
    "server-tools": "lists the tools of an MCP server",
    "server-add": "adds and removes MCP servers",
    "server-switch": "enables and disables MCP servers",
    "cloud": "works in its vendor's cloud",
    "webhooks": "is told by webhooks when a cloud agent finishes",
}

REPORTS_COST = frozenset({"cost", "limits"})  # with one of these, a cost limit needs no price table


def capabilities(agent: Agent) -> frozenset[str]:
    return agent.info.can | {word for word, has in METHODS.items() if isinstance(agent, has)}
