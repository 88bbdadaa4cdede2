"""The options of `tillerman cloud`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import (
    command,
    folder,
    json_option,
    name,
    port,
    positive_int,
)


def cloud(commands: Any) -> None:
    group = folder(commands, "cloud", "launch and control agents that work in a vendor's cloud")
    listing = _command(group, "list", "list_agents", "list cloud agents, newest first")
    listing.add_argument(
        "-n",
        "--limit",
        type=positive_int,
        default=20,
        metavar="N",
        help="maximum number; default: 20",
    )
    listing.add_argument("--archived", action="store_true", help="archived ones too")
    listing.add_argument("--pr", type=name, metavar="URL", help="only those of this pull request")
    json_option(listing)
    _launch(group)
    show = _one(group, "show", "show", "show an agent: its state, branches and result")
    json_option(show)
    watch = _one(group, "watch", "watch", "follow an agent's current run until it ends")
    json_option(watch, "one change per line")
    followup = _one(group, "followup", "follow_up", "send an agent another prompt")
    followup.add_argument("prompt", help="the task; `-`: read it from stdin")
    _attach(followup)
    json_option(followup)
    stop = _one(group, "stop", "stop", "stop an agent's current run")
    json_option(stop)
    delete = _one(group, "delete", "delete", "delete an agent permanently")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    delete.add_argument("--archive", action="store_true", help="only archive it")
    json_option(delete)
    artifacts = _one(group, "artifacts", "artifacts", "list or download an agent's files")
    artifacts.add_argument("--download", metavar="PATH", help="the file to download")
    artifacts.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: its name, in this folder"
    )
    json_option(artifacts)
    json_option(_command(group, "models", "models", "list the models of the cloud"))
    json_option(_command(group, "repos", "repositories", "list the repositories it may work on"))
    json_option(_command(group, "whoami", "whoami", "show whose API key is used"))
    bring = _one(group, "import", "import_agent", "make a session from an agent's history")
    bring.add_argument(
        "--worktree",
        nargs="?",
        const="",
        metavar="NAME",
        help="check out its branch in a new git worktree, where the session works",
    )
    json_option(bring)
    _listen(group)


def _launch(group: Any) -> None:
    launch = _command(group, "launch", "launch", "launch an agent, on this repository and branch")
    launch.add_argument("prompt", help="the task; `-`: read it from stdin")
    launch.add_argument("-m", "--model", type=name, metavar="NAME", help="see `cloud models`")
    launch.add_argument(
        "--mode",
        choices=("agent", "plan"),
        default="agent",
        help="plan: ask for a plan, not for changes; default: agent",
    )
    launch.add_argument("--name", type=name, metavar="TEXT", help="name of the agent")
    launch.add_argument("--watch", action="store_true", help="follow it until it ends")
    _attach(launch)
    place = launch.add_argument_group("where it works")
    place.add_argument("--repo", type=name, metavar="URL", help="default: this folder's remote")
    place.add_argument("--ref", type=name, metavar="REF", help="default: this folder's branch")
    place.add_argument("--pr", type=name, metavar="URL", help="on the branch of a pull request")
    place.add_argument("--no-repo", action="store_true", help="without a repository")
    place.add_argument("--branch", type=name, metavar="NAME", help="name of the new branch")
    place.add_argument("--create-pr", action="store_true", help="open a pull request at the end")
    launch.add_argument(
        "--webhook",
        type=name,
        metavar="URL",
        help="https URL that the vendor calls when the agent ends; needs a secret of 32 characters "
        "or more in TILLERMAN_CLOUD_WEBHOOK_SECRET",
    )
    json_option(launch)


def _listen(group: Any) -> None:
    listen = _command(
        group, "listen", "listen", "receive webhooks, so that waiting sessions continue at once"
    )
    listen.add_argument(
        "--host", type=name, default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1"
    )
    listen.add_argument(
        "--port", type=port, default=7346, metavar="PORT", help="default: 7346; 0: any free port"
    )
    json_option(listen, "one received change per line")


def _attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attach", type=Path, action="append", default=[], metavar="FILE", help="attach an image"
    )


def _one(group: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = _command(group, word, handler, help)
    parser.add_argument("id", type=name, metavar="ID", help="id as shown by `cloud list`")
    return parser


def _command(group: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    module = "cloud_listen" if word == "listen" else "cloud"
    parser = command(group, word, f"{module}:{handler}", help)
    parser.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="default: the only agent with a cloud"
    )
    return parser
