"""Formats short texts: numbers, durations, file changes, turn summaries. Output is sanitized."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tillerman.core.terminal_sanitizer import clean

if TYPE_CHECKING:
    from tillerman.core.events import (
        FileChange,
        PermissionRequested,
        QuestionAsked,
        RequestAnswered,
    )
    from tillerman.core.permission import Rule
    from tillerman.surfaces.rendering.turn_outcome import TurnOutcome

STATES = {"completed": "✓", "failed": "✗", "cancelled": "⊘", "denied": "⊘"}


def one_line(text: str, limit: int = 0) -> str:
    line = " ".join(clean(text).split())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


# The form of titles: code in one pair of backticks, or in several joined by a comma or `in`.
_MARKED = re.compile(r"[^`]*`[^`]+`(?:(?:, | in )`[^`]+`)*[^`]*")


def spans(text: str) -> list[str]:
    """Splits a line at its code spans; backticks that are part of the code are preserved."""
    line = one_line(text)
    return line.split("`") if _MARKED.fullmatch(line) else [line]


def unmarked(text: str) -> str:
    """Removes the backticks that mark code."""
    return "".join(spans(text))


def revealed(text: str) -> str:
    """Escapes control characters as \\uXXXX, for a user who has to approve the text."""
    if clean(text) == text:
        return text
    return "".join(c if clean(c) == c else f"\\u{ord(c):04x}" for c in text)


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def count(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def size(number: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}"
    return f"{number} B"


def money(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"


def ago(at: str) -> str:
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except ValueError:
        return at
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def until(since: str, seconds: float) -> str:
    """End time in the local time zone."""
    end = (datetime.fromisoformat(since) + timedelta(seconds=seconds)).astimezone()
    return f"until {end:%H:%M:%S} ({duration(seconds)})"


def files(changes: Sequence[FileChange], left_out: int) -> str:
    total = len(changes) + left_out
    added = sum(change.added or 0 for change in changes)
    removed = sum(change.removed or 0 for change in changes)
    lines = f" (+{added} −{removed})" if added or removed else ""
    return f"{total} file{'s' if total != 1 else ''} changed{lines}"


def summary(outcome: TurnOutcome) -> str:
    """One-line summary of a turn."""
    parts = [f"{STATES[outcome.reason]} {outcome.reason}"]
    if outcome.seconds is not None:
        parts.append(duration(outcome.seconds))
    if usage := outcome.usage:
        parts.append(f"{count(usage.input_tokens)} in, {count(usage.output_tokens)} out")
        if usage.cost_usd is not None:
            about = "≈ " if usage.priced else ""  # estimated, not reported by the agent
            parts.append(about + money(usage.cost_usd))
    if outcome.files or outcome.files_left_out:
        parts.append(files(outcome.files, outcome.files_left_out))
    return " · ".join(parts)


def failure(outcome: TurnOutcome) -> list[str]:
    """Error and hint lines of a failed turn."""
    if outcome.failure is None:
        return []
    lines = [f"error: {one_line(outcome.failure.message)}"]
    if outcome.failure.hint:
        lines.append(f"hint: {one_line(outcome.failure.hint)}")
    return lines


def unrecognized_lines(lines: int) -> str:
    return f"{lines} line{'s' if lines != 1 else ''} of agent output not recognized"


def how_to_resume(session: str) -> str:
    return f'session {session} · to continue: tillerman run --resume {session} "…"'


def how_to_answer(session: str, request: PermissionRequested | QuestionAsked) -> str:
    from tillerman.core.events import PermissionRequested

    words = ["tillerman", "requests", "answer", f"{session}/{clean(request.request_id)}"]
    if isinstance(request, PermissionRequested):
        return shlex.join([*words, "allow"])
    further = " --choose TEXT" * (len(request.questions) - 1)
    return f"{shlex.join(words)} TEXT{further}"


def left_open(session: str) -> str:
    return (
        f'left open; its session is not running, to continue: tillerman run --resume {session} "…"'
    )


def always(rule: Rule, where: str = "") -> str:
    """One-line preview of a rule to be remembered."""
    return f"always: {one_line(revealed(rule.told))}{where and ' '}{one_line(where)}"


def asked(request: PermissionRequested | QuestionAsked) -> str:
    from tillerman.core.events import PermissionRequested

    if isinstance(request, PermissionRequested):
        return one_line(request.title)
    return one_line(" / ".join(question.text for question in request.questions))


def answered(event: RequestAnswered) -> str:
    """Describes how a request was resolved, and by whom."""
    words = {"allow": "allowed", "deny": "denied"}.get(event.answer.option, event.answer.option)
    you = "by you"
    if event.answer.answers:
        words, you = f"answer: {', '.join(event.answer.answers.values())}", ""
    by = {
        "policy": f"by policy ({event.surface})" if event.surface else "by policy",
        "person": you if event.surface in (None, "terminal") else f"via {event.surface}",
        "timeout": "because there was no answer in time",
        "withdrawn": "",
    }[event.by]
    if event.by == "withdrawn":
        words = "withdrawn"
    note = f": {event.answer.note}" if event.answer.note else ""
    if event.answer.input is not None:
        words = f"{words} with changes"
    if event.answer.remember:
        words = f"{words} always in this {event.answer.remember}"
    if event.waits:
        by += ", applied when the agent asks again"
    return one_line(f"{words} {by}".strip() + note)
