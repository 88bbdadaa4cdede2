"""Saves the known state of protected files to disk, for a restarted harness."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from tillerman.workspace.protection.protected_state import State


class SavedState:
    """Reads and writes the state. `path` is None if nothing is saved."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, state: State) -> None:
        if self._path:
            with suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft = self._path.with_name(f"{self._path.name}.new")
                draft.write_bytes(msgspec.msgpack.encode(state))
                draft.replace(self._path)

    def read(self) -> State | None:
        if self._path:
            with suppress(OSError, msgspec.MsgspecError):
                return msgspec.msgpack.decode(self._path.read_bytes(), type=State)
        return None

    def remove(self) -> None:
        if self._path:
            self._path.unlink(missing_ok=True)
