"""Texts shared by the Markdown and HTML exports of a session."""

from __future__ import annotations

import json

from tillerman.core.events import FileChange, PermissionRequested, Text
from tillerman.core.transcript.blocks import RequestBlock, ToolCallBlock, Turn
from tillerman.core.transcript.session_titles import displayed_title
from tillerman.core.transcript.transcript import Transcript

DEEPEST = 20  # nested calls; deeper ones are counted, not shown
MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


def title(transcript: Transcript, name: str | None) -> str:
    """The session's title; the user's `name` takes precedence."""
    prompt = next((turn.prompt for turn in transcript.turns if turn.prompt), None)
    line = displayed_title(name, transcript.title, prompt) or f"Session {transcript.session}"
    return line if len(line) <= 80 else line[:79] + "…"


def facts(transcript: Transcript) -> list[tuple[str, str]]:
    totals = transcript.totals
    agent = " ".join(filter(None, (transcript.agent, transcript.version)))
    tokens = f"{totals.input_tokens} in, {totals.output_tokens} out"
    cost = "" if totals.cost_usd is None else f"${totals.cost_usd:.4f}"
    facts = [
        ("Session", transcript.session),
        ("Agent", agent),
        ("Model", transcript.model or ""),
        ("Mode", transcript.mode or ""),
        ("Tokens", tokens if totals.input_tokens or totals.output_tokens else ""),
        ("Cost", cost),
        ("Unrecognized lines", str(transcript.unrecognized or "")),
    ]
    return [(name, value) for name, value in facts if value]


def ending(turn: Turn) -> str:
    parts: list[str] = [turn.status]
    if turn.failure:
        parts.append(f"({turn.failure.kind}): {turn.failure.message}")
    if turn.duration is not None:
        parts.append(f"after {turn.duration:.1f} s")
    if turn.usage and turn.usage.cost_usd is not None:
        parts.append(f"for ${turn.usage.cost_usd:.4f}")
    return " ".join(parts)


def _change(file: FileChange) -> str:
    counts = "" if file.added is None else f" +{file.added} −{file.removed or 0}"
    name = f"{file.old_path} → {file.path}" if file.old_path else file.path
    return f"{file.change} {name}{counts}"


def changes(turn: Turn) -> list[str]:
    parts = [_change(file) for file in turn.files]
    return [*parts, f"and {turn.files_left_out} more"] if turn.files_left_out else parts


def asked(request: RequestBlock) -> str:
    asked = request.asked
    if isinstance(asked, PermissionRequested):
        return asked.title
    return " / ".join(question.text for question in asked.questions)


def answered(request: RequestBlock) -> str:
    if request.open:
        return "open"
    answer, by = request.answer, request.by
    if by == "withdrawn":
        return "withdrawn"
    words = [answer.option if answer else "no answer", f"by {by}"]
    if request.surface:
        words.append(f"({request.surface})")
    if answer and answer.note:
        words.append(f"— {answer.note}")
    if answer and answer.answers:
        words.append("— " + "; ".join(answer.answers.values()))
    return " ".join(words)


def cut(text: Text) -> str:
    if text.cut is None:
        return ""
    where = f", stored in {text.cut.spill}" if text.cut.spill else ""
    return f"… {text.cut.left_out} bytes left out{where}"


def input_of(call: ToolCallBlock) -> str:
    """The input of a call as JSON; empty if there is none."""
    return json.dumps(call.input, indent=2, ensure_ascii=False) if call.input else ""
