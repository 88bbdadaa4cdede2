"""Redacts secrets and caps sizes of events before they are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from tillerman.core import tools
from tillerman.core.agent import DecodedLine, Spill
from tillerman.core.events import (
    Event,
    MessageChunk,
    Notice,
    PermissionRequested,
    ThoughtChunk,
    ToolStarted,
    Unrecognized,
)
from tillerman.sessions.log.disk_budget import DiskBudget, weight
from tillerman.sessions.log.size_caps import MESSAGE_CAP, SizeCaps
from tillerman.supervision.secrets import Secrets, TextRedactor

RAW_CAP = 1024 * 1024
HELD_RAW = 4  # a raw line that ends in a longer prefix of a possible secret is dropped

_BETWEEN = b"\x1e"  # not in any JSON line
_BREAK = "\x1e"

Chunk = MessageChunk | ThoughtChunk
_CHUNKS = frozenset({MessageChunk, ThoughtChunk})


class ChunkBatch(NamedTuple):
    """Chunks of one message and nothing else, the usual case while an agent streams text."""

    heard: Sequence[DecodedLine]  # one line and one event each
    whole: Chunk
    size: int  # bytes in the log


class EventSanitizer:
    """Sanitizes the output of one session; the budget is refilled at each turn."""

    def __init__(
        self,
        secrets: Secrets,
        *,
        output_cap: int,
        budget: DiskBudget,
        spill: Callable[[], Spill],
        cwd: str = "",
    ) -> None:
        self._secrets = secrets
        self._caps = SizeCaps(secrets, output_cap, spill)
        self._budget = budget
        self._spill = spill
        self._cwd = cwd
        self._redactor = TextRedactor(secrets)
        self._speaking: Chunk | None = None
        self._dropped = _Dropped()

    def new_turn(self) -> None:
        self._budget.refill()

    def take(self, batch: Sequence[DecodedLine]) -> Iterator[DecodedLine]:
        """Yields the lines with their events and images as they may be stored."""
        taken = self.take_at_once(batch)
        return iter(taken.heard) if isinstance(taken, ChunkBatch) else taken

    def take_at_once(self, batch: Sequence[DecodedLine]) -> ChunkBatch | Iterator[DecodedLine]:
        """Like `take`, but text chunks stay together.

        Secrets are searched once in all lines, and once in all text: only a batch that may contain
        one is processed event by event.
        """
        kept, size = self._kept(batch)
        clean = not self._secrets.finds(_BETWEEN.join([heard.raw for heard in kept if heard.raw]))
        whole = _one_message(kept) if size < RAW_CAP else None
        words = _BREAK + whole.text if whole else "".join(_words(kept))
        plain = clean and self._redactor.passes(words)
        if whole and plain:
            self._speaking = kept[-1].events[0]  # type: ignore[assignment]
            return ChunkBatch(kept, whole, size)
        return self._gone_through(kept, clean, plain)

    def _gone_through(
        self, kept: Sequence[DecodedLine], clean: bool, plain: bool
    ) -> Iterator[DecodedLine]:
        for heard in kept:
            raw, said, pictures = heard
            if plain and len(said) == 1 and type(said[0]) in _CHUNKS and len(raw or b"") <= RAW_CAP:
                self._speaking = said[0]  # type: ignore[assignment]
                yield heard
                continue
            events: list[Event] = []
            whole = True
            for event in said:
                events += self._event(event, plain)
                whole &= not self._redactor.joined
            stored = self._raw(raw, clean) if whole and not _spilled(said) else None
            yield DecodedLine(stored, events, [p for p in pictures if not self._secrets.finds(p)])

    def rest(self) -> list[Event]:
        """Flushes text that is held back, and the notice of dropped bytes, at the end of a turn."""
        events = list(self._let_go())
        if self._dropped:
            events.append(self._dropped.notice())
            self._dropped = _Dropped()
        return events

    def clean(self, event: Event) -> Event:
        """Redacts an event that tillerman made."""
        return self._settled(event)

    def _kept(self, batch: Sequence[DecodedLine]) -> tuple[list[DecodedLine], int]:
        """The lines that the turn's budget has room for, and their size."""
        kept: list[DecodedLine] = []
        total = 0
        for heard in batch:
            size = _size(heard)
            if self._budget.spend(size, heard.events):
                kept.append(heard if size < MESSAGE_CAP else self._shortened(heard))
                total += size
                continue
            if not self._dropped:
                kept.append(DecodedLine(None, [self._over_budget()]))
            self._dropped.add(heard.raw or b"")
        return kept, total

    def _shortened(self, heard: DecodedLine) -> DecodedLine:
        """Caps chunks before they are redacted; other events are capped one by one."""
        events = [self._caps.apply(e) if isinstance(e, Chunk) else e for e in heard.events]
        return DecodedLine(heard.raw, events, heard.kept)

    def _event(self, event: Event, plain: bool) -> Sequence[Event]:
        if not isinstance(event, Chunk):
            return [*self._let_go(), self._settled(event)]
        if plain:
            self._speaking = event
            return (event,)
        return list(self._chunk(event))

    def _settled(self, event: Event) -> Event:
        redacted = self._secrets.redact_event(self._caps.apply(event))
        if redacted is event:
            return event
        match event, redacted:
            case ((ToolStarted() | PermissionRequested()), (ToolStarted() | PermissionRequested())):
                # a generated title may contain the beginning of a secret: generate it again
                if event.title == self._title(event):
                    return msgspec.structs.replace(redacted, title=self._title(redacted))
        return redacted

    def _title(self, event: ToolStarted | PermissionRequested) -> str:
        name = event.name if isinstance(event, ToolStarted) else ""
        return tools.title(event.tool, event.input, name=name, cwd=self._cwd)

    def _chunk(self, chunk: Chunk) -> Iterator[Event]:
        speaking = self._speaking
        if speaking and not _same_voice(speaking, chunk):
            yield from self._let_go()
        self._speaking = chunk
        if text := self._redactor.feed(chunk.text):
            message = self._secrets.redact_text(chunk.message_id)
            parent = chunk.parent and self._secrets.redact_text(chunk.parent)
            yield type(chunk)(message_id=message, text=text, parent=parent)

    def _let_go(self) -> Iterator[Event]:
        speaking, self._speaking = self._speaking, None
        if speaking and (text := self._redactor.flush()):
            yield msgspec.structs.replace(speaking, text=text)

    def _raw(self, raw: bytes | None, clean: bool) -> bytes | None:
        if raw is None or self._redactor.held > HELD_RAW:
            return None
        if len(raw) <= RAW_CAP:
            return raw if clean else self._secrets.redact(raw)
        spill = self._spill()
        spill.write(raw)
        note = {"spill": spill.close(), "length": len(raw), "sha256": _sha256(raw)}
        return msgspec.json.encode(note)

    def _over_budget(self) -> Notice:
        text = f"this turn's log reached {self._budget.size} bytes; further output is dropped"
        return Notice(level="warning", kind="truncated", text=text)


