"""`tillerman ps`, `logs` and `kill`: list, read and stop shell commands of all workspaces."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tillerman.core.errors import TillermanError, UsageError
from tillerman.core.terminal_sanitizer import TerminalSanitizer
from tillerman.core.workspace_process import Status, WorkspaceProcess
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import (
    colored,
    emit,
    emit_json,
    is_terminal,
    table,
    width,
)
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

HEAD = ("PROCESS", "SESSION", "STATUS", "BEGAN", "OUTPUT", "COMMAND")
CHUNK = 256 << 10
_ENDING = 1.0  # seconds to wait until the end of a process is recorded
# Poll interval in seconds: before Linux 6.6 inotify does not report data spliced into a file.
_UNREPORTED = 1.0


@open_harness.command
async def ps(harness: Harness, options: Namespace) -> int:
    session = open_harness.row(harness, options.session).id if options.session else None
    await _resolve_lost(harness)
    rows = [_now(harness, row) for row in harness.sessions.processes.list(session)]
    if not options.all:
        rows = [row for row in rows if row.live]
    if options.json:
        emit_json([_for_programs(harness, row) for row in rows])
    elif not rows:
        emit(
            "no commands"
            if options.all
            else "no running commands: --all includes those that ended in the last day"
        )
    else:
        style = Style(colored(options, sys.stdout))
        emit(table([_cells(row) for row in rows], HEAD, style, width()))
    return 0


@open_harness.command
async def logs(harness: Harness, options: Namespace) -> int:
    process = _find(harness, options.process)
    folder = _folder(harness, process)
    chosen = [
        (name, stream)
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr))
        if options.stdout == options.stderr or getattr(options, name)
    ]
    if len(chosen) == 1:
        chosen = [(chosen[0][0], sys.stdout)]
    streams = [_Stream(folder / name, stream, options.lines) for name, stream in chosen]
    if not options.follow:
        for stream in streams:
            stream.pump()
        return 0
    process = await _follow(harness, process, streams)
    if is_terminal(sys.stderr):
        sys.stderr.write(f"{process.id} {_status(process)}\n")
    return 0 if process.status == "finished" else 1


@open_harness.command
async def kill(harness: Harness, options: Namespace) -> int:
    from tillerman.supervision.client import foreign_warden

    process = _find(harness, options.process)
    if not process.live:
        raise _ended(process)
    warden = harness.paths.spawns / (process.warden or "")
    asked: signal.Signals | None = options.signal
    if asked in (None, signal.SIGKILL):
        received = await foreign_warden.kill(warden, process.id)
    else:
        received = await foreign_warden.signal(warden, process.id, asked)
    if received:
        emit(f"sent {asked.name} to {process.id}" if asked else f"ended {process.id}")
        return 0
    await _resolve_lost(harness)
    process = _find(harness, process.id)
    if not process.live:
        raise _ended(process)
    raise TillermanError(
        f"the supervisor of process {process.id} does not respond",
        hint=f"its pid is {process.pid}; `tillerman doctor` shows leftover processes",
    )


# -- lookup ----------------------------------------------------------------------------------------


def _find(harness: Harness, named: str) -> WorkspaceProcess:
    table = harness.sessions.processes
    if exact := table.get(named):
        return _now(harness, exact)
    found = [row for row in table.list() if row.id.startswith(named)]
    if len(found) == 1:
        return _now(harness, found[0])
    if not found:
        raise UsageError(
            f"no process matches {named!r}",
            hint="`tillerman ps --all` lists those of the last day",
        )
    some = ", ".join(row.id for row in found[:5])
    raise UsageError(f"{named!r} is ambiguous: it matches {len(found)} processes: {some}")


def _ended(process: WorkspaceProcess) -> TillermanError:
    return TillermanError(
        f"process {process.id} has already ended: {_status(process)}",
        hint=f"`tillerman logs {process.id}` shows its output",
    )


async def _resolve_lost(harness: Harness) -> None:
    """Records processes that ended unsupervised, so that they are not listed as running."""
    from tillerman.workspace.processes.process_records import resolve_all_lost

    await resolve_all_lost(
        harness.sessions.processes, harness.paths.processes, harness.paths.spawns
    )


def _folder(harness: Harness, process: WorkspaceProcess) -> Path:
    return harness.paths.processes / process.session / process.id


def _now(harness: Harness, process: WorkspaceProcess) -> WorkspaceProcess:
    """Refreshes the row from the process folder: the session's owner may have died before."""
    if not process.live:
        return process
    from msgspec.structs import replace

    from tillerman.core.timestamps import rfc3339
    from tillerman.supervision.client.child_processes import ProcessEnded
    from tillerman.workspace.processes.process_records import sizes_on_disk

    folder = _folder(harness, process)
    end = ProcessEnded.read(folder)
    sizes = end.sizes if end else sizes_on_disk(folder)
    process = replace(
        process,
        stdout_bytes=sizes.stdout,
        stderr_bytes=sizes.stderr,
        stdout_kept=sizes.stdout_kept,
        stderr_kept=sizes.stderr_kept,
    )
    if end is None:
        return process
    code = end.exit.code
    status: Status = "killed" if code is None else "failed" if code else "finished"
    ended_at = rfc3339(datetime.fromtimestamp(end.at, UTC))
    return replace(process, status=status, code=code, signal=end.exit.signal, ended_at=ended_at)


