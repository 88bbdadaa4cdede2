"""Parses SQLite's write-ahead log, to find frames that SQLite would drop silently."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = 4096
HEADER, FRAME = 32, 24
_MAGIC = 0x377F0682  # + 1 for big-endian checksums
_INDEX_HEADER = 48  # bytes; the -shm file holds it twice
_BACKFILLED = 96


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


@dataclass(frozen=True)
class WalFrame:
    number: int  # from 1
    page: int
    commits: bool
    whole: bool  # its checksum is valid; only with `checked`
    data: bytes


@dataclass(frozen=True)
class Log:
    """The frames of the log's current generation; older frames have different salts."""

    data: bytes

    @classmethod
    def beside(cls, path: Path) -> Log:
        try:
            return cls(log_of(path).read_bytes())
        except FileNotFoundError:
            return cls(b"")

    @property
    def holds_frames(self) -> bool:
        return len(self.data) >= HEADER + FRAME + PAGE

    @property
    def header_whole(self) -> bool:
        magic, _, page = struct.unpack(">III", self.data[:12])
        if magic & ~1 != _MAGIC or page != PAGE:
            return False
        return self._checksum(self.data[:24], (0, 0)) == struct.unpack(">II", self.data[24:32])

    @property
    def salts(self) -> bytes:
        """The salts of the header, or of the first frame if the header is broken."""
        if self.header_whole:
            return self.data[16:24]
        return self.data[HEADER + 8 : HEADER + 16]

    def frames(self, *, checked: bool = False) -> Iterator[WalFrame]:
        if not self.holds_frames:
            return
        salts = self.salts
        before: tuple[int, ...] = struct.unpack(">II", self.data[24:32])
        starts = range(HEADER, len(self.data) - FRAME - PAGE + 1, FRAME + PAGE)
        for number, start in enumerate(starts, 1):
            head = self.data[start : start + FRAME]
            page, pages_after = struct.unpack(">II", head[:8])
            if head[8:16] == salts:
                data = self.data[start + FRAME : start + FRAME + PAGE]
                sums = struct.unpack(">II", head[16:])
                whole = checked and self._checksum(head[:8] + data, before) == sums
                yield WalFrame(number, page, pages_after > 0, whole, data)
            before = struct.unpack(">II", head[16:])

    def _checksum(self, data: bytes, before: tuple[int, ...]) -> tuple[int, int]:
        order = ">" if self.data[3] & 1 else "<"
        first, second = before
        words = struct.unpack(f"{order}{len(data) // 4}I", data)
        for even, odd in zip(words[::2], words[1::2], strict=True):
            first = (first + even + second) & 0xFFFFFFFF
            second = (second + odd + first) & 0xFFFFFFFF
        return first, second


def committed_frames(path: Path, log: Log) -> int:
    """Returns how many committed frames are not in the database yet; 0 if unknown.

    The number is in the -shm file, which SQLite writes after the log is synced, and rebuilds from
    the log at the next opening. The frames of a truncated log are therefore known only before that.
    """
    try:
        shared = index_of(path).read_bytes()[: _BACKFILLED + 4]
    except FileNotFoundError:
        return 0
    if len(shared) < _BACKFILLED + 4 or shared[:_INDEX_HEADER] != shared[_INDEX_HEADER:96]:
        return 0
    committed: int = struct.unpack_from("=I", shared, 16)[0]
    backfilled: int = struct.unpack_from("=I", shared, _BACKFILLED)[0]
    same_generation = not log.holds_frames or log.salts == shared[32:40]
    return committed if same_generation and committed > backfilled else 0
