"""The commands and options of `bridle`, as data for parsing, help and completion."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bridle.surfaces.cli.words import SUMMARY, Parser

EPILOG = """\
exit codes: 0 completed · 1 failed · 2 usage or config
            3 not installed or not signed in · 4 stopped by policy
            5 a limit · 124 out of time · 130 cancelled
"""
MODES = ("agent", "plan", "ask")
PRESETS = ("ask", "edits", "auto", "readonly", "none")
SHELLS = ("bash", "zsh", "fish")
HIDDEN = argparse.SUPPRESS

N = TypeVar("N", int, float)


def build(only: str = "") -> Parser:
    """All commands; for `run` alone just that one, since making the others delays its agent."""
    parser = Parser(
        prog="bridle",
        description="One harness for every coding agent.",
        epilog=EPILOG,
        parents=[_everywhere()],
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    parser.set_defaults(command=None, parser=parser)
    commands = _group(parser)
    if only == "run":
        _run(commands)
        return parser
    for add in (_run, _sessions, _requests, _agents, _config, _others):
        add(commands)
    return parser


def _others(commands: Any) -> None:
    demo = _command(
        commands, "demo", "demo:demo", "see a whole turn: no key, no network, nothing installed"
    )
    demo.add_argument("--keep", action="store_true", help="leave the demo's folder in place")
    completion = _command(commands, "completion", "completion:completion", "complete in your shell")
    completion.add_argument("shell", choices=SHELLS, help="the script for this shell")
    _command(commands, "schema", "schema:schema", "JSON schema of what --json prints")


def _run(commands: Any) -> None:
    run = _command(commands, "run", "run:run", "prompt an agent and watch it work")
    run.usage = "bridle run [options] [prompt]"
    run.add_argument(
        "prompt", nargs="?", help="what to do; piped input is appended to it, `-` reads it alone"
    )
    run.add_argument("-f", "--file", type=Path, metavar="FILE", help="read the prompt from FILE")
    _session_options(run)
    limits = run.add_argument_group("limits")
    limits.add_argument("--approve", choices=PRESETS, help="what needs no word of yours")
    limits.add_argument("--max-turns", type=positive_int, metavar="N", help="model calls at most")
    limits.add_argument("--max-cost", type=positive, metavar="USD", help="US dollars at most")
    limits.add_argument("--timeout", type=positive, metavar="SECONDS", help="for the whole turn")
    _json(run, "entries, one a line; --json=summary: a coarser view", lines=True)


def _session_options(run: argparse.ArgumentParser) -> None:
    agent = run.add_argument_group("agent")
    agent.add_argument("-a", "--agent", metavar="NAME", help="`bridle agents` lists them")
    agent.add_argument("-m", "--model", metavar="NAME", help="`bridle models` lists them")
    agent.add_argument("--effort", metavar="LEVEL", help="how hard it should think")
    agent.add_argument("--mode", choices=MODES, help="plan and ask change nothing")
    agent.add_argument("--system", metavar="TEXT|@FILE", help="added to its system prompt")
    agent.add_argument(
        "--output-schema", type=Path, metavar="FILE", help="JSON schema of the answer"
    )
    agent.add_argument(
        "--mcp-config", action="append", default=[], metavar="FILE|JSON", help="MCP servers to add"
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


def _sessions(commands: Any) -> None:
    sessions = _folder(commands, "sessions", "look at, follow, steer and keep sessions")
    listing = _command(sessions, "list", "sessions:list_all", "newest first")
    listing.add_argument(
        "-n", "--limit", type=positive_int, default=20, metavar="N", help="at most"
    )
    listing.add_argument("-a", "--agent", metavar="NAME", help="of this agent")
    listing.add_argument("--here", action="store_true", help="of this folder")
    _json(listing)
    show = _one_session(sessions, "show", "sessions:show", "print what happened in it")
    _json(show, "entries, one a line; --json=summary: a coarser view", lines=True)
    follow = _one_session(
        sessions, "follow", "sessions:follow", "watch it live, answer its requests"
    )
    follow.add_argument(
        "--since", type=count, default=0, metavar="N", help="entries after number N"
    )
    _json(follow, "entries, one a line; --json=summary: a coarser view", lines=True)
    _one_session(sessions, "cancel", "sessions:cancel", "end the turn that another process runs")
    prompt = _one_session(sessions, "prompt", "sessions:prompt", "prompt one that is running")
    prompt.add_argument("text", help="what to say")
    prompt.add_argument(
        "--when-busy", choices=("queue", "refuse", "steer"), default="queue", help="default: queue"
    )
    search = _command(sessions, "search", "sessions:search", "find words in what was said")
    search.add_argument("words", nargs="+", help="all of them")
    search.add_argument("-n", "--limit", type=positive_int, default=20, metavar="N", help="at most")
    _json(search)
    export = _one_session(sessions, "export", "sessions:export", "write it as a document")
    export.add_argument("--format", choices=("markdown", "jsonl", "html"), default="markdown")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: standard output"
    )
    _one_session(sessions, "fork", "sessions:fork", "copy it, to go on from there")
    rename = _one_session(sessions, "rename", "sessions:rename", "give it a title")
    rename.add_argument("title")
    delete = _one_session(sessions, "delete", "sessions:delete", "for good")
    delete.add_argument("-y", "--yes", action="store_true", help="without asking")


def _requests(commands: Any) -> None:
    requests = _folder(commands, "requests", "what agents wait for")
    _json(_command(requests, "list", "requests:list_open", "the open ones"))
    answer = _command(requests, "answer", "requests:answer", "answer one, wherever it runs")
    answer.add_argument("request", metavar="ID", help="of the request, or SESSION/ID")
    answer.add_argument("option", metavar="ANSWER", help="allow, deny, or another option it offers")
    answer.add_argument("--note", metavar="TEXT", help="told to the agent")
    answer.add_argument("--input", metavar="JSON", help="changed input, with allow")
    answer.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="TEXT",
        help="answer to a question, in order",
    )


def _agents(commands: Any) -> None:
    agents = _command(commands, "agents", "agents:agents", "agents, and what each of them can do")
    agents.add_argument("agent", nargs="?", metavar="AGENT", help="tell more about this one")
    _json(agents)
    models = _command(commands, "models", "agents:models", "models of an agent")
    models.add_argument("agent", nargs="?", metavar="AGENT", help="default: all that are installed")
    _json(models)
    doctor = _command(commands, "doctor", "doctor:doctor", "check this machine, and how to mend it")
    doctor.add_argument("--full", action="store_true", help="read all of the store, however large")
    _json(doctor)


def _config(commands: Any) -> None:
    config = _folder(commands, "config", "settings, and where each came from")
    _json(_command(config, "show", "configure:show", "every value and its source"))
    get = _command(config, "get", "configure:get", "one value")
    get.add_argument("key")
    _json(get)
    put = _command(config, "set", "configure:put", "write one value")
    put.add_argument("key")
    put.add_argument("value")
    put.add_argument("--project", action="store_true", help="in this project, not for the user")
    _json(_command(config, "path", "configure:path", "the files"))
    trust = _command(commands, "trust", "configure:trust", "let this project's .bridle/ count")
    trust.add_argument("folder", nargs="?", type=Path, default=Path(), help="default: this one")
    trust.add_argument("-y", "--yes", action="store_true", help="without asking")
    trust.add_argument("--revoke", action="store_true", help="take it back")


# -- parts -----------------------------------------------------------------------------------------


def _everywhere() -> Parser:
    """Options that stand before or after the command."""
    parser = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), help="auto looks at the terminal, NO_COLOR"
    )
    parser.add_argument("--debug", action="store_true", help="write a log file, show tracebacks")
    return parser


def _group(parser: argparse.ArgumentParser) -> Any:
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)


def _folder(commands: Any, name: str, help: str) -> Any:
    parser = commands.add_parser(
        name, help=help, description=_sentence(help), parents=[_everywhere()]
    )
    parser.set_defaults(command=None, parser=parser)
    return _group(parser)


def _command(commands: Any, name: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=_sentence(help), parents=[_everywhere()]
    )
    parser.set_defaults(command=handler, parser=parser)
    return parser


def _one_session(commands: Any, name: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = _command(commands, name, handler, help)
    parser.add_argument("session", metavar="ID", help="its id, the beginning of it, or `last`")
    return parser


def _json(parser: argparse.ArgumentParser, help: str = "for programs", lines: bool = False) -> None:
    parser.add_argument("--json", action="store_const", const="entries", help=help)
    if lines:
        parser.add_argument(
            SUMMARY, dest="json", action="store_const", const="summary", help=HIDDEN
        )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def positive(text: str) -> float:
    number = _number(float, text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return number


def positive_int(text: str) -> int:
    number = count(text)
    if not number:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def count(text: str) -> int:
    number = _number(int, text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must not be less than 0: {text}")
    if number >= 2**63:
        raise argparse.ArgumentTypeError(f"more than can be counted: {text}")
    return number


def _number(kind: Callable[[str], N], text: str) -> N:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
