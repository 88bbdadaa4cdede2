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
_DELIVERED_WITHIN = 0.002  # seconds; the store's thread takes CPU time from that
ANSWER_WITHIN = 1.0  # seconds; how long a keeper may take to report sizes

_logger = logging.getLogger(__name__)


class LiveProcess:
    """A process that this server tracks."""

    def __init__(
        self,
        process: WorkspaceProcess,
        job: FileBackedProcess,
        confined: ConfinedCommand | None = None,
        added: asyncio.Future[None] | None = None,
        *,
        unrecorded: bool = False,
    ) -> None:
        self.process = process
        self.job = job
        self.confined = confined
        self.added = added  # done once it is recorded
        self.unrecorded = unrecorded  # it is recorded with its end, or when it runs for longer
        self.intent = ""  # why it was asked to end
        self.unwritten: dict[str, Any] = {}  # fields of its start that are not recorded yet
        self.ended: asyncio.Task[WorkspaceProcess] | None = None


class LiveProcesses:
    """The live processes. `folder` is the session's, with one folder per process."""

    def __init__(self, registry: ProcessRecords, folder: Path) -> None:
        self._registry = registry
        self._folder = folder
        self.by_id: dict[str, LiveProcess] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unwritten: set[asyncio.Future[Any]] = set()

    @property
    def running(self) -> int:
        return sum(live.process.live for live in self.by_id.values())

    def folder_of(self, process: str) -> Path:
        return self._folder / process

    def known(self, row: WorkspaceProcess) -> WorkspaceProcess:
        live = self.by_id.get(row.id)
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
            async with asyncio.timeout(ANSWER_WITHIN):
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
        self.by_id[live.process.id] = live
        live.ended = asyncio.create_task(self._await_end(live))
        return live

    async def _await_end(self, live: LiveProcess) -> WorkspaceProcess:
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
        if live.unrecorded:
            self.run_in_background(self._record_whole(live))
        else:
            written = self.record(name, **{**live.unwritten, **fields})
            live.unwritten = {}
            written.add_done_callback(lambda _: self.by_id.pop(name, None))
        return live.process

    async def _record_whole(self, live: LiveProcess) -> None:
        """Records a short process with its end, once its result is delivered."""
        await asyncio.sleep(_DELIVERED_WITHIN)
        if live.unrecorded:
            self._add(live)
        if live.added:
            await asyncio.wait({live.added})
        self.by_id.pop(live.process.id, None)

    def _add(self, live: LiveProcess) -> asyncio.Future[Any]:
        """Records it as it is now."""
        live.unrecorded, live.unwritten = False, {}
        live.added = asyncio.wrap_future(self._registry.add(live.process))
        return self._until_written(live.process.id, live.added)

    def record(self, process: str, **fields: Any) -> asyncio.Future[bool]:
        written = asyncio.wrap_future(self._registry.change(process, **fields))
        return self._until_written(process, written)

    def _until_written(self, process: str, written: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Lets `settled` wait for a write, and logs its failure."""
        self._unwritten.add(written)

        def done(future: asyncio.Future[Any]) -> None:
            self._unwritten.discard(future)
            if not future.cancelled() and (error := future.exception()):
                _logger.warning("process %s could not be recorded: %s", process, error)

        written.add_done_callback(done)
        return written

    async def record_failed_start(
        self, process: WorkspaceProcess, added: asyncio.Future[None] | None, why: str
    ) -> None:
        """Records a process that could not be started; `added`: its record, if it has one."""
        failure: dict[str, Any] = {"status": "failed", "why": why, "ended_at": now()}
        if added is None:
            await asyncio.wrap_future(self._registry.add(replace(process, **failure)))
        else:
            await added
            await self.record(process.id, **failure)

    def record_start(self, live: LiveProcess, *, waits: bool) -> None:
        """Records that it runs. With `waits`, a short command is recorded once, with its end."""
        process = live.process
        live.unwritten = {"status": "running", "pid": process.pid, "started": process.started}
        if waits:
            asyncio.get_running_loop().call_later(_SHORT, self.flush_start, live)
        else:
            self.flush_start(live)

    def flush_start(self, live: LiveProcess) -> None:
        if live.unrecorded:
            self._add(live)
            self.run_in_background(self.wait_until_recorded(live))
        elif live.unwritten:
            self.record(live.process.id, **live.unwritten)
            live.unwritten = {}

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()):
                _logger.warning("%s", error)

        self._tasks.add(task)
        task.add_done_callback(done)

    async def wait_until_recorded(self, live: LiveProcess) -> None:
        """Waits until it is recorded; a process that cannot be recorded is killed."""
        if live.added is None:
            return
        try:
            await live.added
        except Exception:
            live.intent = live.intent or "it could not be put on record"
            await live.job.kill()
            raise

    async def record_reattached(self, live: LiveProcess) -> None:
        """Records the start of a reattached process, which may not be recorded yet."""
        with contextlib.suppress(TillermanError, OSError):
            pid, ticks = await live.job.started()
            if live.process.live:
                live.process = replace(live.process, status="running", pid=pid, started=ticks)
                mode = live.process.mode
                self.record(live.process.id, status="running", pid=pid, started=ticks, mode=mode)

    async def drain(self) -> None:
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
