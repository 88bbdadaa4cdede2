"""Reads Copilot's folder: the account, stored sessions, and the user's MCP servers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.core.agent import Prompt
from tillerman.core.agent_admin import Account, NativeSession
from tillerman.core.errors import AgentError
from tillerman.core.events import (
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from tillerman.core.session_options import session_spec

Variable = Callable[[str], str | None]

_TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")  # in order of precedence
_HINT = (
    "run `copilot login`, set COPILOT_GITHUB_TOKEN, or configure your own provider "
    "(`copilot help providers`)"
)
_ID = re.compile(r"[\w.-]+")
_TAIL = 1024 * 1024  # bytes of a session file in which its last answer is searched


def folder(variable: Variable) -> Path:
    home = variable("COPILOT_HOME")
    return Path(home) if home else Path(variable("HOME") or Path.home()) / ".copilot"


def account(folder: Path, variable: Variable) -> Account:
    """Reads the account, since no command reports it. A custom provider needs no GitHub account."""
    if provider := variable("COPILOT_PROVIDER_BASE_URL"):
        return Account(signed_in=True, method="variable", who=provider)
    for name in _TOKENS:
        if variable(name):
            return Account(signed_in=True, method="variable", who=name)
    if who := _last_user(folder / "config.json"):
        return Account(signed_in=True, method="browser", who=who)
    return Account(signed_in=False, hint=_HINT)


def history(folder: Path, session: NativeSession) -> list[Event]:
    """Imports the log of a session, which has the lines of its JSON output without deltas."""
    if not _ID.fullmatch(session.native_id):
        raise _gone(session)
    path = folder / "session-state" / session.native_id / "events.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        raise _gone(session) from None
    return list(_message_events(lines, session.cwd or ""))


def finish_reason(folder: Path, session: str) -> str | None:
    """Why the model ended its last answer, as `stop` or `length`; empty if it is unknown.

    None: the end of the answer is not stored yet.
    """
    if not _ID.fullmatch(session):
        return ""
    reason, ended = "", False
    try:
        with (folder / "session-state" / session / "events.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read(_TAIL).splitlines()
    except OSError:
        return ""
    for raw in tail:
        line = parse(raw)
        if isinstance(line, str) or "agentId" in line:  # cut off, or of a subagent
            continue
        match text(line, "type"):
            case "user.message" | "assistant.turn_start":
                reason, ended = "", False
            case "session.usage_record":
                reason = text(table(table(line, "data"), "usage"), "finishReason")
            case "assistant.turn_end":
                ended = True
    return reason if ended else None


def added(settings: Table, name: str, config: Mapping[str, Any]) -> Table:
    """Adds this server to `mcp-config.json` with all of its tools."""
    server = {"tools": ["*"], "type": "http" if config.get("url") else "local", **config}
    return {**settings, "mcpServers": {**table(settings, "mcpServers"), name: server}}


def _message_events(lines: list[bytes], cwd: str) -> Iterator[Event]:
    from tillerman.agents.copilot.json_wire import CopilotJsonWire

    spec = session_spec(cwd=Path(cwd or "/"))
    wire = CopilotJsonWire(spec)
    wire.launch(spec, Prompt(""))
    for raw in lines:
        line = parse(raw)
        if isinstance(line, str):
            continue
        if text(line, "type") == "user.message" and "agentId" not in line:
            yield UserMessage(text=text(table(line, "data"), "content"), how="imported")
        for event in wire.decode(raw):
            if isinstance(event, MessageChunk | ThoughtChunk | ToolStarted | ToolFinished):
                yield event


def _last_user(config: Path) -> str:
    """Reads the user from a file that begins with comments."""
    try:
        reported = re.sub(r"^\s*//.*$", "", config.read_text("utf-8"), flags=re.M)
        fields = json.loads(reported)
    except (OSError, ValueError):
        return ""
    if not isinstance(fields, dict):
        return ""
    users = [table(fields, "lastLoggedInUser"), table(fields, "last_logged_in_user")]
    users += tables(fields, "loggedInUsers") + tables(fields, "logged_in_users")
    return next((login for user in users if (login := text(user, "login"))), "")


def _gone(session: NativeSession) -> AgentError:
    return AgentError(
        "copilot",
        f"copilot has no session {session.native_id!r}",
        hint="`copilot --resume` lists them",
    )
