"""Exports a session to a new file; never overwrites an existing one."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.sessions.export import Format
    from tillerman.store.event_log import EventLog
    from tillerman.store.session_row import SessionRow

ENDINGS: dict[Format, str] = {"markdown": "md", "html": "html", "jsonl": "jsonl"}


def usual_name(row: SessionRow, format: Format, number: int = 1) -> str:
    more = "" if number == 1 else f"-{number}"
    return f"session-{row.id}{more}.{ENDINGS[format]}"


def write(log: EventLog, row: SessionRow, format: Format, path: Path) -> int:
    """Returns the size in bytes."""
    try:
        return _write(log, row, format, path)
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="choose another file name") from None


def write_into(log: EventLog, row: SessionRow, format: Format, folder: Path) -> Path:
    """Uses the first default name that does not exist yet."""
    for number in count(1):
        path = folder / usual_name(row, format, number)
        try:
            _write(log, row, format, path)
        except FileExistsError:
            continue
        break
    return path


def _write(log: EventLog, row: SessionRow, format: Format, path: Path) -> int:
    from tillerman.sessions.export import document
    from tillerman.sessions.session import read_all

    try:
        with open(path, "xb", opener=_private) as file:
            file.writelines(document(read_all(log, row.id), row.title, format))
            return file.tell()
    except FileExistsError:
        raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="choose another file"
        ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
