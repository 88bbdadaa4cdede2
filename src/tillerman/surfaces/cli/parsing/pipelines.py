"""Argument definitions of `pipeline` and `init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, folder, json_option, name

METAVAR = "PIPELINE"  # completed with the names of this folder's pipelines


def pipelines(commands: Any) -> None:
    group = folder(commands, "pipeline", "check and draw pipelines")
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


def init(commands: Any) -> None:
    init = command(commands, "init", "init:init", "write the first profiles and pipelines")
    init.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="default: the current folder"
    )
    init.add_argument("--minimal", action="store_true", help="only one profile and one pipeline")
    json_option(init)
