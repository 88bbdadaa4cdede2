"""The config that OpenCode is given by variable, on top of the user's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tillerman.core.agent import SecretFile, SessionSpec, Word

# Every call is asked for, so that the harness's policy decides; OpenCode's own default allows all.
# Of its rules the last one that matches counts, and its configs are merged key by key: what is
# spelled as nobody else spells it comes after all that the user, the project or an agent says.
# A path outside and a call repeated are no requests of their own beside that of the call. What a
# subagent asks, and questions, nobody hears over ACP: it would wait for ever.
ASK: dict[str, Any] = {
    "?*": "ask",
    "external_director?": "allow",
    "doom_loo?": "allow",
    "todowrit?": "allow",
    "tas?": "deny",
    "questio?": "deny",
    "plan_ente?": "deny",
    "plan_exi?": "deny",
}
# Its read-only agent forbids by rules that come before ours.
PLAN: dict[str, Any] = {**ASK, "edi?": {"*": "deny", ".opencode/plans/*.md": "allow"}}
_THERE = {"disable": False, "hidden": False, "mode": "primary"}  # whatever the project made of it
# Where nobody can be asked, a session that may only answer is held to it by rule.
READ: dict[str, Any] = {"edi?": "deny", "bas?": "deny", "tas?": "deny"}

_INSTRUCTIONS = "TILLERMAN_OPENCODE_INSTRUCTIONS"


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
    return {
        "permission": ASK,
        "agent": {
            "build": {**_THERE, "permission": ASK},
            "plan": {**_THERE, "permission": PLAN},
        },
        "experimental": {"batch_tool": False},  # calls within a call
    }


def unasked(spec: SessionSpec) -> dict[str, Any]:
    """For a surface on which it cannot: the user's own rules hold, and the session's mode."""
    settings: dict[str, Any] = {"mcp": servers(spec)} if spec.servers else {}
    if spec.mode == "ask":
        settings |= {"permission": READ, "agent": {"build": {"permission": READ}}}
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
