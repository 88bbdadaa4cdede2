"""Status bar: agent, model, mode, approval preset, activity, tokens and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.core.transcript.transcript import Totals, Transcript
    from tillerman.store.session_row import SessionRow


@dataclass(frozen=True)
class SessionStatus:
    """Status of a session, as shown in the bar."""

    agent: str
    model: str | None = None
    mode: str | None = None
    approve: str = ""  # approval preset
    session: str | None = None
    totals: Totals | None = None
    queued: int = 0
    waiting: int = 0  # unanswered requests
    working: str = ""  # current activity
    elsewhere: bool = False  # another process runs it


_PRESETS = {"auto": "yellow"}  # highlighted presets


class StatusBar(Widget):
    DEFAULT_CSS = """
    StatusBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._standing = SessionStatus("")
        self._cloud = 0

    def show(self, standing: SessionStatus) -> None:
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def show_cloud(self, running: int) -> None:
        """Shows the number of cloud agents that work."""
        if running != self._cloud:
            self._cloud = running
            self.refresh()

    def render(self) -> RenderResult:
        """Drops the least important parts if the width is not sufficient."""
        left, right = self._parts()
        room = self.size.width
        while right and left.cell_len + sum(part.cell_len + 3 for part in right) > room:
            right.pop(0)
        line = left.copy()
        tail = Text().join(piece for part in right for piece in (Text(" · ", style="dim"), part))[
            3:
        ]
        line.truncate(max(0, room - tail.cell_len - 1), overflow="ellipsis")
        line.append(" " * max(1, room - line.cell_len - tail.cell_len))
        return line.append_text(tail)

    def _parts(self) -> tuple[Text, list[Text]]:
        now = self._standing
        left = Text().append(formatting.one_line(now.agent, 30), style="bold")
        for word in (now.model, now.mode):
            if word:
                left.append(f" · {formatting.one_line(word, 40)}")
        if now.approve:
            left.append(f" · approve {now.approve}", style=_PRESETS.get(now.approve, ""))
        if now.working:
            left.append(f"  {now.working}", style="cyan")
        right: list[Text] = []
        if now.session:
            where = " (elsewhere)" if now.elsewhere else ""
            right.append(Text(f"{now.session}{where}", style="dim"))
        if now.totals:
            right += _used(now.totals)
        if self._cloud:
            right.append(Text(f"{self._cloud} in the cloud", style="cyan"))
        if now.queued:
            right.append(Text(f"{now.queued} queued", style="cyan"))
        if now.waiting:
            right.append(Text(f"{now.waiting} waiting", style="bold yellow"))
        return left, right


def _context(used: int, limit: int | None) -> Text:
    if not limit:
        return Text(f"{formatting.count(used)} context")
    share = used / limit
    style = "red" if share > 0.9 else "yellow" if share > 0.7 else ""
    return Text(f"{share:.0%} context", style=style)


def _used(totals: Totals) -> list[Text]:
    parts: list[Text] = []
    if totals.input_tokens or totals.output_tokens:
        used = f"{formatting.count(totals.input_tokens)}↑ {formatting.count(totals.output_tokens)}↓"
        parts.append(Text(used))
    if totals.cost_usd is not None:
        parts.append(Text(formatting.money(totals.cost_usd)))
    if totals.context_used is not None:
        parts.append(_context(totals.context_used, totals.context_limit))
    return parts


def totals_of(transcript: Transcript, row: SessionRow | None) -> Totals:
    """Totals of all turns, though only the last ones may be loaded."""
    totals = transcript.totals
    if row is None:
        return totals
    from msgspec.structs import replace

    return replace(
        totals,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
        cost_usd=row.cost_usd,
    )
