"""Limits the size of what is stored: of each event, and of all events of a turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from tillerman.core.agent import Spill
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    BackgroundChanged,
    BackgroundTask,
    Cut,
    Diff,
    Event,
    MessageChunk,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    encode,
)
from tillerman.supervision.secrets import Secrets, TextRedactor

MESSAGE_CAP = 1024 * 1024  # characters of one chunk; no model writes that much at once
MOST_SMALL = 1024 * 1024  # characters of texts that are each too short to be cut
LONGEST_TITLE = 2_000  # characters
MOST_TASKS = 200  # background tasks per event
LAST_WORDS = 8 * 1024  # characters of stderr; the text before helps to find whole secrets
PIECE = 64 * 1024  # characters: a long text is never copied as a whole
_SHORT = 96  # characters; a note about a cut is as long

EXTRA = 4  # events other than streamed text may exceed the cap by a quarter
LEAST_STEERING = 4 * 1024 * 1024  # bytes over the cap that are always left for events in _STEERING

_STREAM = frozenset({MessageChunk, ThoughtChunk, ToolUpdated, Unrecognized})
_STEERING = frozenset(
    {PermissionRequested, QuestionAsked, RequestAnswered, BackgroundChanged, AgentReady}
)
_ALWAYS = frozenset({TurnStarted, TurnEnded, AgentExited})
_NO_BACKGROUND = BackgroundChanged(tasks=())
_FRAME = 64  # bytes of an event besides its text


class SizeCaps:
    """Cuts long texts of an event, and stores the full text in a spill file.

    Secrets are redacted before the cut, so that no part of a secret remains at its edge.
    """

    def __init__(self, secrets: Secrets, cap: int, spill: Callable[[], Spill]) -> None:
        self._secrets = secrets
        self._cap = cap
        self._spill = spill

    def apply(self, event: Event) -> Event:
        """Returns the same object if all of it fits."""
        match event:
            case MessageChunk(text=text) | ThoughtChunk(text=text) if len(text) > MESSAGE_CAP:
                return msgspec.structs.replace(event, text=self._noted(text, self._cap))
            case ToolFinished(content=content) | ToolUpdated(content=content) if content:
                room = _Room(self._cap)
                capped = tuple(self._content(part, room) for part in content)
                if room.crowded:
                    capped = (Text("", self._whole(content)),)
                if any(new is not old for new, old in zip_longest(capped, content)):
                    return msgspec.structs.replace(event, content=capped)
            case ToolStarted() | PermissionRequested():
                return self._call(event)
            case BackgroundChanged(tasks=tasks) if tasks:
                short = tuple(map(self._task, tasks[:MOST_TASKS]))
                if short != tasks:
                    return msgspec.structs.replace(event, tasks=short)
            case Unrecognized():
                return self._unrecognized(event)
            case AgentExited(detail=detail) if len(detail) > LAST_WORDS:
                return msgspec.structs.replace(event, detail=self._end_of_stderr(detail))
        return event

    def _call(self, event: ToolStarted | PermissionRequested) -> Event:
        room = _Room(self._cap)
        fitting = {"input": self._value(event.input, room), "title": self._short(event.title)}
        if room.crowded:
            cut = self._whole(event.input)
            fitting["input"] = {"…": f"[{cut.left_out} bytes left out; complete in {cut.spill}]"}
        if isinstance(event, PermissionRequested):
            fitting["reason"] = self._short(event.reason)
        if all(value is getattr(event, name) for name, value in fitting.items()):
            return event
        return msgspec.structs.replace(event, **fitting)

    def _task(self, task: BackgroundTask) -> BackgroundTask:
        if len(task.title) <= LONGEST_TITLE:
            return task
        return msgspec.structs.replace(task, title=self._short(task.title))

    def _short(self, text: str) -> str:
        if len(text) <= LONGEST_TITLE:
            return text
        return f"{self._secrets.redact_text(text)[:LONGEST_TITLE]}…"

    def _end_of_stderr(self, text: str) -> str:
        """The end of the text, without the rest of a secret that began before it."""
        redactor = TextRedactor(self._secrets)
        redactor.feed(text[:-LAST_WORDS])
        return redactor.feed(text[-LAST_WORDS:]) + redactor.flush()

    def _unrecognized(self, event: Unrecognized) -> Unrecognized:
        if len(event.raw) <= self._cap:
            if event.length is None:
                return event
            # the beginning of an overlong line: leave out what may begin a secret
            start = TextRedactor(self._secrets).feed(event.raw)
            return msgspec.structs.replace(event, raw=start)
        ends = self._cut(event.raw, self._cap, tail=0)
        length, sha256 = _measured(event.raw)
        return msgspec.structs.replace(
            event,
            raw=ends.head,
            length=event.length or length,
            sha256=event.sha256 or sha256,
            spill=event.spill or ends.spill,
        )

    def _content(self, part: Any, room: _Room) -> Any:
        match part:
            case Text(text=text, cut=cut) if not room.holds(text):
                ends = self._cut(text, room.left)
                room.spend(ends.text)
                before = cut.left_out if cut else 0
                return Text(ends.text, Cut(before + ends.left_out, ends.spill))
            case Diff(patch=patch, old=old, new=new):
                texts = [self._value(text, room) for text in (patch, old, new)]
                if any(a is not b for a, b in zip(texts, (patch, old, new), strict=True)):
                    return Diff(part.path, *texts)
        return part

    def _value(self, value: Any, room: _Room) -> Any:
        """Returns the same object if it fits, so that the common case needs no copy."""
        match value:
            case str() if not room.holds(value):
                text = self._noted(value, room.left)
                room.spend(text)
                return text
            case dict():
                fitting = {key: self._value(item, room) for key, item in value.items()}
                return value if all(fitting[key] is value[key] for key in value) else fitting
            case list():
                items = [self._value(item, room) for item in value]
                return value if all(a is b for a, b in zip(items, value, strict=True)) else items
            case _:
                room.spend_small()
        return value

    def _whole(self, value: object) -> Cut:
        """Spills a value of many short texts as a whole."""
        encoded = encode(value)
        spill = self._spill()
        spill.write(encoded)
        return Cut(len(encoded), spill.close())

    def _noted(self, text: str, room: int) -> str:
        """Cuts a text without a `Cut` field; adds a note about the cut to the text."""
        ends = self._cut(text, room)
        return f"{ends.text}\n[{ends.left_out} bytes left out; complete in {ends.spill}]"

    def _cut(self, text: str, room: int, tail: int | None = None) -> _Ends:
        """Cuts the middle and spills the whole text; two fifths are for the end with its errors."""
        spill = self._spill()
        redactor = TextRedactor(self._secrets)
        ends = _Ends(room, room * 2 // 5 if tail is None else tail)
        for piece in _pieces(text):
            spill.write(piece.encode("utf-8", "replace"))
            ends.add(redactor.feed(piece))
        ends.add(redactor.flush())
        ends.spill = spill.close()
        return ends


class _Room:
    """The remaining size of one event; many short texts count like a long one."""

    def __init__(self, size: int) -> None:
        self.left = size
        self._small = MOST_SMALL

    @property
    def crowded(self) -> bool:
        return self._small < 0

    def holds(self, text: str) -> bool:
        if len(text) <= self.left:
            self.left -= len(text)
            return True
        if len(text) <= _SHORT:
            self._small -= len(text)
            return True
        return False

    def spend(self, text: str) -> None:
        self.left = max(0, self.left - len(text))

    def spend_small(self) -> None:
        self._small -= 8


class _Ends:
    """The beginning and end of a streamed text."""

    def __init__(self, room: int, tail: int) -> None:
        self._head_room = room - tail
        self._tail_room = tail
        self._bytes = 0
        self._tail = ""
        self.head = ""
        self.spill = ""

    def add(self, text: str) -> None:
        self._bytes += _size(text)
        if (room := self._head_room - len(self.head)) > 0:
            self.head += text[:room]
            text = text[room:]
        if text:
            self._tail = (self._tail + text)[-self._tail_room :] if self._tail_room else ""

    @property
    def left_out(self) -> int:
        return self._bytes - _size(self.head) - _size(self._tail)

    @property
    def text(self) -> str:
        return f"{self.head}\n… {self.left_out} bytes left out …\n{self._tail}"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def _measured(text: str) -> tuple[int, str]:
    length, digest = 0, hashlib.sha256()
    for piece in _pieces(text):
        data = piece.encode("utf-8", "replace")
        length += len(data)
        digest.update(data)
    return length, digest.hexdigest()


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class DiskBudget:
    """The bytes that one turn may take in the log and in spill files together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size
        self._idle_recorded = False

    def refill(self) -> None:
        self._left = self.size
        self._idle_recorded = False

    def spend(self, size: int, events: Sequence[Event]) -> bool:
        """Spends the size on the events; returns whether they may be stored."""
        if size <= self._left or self._admits(size, events):
            self._left -= size
            return True
        return False

    def _admits(self, size: int, events: Sequence[Event]) -> bool:
        """Decides above the cap: no streamed text, then only events that others wait for, and above
        twice the cap only the end of the turn."""
        kinds = {type(event) for event in events}
        if kinds <= _STREAM:
            self._left = min(self._left, 0)  # a shorter line must not fit afterwards
            return False
        if not kinds.isdisjoint(_ALWAYS) or size <= self._left + self.size // EXTRA:
            return True
        if kinds.isdisjoint(_STEERING):
            return False
        return size <= self._left + max(self.size, LEAST_STEERING) or self._becomes_idle(events)

    def _becomes_idle(self, events: Sequence[Event]) -> bool:
        """Admits a turn's first report that no background task is left: a session waits for it."""
        if self._idle_recorded or _NO_BACKGROUND not in events:
            return False
        self._idle_recorded = True
        return True

    def take(self, wanted: int) -> int:
        """Takes as many bytes as are left, up to `wanted`."""
        granted = max(0, min(wanted, self._left))
        self._left -= granted
        return granted


def weight(event: Event) -> int:
    """Bytes of an event, in the log or in memory; estimated for chunks."""
    kind = type(event)
    if kind is MessageChunk or kind is ThoughtChunk:
        text = event.text  # type: ignore[union-attr]
    elif kind is Unrecognized:
        text = event.raw  # type: ignore[union-attr]
    else:
        return len(encode(event))
    return _FRAME + (len(text) if text.isascii() else 4 * len(text))
