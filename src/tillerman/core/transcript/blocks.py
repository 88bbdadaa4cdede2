"""Transcript data: turns with their messages, tool calls, requests, plans and notices.

Only the fold (`core/transcript/transcript.py`) changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tillerman.core.events import (
    Answer,
    Attachment,
    Content,
    FileChange,
    Notice,
    PermissionRequested,
    PlanStep,
    QuestionAsked,
    UsageReported,
)
from tillerman.core.failure import Failure

Status = Literal["running", "completed", "failed", "cancelled"]
CallState = Literal["running", "completed", "failed", "denied", "cancelled"]


class _Spoken:
    """Text that arrives in chunks; joined when it is read."""

    __slots__ = ("_chunks", "message_id")

    def __init__(self, message_id: str, text: str = "") -> None:
        self.message_id = message_id
        self._chunks = [text]

    def add(self, text: str) -> None:
        self._chunks.append(text)

    @property
    def text(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, _Spoken):
            return NotImplemented
        return (self.message_id, self.text) == (other.message_id, other.text)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message_id!r}, {self.text!r})"


class Message(_Spoken):
    __slots__ = ()


class Thought(_Spoken):
    __slots__ = ()


@dataclass(slots=True)
class TextBlock:
    """A message to the agent besides the turn's prompt."""

    text: str
    how: Literal["steer", "queued", "imported", "shell", "handoff", "repair"]


@dataclass(slots=True)
class ToolCallBlock:
    call_id: str
    tool: str = ""  # "" if its start is not in the log
    name: str = ""
    title: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    state: CallState = "running"
    content: tuple[Content, ...] = ()
    blocks: list[Block] = field(default_factory=list)  # of the subagent that runs inside it
    turn: int = 0
    started: str | None = None
    ended: str | None = None
    usage: UsageReported | None = None  # of that subagent, if reported

    @property
    def duration(self) -> float | None:
        return _seconds(self.started, self.ended)


@dataclass(slots=True)
class PlanBlock:
    steps: tuple[PlanStep, ...]


@dataclass(slots=True)
class RequestBlock:
    asked: PermissionRequested | QuestionAsked
    answer: Answer | None = None
    by: Literal["policy", "person", "timeout", "withdrawn"] | None = None  # None: open
    surface: str | None = None

    @property
    def open(self) -> bool:
        return self.by is None


Block = Message | Thought | TextBlock | ToolCallBlock | PlanBlock | RequestBlock | Notice


@dataclass(slots=True)
class Turn:
    number: int
    origin: Literal["prompt", "agent"] = "agent"
    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    status: Status = "running"
    failure: Failure | None = None
    output: Any = None  # structured, when a schema was requested
    agent: str | None = None
    blocks: list[Block] = field(default_factory=list)
    usage: UsageReported | None = None
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0
    started: str | None = None
    ended: str | None = None

    @property
    def duration(self) -> float | None:
        return _seconds(self.started, self.ended)


def calls_of(blocks: Iterable[Block]) -> Iterator[ToolCallBlock]:
    """Every call, each before the calls nested in it, at any depth."""
    levels = [iter(blocks)]
    while levels:
        call = next((block for block in levels[-1] if isinstance(block, ToolCallBlock)), None)
        if call is None:
            levels.pop()
        else:
            yield call
            levels.append(iter(call.blocks))


def _seconds(started: str | None, ended: str | None) -> float | None:
    """The duration in seconds; never negative, because the clock may be set back in between."""
    if started is None or ended is None:
        return None
    spent = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
    return max(0.0, spent.total_seconds())
