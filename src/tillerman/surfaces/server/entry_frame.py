"""Frames of entries: encoded once, and shared by every client that is at the same place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tillerman.core.events import Entry
from tillerman.store.row_codec import encode

FRAME_BYTES = 256 * 1024  # of the entries; one entry may be longer


class EntryFrame:
    """Consecutive entries, as the bytes of an event stream and as the text of a message."""

    __slots__ = ("_message", "_stream", "encoded", "first", "size")

    def __init__(self, first: int, encoded: Sequence[bytes]) -> None:
        self.first = first
        self.encoded = encoded
        self.size = sum(map(len, encoded))
        self._stream: bytes | None = None
        self._message: str | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.encoded) - 1

    @property
    def stream(self) -> bytes:
        """The entries as server-sent events, each with its number as id."""
        if self._stream is None:
            self._stream = b"".join(
                b"id: %d\ndata: %b\n\n" % (seq, entry)
                for seq, entry in enumerate(self.encoded, self.first)
            )
        return self._stream

    @property
    def message(self) -> str:
        """The entries as the text of one WebSocket message, an entry per line."""
        if self._message is None:
            self._message = b"\n".join(self.encoded).decode()
        return self._message

    def after(self, since: int) -> EntryFrame:
        """This frame without the entries up to this number."""
        if since < self.first:
            return self
        return EntryFrame(since + 1, self.encoded[since + 1 - self.first :])


def frames_of(entries: Iterable[Entry]) -> list[EntryFrame]:
    """Frames of bounded size for entries in order."""
    frames: list[EntryFrame] = []
    first = size = 0
    encoded: list[bytes] = []
    for entry in entries:
        data = encode(entry)
        if encoded and size + len(data) > FRAME_BYTES:
            frames.append(EntryFrame(first, encoded))
            encoded, size = [], 0
        if not encoded:
            first = entry.seq
        encoded.append(data)
        size += len(data)
    if encoded:
        frames.append(EntryFrame(first, encoded))
    return frames
