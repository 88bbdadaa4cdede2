"""Table rows and headers for lists: models, modes, MCP servers, MCP tools, sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tillerman.core.agent import Mode
from tillerman.core.transcript.session_titles import displayed_title
from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.core.agent_admin import McpServer, McpTool, Model
    from tillerman.store.session_row import SessionRow

MODELS = ("AGENT", "MODEL", "CONTEXT", "EFFORT", "WHAT")
SHIPPED = "* from tillerman's model table: the agent does not list its models"
SERVERS = ("AGENT", "SERVER", "STATUS", "COMMAND")
TOOLS = ("TOOL", "ARGUMENTS", "WHAT")
MODES: dict[Mode, str] = {
    "agent": "works on the task, as far as the rules allow",
    "plan": "reads and plans, without changes",
    "ask": "reads and answers, without changes",
}
SESSIONS = ("SESSION", "WHEN", "AGENT", "STATE", "TURNS", "COST", "WHAT")


def models(listed: Mapping[str, Sequence[Model]]) -> Iterator[tuple[str, ...]]:
    for name, models in listed.items():
        for model in models:
            context = formatting.count(model.context) if model.context else ""
            mark = "*" if model.shipped else ""
            yield name, model.id + mark, context, _efforts(model), _words(model)


def shipped(listed: Mapping[str, Sequence[Model]]) -> bool:
    """True if any model is from the shipped table, which needs a footnote."""
    return any(model.shipped for models in listed.values() for model in models)


def servers(listed: Mapping[str, Sequence[McpServer]]) -> Iterator[tuple[str, ...]]:
    for agent, servers in listed.items():
        for server in servers:
            yield agent, server.name, server.status, server.command


def tools(listed: Sequence[McpTool]) -> Iterator[tuple[str, ...]]:
    for tool in listed:
        yield tool.name, " ".join(tool.arguments), tool.description


def switched(agent: str, server: str, on: bool) -> str:
    return f"{agent} {'uses' if on else 'does not use'} the MCP server {server}"


def session(row: SessionRow) -> tuple[str, ...]:
    cost = formatting.money(row.cost_usd) if row.cost_usd is not None else ""
    when = formatting.ago(row.updated_at)
    return (row.id, when, row.agent, session_state(row), str(row.turns), cost, what(row))


def session_state(row: SessionRow) -> str:
    if row.status == "running" and not _lives(row.owner_pid):
        return "open"
    return row.status


def what(row: SessionRow) -> str:
    return formatting.one_line(displayed_title(row.title, None, row.prompt), 60)


def title(text: str) -> str:
    """Session title as stored: one line, with the environment's secrets redacted."""
    from tillerman.core.errors import UsageError
    from tillerman.supervision.environment import secrets_of
    from tillerman.supervision.secrets import Secrets

    secrets = Secrets()
    for name, value in secrets_of(os.environ):
        secrets.register(name, value)
    line = formatting.one_line(secrets.redact_text(text))
    if not line:
        raise UsageError("the title is empty", hint="give a title with at least one letter")
    return line


def snippet(found: str) -> list[str]:
    """Splits a search snippet; every second part is a match."""
    begin, end = "\x02", "\x03"
    parts = found.replace(end, begin).split(begin)
    return [formatting.one_line(f"|{part}|")[1:-1] for part in parts]


def _efforts(model: Model) -> str:
    match model.efforts:
        case (least, *_, most):
            return f"{least} – {most}"
    return "".join(model.efforts)


def _words(model: Model) -> str:
    marks = [word for word in ("default", "current", "thinking") if getattr(model, word)]
    message = ", ".join(marks)
    if model.title == model.id:
        return message
    return f"{model.title} ({message})" if message else model.title


def _lives(process: int | None) -> bool:
    if process is None:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # exists, but belongs to another user
    return True
