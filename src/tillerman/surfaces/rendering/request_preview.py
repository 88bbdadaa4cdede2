"""Previews what a permission request would change: diffs of files, or the plan as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from tillerman.core.events import Diff, PermissionRequested
from tillerman.surfaces.rendering import formatting, transcript_blocks
from tillerman.surfaces.rendering.diff import difference
from tillerman.surfaces.rendering.markdown import Markdown
from tillerman.surfaces.rendering.proposed_changes import ProposedChange, plan_of
from tillerman.surfaces.rendering.proposed_edits import edits_of

LINES = 2_000  # maximum lines per file diff


class Preview:
    """Preview of a request. Files are read once, so that the user approves what was shown."""

    def __init__(self, request: PermissionRequested, folder: Path | None) -> None:
        self._request = request
        edits = edits_of(request.tool, request.input, request.paths)
        self._changes = [ProposedChange.against_file(edit, folder) for edit in edits]
        self.plan = plan_of(request)

    def draw(self, dark: bool | None) -> Iterator[RenderableType]:
        if self.plan:
            yield Markdown(formatting.revealed(self.plan))
        for change in self._changes:
            yield from _drawn(change, dark, alone=len(self._changes) == 1)
        command = self._request.input.get("command")
        long = isinstance(command, str) and ("\n" in command or len(command) > 72)
        if long and not self._changes:
            yield Text(formatting.revealed(str(command)), style="dim")


def _drawn(change: ProposedChange, dark: bool | None, *, alone: bool) -> Iterator[RenderableType]:
    if not alone:
        yield Text(formatting.one_line(formatting.revealed(change.edit.path)), style="bold")
    if change.edit.moved:
        yield Text(f"moves to {formatting.one_line(formatting.revealed(change.edit.moved))}")
    if change.note:
        yield Text(change.note, style="yellow")
    if change.hunks is not None:
        lines = "\n".join(map(formatting.revealed, change.hunks))
        yield _Lines(Diff(change.edit.path, lines), dark)
        return
    for old, new in change.texts():
        revealed = Diff("", old=formatting.revealed(old), new=formatting.revealed(new))
        yield transcript_blocks.diff(revealed, LINES, heads=False)


class _Lines:
    """Renders a diff for the available width."""

    def __init__(self, change: Diff, dark: bool | None) -> None:
        self._change = change
        self._dark = dark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._change.patch:
            yield difference(self._change, options.max_width, LINES, dark=self._dark, whole=True)