class _Dropped:
    """Counts and hashes the lines dropped over the cap, the only data loss."""

    def __init__(self) -> None:
        self._bytes = 0
        self._lines = 0
        self._hash = hashlib.sha256()

    def __bool__(self) -> bool:
        return self._lines > 0

    def add(self, raw: bytes) -> None:
        self._lines += 1
        self._bytes += len(raw)
        self._hash.update(raw)

    def notice(self) -> Notice:
        text = (
            f"dropped {self._bytes} bytes in {self._lines} lines over the turn's size limit; "
            f"sha256 {self._hash.hexdigest()}"
        )
        return Notice(level="warning", kind="truncated", text=text)


def _spilled(said: Sequence[Event]) -> bool:
    """Whether it is an overlong line: the start of it in its event may end within a secret."""
    return any(isinstance(event, Unrecognized) and event.spill for event in said)


def _size(heard: DecodedLine) -> int:
    """Bytes of a line in the log; most of a very long one goes to a spill file."""
    raw, events, _ = heard
    size = len(raw) if raw else 0
    if size > RAW_CAP:
        return 2 * RAW_CAP
    for event in events:
        size += weight(event)
    return size


def _one_message(batch: Sequence[DecodedLine]) -> Chunk | None:
    """Joins the batch into one chunk; None if it contains anything else, or a subagent's text."""
    first: Chunk | None = None
    texts: list[str] = []
    for _, events, pictures in batch:
        if len(events) != 1 or pictures:
            return None
        event = events[0]
        if first is None and isinstance(event, Chunk) and event.parent is None:
            first = event
        elif (
            first is None
            or type(event) is not type(first)
            or event.message_id != first.message_id
            or event.parent is not None
        ):
            return None
        texts.append(event.text)
    return first and type(first)(message_id=first.message_id, text="".join(texts))


def _words(batch: Sequence[DecodedLine]) -> Iterator[str]:
    """Yields the text of the batch, with a break where another message or event comes between."""
    last: Chunk | None = None
    for heard in batch:
        for event in heard.events:
            if not isinstance(event, Chunk):
                last = None
                continue
            if last is None or not _same_voice(last, event):
                yield _BREAK
            yield event.text
            last = event


def _same_voice(one: Chunk, other: Chunk) -> bool:
    return (
        type(one) is type(other)
        and one.message_id == other.message_id
        and one.parent == other.parent
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
