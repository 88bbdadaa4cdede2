"""Renders each kind of conversation block with Rich."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from tillerman.core.events import Content, Diff, Image, Notice, PermissionRequested, RequestAnswered
from tillerman.core.events import Text as ToolText
from tillerman.core.terminal_sanitizer import reveal
from tillerman.core.transcript.blocks import (
    Message,
    PlanBlock,
    RequestBlock,
    TextBlock,
    Thought,
    ToolCallBlock,
    Turn,
    calls_of,
)
from tillerman.surfaces.rendering import formatting, transcript_blocks
from tillerman.surfaces.rendering.diff import difference
from tillerman.surfaces.rendering.proposed_changes import plan_of
from tillerman.surfaces.rendering.turn_outcome import TurnOutcome
from tillerman.surfaces.tui.conversation.blocks import (
    CommandBlock,
    ConversationBlock,
    MessageBlock,
    PromptBlock,
    StreamingBlock,
    TurnEndBlock,
    is_silent,
)
from tillerman.surfaces.tui.terminal.ansi_colors import colored

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARKS = {"completed": "●", "failed": "✗", "denied": "⊘", "cancelled": "⊘"}
STYLES = {"completed": "green", "failed": "red", "denied": "yellow", "cancelled": "yellow"}
FOLDED_LINES = 3  # of a failed command's output
DIFF_LINES = 16  # of an edit, while folded
UNFOLDED_LINES = 2_000
INDENT = 2


@dataclass(frozen=True)
class BlockStyle:
    """Rendering parameters of a block."""

    width: int
    tick: int = 0  # spinner position
    dark: bool = True

    def narrower(self, by: int) -> BlockStyle:
        return replace(self, width=self.width - by)


def draw(piece: ConversationBlock, frame: BlockStyle) -> RenderableType:
    thing = piece.thing
    match thing:
        case PromptBlock():
            return _prompt(thing.turn)
        case MessageBlock():
            return Padding(transcript_blocks.message(thing.block), (0, 1, 0, INDENT))
        case StreamingBlock():
            return Padding(Text(thing.text), (0, 1, 1, INDENT))
        case TurnEndBlock():
            return Padding(_ending(thing.turn), (0, 0, 1, INDENT))
        case CommandBlock():
            return Padding(_command_block(thing, piece.unfolded), (0, 1, 1, INDENT))
        case Thought():
            return _thought(thing, piece.unfolded)
        case ToolCallBlock():
            return _call(thing, piece.unfolded, frame, piece.leads)
        case PlanBlock():
            return Padding(transcript_blocks.plan(thing.steps), (0, 0, 1, 0))
        case RequestBlock():
            return _request(thing)
        case TextBlock(how="handoff"):
            return Padding(transcript_blocks.account(thing.text), (0, 0, 1, INDENT))
        case TextBlock():
            return _words(f"{thing.text.rstrip()}", f" ({thing.how})")
        case Notice():
            return Padding(transcript_blocks.notice(thing), (0, 0, 1, INDENT))
        case Message():
            raise AssertionError("a message is drawn by its blocks")
        case _:
            assert_never(thing)


def _prompt(turn: Turn) -> RenderableType:
    files = "".join(f"\n📎 {formatting.one_line(one.name, 60)}" for one in turn.attachments)
    return _words((turn.prompt or "").rstrip() + files)


def _words(text: str, how: str = "") -> RenderableType:
    body = Text(reveal(text), style="bold").append(how, style="dim not bold")
    return Padding(_Barred(body), (0, 1, 1, 0))


class _Barred:
    """Draws a vertical bar to the left of the body."""

    def __init__(self, body: RenderableType, style: str = "cyan") -> None:
        self._body = body
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Segment("▌ ", console.get_style(self._style))
        lines = console.render_lines(
            self._body, options.update(width=options.max_width - 2), pad=False
        )
        for line in lines:
            yield bar
            yield from line
            yield Segment.line()


def _ending(turn: Turn) -> RenderableType:
    assert turn.status != "running"
    return transcript_blocks.ending(
        TurnOutcome(
            turn.number, turn.status, turn.failure, turn.output, turn.usage, turn.files,
            turn.files_left_out, turn.duration,
        )
    )  # fmt: skip


def _command_block(command_block: CommandBlock, unfolded: bool) -> RenderableType:
    head, body = Text(command_block.title, style="bold"), command_block.body
    if command_block.whole is not None:
        head.append(" ▾" if unfolded else " ▸", style="dim not bold")
        body = command_block.whole if unfolded else body
    return _Barred(Group(head, body), "bright_black")


def _thought(thought: Thought, unfolded: bool) -> RenderableType:
    words = reveal(thought.text).strip()
    count = len(words.split())
    head = Text(f"{'▾' if unfolded else '▸'} thought", style="dim italic")
    head.append(f" · {formatting.count(count)} words", style="dim")
    if unfolded:
        return Padding(
            Group(head, Padding(Text(words, style="dim italic"), (0, 0, 0, 2))), (0, 1, 1, INDENT)
        )
    last = formatting.one_line(words)
    head.append(f"  {last[:120]}", style="dim italic")
    head.no_wrap, head.overflow = True, "ellipsis"
    return Padding(head, (0, 1, 1, INDENT))


def _call(call: ToolCallBlock, unfolded: bool, frame: BlockStyle, leads: bool) -> RenderableType:
    line = Text(no_wrap=not unfolded, overflow="ellipsis")
    if call.state == "running":
        line.append(f"{SPINNER[frame.tick % len(SPINNER)]} ", style="cyan")
    else:
        line.append(f"{MARKS[call.state]} ", style=STYLES[call.state])
    line.append_text(transcript_blocks.title(call.title or call.name or call.call_id))
    if call.state not in ("running", "completed"):
        line.append(f"  {call.state}", style=STYLES[call.state])
    line.append(_length(call), style="dim")
    if inside := sum(1 for _ in calls_of(call.blocks)):
        line.append(f"  {inside} call{'s' if inside != 1 else ''} inside", style="dim")
    line.append(" ▾" if unfolded else " ▸", style="dim")
    below = _unfolded(call, frame) if unfolded else _folded(call, frame)
    return Padding(
        Group(line, *(Padding(part, (0, 0, 0, INDENT)) for part in below)),
        (0, 1, 1 if below or not leads else 0, INDENT),
    )


def _length(call: ToolCallBlock) -> str:
    seconds = call.duration
    if call.state == "running" and call.started:
        began = datetime.fromisoformat(call.started)
        seconds = max(0.0, (datetime.now(UTC) - began).total_seconds())
        return f"  {formatting.duration(int(seconds))}" if seconds >= 2 else ""
    return f"  {formatting.duration(seconds)}" if seconds and seconds >= 0.05 else ""


def _folded(call: ToolCallBlock, frame: BlockStyle) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for content in call.content:
        if isinstance(content, Diff):
            parts.append(_diff(content, frame.narrower(2 * INDENT), DIFF_LINES))
        elif isinstance(content, ToolText) and call.state in ("failed", "denied"):
            parts.append(_output(content.text, FOLDED_LINES))
    return parts


def _unfolded(call: ToolCallBlock, frame: BlockStyle) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if call.input and not any(isinstance(part, Diff) for part in call.content):
        parts.append(_input(call))
    parts += [_content(part, frame.narrower(2 * INDENT)) for part in call.content]
    for block in call.blocks:
        if isinstance(block, ToolCallBlock):
            parts.append(_call(block, False, frame.narrower(INDENT), True))
        elif isinstance(block, Message | Thought):
            parts.append(Text(reveal(block.text).strip(), style="dim"))
    return parts


def _content(content: Content, frame: BlockStyle) -> RenderableType:
    match content:
        case Diff():
            return _diff(content, frame, UNFOLDED_LINES)
        case ToolText():
            note = f"\n… {formatting.size(content.cut.left_out)} left out" if content.cut else ""
            return _output(content.text + note, UNFOLDED_LINES)
        case Image():
            return Text(f"[{formatting.one_line(content.mime)}]", style="dim")


def _diff(change: Diff, frame: BlockStyle, limit: int) -> RenderableType:
    return difference(change, frame.width, limit, dark=frame.dark)


def _input(call: ToolCallBlock) -> RenderableType:
    match call.input:
        case {"command": str(command)}:
            return Text(f"$ {reveal(command)}", style="cyan")
        case _:
            import msgspec

            text = msgspec.json.format(msgspec.json.encode(call.input), indent=2).decode()
            return _output(text, UNFOLDED_LINES)


def _output(text: str, limit: int) -> Text:
    """Command output with its colors; all other escape sequences are revealed."""
    lines = colored(text.rstrip()).split("\n")
    shown = Text("\n", style="dim").join(lines[-limit:])
    if len(lines) > limit:
        shown = Text(f"… {len(lines) - limit} more lines\n", style="dim").append_text(shown)
    shown.style = "dim"
    return shown


def _request(request: RequestBlock) -> RenderableType:
    line = transcript_blocks.asked(request.asked)
    if request.by is None:
        asks = isinstance(request.asked, PermissionRequested)
        needed = "needs your approval" if asks else "needs an answer"
        line.append(f"  {needed}", style="bold yellow")
        return Padding(line, (0, 1, 1, INDENT))
    if request.answer is None:
        line.append("  withdrawn", style="dim")
    elif is_silent(request):
        return Group()
    else:
        reported = RequestAnswered(
            request_id="", answer=request.answer, by=request.by, surface=request.surface
        )
        line.append(f"  → {formatting.answered(reported)}", style="bold")
    if plan := plan_of(request.asked):
        return Padding(Group(transcript_blocks.plan_text(plan), line), (0, 1, 1, INDENT))
    return Padding(line, (0, 1, 1, INDENT))
