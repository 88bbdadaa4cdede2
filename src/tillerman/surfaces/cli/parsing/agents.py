"""Argument definitions of agents, models, status, login, mcp and doctor."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import (
    APPROVE,
    PRESETS,
    client_name,
    command,
    folder,
    json_option,
    name,
    port,
    seconds,
)

ISOLATION = ("basic", "medium", "high")


def agents(commands: Any) -> None:
    listing = command(commands, "agents", "agents:agents", "list agents and what each can do")
    _maybe_agent(listing, "show details of this agent")
    listing.add_argument("--can", action="store_true", help="show a table of capabilities")
    json_option(listing)
    models = command(commands, "models", "models:models", "list the models of an agent")
    _maybe_agent(models, "default: all installed agents")
    models.add_argument("-a", "--agent", type=name, metavar="NAME", help="same as AGENT")
    json_option(models)
    status = command(commands, "status", "status:status", "show who is signed in to which agent")
    _maybe_agent(status, "default: all agents")
    json_option(status)
    login = command(commands, "login", "login:login", "sign in to an agent with its own command")
    login.add_argument("agent", type=name, metavar="AGENT")
    logout = command(commands, "logout", "login:logout", "sign out of an agent")
    logout.add_argument("agent", type=name, metavar="AGENT")
    _mcp(commands)
    doctor = command(
        commands, "doctor", "doctor:doctor", "check this machine and show how to fix it"
    )
    doctor.add_argument(
        "--gate",
        nargs="?",
        const="",
        metavar="AGENT",
        help="probe with harmless calls which of them the installed agents ask before",
    )
    doctor.add_argument(
        "--wait",
        type=seconds,
        default=25,
        metavar="SECONDS",
        help="timeout for each agent (default: 25)",
    )
    doctor.add_argument(
        "--full", action="store_true", help="check the whole store, even if it is large"
    )
    json_option(doctor)


def _mcp(commands: Any) -> None:
    mcp = folder(commands, "mcp", "manage MCP servers of agents, or serve this folder")
    listing = command(mcp, "list", "mcp:list_servers", "list servers and whether they respond")
    listing.add_argument("-a", "--agent", type=name, metavar="NAME", help="only this agent")
    json_option(listing)
    tools = _server(mcp, "tools", "mcp:tools", "list the tools of a server")
    json_option(tools)
    add = _server(mcp, "add", "mcp:add", "add a server to an agent")
    add.usage = "tillerman mcp add [options] NAME [--] COMMAND [ARG …]"
    add.add_argument("words", nargs="*", metavar="COMMAND", help="command that starts the server")
    add.add_argument("--url", metavar="URL", help="URL of a running server")
    add.add_argument("--sse", action="store_true", help="with --url: use the old SSE transport")
    add.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of the server",
    )
    add.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="with --url: an HTTP header",
    )
    add.add_argument(
        "--config", type=Path, metavar="FILE", help="server definition as JSON; `-` for stdin"
    )
    add.add_argument(
        "-y", "--yes", action="store_true", help="even if other users could read a secret"
    )
    _server(mcp, "remove", "mcp:remove", "remove a server from an agent")
    _server(mcp, "enable", "mcp:enable", "enable a server")
    _server(mcp, "disable", "mcp:disable", "disable a server without removing it")
    _serve(mcp)


def _serve(mcp: Any) -> None:
    serve = command(
        mcp, "serve", "mcp_serve:serve", "serve this folder's files and processes over MCP"
    )
    serve.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="serve DIR")
    serve.add_argument(
        "--http",
        type=port,
        metavar="PORT",
        help="serve on loopback, with a token; 0: any free port",
    )
    serve.add_argument(
        "--client",
        type=client_name,
        action="append",
        default=[],
        metavar="NAME",
        help="with --http: a client with its own token; repeatable",
    )
    serve.add_argument(
        "--isolation",
        choices=ISOLATION,
        help="minimum isolation of commands; default: the config's",
    )
    serve.add_argument("--approve", choices=PRESETS, help=APPROVE)
    serve.add_argument(
        "--request-timeout",
        type=seconds,
        metavar="SECONDS",
        help="deny unanswered requests after this time; default: 300",
    )
    serve.add_argument(
        "--resume", type=name, metavar="ID", help="resume the session of an earlier server"
    )
    serve.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of commands",
    )


def _server(mcp: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = command(mcp, word, handler, help)
    parser.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    parser.add_argument("server", type=name, metavar="NAME", help="name of the server")
    return parser


def _maybe_agent(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("who", nargs="?", type=name, metavar="AGENT", help=help)
