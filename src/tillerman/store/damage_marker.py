"""Marks a store as damaged in a file beside it, so that the next opening knows of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from tillerman.core.errors import StoreDamaged


class _Note(msgspec.Struct):
    why: str
    aside: str | None = None


class DamageMarker:
    def __init__(self, path: Path) -> None:
        self._file = path.with_name(f"{path.name}.damaged")
        note = _Note("")
        with contextlib.suppress(FileNotFoundError):
            try:
                note = msgspec.json.decode(self._file.read_bytes(), type=_Note)
            except msgspec.MsgspecError:
                note = _Note("it was marked as damaged")
        self.why = note.why
        self.aside = Path(note.aside) if note.aside and Path(note.aside).is_dir() else None

    def set(self, why: str, aside: Path | None = None) -> None:
        self.why, self.aside = why, aside
        written = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(_Note(why, str(aside) if aside else None)))
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._file)

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)


def damaged(path: Path, why: str) -> StoreDamaged:
    """Returns the error for newly found damage, and marks the store as damaged."""
    mark = DamageMarker(path)
    if not mark.why:
        with contextlib.suppress(OSError):  # if the mark cannot be written, damage is found again
            mark.set(why)
    return StoreDamaged(
        f"{path} is damaged: {why}", hint="the next start recovers what can be read"
    )
