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
    "parser:sessions": ("sessions",),
    "parser:requests": ("requests",),
    "processes:processes": ("ps", "logs", "kill"),
    "repo:repo": ("repo",),
    "agents:agents": ("agents", "models", "status", "login", "logout", "mcp", "doctor"),
    "hooks:hooks": ("hooks",),
    "hooks:hook": ("hook",),
    "policy:policy": ("policy",),
    "protected:protected": ("protected",),
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
        commands, "demo", "demo:demo", "show a whole turn: no key, no network, nothing installed"
    )
    demo.add_argument("--keep", action="store_true", help="leave the demo's folder in place")
    completion = command(
        commands, "completion", "completion:completion", "print a completion script for your shell"
    )
    completion.add_argument("shell", choices=SHELLS, help="the script for this shell")
    command(commands, "schema", "schema:schema", "print the JSON schema of --json")


def run(commands: Any) -> None:
    run = command(commands, "run", "run:run", "prompt an agent and watch it work")
    run.usage = "tillerman run [options] [prompt]"
    run.add_argument(
        "prompt", nargs="?", help="what to do; piped input is appended to it, `-` reads it alone"
    )
    run.add_argument("-f", "--file", type=Path, metavar="FILE", help="read the prompt from FILE")
    _session_options(run)
    limit_options(run)
    json_option(run, "entries, one a line; --json=summary: a coarser view", lines=True)


def handoff(commands: Any) -> None:
    handoff = one_session(
        commands, "handoff", "handoff:handoff", "continue a session with another agent"
    )
    handoff.usage = "tillerman handoff [options] ID -a NAME [words]"
    handoff.add_argument("words", nargs="?", help="what to do; default: go on with the task")
    handoff.add_argument(
        "-a", "--agent", type=name, required=True, metavar="NAME", help="who goes on"
    )
    handoff.add_argument("-m", "--model", type=name, metavar="NAME", help="with this model")
    handoff.add_argument("--mode", choices=MODES, help="plan and ask change nothing")
    limit_options(handoff)
    json_option(handoff, "entries, one a line; --json=summary: a coarser view", lines=True)


def _session_options(run: argparse.ArgumentParser) -> None:
    agent = run.add_argument_group("agent")
    agent.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent, profile, or several: one,two"
    )
    agent.add_argument(
        "-m", "--model", type=name, metavar="NAME", help="`tillerman models` lists them"
    )
    agent.add_argument("--effort", metavar="LEVEL", help="how hard it should think")
    agent.add_argument("--mode", choices=MODES, help="plan and ask change nothing")
    agent.add_argument("--system", metavar="TEXT|@FILE", help="added to its system prompt")
    agent.add_argument(
        "--output-schema", type=Path, metavar="FILE", help="JSON schema of the answer"
    )
    agent.add_argument(
        "--repair-output",
        action="store_true",
        help="ask once more for an answer that does not fit the schema",
    )
    agent.add_argument(
        "--mcp-config", action="append", default=[], metavar="FILE|JSON", help="MCP servers to add"
    )
    agent.add_argument(
        "--workspace-tools",
        action="store_true",
        help="give it tillerman's own tools too: files, and processes that do not block it",
    )
    session = run.add_argument_group("session")
    session.add_argument(
        "--resume", nargs="?", const="last", metavar="ID", help="go on with a session (or the last)"
    )
    session.add_argument(
        "-c", "--continue", dest="resume", action="store_const", const="last", help="--resume last"
    )
    session.add_argument("--fork", action="store_true", help="with --resume: go on in a copy of it")
    session.add_argument("--title", metavar="TEXT", help="a name for the session")
    work = run.add_argument_group("where it works")
    work.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="work in DIR")
    work.add_argument(
        "--add-dir", type=Path, action="append", default=[], metavar="DIR", help="a further folder"
    )
    work.add_argument(
        "--attach", type=Path, action="append", default=[], metavar="FILE", help="give it a file"
    )
    work.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable for the agent",
    )
    work.add_argument(
        "--worktree", nargs="?", const="", metavar="NAME", help="work in a git worktree of its own"
    )


