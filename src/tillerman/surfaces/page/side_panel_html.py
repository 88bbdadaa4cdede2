"""The panel beside a conversation: branch, changes, processes and usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tillerman.core.events import FileChange
from tillerman.core.transcript.transcript import Totals
from tillerman.surfaces.page.diff_html import counts_html
from tillerman.surfaces.page.html_text import escaped, hidden, icon
from tillerman.surfaces.rendering import formatting

_STATIONS = ("Commit", "Push", "PR", "Checks", "Review", "Merge")
_SIGNS = {"added": "a", "modified": "m", "deleted": "d", "renamed": "r"}
_MOST_FILES = 200


@dataclass(frozen=True)
class BranchView:
    repository: str
    branch: str
    status: str
    station: int  # how many of the six steps are done
    action: str | None = None
    pull_request: int | None = None


@dataclass(frozen=True)
class ProcessView:
    id: str
    command: str
    running: bool
    started_at: str
    last_line: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class SideView:
    totals: Totals
    branch: BranchView | None = None
    files: tuple[FileChange, ...] = ()
    processes: tuple[ProcessView, ...] = ()
    limit_usd: float | None = None


def side_html(view: SideView) -> str:
    parts = [
        _branch(view.branch) if view.branch else "",
        _changes(view.files),
        _processes(view.processes) if view.processes else "",
        _usage(view),
    ]
    return f'<div id="side-in">{"".join(parts)}</div>'


def _branch(branch: BranchView) -> str:
    number = f" · PR #{branch.pull_request}" if branch.pull_request else ""
    steps = "".join(
        f'<li class="done">{name}</li>'
        if at < branch.station
        else f'<li class="now" aria-current="step">{name}</li>'
        if at == branch.station
        else f"<li>{name}</li>"
        for at, name in enumerate(_STATIONS)
    )
    action = (
        f'<p class="note">Next step: {escaped(branch.action)} '
        "(<code>tillerman repo next</code> shows the commands)</p>"
        if branch.action
        else ""
    )
    return (
        '<section class="sec branch" aria-labelledby="h-branch"><h2 id="h-branch">Branch</h2>'
        f'<p class="crumb">{escaped(branch.repository)}<span class="sep">/</span>'
        f'<span class="br">{icon("branch")}{escaped(branch.branch)}</span>'
        f'<span class="pill p-{_pill(branch.status)}">{escaped(branch.status)}{number}</span></p>'
        f'<ol class="track" aria-label="The way to the merge">{steps}</ol>{action}</section>'
    )


def _pill(status: str) -> str:
    return {
        "AHEAD": "ahead", "OPEN": "open", "MERGED": "merged", "CI FAILING": "red",
        "CHANGES REQUESTED": "red", "MERGE CONFLICTS": "red",
    }.get(status, "local")  # fmt: skip


def _changes(files: Sequence[FileChange]) -> str:
    added = sum(file.added or 0 for file in files)
    removed = sum(file.removed or 0 for file in files)
    rows = "".join(map(_file, files[:_MOST_FILES]))
    more = len(files) - _MOST_FILES
    rest = f'<p class="note">{more} more files</p>' if more > 0 else ""
    empty = '<p class="note">No file has changed.</p>' if not files else ""
    review = '<a class="btn small all-diff" href="?changes">Review all changes</a>' if files else ""
    return (
        '<section class="sec changes" aria-labelledby="h-changes"><h2 id="h-changes">Changes '
        f'<span class="n">{len(files)}</span>'
        f'<span class="tot">{counts_html(added, removed)}</span></h2>'
        f'<ul class="files">{rows}</ul>{empty}{rest}{review}</section>'
    )


def _file(file: FileChange) -> str:
    folder, slash, name = file.path.rpartition("/")
    sign = _SIGNS[file.change]
    counts = counts_html(file.added or 0, file.removed or 0)
    return (
        f'<li><a href="?changes#{escaped(file.path)}">'
        f'<span class="st {sign}" title="{file.change}">{sign.upper()}</span>'
        f'<span class="p"><span class="d">{escaped(folder + slash)}</span>{escaped(name)}</span>'
        f'<span class="num">{counts}</span></a></li>'
    )


def _processes(processes: Sequence[ProcessView]) -> str:
    rows = []
    for process in processes:
        when = (
            f'<time class="dim" datetime="{escaped(process.started_at)}" data-since></time>'
            if process.running
            else f'<span class="dim">{escaped(process.outcome)}</span>'
        )
        last = f'<p class="last">{escaped(process.last_line)}</p>' if process.last_line else ""
        rows.append(
            f'<li><span class="led{" on" if process.running else ""}"></span>'
            f"<code>{escaped(process.command)}</code>{when}{last}</li>"
        )
    running = sum(process.running for process in processes)
    return (
        '<section class="sec procs" aria-labelledby="h-procs"><h2 id="h-procs">Processes '
        f'<span class="n">{running}</span></h2><ul>{"".join(rows)}</ul></section>'
    )


def _usage(view: SideView) -> str:
    totals = view.totals
    rows = []
    if totals.context_used is not None and totals.context_limit:
        used, limit = totals.context_used, totals.context_limit
        percent = min(100, used * 100 // limit)
        rows.append(
            f'<div><dt>Context</dt><dd><meter min="0" max="100" low="70" high="85" optimum="0" '
            f'value="{percent}">{percent}%</meter>{formatting.count(used)} of '
            f"{formatting.count(limit)}</dd></div>"
        )
    read = totals.input_tokens + totals.cached_tokens
    rows.append(
        f"<div><dt>Used</dt><dd>{formatting.count(read)} in · "
        f"{formatting.count(totals.output_tokens)} out{hidden(' tokens')}</dd></div>"
    )
    if totals.cost_usd is not None:
        limit_text = (
            f' <span class="dim">of {formatting.money(view.limit_usd)}</span>'
            if view.limit_usd is not None
            else ""
        )
        rows.append(
            f"<div><dt>Cost</dt><dd>{formatting.money(totals.cost_usd)}{limit_text}</dd></div>"
        )
    return (
        '<section class="sec usage" aria-labelledby="h-usage"><h2 id="h-usage">Session</h2>'
        f"<dl>{''.join(rows)}</dl></section>"
    )
