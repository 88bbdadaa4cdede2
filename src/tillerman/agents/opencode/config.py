"""The config passed to OpenCode by variable, in addition to the user's own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tillerman.core.agent import SecretFile, SessionSpec, Word

# Makes it ask for every call, so that the harness's policy decides; OpenCode's default allows all.
# Of its rules the last match counts, and configs are merged key by key: a pattern in an unusual
# spelling comes after all rules of the user, the project or an agent. An outside path and a
# repeated call need no request besides that of the call. Requests of subagents and questions are
# not sent over ACP: it would wait forever, so they are denied.
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
# Its read-only agent denies by rules that come before ours.
PLAN: dict[str, Any] = {**ASK, "edi?": {"*": "deny", ".opencode/plans/*.md": "allow"}}
_THERE = {"disable": False, "hidden": False, "mode": "primary"}  # overrides the project
# If it cannot ask, a session in ask mode is kept read-only by these rules.
READ: dict[str, Any] = {"edi?": "deny", "bas?": "deny", "tas?": "deny"}

_INSTRUCTIONS = "TILLERMAN_OPENCODE_INSTRUCTIONS"


def environment(spec: SessionSpec, settings: Mapping[str, Any]) -> dict[str, Word]:
    """The variables that carry these settings and the system prompt.

    `[agents.opencode] config` adds more settings, since a variable set by the user is overwritten.
    """
    more = spec.native.options.get("config")
    config = {**(more if isinstance(more, Mapping) else {}), **settings}
    variables: dict[str, Word] = {}
    if spec.system:
        # A separate file: there is no other way to add to its prompt without replacing it.
        config["instructions"] = [f"{{env:{_INSTRUCTIONS}}}"]
        variables[_INSTRUCTIONS] = SecretFile("", spec.system.encode())
    if config:
        variables["OPENCODE_CONFIG_CONTENT"] = json.dumps(config)
    return variables


def asking() -> dict[str, Any]:
    """The config for a transport on which it can ask."""
    return {
        "permission": ASK,
        "agent": {
            "build": {**_THERE, "permission": ASK},
            "plan": {**_THERE, "permission": PLAN},
        },
        "experimental": {"batch_tool": False},  # calls within a call
    }


def unasked(spec: SessionSpec) -> dict[str, Any]:
    """The config for a transport on which it cannot: the user's rules, and the session's mode."""
    settings: dict[str, Any] = {"mcp": servers(spec)} if spec.tools.servers else {}
    if spec.mode == "ask":
        settings |= {"permission": READ, "agent": {"build": {"permission": READ}}}
    return settings


def servers(spec: SessionSpec) -> dict[str, Any]:
    return {name: server(config) for name, config in spec.tools.servers.items()}


def server(config: Mapping[str, Any]) -> dict[str, Any]:
    """Converts an MCP server from the common format to OpenCode's."""
    if config.get("url"):
        remote = {"type": "remote", "url": config["url"]}
        return remote | ({"headers": config["headers"]} if config.get("headers") else {})
    command = config.get("command", "")
    words = command if isinstance(command, list) else [command]
    local = {"type": "local", "command": [*words, *config.get("args", ())]}
    return local | ({"environment": config["env"]} if config.get("env") else {})
