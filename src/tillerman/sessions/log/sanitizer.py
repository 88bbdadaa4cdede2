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
    encode,
)
from tillerman.sessions.log.size_limits import MESSAGE_CAP, DiskBudget, SizeCaps, weight
from tillerman.supervision.secrets import Secrets, TextRedactor

RAW_CAP = 1024 * 1024
HELD_RAW = 4  # a raw line that ends in a longer prefix of a possible secret is dropped

_BETWEEN = b"\x1e"  # not in any JSON line
_BREAK = "\x1e"

Chunk = MessageChunk | ThoughtChunk
_CHUNKS = frozenset({MessageChunk, ThoughtChunk})


class ChunkBatch(NamedTuple):
    """Chunks of one message and nothing else, the usual case while an agent streams text."""

    lines: Sequence[DecodedLine]  # one line and one event each
    whole: Chunk
    size: int  # bytes in the log


class _Search(NamedTuple):
    """Result of the search for secrets in a batch."""

    clean: bool  # neither its lines nor its events contain one
    lines_clean: bool


_CLEAN = _Search(clean=True, lines_clean=True)


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
        self._last_chunk: Chunk | None = None
        self._dropped = _Dropped()

    def new_turn(self) -> None:
        self._budget.refill()

    def sanitize(self, batch: Sequence[DecodedLine]) -> Iterator[DecodedLine]:
        """Yields the lines with their events and images as they may be stored."""
        taken = self.sanitize_batch(batch)
        return iter(taken.lines) if isinstance(taken, ChunkBatch) else taken

    def sanitize_batch(self, batch: Sequence[DecodedLine]) -> ChunkBatch | Iterator[DecodedLine]:
        """Like `sanitize`, but text chunks stay together.

        Secrets are searched once, in all lines, events and text together: only a batch that may
        contain one is searched again, event by event.
        """
        admitted, encoded, size = self._within_budget(batch)
        whole = _one_message(admitted) if size < RAW_CAP else None
        chunks = _BREAK + whole.text if whole else "".join(_chunk_texts(admitted))
        raws = [line.raw for line in admitted if line.raw]
        text = self._redactor.with_context(chunks) if chunks else b""
        if size < RAW_CAP and not self._secrets.finds(_BETWEEN.join([*raws, *encoded, text])):
            found = _CLEAN
            chunks_clean = not chunks or self._redactor.accepts(text)
        else:
            found = _Search(False, not self._secrets.finds(_BETWEEN.join(raws)))
            chunks_clean = found.lines_clean and self._redactor.passes(chunks)
        if whole and chunks_clean:
            self._last_chunk = admitted[-1].events[0]  # type: ignore[assignment]
            return ChunkBatch(admitted, whole, size)
        return self._sanitize_each(admitted, found, chunks_clean)

    def _sanitize_each(
        self, admitted: Sequence[DecodedLine], found: _Search, chunks_clean: bool
    ) -> Iterator[DecodedLine]:
        for line in admitted:
            raw, decoded, pictures = line
            if (
                chunks_clean
                and len(decoded) == 1
                and type(decoded[0]) in _CHUNKS
                and len(raw or b"") <= RAW_CAP
            ):
                self._last_chunk = decoded[0]  # type: ignore[assignment]
                yield line
                continue
            events: list[Event] = []
            whole = True
            for event in decoded:
                if isinstance(event, Chunk):
                    events += self._text(event, chunks_clean)
                    whole &= not self._redactor.joined
                else:
                    events += [*self._release(), self._redacted(event, clean=found.clean)]
            stored = self._raw(raw, found.lines_clean) if whole and not _spilled(decoded) else None
            yield DecodedLine(stored, events, [p for p in pictures if not self._secrets.finds(p)])

    def flush(self) -> list[Event]:
        """Flushes text that is held back, and the notice of dropped bytes, at the end of a turn."""
        events = list(self._release())
        if self._dropped:
            events.append(self._dropped.notice())
            self._dropped = _Dropped()
        return events

    def clean(self, event: Event) -> Event:
        """Redacts an event that tillerman made."""
        return self._redacted(event)

    def _within_budget(
        self, batch: Sequence[DecodedLine]
    ) -> tuple[list[DecodedLine], list[bytes], int]:
        """The lines that the turn's budget has room for, their encoded events, and their size."""
        admitted: list[DecodedLine] = []
        encoded: list[bytes] = []
        total = 0
        for line in batch:
            size = _measured(line, encoded)
            if self._budget.spend(size, line.events):
                admitted.append(line if size < MESSAGE_CAP else self._shortened(line))
                total += size
                continue
            if not self._dropped:
                admitted.append(DecodedLine(None, [self._over_budget()]))
            self._dropped.add(line.raw or b"")
        return admitted, encoded, total

    def _shortened(self, line: DecodedLine) -> DecodedLine:
        """Caps chunks before they are redacted; other events are capped one by one."""
        events = [self._caps.apply(e) if isinstance(e, Chunk) else e for e in line.events]
        return DecodedLine(line.raw, events, line.kept)

    def _text(self, chunk: Chunk, chunks_clean: bool) -> Sequence[Event]:
        if chunks_clean:
            self._last_chunk = chunk
            return (chunk,)
        return list(self._chunk(chunk))

    def _redacted(self, event: Event, *, clean: bool = False) -> Event:
        """Caps the event, and redacts it unless it is known to be clean."""
        redacted = self._caps.apply(event)
        if not clean:
            redacted = self._secrets.redact_event(redacted)
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
        last = self._last_chunk
        if last and not _same_message(last, chunk):
            yield from self._release()
        self._last_chunk = chunk
        if text := self._redactor.feed(chunk.text):
            message = self._secrets.redact_text(chunk.message_id)
            parent = chunk.parent and self._secrets.redact_text(chunk.parent)
            yield type(chunk)(message_id=message, text=text, parent=parent)

    def _release(self) -> Iterator[Event]:
        last, self._last_chunk = self._last_chunk, None
        if last and (text := self._redactor.flush()):
            yield msgspec.structs.replace(last, text=text)

    def _raw(self, raw: bytes | None, clean: bool) -> bytes | None:
        if raw is None or (self._last_chunk and self._redactor.held > HELD_RAW):
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


def _spilled(decoded: Sequence[Event]) -> bool:
    """Whether it is an overlong line: the start of it in its event may end within a secret."""
    return any(isinstance(event, Unrecognized) and event.spill for event in decoded)


def _measured(line: DecodedLine, encoded: list[bytes]) -> int:
    """Bytes of a line in the log. Appends its events but for chunks to `encoded`.

    Most of a very long line goes to a spill file; its events are not encoded here.
    """
    raw, events, _ = line
    size = len(raw) if raw else 0
    if size > RAW_CAP:
        return 2 * RAW_CAP
    for event in events:
        if type(event) in _CHUNKS:
            size += weight(event)
            continue
        encoded.append(encode(event))
        size += weight(event) if type(event) is Unrecognized else len(encoded[-1])
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


def _chunk_texts(batch: Sequence[DecodedLine]) -> Iterator[str]:
    """Yields the text of the batch, with a break where another message or event comes between."""
    last: Chunk | None = None
    for line in batch:
        for event in line.events:
            if not isinstance(event, Chunk):
                last = None
                continue
            if last is None or not _same_message(last, event):
                yield _BREAK
            yield event.text
            last = event


def _same_message(one: Chunk, other: Chunk) -> bool:
    return (
        type(one) is type(other)
        and one.message_id == other.message_id
        and one.parent == other.parent
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
