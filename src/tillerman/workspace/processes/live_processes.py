"""Tracks the live processes of a server: awaits their end and records their state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.core.errors import TillermanError
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.supervision.client.child_processes import FileBackedProcess, ProcessEnded, Sizes
from tillerman.supervision.isolation import ConfinedCommand, after
from tillerman.supervision.warden import exit_file
from tillerman.workspace.processes.process_records import (
    WHY,
    ProcessRecords,
    end_fields,
    now,
    size_fields,
    sizes_on_disk,
)

SCRATCH = "scratch"
_SHORT = 0.03  # seconds within which most commands end
TOLD_WITHIN = 1.0  # seconds; how long a keeper may take to report sizes

_logger = logging.getLogger(__name__)


class LiveProcess:
    """A process that this server tracks."""

    def __init__(
        self,
        process: WorkspaceProcess,
        job: FileBackedProcess,
        confined: ConfinedCommand | None = None,
        added: asyncio.Future[None] | None = None,
    ) -> None:
        self.process = process
        self.job = job
        self.confined = confined
        self.added = added  # done once it is recorded
        self.intent = ""  # why it was asked to end
        self.unwritten: dict[str, Any] = {}  # fields of its start that are not recorded yet
        self.ended: asyncio.Task[WorkspaceProcess] | None = None


class LiveProcesses:
    """The live processes. `folder` is the session's, with one folder per process."""

    def __init__(self, registry: ProcessRecords, folder: Path) -> None:
        self._registry = registry
        self._folder = folder
        self.live: dict[str, LiveProcess] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unwritten: set[asyncio.Future[bool]] = set()

    @property
    def running(self) -> int:
        return sum(live.process.live for live in self.live.values())

    def folder_of(self, process: str) -> Path:
        return self._folder / process

    def known(self, row: WorkspaceProcess) -> WorkspaceProcess:
        live = self.live.get(row.id)
        return live.process if live else row

    def sized(self, process: WorkspaceProcess) -> WorkspaceProcess:
        if not process.live:
            return process
        return with_sizes(process, sizes_on_disk(self.folder_of(process.id)))

    async def measured(self, live: LiveProcess, least: int = 0) -> WorkspaceProcess:
        """Returns the process with sizes from its keeper, which knows what is not in the files.

        The keeper is not asked while the files are all shorter than `least`.
        """
        if live.ended and live.ended.done():
            return live.ended.result()
        on_disk = self.sized(live.process)
        if max(on_disk.stdout_bytes, on_disk.stderr_bytes) < least:
            return on_disk
        try:
            async with asyncio.timeout(TOLD_WITHIN):
                sizes = await live.job.grown()
                if sizes is None and live.ended:
                    return await asyncio.shield(live.ended)
        except TimeoutError:
            sizes = None
        return with_sizes(live.process, sizes) if sizes else self.sized(live.process)

    async def kill(self, live: LiveProcess, why: str) -> WorkspaceProcess:
        if not live.process.live:
            return live.process
        live.intent = live.intent or why
        await live.job.kill()
        assert live.ended
        return await asyncio.shield(live.ended)

    def watch(self, live: LiveProcess) -> LiveProcess:
        self.live[live.process.id] = live
        live.ended = asyncio.create_task(self._see_off(live))
        return live

    async def _see_off(self, live: LiveProcess) -> WorkspaceProcess:
        """Handles its end.

        Does not wait for the record: until then the folder has the same data.
        """
        name = live.process.id
        end = await live.job.wait() or ProcessEnded.read(self.folder_of(name))
        if end is None:
            fields = size_fields(sizes_on_disk(self.folder_of(name))) | {
                "status": "killed",
                "signal": int(signal.SIGKILL),
                "ended_at": now(),
                "why": live.intent or WHY[exit_file.WARDEN],
            }
        else:
            fields = end_fields(end, live.intent)
        if live.process.isolation != "basic":
            await asyncio.to_thread(clear, live.confined, self.folder_of(name))
        live.process = replace(live.process, **fields)
        written = self.write_down(name, **{**live.unwritten, **fields})
        live.unwritten = {}
        written.add_done_callback(lambda _: self.live.pop(name, None))
        return live.process

    def write_down(self, process: str, **fields: Any) -> asyncio.Future[bool]:
        written = asyncio.wrap_future(self._registry.change(process, **fields))
        self._unwritten.add(written)

        def done(future: asyncio.Future[bool]) -> None:
            self._unwritten.discard(future)
            if not future.cancelled() and (error := future.exception()):
                _logger.warning("process %s could not be recorded: %s", process, error)

        written.add_done_callback(done)
        return written

    def write_start(self, live: LiveProcess, *, waits: bool) -> None:
        """Records that it runs. With `waits`, usually its end is recorded together with it."""
        process = live.process
        live.unwritten = {"status": "running", "pid": process.pid, "started": process.started}
        if waits:
            asyncio.get_running_loop().call_later(_SHORT, self.flush_start, live)
        else:
            self.flush_start(live)

    def flush_start(self, live: LiveProcess) -> None:
        if live.unwritten:
            self.write_down(live.process.id, **live.unwritten)
            live.unwritten = {}

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                _logger.warning("%s", error)

        self._tasks.add(task)
        task.add_done_callback(done)

    async def recorded(self, live: LiveProcess) -> None:
        """Waits until it is recorded; a process that cannot be recorded is killed."""
        if live.added is None:
            return
        try:
            await live.added
        except Exception:
            live.intent = live.intent or "it could not be put on record"
            await live.job.kill()
            raise

    async def note_start(self, live: LiveProcess) -> None:
        """Records the start of a reattached process, which may not be recorded yet."""
        with contextlib.suppress(TillermanError, OSError):
            pid, ticks = await live.job.started()
            if live.process.live:
                live.process = replace(live.process, status="running", pid=pid, started=ticks)
                mode = live.process.mode
                self.write_down(
                    live.process.id, status="running", pid=pid, started=ticks, mode=mode
                )

    async def settled(self) -> None:
        """Waits until all deferred tasks and writes are done."""
        await asyncio.gather(*self._tasks, *self._unwritten, return_exceptions=True)


def with_sizes(process: WorkspaceProcess, sizes: Sizes) -> WorkspaceProcess:
    return replace(process, **size_fields(sizes))


def clear(confined: ConfinedCommand | None, folder: Path) -> None:
    """Removes the temporary files of a confined command, also after a restart."""
    with contextlib.suppress(OSError):
        if confined:
            after(confined)
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
