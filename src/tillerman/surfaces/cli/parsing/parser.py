"""Builds the argument parser: commands and options for parsing, help and completion."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.argparse_errors import ArgumentParser
from tillerman.surfaces.cli.parsing.arguments import (
    command,
    count,
    everywhere,
    folder,
    group,
    json_option,
    limit_options,
    name,
    one_session,
    positive_int,
)

EPILOG = """\
first steps:
  tillerman demo                    a complete turn; needs no agent
  tillerman agents                  which are ready, and how to install others
  tillerman run -a claude "What does this project do?"

exit codes: 0 completed · 1 failed · 2 usage or config
            3 not installed or not signed in · 4 stopped by policy
            5 a limit · 6 answer does not match the schema
            124 timed out · 130 cancelled
"""
MODES = ("agent", "plan", "ask")
SHELLS = ("bash", "zsh", "fish")


_PARTS = {  # builder function -> commands it defines
    "parser:run": ("run",),
    "parser:handoff": ("handoff",),
    "tui:tui": ("tui",),
    "acp:acp": ("acp",),
    "serve:serve": ("serve", "attach"),
    "parser:sessions": ("sessions",),
    "parser:requests": ("requests",),
    "processes:processes": ("ps", "logs", "kill"),
    "repo:repo": ("repo",),
    "cloud:cloud": ("cloud",),
    "agents:agents": ("agents", "models", "status", "login", "logout", "mcp", "doctor"),
    "hooks:hooks": ("hooks",),
    "hooks:hook": ("hook",),
    "policy:policy": ("policy",),
    "protected:protected": ("protected",),
    "pipelines:pipelines": ("pipeline",),
    "pipelines:init": ("init",),
    "parser:config": ("config", "trust"),
    "parser:others": ("demo", "completion", "schema"),
}


def build(only: str = "") -> ArgumentParser:
    """Builds all commands, or only the part that defines `only`.

    Building all of them takes as long as many commands run.
    """
    parser = ArgumentParser(
        prog="tillerman",
        description="One harness for every coding agent.",
        epilog=EPILOG,
        parents=[everywhere()],
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.set_defaults(command=None, parser=parser)
    commands = group(parser)
    for part in [part for part, made in _PARTS.items() if only in made] or _PARTS:
        module, _, function = part.partition(":")
        getattr(import_module(f"tillerman.surfaces.cli.parsing.{module}"), function)(commands)
    return parser


def others(commands: Any) -> None:
    demo = command(
        commands, "demo", "demo:demo", "show a complete turn without a key, network or agent"
    )
    demo.add_argument("--keep", action="store_true", help="keep the demo's folder")
    completion = command(
        commands, "completion", "completion:completion", "print a completion script for your shell"
    )
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    completion.add_argument("--sessions", action="store_true", help=argparse.SUPPRESS)
    completion.add_argument("--pipelines", action="store_true", help=argparse.SUPPRESS)
    schema = command(commands, "schema", "schema:schema", "print the JSON schema of --json")
    schema.add_argument("--pipelines", action="store_true", help="that of pipeline files instead")


def run(commands: Any) -> None:
    run = command(commands, "run", "run:run", "prompt an agent and watch it work")
    run.usage = "tillerman run [options] [prompt]"
    run.add_argument(
        "prompt", nargs="?", help="the task; piped input is appended to it, `-`: read only stdin"
    )
    run.add_argument("-f", "--file", type=Path, metavar="FILE", help="read the prompt from FILE")
    _session_options(run)
    limit_options(run)
    json_option(run, "one entry per line; --json=summary: a condensed view", lines=True)


def handoff(commands: Any) -> None:
    handoff = one_session(
        commands, "handoff", "handoff:handoff", "continue a session with another agent"
    )
    handoff.usage = "tillerman handoff [options] ID -a NAME [prompt]"
    handoff.add_argument(
        "words", nargs="?", metavar="prompt", help="the task; default: continue the current one"
    )
    handoff.add_argument(
        "-a", "--agent", type=name, required=True, metavar="NAME", help="agent that continues"
    )
    handoff.add_argument("-m", "--model", type=name, metavar="NAME", help="model to use")
    handoff.add_argument("--mode", choices=MODES, help="plan and ask are read-only")
    limit_options(handoff)
    json_option(handoff, "one entry per line; --json=summary: a condensed view", lines=True)


def _session_options(run: argparse.ArgumentParser) -> None:
    agent = run.add_argument_group("agent")
    agent.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent, profile, or several: one,two"
    )
    agent.add_argument(
        "-m", "--model", type=name, metavar="NAME", help="model to use; see `tillerman models`"
    )
    agent.add_argument("--effort", metavar="LEVEL", help="reasoning effort")
    agent.add_argument("--mode", choices=MODES, help="plan and ask are read-only")
    agent.add_argument("--system", metavar="TEXT|@FILE", help="added to its system prompt")
    agent.add_argument(
        "--output-schema", type=Path, metavar="FILE", help="JSON schema of the answer"
    )
    agent.add_argument(
        "--repair-output",
        action="store_true",
        help="retry once if the answer does not match the schema",
    )
    agent.add_argument(
        "--mcp-config", action="append", default=[], metavar="FILE|JSON", help="MCP servers to add"
    )
    agent.add_argument(
        "--workspace-tools",
        action="store_true",
        help="add tillerman's tools: files and background processes",
    )
    session = run.add_argument_group("session")
    session.add_argument(
        "--resume",
        nargs="?",
        const="last",
        metavar="ID",
        help="resume a session (default: the last)",
    )
    session.add_argument(
        "-c", "--continue", dest="resume", action="store_const", const="last", help="--resume last"
    )
    session.add_argument("--fork", action="store_true", help="with --resume: continue in a copy")
    session.add_argument("--title", metavar="TEXT", help="title of the session")
    session.add_argument(
        "--detach",
        action="store_true",
        help="run the turn in the background service, and print the session's id",
    )
    work = run.add_argument_group("workspace")
    work.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="work in DIR")
    work.add_argument(
        "--add-dir", type=Path, action="append", default=[], metavar="DIR", help="additional folder"
    )
    work.add_argument(
        "--attach", type=Path, action="append", default=[], metavar="FILE", help="attach a file"
    )
    work.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of the agent",
    )
    work.add_argument(
        "--worktree", nargs="?", const="", metavar="NAME", help="work in a new git worktree"
    )


def sessions(commands: Any) -> None:
    sessions = folder(commands, "sessions", "list, show, follow, steer, export and delete sessions")
    listing = command(sessions, "list", "sessions:list_all", "list sessions, newest first")
    listing.add_argument(
        "-n",
        "--limit",
        type=positive_int,
        default=20,
        metavar="N",
        help="maximum number; default: 20",
    )
    listing.add_argument("-a", "--agent", type=name, metavar="NAME", help="only this agent")
    listing.add_argument("--here", action="store_true", help="only this folder")
    json_option(listing)
    show = one_session(sessions, "show", "sessions:show", "print the log of a session")
    json_option(show, "one entry per line; --json=summary: a condensed view", lines=True)
    follow = one_session(
        sessions, "follow", "sessions:follow", "follow a session live and answer its requests"
    )
    follow.add_argument(
        "--since", type=count, default=0, metavar="N", help="only entries after number N"
    )
    json_option(follow, "one entry per line; --json=summary: a condensed view", lines=True)
    one_session(sessions, "cancel", "sessions:cancel", "cancel the running turn of a session")
    prompt = one_session(
        sessions, "prompt", "sessions:prompt", "send a prompt to a running session"
    )
    prompt.add_argument("text", help="the prompt")
    prompt.add_argument(
        "--when-busy",
        choices=("queue", "refuse", "steer"),
        default="queue",
        help="if a turn is running; default: queue",
    )
    search = command(sessions, "search", "sessions:search", "search the messages of all sessions")
    search.add_argument("words", nargs="+", help="all of them must match")
    search.add_argument(
        "-n",
        "--limit",
        type=positive_int,
        default=20,
        metavar="N",
        help="maximum number; default: 20",
    )
    json_option(search)
    native = command(
        sessions,
        "native",
        "sessions_native:native",
        "list the sessions an agent stores for this folder",
    )
    native.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    json_option(native)
    bring = command(
        sessions, "import", "sessions_native:bring", "import a session that an agent stores"
    )
    bring.add_argument(
        "native_id", type=name, metavar="ID", help="id as shown by `sessions native`"
    )
    bring.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    create = command(
        sessions, "create", "sessions_native:create", "create an empty session in the agent"
    )
    create.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    export = one_session(sessions, "export", "sessions:export", "export a session as a document")
    export.add_argument("--format", choices=("markdown", "jsonl", "html"), default="markdown")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: standard output"
    )
    one_session(sessions, "fork", "sessions:fork", "copy a session, to continue from there")
    rename = one_session(sessions, "rename", "sessions:rename", "change the title of a session")
    rename.add_argument("title")
    delete = one_session(sessions, "delete", "sessions:delete", "delete a session permanently")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def requests(commands: Any) -> None:
    requests = folder(commands, "requests", "list and answer the requests of agents")
    json_option(command(requests, "list", "requests:list_open", "list open requests"))
    answer = command(requests, "answer", "requests:answer", "answer a request of any session")
    answer.add_argument("request", metavar="ID", help="request id, or SESSION/ID")
    answer.add_argument(
        "option",
        metavar="ANSWER",
        help="allow, deny, always (in this session), always-project, or an option of the request",
    )
    answer.add_argument("--note", metavar="TEXT", help="message to the agent")
    answer.add_argument("--input", metavar="JSON", help="changed input, with allow")
    answer.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="TEXT",
        help="answer to a question, in order",
    )
    answer.add_argument(
        "--remember",
        choices=("session", "project"),
        help="remember the answer; always is short for allow with --remember session",
    )
    answer.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    watch = command(
        requests,
        "watch",
        "requests_watch:watch",
        "watch requests of all sessions as they open and close",
    )
    json_option(watch, "one entry per line")
    stored = command(requests, "remembered", "requests:remembered", "list remembered answers")
    stored.add_argument("--session", metavar="ID", help="of a session; default: of this project")
    json_option(stored)
    forget = command(requests, "forget", "requests:forget", "forget a remembered answer")
    forget.add_argument(
        "number", type=positive_int, metavar="N", help="number as shown by `remembered`"
    )
    forget.add_argument("--session", metavar="ID", help="of a session; default: of this project")


def config(commands: Any) -> None:
    config = folder(commands, "config", "show and change settings, and where each came from")
    json_option(command(config, "show", "config:show", "list all settings and their sources"))
    get = command(config, "get", "config:get", "print one setting")
    get.add_argument("key")
    json_option(get)
    put = command(config, "set", "config:put", "change one setting")
    put.add_argument("key")
    put.add_argument("value")
    put.add_argument("--project", action="store_true", help="for this project instead of the user")
    json_option(command(config, "path", "config:path", "list the config files"))
    trust = command(commands, "trust", "config:trust", "trust this project's settings")
    trust.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="default: the current folder"
    )
    trust.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    trust.add_argument("--revoke", action="store_true", help="revoke the trust")
