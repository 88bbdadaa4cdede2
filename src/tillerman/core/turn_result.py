"""What a turn came to, for a caller who did not watch."""

from __future__ import annotations

from typing import Any

import msgspec

from tillerman.core.events import FileChange, Notice, UsageReported
from tillerman.core.failure import Failure
from tillerman.core.transcript import Transcript
from tillerman.core.transcript_blocks import (
    CallState,
    Message,
    Status,
    TextBlock,
    ToolCallBlock,
    Turn,
    calls_of,
)


class CallOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    call_id: str
    tool: str
    title: str
    outcome: CallState


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn came to."""

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
    fallback: bool = False  # another agent than the first one asked did it


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
    """The last thing the agent itself said: its messages that no tool call of its own divides.

    Calls after the last message are passed over, so a turn that was cut inside a tool still
    yields what had been said. Subagents' messages do not count.
    """
    said: list[str] = []
    for block in reversed(turn.blocks):
        if isinstance(block, Message) and block.text:
            said.append(block.text)
        elif isinstance(block, ToolCallBlock) and said:
            break
        elif isinstance(block, TextBlock) and block.how == "repair":
            break  # what was said before it could not be used
    return "\n\n".join(reversed(said))
