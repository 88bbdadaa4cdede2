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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tillerman.core.terminal_sanitizer import TerminalSanitizer
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.surfaces import process_list
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
    rows = await process_list.listed(harness, session, ended=options.all)
    if options.json:
        emit_json([process_list.for_programs(harness, row) for row in rows])
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
    process = process_list.find(harness, options.process)
    folder = process_list.folder_of(harness, process)
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
        sys.stderr.write(f"{process.id} {process_list.status_text(process)}\n")
    return 0 if process.status == "finished" else 1


@open_harness.command
async def kill(harness: Harness, options: Namespace) -> int:
    process = process_list.find(harness, options.process)
    asked: signal.Signals | None = options.signal
    await process_list.end(harness, process, asked)
    emit(f"sent {asked.name} to {process.id}" if asked else f"ended {process.id}")
    return 0


# -- formatting ------------------------------------------------------------------------------------


def _cells(row: WorkspaceProcess) -> tuple[str, ...]:
    written = formatting.size(row.stdout_bytes + row.stderr_bytes)
    return (
        row.id,
        row.session,
        process_list.status_text(row),
        formatting.ago(row.began_at),
        written,
        formatting.one_line(row.command),
    )


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

    folder = process_list.folder_of(harness, process)
    if process.status == "starting":  # takes milliseconds if its owner is alive
        await asyncio.sleep(_ENDING)
        process = process_list.find(harness, process.id)
    with Inotify() as alarm, _end_of(process) as gone:
        watched = [(folder, NAMES)] + [(stream.path, MODIFY) for stream in streams]
        while True:
            for path, mask in watched:
                with suppress(FileNotFoundError):
                    alarm.add(str(path), mask)
            process = process_list.refreshed(
                harness, harness.sessions.processes.get(process.id) or process
            )
            for stream in streams:  # after the status, so that the last output is included
                stream.pump()
            if not process.live or not folder.exists():
                return process
            seconds = _ENDING if gone.is_set() else None if _reports_all() else _UNREPORTED
            await _either(alarm.wait(seconds), gone)
            if not alarm.read() and gone.is_set():
                await process_list.resolve_lost(harness)


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
