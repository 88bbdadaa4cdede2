"""Rich renderables of transcript parts: tool call, diff, plan, notice, message. Sanitized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tillerman.core.events import (
    Content,
    Diff,
    Notice,
    PermissionRequested,
    PlanStep,
    QuestionAsked,
    ToolStarted,
)
from tillerman.core.events import Text as ToolText
from tillerman.core.terminal_sanitizer import clean, reveal
from tillerman.sessions.export.patch import hunks
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.markdown import Markdown
from tillerman.surfaces.rendering.markdown_stream import Block
from tillerman.surfaces.rendering.turn_outcome import TurnOutcome

MARKDOWN_CAP = 16_384  # characters; a larger block is shown as plain text
DIFF_LINES = 40
OUTPUT_LINES = 6

_STATE_STYLES = {"completed": "green", "failed": "red", "denied": "yellow", "cancelled": "yellow"}
_LEVEL_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}
_STEP_MARKS = {"pending": "☐", "in_progress": "◐", "completed": "☑"}


def message(block: Block) -> RenderableType:
    """A complete block of agent text; control characters have been revealed before."""
    if block.verbatim or len(block.text) > MARKDOWN_CAP:
        return Text(block.text, overflow="fold")
    return Padding(Markdown(block.text), (0, 0, 1, 0))


def thought(text: str, lines: int = 3) -> RenderableType:
    shown = [line for line in text.splitlines() if line.strip()]
    more = f" … {len(shown) - lines} more lines" if len(shown) > lines else ""
    body = Text("\n".join(shown[:lines]) + more, style="dim italic")
    return Padding(body, (0, 0, 1, 2))


def title(text: str) -> Text:
    """Styles the code in backticks."""
    line = Text()
    for number, part in enumerate(formatting.spans(text)):
        line.append(part, style="cyan" if number % 2 else "")
    return line


def running(call: ToolStarted, now: str, mark: str, depth: int) -> Text:
    line = Text("  " * depth + f"{mark} ", style="cyan")
    return line.append_text(title(call.title)).append(f"  {now}", style="dim")


def finished(
    call: ToolStarted | None,
    call_id: str,
    outcome: str,
    content: Sequence[Content],
    seconds: float | None,
    depth: int,
) -> RenderableType:
    line = Text("  " * depth)
    line.append(f"{formatting.STATES[outcome]} ", style=_STATE_STYLES[outcome])
    line.append_text(title(call.title if call else call_id))
    if outcome != "completed":
        line.append(f"  {outcome}", style=_STATE_STYLES[outcome])
    if seconds is not None:
        line.append(f"  {formatting.duration(seconds)}", style="dim")
    details = list(_details(call.tool if call else "", outcome, content))
    return Group(line, *(Padding(detail, (0, 0, 0, 2 * depth + 2)) for detail in details))


def _details(tool: str, outcome: str, content: Sequence[Content]) -> Iterator[RenderableType]:
    for part in content:
        match part:
            case Diff():
                yield diff(part)
            case ToolText(text=text) if tool == "Bash" or outcome != "completed":
                yield _output(text)
            case _:
                pass  # text that was read is not shown


def _output(text: str) -> Text:
    """The last lines of command output, where errors usually are."""
    lines = clean(text).rstrip().splitlines()
    hidden = len(lines) - OUTPUT_LINES
    shown = [f"… {hidden} lines", *lines[-OUTPUT_LINES:]] if hidden > 0 else lines
    return Text(
        "\n".join(line[:500] for line in shown), style="dim", no_wrap=True, overflow="ellipsis"
    )


def diff(change: Diff, limit: int = DIFF_LINES, *, heads: bool = True) -> RenderableType:
    """Renders a diff. `heads` shows the hunk headers, if the line numbers are those of the file.

    Without them the diff is for approval and no line is truncated.
    """
    texts = {name: clean(getattr(change, name) or "") for name in ("old", "new")}
    given = change.patch if change.patch is None else clean(change.patch)
    lines = hunks(Diff(change.path, **texts, patch=given), context=2)
    lines = lines if heads else [line for line in lines if not line.startswith("@@ ")]
    shown = Text(no_wrap=heads, overflow="ellipsis" if heads else "fold")
    for line in lines[:limit]:
        text = line[: 500 if heads else None]
        shown.append(text.expandtabs(4) + "\n", style=_line_style(line))
    if len(lines) > limit:
        shown.append(f"… {len(lines) - limit} more lines\n", style="dim")
    shown.right_crop(1)
    return shown


def _line_style(line: str) -> str:
    match line[:1]:
        case "+":
            return "green"
        case "-":
            return "red"
        case "@":
            return "cyan dim"
        case _:
            return "dim"


def plan(steps: Sequence[PlanStep]) -> RenderableType:
    lines = Text()
    for step in steps:
        style = {"completed": "dim", "in_progress": "bold"}.get(step.status, "")
        lines.append(
            f"  {_STEP_MARKS[step.status]} {formatting.one_line(step.text)}\n", style=style
        )
    lines.right_crop(1)
    return lines


def plan_text(text: str) -> RenderableType:
    """A presented plan, rendered as Markdown."""
    return Padding(Markdown(reveal(text)), (0, 0, 1, 2))


def asked(request: PermissionRequested | QuestionAsked) -> Text:
    line = Text().append("? ", style="yellow").append_text(title(formatting.asked(request)))
    reason = getattr(request, "reason", "")
    return line.append(f"  {formatting.one_line(reason)}" if reason else "", style="dim")


def notice(reported: Notice) -> Text:
    mark = "i" if reported.level == "info" else "!"
    return Text(f"{mark} {formatting.one_line(reported.text)}", style=_LEVEL_STYLES[reported.level])


def prompt(text: str) -> RenderableType:
    body = Text(clean(text).rstrip(), style="bold")
    return Padding(Group(Text("› ", style="cyan", end=""), body), (0, 0, 1, 0))


def account(text: str) -> RenderableType:
    """Handoff summary, shown only as a line count: the text is for the agent."""
    lines = len(text.splitlines())
    return Text(f"the agent gets a summary of the session so far ({lines} lines)", style="dim")


def ending(outcome: TurnOutcome) -> RenderableType:
    style = _STATE_STYLES[outcome.reason]
    line = Text(formatting.summary(outcome), style="dim")
    line.stylize(f"not dim {style}", 0, 2 + len(outcome.reason))
    wrong = [
        Text(text, style="red" if text.startswith("error") else "yellow")
        for text in formatting.failure(outcome)
    ]
    return Group(*wrong, line)
