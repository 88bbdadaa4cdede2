"""Builds the result of a turn: status, final text, calls, files and usage."""

from __future__ import annotations

from typing import Any

import msgspec

from tillerman.core.events import FileChange, Notice, UsageReported
from tillerman.core.failure import Failure
from tillerman.core.transcript.blocks import (
    CallState,
    Message,
    Status,
    TextBlock,
    ToolCallBlock,
    Turn,
    calls_of,
)
from tillerman.core.transcript.transcript import Transcript


class CallOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    call_id: str
    tool: str
    title: str
    outcome: CallState


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a turn."""

    session: str
    turn: int
    status: Status
    text: str = ""
    failure: Failure | None = None
    output: Any = None
    calls: tuple[CallOutcome, ...] = ()
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0
    usage: UsageReported | None = None
    cost_usd: float | None = None
    duration: float | None = None  # seconds
    agent: str | None = None
    native_id: str | None = None
    fallback: bool = False  # another agent than the first requested one did the work


def result(transcript: Transcript, turn: Turn) -> Result:
    return Result(
        session=transcript.session,
        turn=turn.number,
        status=turn.status,
        text=final_text(turn),
        failure=turn.failure,
        output=turn.output,
        calls=tuple(
            CallOutcome(call.call_id, call.tool, call.title, call.state)
            for call in calls_of(turn.blocks)
        ),
        files=turn.files,
        files_left_out=turn.files_left_out,
        usage=turn.usage,
        cost_usd=turn.usage.cost_usd if turn.usage else None,
        duration=turn.duration,
        agent=turn.agent,
        native_id=transcript.native_id,
        fallback=any(isinstance(b, Notice) and b.kind == "fallback" for b in turn.blocks),
    )


def final_text(turn: Turn) -> str:
    """The agent's last message: its text blocks up to its previous tool call.

    Calls after the last message are skipped, so that a turn that was cut inside a tool still
    yields the text before it. Messages of subagents do not count.
    """
    said: list[str] = []
    for block in reversed(turn.blocks):
        if isinstance(block, Message) and block.text:
            said.append(block.text)
        elif isinstance(block, ToolCallBlock) and said:
            break
        elif isinstance(block, TextBlock) and block.how == "repair":
            break  # text before a repair request was not usable
    return "\n\n".join(reversed(said))
