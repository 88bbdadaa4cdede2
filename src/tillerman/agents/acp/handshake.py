"""Builds the ACP requests that open a session, depending on the agent's capabilities."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tillerman._version import __version__
from tillerman.agents.acp import failures
from tillerman.agents.acp.dialect import AcpDialect
from tillerman.agents.decoding.fields import Table, at, table, text
from tillerman.core.agent import SessionSpec
from tillerman.core.failure import Failure

PROTOCOL = 1


class AgentCapabilities(Struct, frozen=True):
    """The capabilities in the agent's response to `initialize`."""

    version: str | None
    load: bool
    sessions: frozenset[str]  # resume, fork, list, additionalDirectories, …
    images: bool
    embeds: bool  # accepts files as embedded resources
    servers: frozenset[str]  # transports besides stdio: http, sse


def hello(dialect: AcpDialect, spec: SessionSpec) -> Table:
    """Params of `initialize`. No file or terminal methods: tillerman detects changes itself."""
    fs = {"readTextFile": False, "writeTextFile": False}
    return {
        "protocolVersion": PROTOCOL,
        "clientCapabilities": {"fs": fs, "terminal": False, **dialect.client(spec)},
        "clientInfo": {"name": "tillerman", "title": "tillerman", "version": __version__},
    }


def abilities(result: Any) -> AgentCapabilities:
    fields = result if isinstance(result, dict) else {}
    can = table(fields, "agentCapabilities")
    prompt, servers = table(can, "promptCapabilities"), table(can, "mcpCapabilities")
    return AgentCapabilities(
        version=text(table(fields, "agentInfo"), "version") or None,
        load=can.get("loadSession") is True,
        sessions=frozenset(
            key for key, value in table(can, "sessionCapabilities").items() if value is not None
        ),
        images=prompt.get("image") is True,
        embeds=prompt.get("embeddedContext") is True,
        servers=frozenset(kind for kind in ("http", "sse") if servers.get(kind) is True),
    )


class HandshakeStep(Struct, frozen=True):
    method: str
    params: Table


def wrong_version(result: Any) -> Failure | None:
    version = at(result, "protocolVersion")
    if version in (PROTOCOL, None):
        return None
    return Failure(
        kind="agent_failed",
        message=f"the agent uses ACP version {version!r}, but tillerman supports {PROTOCOL}",
        hint="install a compatible version of the agent",
    )


def session(
    dialect: AcpDialect, spec: SessionSpec, can: AgentCapabilities
) -> HandshakeStep | Failure:
    """Returns the request that opens the session, or a failure that names a missing capability."""
    servers = [_server(name, dict(server)) for name, server in spec.tools.servers.items()]
    for server in servers:
        kind = server.get("type", "stdio")
        if kind != "stdio" and kind not in can.servers:
            return failures.lacking(f"MCP servers over {kind}", dialect.row)
    params: Table = {"cwd": str(spec.cwd), "mcpServers": servers}
    if spec.folders and not dialect.row.folder_flag:
        if "additionalDirectories" not in can.sessions:
            return failures.lacking("additional folders", dialect.row)
        params["additionalDirectories"] = [str(folder) for folder in spec.folders]
    if "systemPrompt" in can.sessions and (words := dialect.preamble(spec)):
        content = [{"type": "text", "text": words}]
        params["systemPrompt"] = {"mode": "append", "content": content}
    params |= dialect.session(spec)
    if not spec.resume:
        return HandshakeStep("session/new", params)
    method = _return(spec, can)
    if method is None:
        what = "forking a conversation" if spec.fork else "resuming a conversation"
        return failures.lacking(what, dialect.row)
    return HandshakeStep(method, {"sessionId": spec.resume, **params})


def _return(spec: SessionSpec, can: AgentCapabilities) -> str | None:
    """The method that continues an earlier session, preferably one that does not replay history."""
    if spec.fork:
        return "session/fork" if "fork" in can.sessions else None
    if "resume" in can.sessions:
        return "session/resume"
    return "session/load" if can.load else None


def _server(name: str, server: Table) -> Table:
    if url := server.get("url"):
        kind = "sse" if server.get("type") == "sse" else "http"
        return {"type": kind, "name": name, "url": url, "headers": _pairs(server.get("headers"))}
    return {
        "name": name,
        "command": server.get("command", ""),
        "args": list(server.get("args") or ()),
        "env": _pairs(server.get("env")),
    }


def _pairs(values: object) -> list[dict[str, str]]:
    if not isinstance(values, dict):
        return []
    return [{"name": str(name), "value": str(value)} for name, value in values.items()]
