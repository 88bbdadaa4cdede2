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
    positive,
)

ISOLATION = ("basic", "medium", "high")


def agents(commands: Any) -> None:
    listing = command(commands, "agents", "agents:agents", "list agents and what each can do")
    _maybe_agent(listing, "tell more about this one")
    listing.add_argument("--can", action="store_true", help="who can do what")
    json_option(listing)
    models = command(commands, "models", "models:models", "list the models of an agent")
    _maybe_agent(models, "default: all that are installed")
    models.add_argument("-a", "--agent", type=name, metavar="NAME", help="the same")
    json_option(models)
    status = command(commands, "status", "status:status", "show who is signed in to which agent")
    _maybe_agent(status, "default: all of them")
    json_option(status)
    login = command(commands, "login", "login:login", "sign in to an agent, with its own command")
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
        help="find out, by harmless canaries, before which calls the installed agents ask",
    )
    doctor.add_argument(
        "--wait",
        type=positive,
        default=25,
        metavar="SECONDS",
        help="as long for each agent to answer (default: 25)",
    )
    doctor.add_argument("--full", action="store_true", help="read all of the store, however large")
    json_option(doctor)


def _mcp(commands: Any) -> None:
    mcp = folder(commands, "mcp", "manage MCP servers of agents, or serve this folder")
    listing = command(mcp, "list", "mcp:list_servers", "all servers, and whether they answer")
    listing.add_argument("-a", "--agent", type=name, metavar="NAME", help="of this agent")
    json_option(listing)
    tools = _server(mcp, "tools", "mcp:tools", "the tools that a server offers")
    json_option(tools)
    add = _server(mcp, "add", "mcp:add", "give an agent a server")
    add.usage = "tillerman mcp add [options] NAME [--] COMMAND [ARG …]"
    add.add_argument("words", nargs="*", metavar="COMMAND", help="that starts it")
    add.add_argument("--url", metavar="URL", help="of a server that runs already")
    add.add_argument("--sse", action="store_true", help="with --url: it speaks the old transport")
    add.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for it"
    )
    add.add_argument(
        "--header", action="append", default=[], metavar="NAME: VALUE", help="with --url"
    )
    add.add_argument("--config", type=Path, metavar="FILE", help="all of it as JSON; `-` for stdin")
    add.add_argument("-y", "--yes", action="store_true", help="though others could read a secret")
    _server(mcp, "remove", "mcp:remove", "take a server away")
    _server(mcp, "enable", "mcp:enable", "use a server again")
    _server(mcp, "disable", "mcp:disable", "keep a server, and do not use it")
    _serve(mcp)


def _serve(mcp: Any) -> None:
    serve = command(mcp, "serve", "mcp_serve:serve", "be one: this folder's files and processes")
    serve.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="serve DIR")
    serve.add_argument(
        "--http", type=port, metavar="PORT", help="on loopback, with a token; 0 takes a free port"
    )
    serve.add_argument(
        "--client",
        type=client_name,
        action="append",
        default=[],
        metavar="NAME",
        help="with --http: a client with a token of its own; repeatable",
    )
    serve.add_argument(
        "--isolation", choices=ISOLATION, help="of commands, at least; default: the config's"
    )
    serve.add_argument("--approve", choices=PRESETS, help=APPROVE)
    serve.add_argument(
        "--request-timeout",
        type=positive,
        metavar="SECONDS",
        help="then what nobody answered is denied; default: 300",
    )
    serve.add_argument("--resume", type=name, metavar="ID", help="a session of an earlier server")
    serve.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for commands"
    )


def _server(mcp: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = command(mcp, word, handler, help)
    parser.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    parser.add_argument("server", type=name, metavar="NAME", help="of the server")
    return parser


def _maybe_agent(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("who", nargs="?", type=name, metavar="AGENT", help=help)