# -- formatting ------------------------------------------------------------------------------------


def _cells(row: WorkspaceProcess) -> tuple[str, ...]:
    written = formatting.size(row.stdout_bytes + row.stderr_bytes)
    return (
        row.id,
        row.session,
        _status(row),
        formatting.ago(row.began_at),
        written,
        formatting.one_line(row.command),
    )


def _status(row: WorkspaceProcess) -> str:
    match row.status:
        case "failed" if row.code is not None:
            return f"failed ({row.code})"
        case "killed" if row.signal is not None:
            with suppress(ValueError):
                return f"killed ({signal.Signals(row.signal).name})"
    return row.status


def _for_programs(harness: Harness, row: WorkspaceProcess) -> dict[str, Any]:
    from msgspec.structs import asdict

    told = {name: value for name, value in asdict(row).items() if name != "warden"}
    return told | {"folder": str(_folder(harness, row))}


# -- output ----------------------------------------------------------------------------------------


class _Stream:
    """Copies an output file to a stream; sanitizes control characters if it is a terminal."""

    def __init__(self, path: Path, out: IO[str], lines: int | None) -> None:
        from tillerman.workspace.processes.output_reader import last_lines

        self.path = path
        self._out = out
        self._cleaner = TerminalSanitizer() if out.isatty() else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at = 0
        if lines is not None and path.exists():
            self._at = last_lines(path, lines)

    def pump(self) -> None:
        """Copies everything written so far."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return  # not created yet, or removed after a day
        with file:
            file.seek(self._at)
            while piece := file.read(CHUNK):
                self._at += len(piece)
                self._write(piece)
        self._out.flush()

    def _write(self, piece: bytes) -> None:
        if self._cleaner is None:
            self._out.buffer.write(piece)  # type: ignore[attr-defined]
        else:
            self._out.write(self._cleaner.feed(self._decoder.decode(piece)))


async def _follow(
    harness: Harness, process: WorkspaceProcess, streams: list[_Stream]
) -> WorkspaceProcess:
    """Copies output until the process ends. Waits on inotify instead of polling."""
    from tillerman.workspace.files.inotify import MODIFY, NAMES, Inotify

    folder = _folder(harness, process)
    if process.status == "starting":  # takes milliseconds if its owner is alive
        await asyncio.sleep(_ENDING)
        process = _find(harness, process.id)
    with Inotify() as alarm, _end_of(process) as gone:
        watched = [(folder, NAMES)] + [(stream.path, MODIFY) for stream in streams]
        while True:
            for path, mask in watched:
                with suppress(FileNotFoundError):
                    alarm.add(str(path), mask)
            process = _now(harness, harness.sessions.processes.get(process.id) or process)
            for stream in streams:  # after the status, so that the last output is included
                stream.pump()
            if not process.live or not folder.exists():
                return process
            seconds = _ENDING if gone.is_set() else None if _reports_all() else _UNREPORTED
            await _either(alarm.wait(seconds), gone)
            if not alarm.read() and gone.is_set():
                await _resolve_lost(harness)


async def _either(updates: Coroutine[Any, Any, bool], gone: asyncio.Event) -> None:
    if gone.is_set():
        await updates
        return
    tasks = {asyncio.ensure_future(updates), asyncio.ensure_future(gone.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _end_of(process: WorkspaceProcess) -> Iterator[asyncio.Event]:
    """Event that is set when the process exits, even if no supervisor is left to record it."""
    from tillerman.supervision.linux.process_table import find

    gone, loop, held = asyncio.Event(), asyncio.get_running_loop(), -1
    with suppress(OSError):
        held = os.pidfd_open(process.pid or -1)
    found = find(process.pid) if held >= 0 and process.pid else None
    if found is None or found.start != process.started:
        gone.set()
    else:
        loop.add_reader(held, gone.set)
    try:
        yield gone
    finally:
        if held >= 0:
            loop.remove_reader(held)
            os.close(held)


def _reports_all() -> bool:
    major, minor, *_ = os.uname().release.split(".")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) >= (6, 6)
