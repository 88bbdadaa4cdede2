"""The config that OpenCode is given by variable, on top of the user's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridle.core.agent import SecretFile, SessionSpec, Word

# Every tool is asked for, so that the harness's policy decides; OpenCode's own default allows all.
# What a subagent asks, and questions, nobody hears over ACP: it would wait for ever.
ASK: dict[str, Any] = {
    "*": "ask",
    "todowrite": "allow",
    "task": "deny",
    "question": "deny",
    "plan_enter": "deny",
    "plan_exit": "deny",
}
# Its read-only agent forbids by rules that the star would override.
PLAN: dict[str, Any] = {"edit": {"*": "deny", ".opencode/plans/*.md": "allow"}}
# Where nobody can be asked, a session that may only answer is held to it by rule.
READ: dict[str, Any] = {"edit": "deny", "bash": "deny", "task": "deny"}

_INSTRUCTIONS = "BRIDLE_OPENCODE_INSTRUCTIONS"


def environment(spec: SessionSpec, settings: Mapping[str, Any]) -> dict[str, Word]:
    """The variables that carry these settings, and the system prompt with them.

    `[agents.opencode] config` has more of them: the variable that a user may have set is taken.
    """
    more = spec.options.get("config")
    config = {**(more if isinstance(more, Mapping) else {}), **settings}
    variables: dict[str, Word] = {}
    if spec.system:
        # A file of its own, since there is no other way to add to its prompt without replacing it.
        config["instructions"] = [f"{{env:{_INSTRUCTIONS}}}"]
        variables[_INSTRUCTIONS] = SecretFile("", spec.system.encode())
    if config:
        variables["OPENCODE_CONFIG_CONTENT"] = json.dumps(config)
    return variables


def asking() -> dict[str, Any]:
    """For a surface on which it can ask."""
    return {"permission": ASK, "agent": {"plan": {"permission": PLAN}}}


def unasked(spec: SessionSpec) -> dict[str, Any]:
    """For a surface on which it cannot: the user's own rules hold, and the session's mode."""
    settings: dict[str, Any] = {"mcp": servers(spec)} if spec.servers else {}
    if spec.mode == "ask":
        settings["permission"] = READ
    return settings


def servers(spec: SessionSpec) -> dict[str, Any]:
    return {name: server(config) for name, config in spec.servers.items()}


def server(config: Mapping[str, Any]) -> dict[str, Any]:
    """An MCP server as other agents write it, in OpenCode's words."""
    if config.get("url"):
        remote = {"type": "remote", "url": config["url"]}
        return remote | ({"headers": config["headers"]} if config.get("headers") else {})
    command = config.get("command", "")
    words = command if isinstance(command, list) else [command]
    local = {"type": "local", "command": [*words, *config.get("args", ())]}
    return local | ({"environment": config["env"]} if config.get("env") else {})
