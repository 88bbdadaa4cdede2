"""`tillerman mcp`: lists, adds, removes and toggles the MCP servers configured in agents."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from tillerman.agents.commands.runner import SecretInArguments
from tillerman.core.agent_admin import McpServer, McpServerList
from tillerman.core.errors import AgentNotInstalled, TillermanError, UsageError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import (
    colored,
    confirmed,
    emit,
    emit_json,
    table,
    warn,
    width,
)
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.json_argument import json_object
from tillerman.surfaces.rendering import tables
from tillerman.surfaces.rendering.ansi_style import Style

Work = Callable[[AgentAdmin, str, Namespace], Coroutine[Any, Any, int]]


def list_servers(options: Namespace) -> int:
    return asyncio.run(_list(options))


async def _list(options: Namespace) -> int:
    management, _ = open_harness.management(options)
    if options.agent:
        found = {options.agent: await management.mcp_servers(options.agent)}
    else:
        found = await _all(management)
    if options.json:
        emit_json(found)
    elif not any(found.values()):
        who = f"{options.agent} has no" if options.agent else "no agent has an"
        emit(f"{who} MCP server: `tillerman mcp add NAME -- COMMAND` adds one")
    else:
        emit(table(tables.servers(found), tables.SERVERS, _style(options), width()))
    return 0


async def _all(management: AgentAdmin) -> dict[str, Sequence[McpServer]]:
    found: dict[str, Sequence[McpServer]] = {}
    answers = await ask_all(management.able(McpServerList), management.mcp_servers)
    for name, answer in answers.items():
        if not isinstance(answer, TillermanError):
            found[name] = answer
        elif not isinstance(answer, AgentNotInstalled):
            warn(f"{name}: {answer.message}", answer.hint)
    return found


def _command(work: Work) -> Callable[[Namespace], int]:
    def run(options: Namespace) -> int:
        management, config = open_harness.management(options)
        agent = options.agent or config.agent.partition(",")[0]
        return asyncio.run(work(management, agent, options))

    return run


@_command
async def tools(management: AgentAdmin, agent: str, options: Namespace) -> int:
    found = await management.mcp_tools(agent, options.server)
    if options.json:
        emit_json(found)
    elif not found:
        emit(f"{options.server} has no tools")
    else:
        emit(table(tables.tools(found), tables.TOOLS, _style(options), width(), wrap=True))
    return 0


@_command
async def add(management: AgentAdmin, agent: str, options: Namespace) -> int:
    config = _config(options)
    try:
        await management.mcp_add(agent, options.server, config, openly=options.yes)
    except SecretInArguments as error:
        if not confirmed(f"{error.message} for a moment. Continue?"):
            error.hint = "use --yes to continue anyway, or add it by hand"
            raise
        await management.mcp_add(agent, options.server, config, openly=True)
    emit(f"added MCP server {options.server} to {agent}")
    return 0


@_command
async def remove(management: AgentAdmin, agent: str, options: Namespace) -> int:
    await management.mcp_remove(agent, options.server)
    emit(f"removed MCP server {options.server} from {agent}")
    return 0


@_command
async def enable(management: AgentAdmin, agent: str, options: Namespace) -> int:
    await management.mcp_switch(agent, options.server, True)
    emit(tables.switched(agent, options.server, True))
    return 0


@_command
async def disable(management: AgentAdmin, agent: str, options: Namespace) -> int:
    await management.mcp_switch(agent, options.server, False)
    emit(tables.switched(agent, options.server, False))
    return 0


# -- server config ---------------------------------------------------------------------------------


def _config(options: Namespace) -> dict[str, Any]:
    given = [bool(options.words), bool(options.url), options.config is not None]
    if sum(given) != 1:
        raise UsageError(
            "give exactly one of a command, --url or --config",
            hint="tillerman mcp add NAME -- COMMAND ARG …",
        )
    if options.config is not None:
        return json_object(_read(options.config), "--config")
    if options.url:
        kind = "sse" if options.sse else "http"
        headers = dict(map(_header, options.header))
        return {"type": kind, "url": options.url} | ({"headers": headers} if headers else {})
    if options.header or options.sse:
        raise UsageError(
            "--header and --sse require --url", hint="tillerman mcp add NAME --url URL"
        )
    command, *args = options.words
    env = dict(map(_variable, options.env))
    return {"command": command, "args": args} | ({"env": env} if env else {})


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {file}: {error}", hint="check that it exists, and its permissions"
        ) from None


def _variable(word: str) -> tuple[str, str]:
    """`NAME` alone reads the value from the environment, to keep it out of the shell history."""
    name, equals, value = word.partition("=")
    if not equals and name not in os.environ:
        raise UsageError(f"--env {name}: variable not set", hint="--env NAME=VALUE")
    return name, value if equals else os.environ[name]


def _header(word: str) -> tuple[str, str]:
    name, colon, value = word.partition(":")
    if not (colon and name.strip() and value.strip()):
        raise UsageError(f"--header {word!r} is not a header", hint="--header 'NAME: VALUE'")
    return name.strip(), value.strip()


def _style(options: Namespace) -> Style:
    return Style(colored(options, sys.stdout))
