"""Parses the output of Cursor's native commands with pure functions."""

from __future__ import annotations

import re

from tillerman.agents.commands.locate import plain
from tillerman.agents.cursor.failures import SIGN_IN
from tillerman.agents.decoding.fields import Table, parse, table, text
from tillerman.core.agent_admin import Account, McpServer, McpTool, Model
from tillerman.core.errors import AgentError

_MODEL = re.compile(r"(?P<id>\S+) - (?P<title>.+?)(?P<marks>(?:\s+\((?:default|current)\))*)")
_SERVER = re.compile(
    r"(?:○ )?(?P<name>.+): (?P<status>ready|not loaded \(needs approval\)|disabled|Error: .*)"
)
_TOOL = re.compile(r"- (?P<name>\S+) \((?P<arguments>.*)\)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ABOUT = {"subscriptionTier": "plan", "model": "model", "cliVersion": "version"}
_PROVIDERS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("gemini", "google"),
    ("composer", "cursor"),
    ("cursor", "cursor"),
    ("auto", "cursor"),
    ("grok", "xai"),
    ("kimi", "moonshot"),
)


def account(stdout: bytes, *, key: bool) -> Account:
    """Parses `status --format json`, which ignores `key`: a CURSOR_API_KEY or token is set."""
    parsed = _object(stdout, "status")
    if parsed.get("isAuthenticated") is True:
        who = text(table(parsed, "userInfo"), "email")
        return Account(signed_in=True, method="browser", who=who or None)
    if key:
        return Account(signed_in=True, method="variable")
    return Account(signed_in=False, hint=SIGN_IN)


def about(stdout: bytes) -> dict[str, str]:
    """Parses `about --format json`."""
    parsed = _object(stdout, "about")
    return {word: value for key, word in _ABOUT.items() if (value := text(parsed, key))}


def models(stdout: bytes) -> list[Model]:
    """Parses `models`: a catalogue that includes models outside the plan."""
    found = map(_MODEL.fullmatch, plain(stdout).splitlines())
    return [
        Model(
            id=match["id"],
            title=match["title"],
            provider=_provider(match["id"]),
            default="default" in match["marks"],
            current="current" in match["marks"],
            thinking="thinking" in match["id"],
        )
        for match in found
        if match
    ]


def chat(stdout: bytes) -> str:
    """Parses `create-chat`."""
    found = _UUID.search(plain(stdout))
    if found is None:
        raise AgentError(
            "cursor",
            "`cursor-agent create-chat` returned no id",
            hint="run it in a terminal to see why",
        )
    return found[0]


def mcp_servers(stdout: bytes) -> list[McpServer]:
    """Parses `mcp list`. A name may contain `: `, so the last known status counts."""
    found = map(_SERVER.fullmatch, plain(stdout).splitlines())
    return [McpServer(match["name"], _status(match["status"])) for match in found if match]


def mcp_tools(stdout: bytes) -> list[McpTool]:
    """Parses `mcp list-tools NAME`."""
    found = map(_TOOL.fullmatch, plain(stdout).splitlines())
    return [
        McpTool(match["name"], arguments=tuple(filter(None, re.split(r",\s*", match["arguments"]))))
        for match in found
        if match
    ]


def _status(status: str) -> str:
    return {"not loaded (needs approval)": "needs approval"}.get(status, status).removeprefix(
        "Error: "
    )


def _provider(model: str) -> str | None:
    return next((provider for word, provider in _PROVIDERS if model.startswith(word)), None)


def _object(stdout: bytes, command: str) -> Table:
    parsed = parse(stdout)
    if isinstance(parsed, str):
        raise AgentError(
            "cursor",
            f"cannot parse the output of `cursor-agent {command}`: {parsed}",
            hint="run `cursor-agent update`",
        )
    return parsed
