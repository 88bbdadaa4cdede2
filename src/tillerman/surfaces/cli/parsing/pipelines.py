"""Argument definitions of `pipeline` and `init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import (
    command,
    folder,
    json_option,
    name,
    positive_int,
)

METAVAR = "PIPELINE"  # completed with the names of this folder's pipelines


def pipelines(commands: Any) -> None:
    group = folder(commands, "pipeline", "run pipelines, and check and draw them")
    check = command(group, "check", "pipeline_files:check", "check pipeline files")
    check.add_argument(
        "pipelines", nargs="*", type=name, metavar=METAVAR, help="name or file; default: all"
    )
    json_option(check)
    graph = command(group, "graph", "pipeline_files:graph", "draw the steps of a pipeline")
    graph.add_argument("pipeline", type=name, metavar=METAVAR, help="name or file")
    graph.add_argument("--mermaid", action="store_true", help="print a Mermaid flowchart")
    graph.add_argument("--ascii", action="store_true", help="draw with ASCII characters")
    json_option(graph)
    _runs(group)


def _runs(group: Any) -> None:
    run = command(group, "run", "pipeline_run:run", "run a pipeline and watch it")
    run.add_argument("pipeline", type=name, metavar=METAVAR, help="name or file")
    _inputs(run)
    json_option(run, "one change per line", lines=True)
    listing = command(group, "list", "pipeline:list_runs", "list runs, newest first")
    listing.add_argument(
        "-n",
        "--limit",
        type=positive_int,
        default=20,
        metavar="N",
        help="maximum number; default: 20",
    )
    json_option(listing)
    show = _of_run(group, "show", "pipeline:show", "show a run, or one step of it")
    show.add_argument("step", nargs="?", help="show what this step said and changed")
    json_option(show)
    logs = _of_run(group, "logs", "pipeline:logs", "print the log of a run")
    logs.add_argument("step", nargs="?", help="print the output of this command step")
    logs.add_argument("-f", "--follow", action="store_true", help="follow it until it ends")
    json_option(logs, "one change per line", lines=True)
    approve = _of_run(group, "approve", "pipeline:approve", "approve at a gate")
    _answer(approve, "replaces the report under review, for later steps")
    approve.add_argument(
        "--commit", metavar="REVISION", help="later steps begin from this commit of edited files"
    )
    approve.add_argument("--choice", metavar="ATTEMPT", help="the attempt of a best_of to keep")
    _answer(_of_run(group, "reject", "pipeline:reject", "reject at a gate"), "says why")
    _of_run(group, "pause", "pipeline:pause", "start no further step; those that run finish")
    resume = _of_run(
        group, "resume", "pipeline_run:resume", "go on with a run that is paused or interrupted"
    )
    json_option(resume, "one change per line", lines=True)
    _of_run(group, "kill", "pipeline:kill", "end a run and all its agents")
    retry = _of_run(
        group,
        "retry",
        "pipeline_run:retry",
        "run the steps that did not complete again, as a new run",
    )
    _from(retry, "run this step again, and all that follow from it")
    fork = _of_run(group, "fork", "pipeline_run:fork", "like retry, with other inputs")
    _from(fork, "the first step that runs again; default: those that did not complete")
    _inputs(
        fork,
        "changes an input (NAME=@FILE reads it from a file); steps that completed keep their "
        "results unless --from names them or one before them",
    )
    delete = command(group, "delete", "pipeline:delete", "delete runs and their branches")
    delete.add_argument("runs", nargs="+", type=name, metavar="RUN", help="id, or a prefix of it")


def _of_run(group: Any, word: str, handler: str, help: str) -> Any:
    parser = command(group, word, handler, help)
    parser.add_argument("run", type=name, metavar="RUN", help="id, a prefix of it, or `last`")
    return parser


def _inputs(parser: Any, help: str = "an input; NAME=@FILE reads it from a file") -> None:
    parser.add_argument(
        "-i",
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=help,
    )


def _answer(parser: Any, meaning: str) -> None:
    parser.add_argument("step", nargs="?", help="the gate; default: the only open one")
    parser.add_argument("--note", metavar="TEXT", help=f"this text {meaning}")
    parser.add_argument("--file", metavar="FILE", help="read that text from FILE, or `-`")


def _from(parser: Any, help: str) -> None:
    parser.add_argument("--from", dest="step", metavar="STEP", help=help)
    json_option(parser, "one change per line", lines=True)


def init(commands: Any) -> None:
    init = command(commands, "init", "init:init", "write the first profiles and pipelines")
    init.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="default: the current folder"
    )
    init.add_argument("--minimal", action="store_true", help="only one profile and one pipeline")
    json_option(init)
