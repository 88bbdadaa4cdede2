"""The list of sessions: those that need somebody first, then the running ones, then the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tillerman.surfaces.page.agent_tile import agent_name, tile
from tillerman.surfaces.page.html_text import escaped, hidden, icon
from tillerman.surfaces.rendering import formatting

Group = Literal["need", "run", "done"]
_HEADINGS: dict[Group, str] = {"need": "Needs you", "run": "Running", "done": "Done"}


@dataclass(frozen=True)
class RailEntry:
    """A session in the list."""

    id: str
    title: str
    agent: str
    folder: str
    updated_at: str
    running: bool = False
    running_since: str | None = None
    status: str = ""  # how the last turn ended
    unread: bool = False
    cost_usd: float | None = None
    asks: str | None = None  # the open request, in one line
    asks_command: bool = False

    @property
    def group(self) -> Group:
        if self.asks is not None:
            return "need"
        return "run" if self.running else "done"


def rail_html(entries: Sequence[RailEntry], total: int, current: str | None) -> str:
    groups = []
    for name, heading in _HEADINGS.items():
        members = [entry for entry in entries if entry.group == name]
        if not members:
            continue
        count = total - sum(entry.group != "done" for entry in entries)
        shown = count if name == "done" else len(members)
        rows = "".join(row_html(entry, current=entry.id == current) for entry in members)
        groups.append(
            f'<section class="grp{" need" if name == "need" else ""}" aria-labelledby="g-{name}">'
            f'<h2 id="g-{name}">{heading} <span class="n">{shown}</span></h2>'
            f"<ul>{rows}</ul></section>"
        )
    if not groups:
        groups.append('<p class="note">No sessions yet.</p>')
    return f'<div class="rail-list sessions" id="sessions">{"".join(groups)}</div>'


def row_html(entry: RailEntry, *, current: bool) -> str:
    marks = f"{' unread' if entry.unread else ''}{' failed' if entry.status == 'failed' else ''}"
    here = ' aria-current="page"' if current else ""
    cost = (
        f'<span class="cost">{formatting.money(entry.cost_usd)}</span>'
        if entry.cost_usd is not None
        else ""
    )
    new = "New. " if entry.unread else ""
    place = f'<span class="m">{hidden(f"{new}{agent_name(entry.agent)} in ")}'
    if entry.status == "failed" and not entry.running:
        place += f'<span class="fail">{icon("x")}failed</span> '
    place += f"{escaped(entry.folder)}</span>"
    return (
        f'<li class="srow{marks}" id="s-{entry.id}"><a href="/s/{entry.id}"{here}>'
        f'{tile(entry.agent)}<span class="t">{escaped(entry.title)}</span>{_when(entry)}'
        f'<span class="ln2">{place}{cost}</span>{_asks(entry)}</a></li>'
    )


def _when(entry: RailEntry) -> str:
    if entry.running and entry.asks is None:
        since = escaped(entry.running_since or entry.updated_at)
        return (
            f'<span class="live">{icon("ring", "spin")}{hidden("running, ")}'
            f'<time datetime="{since}" data-since></time></span>'
        )
    return f'<time datetime="{escaped(entry.updated_at)}" data-since></time>'


def _asks(entry: RailEntry) -> str:
    if entry.asks is None:
        return ""
    text = escaped(entry.asks)
    shown = f"<code>{text}</code>" if entry.asks_command else f"<span>{text}</span>"
    return f'<span class="ask">{icon("hand")}{shown}</span>'
