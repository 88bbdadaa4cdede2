"""Builds the result of a turn: status, final text, calls, files and usage."""

from __future__ import annotations

from typing import Any, Self, TypeVar

import msgspec

from tillerman.core.errors import TurnFailed
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

T = TypeVar("T")


class CallOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    call_id: str
    tool: str
    title: str
    outcome: CallState


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a turn."""

    session: str  # its id
    turn: int  # its number in the session, from 1
    status: Status  # "completed", "failed", "cancelled", or "running"
    text: str = ""  # the agent's last message
    failure: Failure | None = None  # of a failed turn: kind, message, and the next step as `hint`
    output: Any = None  # the answer as JSON, if `output` or `output_schema` was given
    calls: tuple[CallOutcome, ...] = ()  # tool calls, and how each ended
    files: tuple[FileChange, ...] = ()  # changed in the workspace, whoever changed them
    files_left_out: int = 0  # changed files beyond those in `files`
    usage: UsageReported | None = None  # tokens of the turn
    cost_usd: float | None = None  # by the agent, else by the price table; None: unknown
    duration: float | None = None  # seconds
    agent: str | None = None  # which did the work
    native_id: str | None = None  # the agent's own id of the conversation
    fallback: bool = False  # another agent than the first requested one did the work

    def check(self) -> Self:
        """Returns the result of a completed turn; raises `TurnFailed` for any other."""
        if self.status == "completed":
            return self
        if self.failure is None:
            cancelled = self.status == "cancelled"
            raise TurnFailed(
                f"the turn {'was cancelled' if cancelled else 'is still running'}",
                hint="prompt again" if cancelled else "`await session.idle()` waits for its end",
                cancelled=cancelled,
            )
        raise TurnFailed(self.failure.message, hint=self.failure.hint, kind=self.failure.kind)

    def output_as(self, kind: type[T]) -> T:
        """The answer as a struct, dataclass, TypedDict or pydantic model.

        Raises `TurnFailed` if the turn did not complete, or has no answer of this type.
        """
        if self.check().output is None:
            raise TurnFailed(
                "the turn has no structured answer", hint="start the session with `output=…`"
            )
        try:
            if callable(validate := getattr(kind, "model_validate", None)):  # pydantic
                value: T = validate(self.output)
                return value
            return msgspec.convert(self.output, kind)
        except ValueError as error:
            raise TurnFailed(
                f"the answer is not a {kind.__name__}: {error}",
                hint="start the session with the same type as `output`",
                kind="schema_mismatch",
            ) from error


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
    messages: list[str] = []
    for block in reversed(turn.blocks):
        if isinstance(block, Message) and block.text:
            messages.append(block.text)
        elif isinstance(block, ToolCallBlock) and messages:
            break
        elif isinstance(block, TextBlock) and block.how == "repair":
            break  # text before a repair request was not usable
    return "\n\n".join(reversed(messages))
