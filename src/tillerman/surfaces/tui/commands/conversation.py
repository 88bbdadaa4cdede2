"""/diff, /cost, /copy: file changes, usage and text of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from tillerman.core.errors import UsageError
from tillerman.core.events import Diff, FileChange
from tillerman.core.transcript.blocks import Turn, calls_of
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.diff import difference
from tillerman.surfaces.tui import clipboard
from tillerman.surfaces.tui.commands.command import channel_of
from tillerman.surfaces.tui.conversation import command_output
from tillerman.surfaces.tui.conversation.blocks import CommandBlock

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp
    from tillerman.surfaces.tui.session_pane import SessionPane

DIFF_LINES = 400  # per file
_MARKS = {"added": "A", "modified": "M", "deleted": "D", "renamed": "R"}
_STYLES = {"added": "green", "modified": "yellow", "deleted": "red", "renamed": "cyan"}
_COST = ("TURN", "AGENT", "IN", "CACHED", "OUT", "COST", "TIME", "PROMPT")


# -- /diff -----------------------------------------------------------------------------------------


async def diff(app: TillermanApp, words: str) -> None:
    pane = app.pane
    turns = _chosen(pane.transcript.turns, words)
    changes = [change for turn in turns for change in turn.files]
    left_out = sum(turn.files_left_out for turn in turns)
    diffs = [found for turn in turns for found in _diffs(turn)]
    which = f"turn {turns[0].number}" if len(turns) == 1 else f"{len(turns)} turns"
    if not changes and not diffs:
        pane.report(
            CommandBlock(
                f"No files changed in {which}", command_output.lines("/diff all shows every turn")
            )
        )
        return
    title = formatting.files(changes, left_out) if changes else "Edits"
    reported = _rendered_changes(changes, diffs, lambda: app.current_theme.dark)
    pane.report(CommandBlock(f"{title} in {which}", Group(*reported)))


def _chosen(turns: Sequence[Turn], words: str) -> Sequence[Turn]:
    if not turns:
        raise UsageError("there are no turns yet", hint="send a prompt first")
    if not words:
        return turns[-1:]
    if words == "all":
        return turns
    found = [turn for turn in turns if str(turn.number) == words]
    if not found:
        raise UsageError(
            f"unknown turn {formatting.one_line(words, 30)!r}",
            hint=f"use {turns[0].number} to {turns[-1].number}, or all",
        )
    return found


def _diffs(turn: Turn) -> Iterator[Diff]:
    for call in calls_of(turn.blocks):
        if call.state == "completed":
            yield from (part for part in call.content if isinstance(part, Diff))


def _rendered_changes(
    changes: Iterable[FileChange], diffs: Sequence[Diff], dark: Callable[[], bool]
) -> Iterator[RenderableType]:
    """Each file with its edits; changes made by shell commands show only line counts."""
    rest = list(diffs)
    for change in changes:
        yield _head(change)
        ours = [one for one in rest if _same(one.path, change.path)]
        rest = [one for one in rest if one not in ours]
        yield from (_Edit(one, dark) for one in ours)
    for one in rest:
        yield Text(formatting.one_line(one.path), style="bold")
        yield _Edit(one, dark)


def _head(change: FileChange) -> Text:
    line = Text(f"{_MARKS[change.change]} ", style=_STYLES[change.change])
    before = f"{formatting.one_line(change.old_path)} → " if change.old_path else ""
    line.append(before + formatting.one_line(change.path), style="bold")
    if change.added is not None or change.removed is not None:
        line.append(f"  +{change.added or 0}", style="green")
        line.append(f" −{change.removed or 0}", style="red")
    return line


def _same(message: str, changed: str) -> bool:
    """True if both name the same file; a tool call may use its absolute path."""
    return message == changed or message.endswith(f"/{changed}")


class _Edit:
    """Renders a diff for the current width and theme."""

    def __init__(self, change: Diff, dark: Callable[[], bool]) -> None:
        self._change = change
        self._dark = dark

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield difference(self._change, options.max_width, DIFF_LINES, dark=self._dark())


# -- /cost -----------------------------------------------------------------------------------------


async def cost(app: TillermanApp, words: str) -> None:
    pane = app.pane
    turns = [turn for turn in pane.transcript.turns if turn.usage]
    if not turns:
        raise UsageError("no usage reported yet", hint="it is reported during a turn")
    rows = [_took(turn) for turn in turns]
    parts: list[RenderableType] = [command_output.table(_COST, [*rows, _together(pane)])]
    context = pane.transcript.totals
    if context.context_used is not None:
        limit = f" of {formatting.count(context.context_limit)}" if context.context_limit else ""
        parts.append(
            command_output.lines(f"context: {formatting.count(context.context_used)}{limit} tokens")
        )
    if any(turn.usage and turn.usage.priced for turn in turns):
        parts.append(
            command_output.lines("≈ estimated from prices: the agent reported no cost", style="dim")
        )
    pane.report(CommandBlock("Usage", Group(*parts)))


def _took(turn: Turn) -> tuple[str, ...]:
    usage = turn.usage
    assert usage is not None
    cost = "" if usage.cost_usd is None else formatting.money(usage.cost_usd)
    return (
        str(turn.number),
        turn.agent or "",
        formatting.count(usage.input_tokens),
        formatting.count(usage.cached_tokens) if usage.cached_tokens else "",
        formatting.count(usage.output_tokens),
        f"≈ {cost}" if usage.priced and cost else cost,
        formatting.duration(turn.duration) if turn.duration is not None else "",
        formatting.one_line(turn.prompt or "", 40),
    )


def _together(pane: SessionPane) -> tuple[str, ...]:
    """Totals of the whole session, including turns that are not loaded."""
    row, totals = channel_of(pane).row, pane.transcript.totals
    reported = row if row and row.input_tokens >= totals.input_tokens else totals
    return (
        "all", "", formatting.count(reported.input_tokens),
        formatting.count(reported.cached_tokens) if reported.cached_tokens else "",
        formatting.count(reported.output_tokens),
        "" if reported.cost_usd is None else formatting.money(reported.cost_usd), "", "",
    )  # fmt: skip


# -- /copy -----------------------------------------------------------------------------------------


async def copy(app: TillermanApp, words: str) -> None:
    if words not in ("", "code"):
        raise UsageError(
            f"/copy: unknown argument {formatting.one_line(words)!r}",
            hint="use /copy or /copy code",
        )
    pane = app.pane
    take = clipboard.last_code if words else clipboard.last_message
    text = take(pane.transcript)
    app.copy_to_clipboard(text)
    count = len(text.splitlines())
    what = "the last code block" if words else "the last message"
    message = f"{what}, {count} line{'s' if count != 1 else ''}"
    pane.report(
        CommandBlock(
            "Copied",
            command_output.lines(message, "If nothing was copied, your terminal blocks OSC 52"),
        )
    )
