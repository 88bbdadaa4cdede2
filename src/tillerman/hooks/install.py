"""Installs hooks in a CLI's settings file, restores the original bytes, and repairs after a crash.

The journal stores the file's bytes before it is changed. If a process is killed at any point, the
next `repair` finds the file as it was, as we wrote it, or edited since: in that case only our
entries are removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tillerman.core.errors import ConfigError
from tillerman.core.json_fields import Table
from tillerman.hooks import settings_entries as texts
from tillerman.hooks.backup_journal import BackupJournal, BackupRecord, draft_of, put
from tillerman.hooks.command_pattern import is_our_code
from tillerman.hooks.jsonc_editor import Invalid

Outcome = Literal["restored", "edited", "gone"]  # gone: the user removed the whole file


class Hooks(Struct, frozen=True):
    """The content to install: entries in the file's `hooks`, or the whole file."""

    agent: str
    file: Path
    entries: Mapping[str, Table] = {}
    frame: Mapping[str, object] = {}
    comments: bool = False
    whole: bytes | None = None
    within: Path | None = None  # no symbolic link may lead out of this folder


def install(hooks: Hooks, journal: BackupJournal) -> BackupRecord:
    """Installs hooks until `remove`. A file that cannot be merged is rejected and unchanged."""
    file = _followed(hooks)
    with journal.held(file):
        return _install(hooks, file, journal, stays=True)


@contextlib.contextmanager
def installed(hooks: Hooks, journal: BackupJournal) -> Iterator[BackupRecord]:
    """Installs hooks temporarily; if the process is killed, the next `repair` removes them."""
    file = _followed(hooks)
    with journal.held(file):
        record = _install(hooks, file, journal, stays=False)
        try:
            yield record
        finally:
            _undo(record, journal)


def remove(file: Path, journal: BackupJournal, hooks: Hooks | None = None) -> Outcome | None:
    """Removes our hooks from a file; None if there are none.

    `hooks` identifies ours by their form if the journal has no record: the project was moved since.
    """
    file = Path(os.path.realpath(file))
    with journal.held(file):
        record = journal.get(file)
        if record:
            return _undo(record, journal)
        return _remove_strays(hooks, file) if hooks else None


def _remove_strays(hooks: Hooks, file: Path) -> Outcome | None:
    found = _read(file)
    if found is None:
        return None
    try:
        left = _before(hooks, found)
        if left == found:
            return None
    except Invalid:
        return None  # in an invalid file our hooks cannot be identified
    with _named_errors(file):
        _put_back(file, left)
    return "edited"


def repair(journal: BackupJournal) -> dict[str, Outcome]:
    """Restores the files that a killed tillerman left changed; returns the outcome by file."""
    done: dict[str, Outcome] = {}
    for found in journal.records():
        with contextlib.suppress(ConfigError, OSError), journal.held(Path(found.file), 0):
            record = journal.get(Path(found.file))
            if record and not (record.stays and _read(Path(record.file)) != record.original):
                done[record.file] = _undo(record, journal)
    return done


# -- install and remove ----------------------------------------------------------------------------


def _install(hooks: Hooks, file: Path, journal: BackupJournal, *, stays: bool) -> BackupRecord:
    if journal.get(file):
        raise ConfigError(
            f"{file} already has hooks of tillerman",
            hint=f"`tillerman hooks remove {hooks.agent}` removes them",
        )
    if file.is_file() and file.stat().st_nlink > 1:
        raise ConfigError(
            f"{file} has other hard links, which would be lost when the file is replaced",
            hint="make it a symbolic link, or a separate file; it was not changed",
        )
    try:
        original = _before(hooks, _read(file))
        written = _written(hooks, original)
    except Invalid as error:
        raise ConfigError(
            f"hooks cannot be added to {file}: {error}", hint="fix the file; it was not changed"
        ) from None
    record = BackupRecord(
        agent=hooks.agent,
        file=str(file),
        original=original,
        written=written,
        entries=dict(hooks.entries),
        frame=dict(hooks.frame),
        folders=tuple(_missing(file.parent)),
        comments=hooks.comments,
        stays=stays,
    )
    try:
        with _named_errors(file):
            journal.write(record)
            for folder in record.folders:
                Path(folder).mkdir()
            put(file, record.written)
    except ConfigError:
        _undo(record, journal)
        raise
    return record


def _before(hooks: Hooks, found: bytes | None) -> bytes | None:
    """The file without hooks of ours that are already there, in case the journal was lost."""
    if found is None or found == hooks.whole:
        return None
    if hooks.whole is not None:
        return None if is_our_code(found, hooks.agent) else found
    if texts.is_empty(found):
        return found
    left = texts.removed(found, hooks.entries, None, comments=hooks.comments)
    left = texts.without_ours(left, hooks.agent, comments=hooks.comments)
    bare = texts.is_bare(left, dict(hooks.frame), comments=hooks.comments)
    return None if bare and left != found else left


def _written(hooks: Hooks, original: bytes | None) -> bytes:
    if hooks.whole is None:
        frame = dict(hooks.frame)
        return texts.added(original, hooks.entries, frame, comments=hooks.comments)
    if original is not None:
        raise Invalid("it exists and is not from tillerman")
    return hooks.whole


def _undo(record: BackupRecord, journal: BackupJournal) -> Outcome:
    with _named_errors(Path(record.file)):
        return _take_out(record, journal)


def _take_out(record: BackupRecord, journal: BackupJournal) -> Outcome:
    file = Path(record.file)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        draft_of(file).unlink()
    found = _read(file)
    outcome: Outcome = "restored"
    if found == record.written and found != record.original:
        _put_back(file, record.original)
    elif found is None and record.original is not None:
        outcome = "gone"
    elif found != record.original and found is not None:
        outcome = "edited"
        _put_back(file, _without_ours(record, found))
    for folder in reversed(record.folders):
        with contextlib.suppress(OSError):  # another program has put files into it
            Path(folder).rmdir()
    journal.drop(record)
    return outcome


def _without_ours(record: BackupRecord, found: bytes) -> bytes | None:
    if not record.entries:
        return found
    try:
        left = texts.removed(found, record.entries, record.original, comments=record.comments)
        bare = texts.is_bare(left, record.frame, comments=record.comments)
    except Invalid as error:
        raise ConfigError(
            f"{record.file} was edited and can no longer be parsed: {error}",
            hint="fix it and try again, or remove tillerman's hooks by hand",
        ) from None
    return None if record.original is None and bare else left


def _put_back(file: Path, data: bytes | None) -> None:
    if data is None:
        file.unlink(missing_ok=True)
    elif data != _read(file):
        put(file, data)


# -- files -----------------------------------------------------------------------------------------


def _followed(hooks: Hooks) -> Path:
    """The file with symbolic links resolved."""
    file = Path(os.path.realpath(hooks.file))
    if hooks.within and not file.is_relative_to(os.path.realpath(hooks.within)):
        raise ConfigError(
            f"{hooks.file} points outside the project, to {file}",
            hint=f"`tillerman hooks install --user {hooks.agent}` installs them in all projects",
        )
    return file


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}",
            hint="check that it exists, and its permissions",
        ) from None


@contextlib.contextmanager
def _named_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write {file}: {error.strerror}", hint="check its permissions"
        ) from None


def _missing(folder: Path) -> list[str]:
    """The missing parent folders of a file, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(str(folder))
        folder = folder.parent
    return missing[::-1]