def sessions(commands: Any) -> None:
    sessions = folder(commands, "sessions", "list, show, follow, steer, export and delete sessions")
    listing = command(sessions, "list", "sessions:list_all", "newest first")
    listing.add_argument(
        "-n", "--limit", type=positive_int, default=20, metavar="N", help="at most"
    )
    listing.add_argument("-a", "--agent", type=name, metavar="NAME", help="of this agent")
    listing.add_argument("--here", action="store_true", help="of this folder")
    json_option(listing)
    show = one_session(sessions, "show", "sessions:show", "print what happened in it")
    json_option(show, "entries, one a line; --json=summary: a coarser view", lines=True)
    follow = one_session(
        sessions, "follow", "sessions:follow", "watch it live, answer its requests"
    )
    follow.add_argument(
        "--since", type=count, default=0, metavar="N", help="entries after number N"
    )
    json_option(follow, "entries, one a line; --json=summary: a coarser view", lines=True)
    one_session(sessions, "cancel", "sessions:cancel", "end the turn that another process runs")
    prompt = one_session(sessions, "prompt", "sessions:prompt", "prompt one that is running")
    prompt.add_argument("text", help="what to say")
    prompt.add_argument(
        "--when-busy", choices=("queue", "refuse", "steer"), default="queue", help="default: queue"
    )
    search = command(sessions, "search", "sessions:search", "find words in what was said")
    search.add_argument("words", nargs="+", help="all of them")
    search.add_argument("-n", "--limit", type=positive_int, default=20, metavar="N", help="at most")
    json_option(search)
    native = command(sessions, "native", "sessions_native:native", "an agent's own, of this folder")
    native.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    json_option(native)
    bring = command(
        sessions, "import", "sessions_native:bring", "go on here with one of an agent's own"
    )
    bring.add_argument("native_id", type=name, metavar="ID", help="as `sessions native` shows it")
    bring.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    create = command(
        sessions, "create", "sessions_native:create", "an empty one, made by the agent"
    )
    create.add_argument("-a", "--agent", type=name, metavar="NAME", help="default: the config's")
    export = one_session(sessions, "export", "sessions:export", "write it as a document")
    export.add_argument("--format", choices=("markdown", "jsonl", "html"), default="markdown")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: standard output"
    )
    one_session(sessions, "fork", "sessions:fork", "copy it, to go on from there")
    rename = one_session(sessions, "rename", "sessions:rename", "give it a title")
    rename.add_argument("title")
    delete = one_session(sessions, "delete", "sessions:delete", "for good")
    delete.add_argument("-y", "--yes", action="store_true", help="without asking")


def requests(commands: Any) -> None:
    requests = folder(commands, "requests", "list and answer the requests of agents")
    json_option(command(requests, "list", "requests:list_open", "the open ones"))
    answer = command(requests, "answer", "requests:answer", "answer one, wherever it runs")
    answer.add_argument("request", metavar="ID", help="of the request, or SESSION/ID")
    answer.add_argument(
        "option",
        metavar="ANSWER",
        help="allow, deny, always (in its session), always-project, or an option it offers",
    )
    answer.add_argument("--note", metavar="TEXT", help="told to the agent")
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
        help="answer alike from now on, without asking: always is short for allow with it",
    )
    answer.add_argument("-y", "--yes", action="store_true", help="remember without asking")
    watch = command(requests, "watch", "requests_watch:watch", "as they come and go, everywhere")
    json_option(watch, "entries, one a line")
    kept = command(requests, "remembered", "requests:remembered", "what is always answered alike")
    kept.add_argument("--session", metavar="ID", help="in a session; default: in this project")
    json_option(kept)
    forget = command(requests, "forget", "requests:forget", "ask again from now on")
    forget.add_argument("number", type=positive_int, metavar="N", help="as `remembered` shows it")
    forget.add_argument("--session", metavar="ID", help="in a session; default: in this project")


def config(commands: Any) -> None:
    config = folder(commands, "config", "show and change settings, and where each came from")
    json_option(command(config, "show", "config:show", "every value and its source"))
    get = command(config, "get", "config:get", "one value")
    get.add_argument("key")
    json_option(get)
    put = command(config, "set", "config:put", "write one value")
    put.add_argument("key")
    put.add_argument("value")
    put.add_argument("--project", action="store_true", help="in this project, not for the user")
    json_option(command(config, "path", "config:path", "the files"))
    trust = command(commands, "trust", "config:trust", "trust this project's settings")
    trust.add_argument("folder", nargs="?", type=Path, default=Path(), help="default: this one")
    trust.add_argument("-y", "--yes", action="store_true", help="without asking")
    trust.add_argument("--revoke", action="store_true", help="take it back")
