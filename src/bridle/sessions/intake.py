"""What an agent said, on its way into the log: secrets taken out, sizes capped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from bridle.core.agent import Heard, Spill
from bridle.core.events import (
    Cut,
    Diff,
    Event,
    MessageChunk,
    Notice,
    PermissionRequested,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    Unrecognized,
)
from bridle.supervision.secrets import Secrets, TextRedactor

RAW_CAP = 1024 * 1024
HELD_RAW = 4  # a raw line that ends in more of a possible secret than this is not kept

_BETWEEN = b"\x1e"  # stands in no JSON line
_BREAK = "\x1e"

Chunk = MessageChunk | ThoughtChunk
_BULK = (MessageChunk, ThoughtChunk, ToolUpdated, Unrecognized)


class Intake:
    """One per session; the turn's budget is set anew at each turn."""

    def __init__(
        self, secrets: Secrets, *, output_cap: int, turn_cap: int, spill: Callable[[], Spill]
    ) -> None:
        self._secrets = secrets
        self._output_cap = output_cap
        self._turn_cap = turn_cap
        self._spill = spill
        self._redactor = TextRedactor(secrets)
        self._speaking: Chunk | None = None
        self._budget = turn_cap
        self._dropped = _Dropped()

    def new_turn(self) -> None:
        self._budget = self._turn_cap

    def take(self, batch: Sequence[Heard]) -> Iterator[tuple[bytes | None, list[Event]]]:
        """The lines and their events as they may be stored.

        A secret is looked for once in all the lines, and once in all the words: only a batch that
        may hold one is gone through piece by piece.
        """
        raws = _BETWEEN.join([heard.raw for heard in batch if heard.raw])
        clean = not self._secrets.finds(raws)
        plain = self._redactor.passes("".join(_words(batch)))
        for heard in batch:
            if self._budget < len(heard.raw or b"") and _is_bulk(heard):
                yield None, self._drop(heard)
            else:
                self._budget -= len(heard.raw or b"")
                events = [out for event in heard.events for out in self._event(event, plain)]
                yield self._raw(heard.raw, clean), events

    def rest(self) -> list[Event]:
        """What is still held back, and what was dropped: nothing else is coming in this turn."""
        events = list(self._let_go())
        if self._dropped:
            events.append(self._dropped.notice())
            self._dropped = _Dropped()
        return events

    def clean(self, event: Event) -> Event:
        """An event of our own making, without the secrets."""
        return self._secrets.redact_event(event)

    def _drop(self, heard: Heard) -> list[Event]:
        first = not self._dropped
        self._dropped.add(heard.raw or b"")
        return [self._over_budget()] if first else []

    def _event(self, event: Event, plain: bool) -> Sequence[Event]:
        if not isinstance(event, Chunk):
            return [*self._let_go(), self._secrets.redact_event(self._capped(event))]
        if plain:
            self._speaking = event
            return (event,)
        return list(self._chunk(event))

    def _chunk(self, chunk: Chunk) -> Iterator[Event]:
        speaking = self._speaking
        if speaking and _voice(speaking) != _voice(chunk):
            yield from self._let_go()
        self._speaking = chunk
        if text := self._redactor.feed(chunk.text):
            yield chunk if text == chunk.text else msgspec.structs.replace(chunk, text=text)

    def _let_go(self) -> Iterator[Event]:
        speaking, self._speaking = self._speaking, None
        if speaking and (text := self._redactor.flush()):
            yield msgspec.structs.replace(speaking, text=text)

    def _raw(self, raw: bytes | None, clean: bool) -> bytes | None:
        if raw is None or self._redactor.held > HELD_RAW:
            return None
        if not clean:
            raw = self._secrets.redact(raw)
        if len(raw) <= RAW_CAP:
            return raw
        spill = self._spill()
        spill.write(raw)
        note = {"spill": spill.close(), "length": len(raw), "sha256": _sha256(raw)}
        return msgspec.json.encode(note)

    def _over_budget(self) -> Notice:
        text = f"this turn's log reached {self._turn_cap} bytes; streamed text is dropped from here"
        return Notice(level="warning", kind="truncated", text=text)

    def _capped(self, event: Event) -> Event:
        match event:
            case ToolFinished(content=content) | ToolUpdated(content=content) if content:
                capped = tuple(self._cap_content(part) for part in content)
                return msgspec.structs.replace(event, content=capped)
            case ToolStarted(input=given) | PermissionRequested(input=given):
                if (fitting := self._cap_value(given)) is not given:
                    return msgspec.structs.replace(event, input=fitting)
            case Unrecognized(raw=raw) if len(raw) > self._output_cap:
                spill = event.spill or self._keep(raw)
                return msgspec.structs.replace(
                    event,
                    raw=raw[: self._output_cap],
                    length=event.length or len(raw.encode()),
                    sha256=event.sha256 or _sha256(raw.encode()),
                    spill=spill,
                )
        return event

    def _cap_content(self, part: Any) -> Any:
        match part:
            case Text(text=text, cut=None) if len(text) > self._output_cap:
                short, left_out = self._shorten(text)
                return Text(short, Cut(left_out, self._keep(text)))
            case Diff():
                texts = {name: getattr(part, name) for name in ("patch", "old", "new")}
                short_texts = {name: self._cap_value(text) for name, text in texts.items()}
                if short_texts != texts:
                    return msgspec.structs.replace(part, **short_texts)
        return part

    def _cap_value(self, value: Any) -> Any:
        """The same object when it fits, so that the common case costs a walk and no copy."""
        match value:
            case str() if len(value) > self._output_cap:
                short, left_out = self._shorten(value)
                return f"{short}\n[{left_out} bytes left out; whole in {self._keep(value)}]"
            case dict():
                fitting = {key: self._cap_value(item) for key, item in value.items()}
                return value if all(fitting[key] is value[key] for key in value) else fitting
            case list():
                items = [self._cap_value(item) for item in value]
                return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return value

    def _shorten(self, text: str) -> tuple[str, int]:
        """Beginning and end: errors stand at the end."""
        head = self._output_cap * 3 // 5
        tail = self._output_cap - head
        left_out = len(text[head:-tail].encode("utf-8", "replace"))
        return f"{text[:head]}\n… {left_out} bytes left out …\n{text[-tail:]}", left_out

    def _keep(self, text: str) -> str:
        spill = self._spill()
        spill.write(text.encode("utf-8", "replace"))
        return spill.close()


class _Dropped:
    """Counts and hashes what no cap had room for: the only loss there is."""

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
            f"dropped {self._bytes} bytes in {self._lines} lines over the turn's cap; "
            f"sha256 {self._hash.hexdigest()}"
        )
        return Notice(level="warning", kind="truncated", text=text)


def _words(batch: Sequence[Heard]) -> Iterator[str]:
    """What is said in the batch, with a break wherever another voice or event comes between."""
    last: Chunk | None = None
    for heard in batch:
        for event in heard.events:
            if not isinstance(event, Chunk):
                last = None
                continue
            if last is None or _voice(last) != _voice(event):
                yield _BREAK
            yield event.text
            last = event


def _is_bulk(heard: Heard) -> bool:
    return all(isinstance(event, _BULK) for event in heard.events)


def _voice(chunk: Chunk) -> tuple[type, str, str | None]:
    return type(chunk), chunk.message_id, chunk.parent


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
