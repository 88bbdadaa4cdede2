"""Parses the output of OpenCode's native commands: account, models, MCP servers, history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tillerman.agents.commands.locate import plain
from tillerman.agents.decoding.fields import Table, count, parse, table, tables, text
from tillerman.agents.opencode.message_parts import Parts
from tillerman.core.agent_admin import Account, McpServer, Model
from tillerman.core.errors import AgentError
from tillerman.core.events import Event, UserMessage
from tillerman.core.wire import AttachmentBytes

_HINT = "run `opencode auth login`, or set the key of a provider such as ANTHROPIC_API_KEY"
_METHODS = {"api": "api key", "oauth": "browser", "wellknown": "token"}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_FREE = "opencode/"  # built-in models that need no account


def account(stdout: bytes) -> Account:
    """Parses `opencode auth list`: `●  Anthropic api`, or `●  OpenAI OPENAI_API_KEY` for variables.

    The method is that of the first entry, the name lists all entries.
    """
    found = [one.rpartition(" ")[::2] for one in _entries(stdout)]
    if not found:
        return Account(signed_in=False, hint=_HINT)
    how = found[0][1]
    method = "variable" if _VARIABLE.fullmatch(how) else _METHODS.get(how, how)
    return Account(signed_in=True, method=method, who=", ".join(name for name, _ in found))


def configured(stdout: bytes) -> Account:
    """Parses `opencode models`: a provider in the user's config needs no OpenCode account."""
    ids = [line.strip() for line in plain(stdout).splitlines() if "/" in line]
    providers = dict.fromkeys(id.partition("/")[0] for id in ids if not id.startswith(_FREE))
    if not providers:
        return Account(signed_in=False, hint=_HINT)
    return Account(signed_in=True, method="config", who=", ".join(providers))


def models(stdout: bytes) -> list[Model]:
    """Parses `opencode models --verbose`: each id on a line, followed by its JSON details."""
    found: list[Model] = []
    decoder, reported, at = json.JSONDecoder(), plain(stdout), 0
    for match in re.finditer(r"^(\S+/\S+)\n(?=\{)", reported, re.M):
        if match.start() < at:
            continue  # within the previous one
        try:
            details, at = decoder.raw_decode(reported, match.end())
        except ValueError:
            continue
        found.append(_model(match[1], details))
    if not found:
        raise AgentError("opencode", "opencode listed no models", hint="run `tillerman doctor`")
    return found


def servers(stdout: bytes) -> list[McpServer]:
    """Parses `opencode mcp list`: `●  ✓ name connected`, then error lines, then the command."""
    found: list[McpServer] = []
    for line in plain(stdout).splitlines():
        if match := re.match(r"●\s+\S (?P<name>.+) (?P<status>[a-z][a-z _]*)$", line):
            found.append(McpServer(match["name"].strip(), match["status"]))
        elif found and re.match(r"│\s{2,}\S", line):
            last = found.pop()
            found.append(McpServer(last.name, last.status, line.lstrip("│ ").strip()))
    return found


def history(stdout: bytes, cwd: str) -> list[Event]:
    """Parses `opencode export SESSION`."""
    exported = parse(stdout)
    if isinstance(exported, str):
        raise AgentError(
            "opencode",
            f"cannot parse the output of `opencode export`: {exported}",
            hint="update opencode and tillerman: the format may be that of another version",
        )
    parts = Parts(cwd or text(table(exported, "info"), "directory"), ())
    return [
        event
        for message in tables(exported, "messages")
        for event in _message_events(message, parts)
    ]


def _message_events(message: Table, parts: Parts) -> Iterator[Event]:
    if text(table(message, "info"), "role") == "user":
        words = [
            text(part, "text")
            for part in tables(message, "parts")
            if text(part, "type") == "text" and part.get("synthetic") is not True
        ]
        if content := "\n".join(words):
            yield UserMessage(text=content, how="imported")
        return
    for part in tables(message, "parts"):
        for event in parts.updated(part):
            if not isinstance(event, AttachmentBytes):
                yield event


def _entries(stdout: bytes) -> Iterator[str]:
    for line in plain(stdout).splitlines():
        if line.startswith("●"):
            yield line.lstrip("● ").strip()


def _model(id: str, details: Table) -> Model:
    return Model(
        id=id,
        title=text(details, "name") or id,
        provider=id.partition("/")[0],
        thinking=table(details, "capabilities").get("reasoning") is True,
        efforts=tuple(table(details, "variants")),
        context=count(table(details, "limit"), "context") or None,
    )
