"""Temporary files in the user's folders, removed when their program no longer needs them.

Each is recorded in its warden's folder before it is created: the process that removes that folder,
the warden or a later sweep, removes the file too. A file is removed only if its content is
unchanged.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH102, PTH106, PTH108, PTH112, PTH114, PTH120

from __future__ import annotations

import os

from tillerman.supervision.warden.records import PLACES, ProgramRecord, load


class TemporaryFiles:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._record: ProgramRecord | None = None

    def put(self, path: str, content: bytes) -> bool:
        """Creates the file. Returns False if the path exists or cannot be created."""
        try:
            return self._put(path, content)
        except OSError:
            return False

    def take_back(self) -> None:
        if self._record:
            clear(self._folder)
            self._record.remove()
            self._record = None

    def _put(self, path: str, content: bytes) -> bool:
        parent = os.path.dirname(path)
        if os.path.lexists(path) or os.path.islink(parent):
            return False
        if self._record is None:
            self._record = ProgramRecord(self._folder, PLACES)
        if not os.path.isdir(parent):
            self._record.add("folder", _hex(parent))
            os.mkdir(parent)
        self._record.add("file", _hex(path), content.hex())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(path, flags, 0o600)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(number, view) :]
        except OSError:
            os.unlink(path)  # a partial file would be mistaken for a user's file
            raise
        finally:
            os.close(number)
        return True


def clear(folder: str) -> None:
    """Removes the files that this warden's record lists."""
    record = load(f"{folder}/{PLACES}")
    for row in record.get("file", []):
        try:
            path, content = row
            _remove(_text(path), bytes.fromhex(content))
        except (OSError, ValueError):
            continue  # it cannot be removed, or a full disk truncated its line
    for row in record.get("folder", []):
        try:
            (path,) = row
            os.rmdir(_text(path))
        except (OSError, ValueError):
            continue  # in use by now


def _remove(path: str, content: bytes) -> None:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        ours = os.read(number, len(content) + 1) == content
    except OSError:
        ours = False
    finally:
        os.close(number)
    if ours:
        os.unlink(path)


def _hex(path: str) -> str:
    return os.fsencode(path).hex()


def _text(path: str) -> str:
    return os.fsdecode(bytes.fromhex(path))
