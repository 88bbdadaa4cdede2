"""`tillerman pipeline check` and `graph`: reads pipeline files and runs nothing."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from tillerman.config import find_paths, load
from tillerman.config.project_trust import project_folder, trust_state
from tillerman.core.errors import ConfigError
from tillerman.core.terminal_sanitizer import clean
from tillerman.pipelines.graph import nodes
from tillerman.pipelines.graph_drawing import drawing
from tillerman.pipelines.graph_mermaid import mermaid
from tillerman.pipelines.library import Library, ListedPipeline
from tillerman.surfaces.cli.views.error_report import complain
from tillerman.surfaces.cli.views.output import emit, emit_json, warn, width


def check(options: Namespace) -> int:
    """Exit code 2 if any of them has a problem."""
    library = _library()
    names = options.pipelines or library.names()
    found = [library.looked_at(name) for name in names]
    if options.json:
        emit_json(found)
    elif not found:
        emit("no pipelines here: `tillerman init` writes the first ones")
    for one in found if not options.json else ():
        if one.problem:
            complain(one.problem, one.hint)
        else:
            emit(_line(one))
    if any(one.layer == "project" for one in found):
        _warn_untrusted()
    return ConfigError.exit_code if any(one.problem for one in found) else 0


def graph(options: Namespace) -> int:
    pipeline = _library().load(options.pipeline)
    graph = nodes(pipeline)
    if options.json:
        emit_json({"name": pipeline.name, "steps": graph})
    elif options.mermaid:
        emit(clean(mermaid(graph)).rstrip("\n"))
    else:
        lines = drawing(graph, ascii=options.ascii or not _draws_boxes())
        emit(*(_cut(clean(line), width()) for line in lines))
    return 0


def _library() -> Library:
    cwd = Path.cwd()
    return Library(load(cwd), cwd, checked=False)


def _line(one: ListedPipeline) -> str:
    count = "1 step" if one.steps == 1 else f"{one.steps} steps"
    about = " ".join(clean(one.description).split())
    return f"{clean(one.path)}: {count}" + (f": {about}" if about else "")


def _warn_untrusted() -> None:
    paths = find_paths()
    folder = project_folder(paths, Path.cwd())
    if folder and trust_state(paths, folder) != "trusted":
        warn(f"{folder.path} is not trusted as it is now: it cannot be run", "`tillerman trust`")


def _draws_boxes() -> bool:
    try:
        "●├┊".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _cut(line: str, columns: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(line, columns) if cell_len(line) > columns else line
