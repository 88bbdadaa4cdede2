"""Doctor checks of files on disk: store, config, leftover processes and orphaned folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from tillerman.config import Paths
from tillerman.core.errors import TillermanError
from tillerman.surfaces.cli.checks.finding import Finding
from tillerman.surfaces.rendering import formatting

CHECKED_BY_ITSELF = 256 * 10**6  # bytes; a larger store is verified only with --full
SCARCE = 10**9  # bytes of free disk space
LARGE = 10**9  # bytes of files per folder
ELSEWHERE = "make it writable, or set TILLERMAN_HOME to a writable folder"


def store(paths: Paths, full: bool) -> Iterator[Finding]:
    import apsw

    yield Finding("store", "ok", f"SQLite {apsw.sqlite_lib_version()}")
    if not paths.store.exists():
        if reason := unwritable(paths.store):
            yield Finding("store", "bad", f"{paths.store} cannot be created: {reason}", ELSEWHERE)
        else:
            yield Finding("store", "ok", f"{paths.store}: not created yet")
        return
    try:
        if reason := unwritable(paths.store):
            yield Finding("store", "bad", f"{paths.store} is not writable: {reason}", ELSEWHERE)
        yield _health(paths.store, full)
    except TillermanError as error:
        yield Finding("store", "bad", error.message, error.hint)


def _health(path: Path, full: bool) -> Finding:
    from tillerman.store.database import Database

    size = path.stat().st_size
    database = Database.open(path, read_only=True)
    try:
        sessions = database.query("SELECT count(*) FROM sessions")[0][0]
        text = f"{path}: {formatting.size(size)}, {sessions} session{'s' * (sessions != 1)}"
        if not full and size > CHECKED_BY_ITSELF:
            return Finding("store", "ok", f"{text}, not fully checked (use --full)")
        if fault := database.check():
            fix = "the next start recovers the readable part"
            return Finding("store", "bad", f"{text}, damaged: {fault}", fix)
        return Finding("store", "ok", f"{text}, intact")
    finally:
        database.close()


def leftovers(paths: Paths) -> Iterator[Finding]:
    """Also kills the processes of dead sessions, as every start of tillerman does."""
    from tillerman.supervision.client.orphan_sweep import sweep

    for folder in dict.fromkeys((paths.state, paths.cache, paths.sockets)):
        yield from _folder(folder)
        if reason := unwritable(folder):
            yield Finding("files", "bad", f"{folder} is not writable: {reason}", ELSEWHERE)
    yield _space(paths.state)
    swept = sweep(paths.spawns)
    if killed := [pid for one in swept for pid in one.killed]:
        text = f"ended {len(killed)} leftover processes of earlier sessions: {_listed(killed)}"
        yield Finding("files", "note", text)
    if left := [pid for one in swept for pid in one.left]:
        text = f"processes of earlier sessions could not be ended: {_listed(left)}"
        yield Finding("files", "bad", text, f"kill -9 {_listed(left)}, as their owner")
    if not swept:
        yield Finding("files", "ok", "no leftover processes of earlier sessions")
    yield from _orphans(paths)
    for folder in (paths.spill, paths.logs, paths.worktrees):
        if (size := _size(folder)) > LARGE:
            fix = f"delete what you do not need from {folder}"
            yield Finding("files", "note", f"{folder} uses {formatting.size(size)}", fix)


def unwritable(path: Path) -> str:
    """Why the path cannot be written or created; empty if it can."""
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if there != path and not there.is_dir():
        return f"{there} is not a folder"
    needed = os.W_OK | os.X_OK if there.is_dir() else os.W_OK
    if os.access(there, needed):
        return ""
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{there} is on a read-only file system"
    return f"no write permission for {there}"


def _folder(folder: Path) -> Iterator[Finding]:
    """Other users must not read the logs or connect to the sockets."""
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_IMODE(mode) & 0o077 and folder.name != "cache":
        text = f"{folder} is accessible to other users (mode {stat.S_IMODE(mode):o})"
        yield Finding("files", "note", text, f"chmod 700 {folder}")


def _space(folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    text = f"{formatting.size(free)} free at {there}"
    if free > SCARCE:
        return Finding("files", "ok", text)
    return Finding(
        "files", "note", text, "free some space: agents are paused while the disk is full"
    )


def _orphans(paths: Paths) -> Iterator[Finding]:
    """Spill folders of deleted sessions."""
    from tillerman.store.database import Database

    if not (paths.spill.is_dir() and paths.store.exists()):
        return
    database = Database.open(paths.store, read_only=True)
    try:
        known = {row[0] for row in database.query("SELECT id FROM sessions")}
    finally:
        database.close()
    if lost := [folder for folder in paths.spill.iterdir() if folder.name not in known]:
        size = formatting.size(sum(map(_size, lost)))
        text = f"{len(lost)} folders of deleted sessions, {size}, in {paths.spill}"
        yield Finding("files", "note", text, f"rm -r {' '.join(map(str, lost[:5]))}")


def _size(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    sizes = 0
    for file in folder.rglob("*"):
        try:
            sizes += file.lstat().st_size
        except OSError:
            continue  # removed meanwhile
    return sizes


def _listed(pids: list[int]) -> str:
    return " ".join(map(str, pids))


def config(paths: Paths) -> Iterator[Finding]:
    from tillerman.config import load
    from tillerman.config.config_commands import files

    try:
        for file in files(paths, Path.cwd()):
            state = f", {file.trust}" if file.trust else ""
            there = "" if file.exists else ", missing"
            untrusted = file.trust in ("untrusted", "changed")
            fix = "review it, then run: tillerman trust" if untrusted else ""
            text = f"{file.path} ({file.layer}{state}{there})"
            yield Finding("config", "note" if untrusted else "ok", text, fix)
        for held in load(Path.cwd(), paths=paths).withheld:
            text = f"{held.key} is ignored: {held.why}"
            yield Finding("config", "note", text, "tillerman trust")
    except TillermanError as error:
        yield Finding("config", "bad", error.message, error.hint)
