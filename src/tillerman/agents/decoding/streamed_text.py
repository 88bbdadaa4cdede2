"""Recognizes a complete text whose chunks were already streamed, without storing it."""

from __future__ import annotations

from zlib import crc32


class Streamed:
    """Length and checksum of the streamed text, so that memory use stays constant."""

    def __init__(self) -> None:
        self.length = 0
        self._sum = 0

    def add(self, piece: str) -> None:
        self.length += len(piece)
        self._sum = crc32(piece.encode("utf-8", "replace"), self._sum)

    def begins(self, whole: str) -> bool:
        if len(whole) < self.length:
            return False
        return crc32(whole[: self.length].encode("utf-8", "replace")) == self._sum

    def equals(self, whole: str) -> bool:
        return len(whole) == self.length and self.begins(whole)
