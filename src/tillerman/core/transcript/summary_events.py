"""Summary events for scripts (`--json=summary`): whole messages, calls, permissions, results.

A message is emitted when the next block begins beside it, its turn ends, or the call that contains
it ends. An emitted message stays, even if the agent withdraws it later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tillerman.core.events import (
    Answer,
    Content,
    Entry,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript.transcript import Fold
from tillerman.core.transcript.turn_result import Result, result


class _Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    session: str
    turn: int
    parent: str | None = None  # the call in which a subagent runs


class TextSummary(_Item, frozen=True, tag="text"):
    text: str


class Thinking(_Item, frozen=True, tag="thinking"):
    text: str


class ToolStart(_Item, frozen=True, tag="tool_start"):
    call_id: str
    tool: str
    title: str
    input: dict[str, Any] = {}


class ToolComplete(_Item, frozen=True, tag="tool_complete"):
    call_id: str
    tool: str
    title: str
    content: tuple[Content, ...] = ()


class ToolError(_Item, frozen=True, tag="tool_error"):
    call_id: str
    tool: str
    title: str
    outcome: Literal["failed", "denied", "cancelled"]
    content: tuple[Content, ...] = ()


class Permission(_Item, frozen=True, tag="permission"):
    """Emitted twice: when requested, and when answered (then with `answer` and `by`)."""

    request_id: str
    tool: str
    title: str = ""
    questions: tuple[Question, ...] = ()  # instead of a title, where the agent asks questions
    call_id: str | None = None
    answer: Answer | None = None
    by: str | None = None


class Error(_Item, frozen=True, tag="error"):
    message: str
    failure: Failure | None = None  # when it ended the turn


class ResultSummary(Result, frozen=True, tag="result"):
    """The last item of a turn."""


Item = (
    TextSummary
    | Thinking
    | ToolStart
    | ToolComplete
    | ToolError
    | Permission
    | Error
    | ResultSummary
)


@dataclass(slots=True)
class _Speech:
    """A message in progress."""

    kind: type[TextSummary] | type[Thinking]
    message_id: str
    place: dict[str, Any]
    chunks: list[str]


class Summary:
    """Receives entries as they arrive and returns items as they become complete."""

    def __init__(self) -> None:
        self._fold = Fold()
        self._calls: dict[str, ToolStarted] = {}  # the open ones
        self._asked: dict[str, Permission] = {}  # the open ones
        self._speeches: dict[str | None, _Speech] = {}  # by parent

    def add(self, entry: Entry) -> list[Item]:
        self._fold.add(entry)
        return list(self._items(entry))

    def close(self) -> list[Item]:
        """The unfinished messages of a log that stopped in the middle."""
        return [item for parent in list(self._speeches) for item in self._report(parent)]

    def _items(self, entry: Entry) -> Iterator[Item]:
        event = entry.event
        place: dict[str, Any] = {
            "session": entry.session,
            "turn": entry.turn,
            "parent": event.parent,
        }
        match event:
            case MessageChunk():
                yield from self._add_text(TextSummary, event, place)
            case ThoughtChunk():
                yield from self._add_text(Thinking, event, place)
            case MessageWithdrawn():
                speech = self._speeches.get(event.parent)
                if speech and speech.message_id == event.message_id:
                    del self._speeches[event.parent]
            case ToolStarted():
                yield from self._report(event.parent)
                yield from self._start(event, place)
            case ToolFinished():
                yield from self._report(event.call_id)
                yield self._finish(event, place)
            case PermissionRequested():
                yield from self._report(event.parent)
                yield self._ask(event, place, tool=event.tool, title=event.title)
            case QuestionAsked():
                yield from self._report(event.parent)
                yield self._ask(event, place, tool="Question", questions=event.questions)
            case RequestAnswered():
                asked = self._asked.pop(event.request_id, None)
                if asked:
                    yield msgspec.structs.replace(asked, answer=event.answer, by=event.by)
            case Notice(level="error"):
                yield Error(**place, message=event.text)
            case TurnEnded():
                yield from self._end_turn(event, place)
            case _:
                pass

    def _add_text(
        self,
        kind: type[TextSummary] | type[Thinking],
        event: MessageChunk | ThoughtChunk,
        place: dict[str, Any],
    ) -> Iterator[Item]:
        speech = self._speeches.get(event.parent)
        if speech and (speech.kind, speech.message_id) == (kind, event.message_id):
            speech.chunks.append(event.text)
            return
        yield from self._report(event.parent)
        self._speeches[event.parent] = _Speech(kind, event.message_id, place, [event.text])

    def _report(self, parent: str | None) -> Iterator[Item]:
        speech = self._speeches.pop(parent, None)
        if speech and any(speech.chunks):
            yield speech.kind(**speech.place, text="".join(speech.chunks))

    def _start(self, event: ToolStarted, place: dict[str, Any]) -> Iterator[Item]:
        again = event.call_id in self._calls
        self._calls[event.call_id] = event
        if not again:
            yield ToolStart(
                **place,
                call_id=event.call_id,
                tool=event.tool,
                title=event.title,
                input=event.input,
            )

    def _finish(self, event: ToolFinished, place: dict[str, Any]) -> Item:
        started = self._calls.pop(event.call_id, None)
        call = {
            "session": place["session"],
            "turn": place["turn"],
            "parent": started.parent if started else event.parent,
            "call_id": event.call_id,
            "tool": started.tool if started else "",
            "title": started.title if started else event.call_id,
            "content": event.content,
        }
        if event.outcome == "completed":
            return ToolComplete(**call)
        return ToolError(**call, outcome=event.outcome)

    def _ask(
        self, event: PermissionRequested | QuestionAsked, place: dict[str, Any], **what: Any
    ) -> Permission:
        asked = Permission(**place, request_id=event.request_id, call_id=event.call_id, **what)
        self._asked[event.request_id] = asked
        return asked

    def _end_turn(self, event: TurnEnded, place: dict[str, Any]) -> Iterator[Item]:
        for parent in list(self._speeches):
            if parent not in self._calls or event.reason != "completed":
                yield from self._report(parent)  # an open call continues in the background
        if event.failure:
            yield Error(**place, message=event.failure.message, failure=event.failure)
        turn = self._fold.transcript.turn(place["turn"])
        if turn:
            ended = result(self._fold.transcript, turn)
            yield ResultSummary(**msgspec.structs.asdict(ended))


def summarize(entries: Iterable[Entry]) -> Iterator[Item]:
    summary = Summary()
    for entry in entries:
        yield from summary.add(entry)
    yield from summary.close()
