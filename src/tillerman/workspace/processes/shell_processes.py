"""Shell commands of one session: start, wait, write, kill. After a restart: `reattach.py`.

Each has a row in a registry, written before its id is returned, and a folder with its output and
exit file. Sync and async processes end with their harness; background ones continue under the
warden's lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from tillerman.core.errors import TillermanError
from tillerman.core.workspace_process import LIVE, Mode, WorkspaceProcess
from tillerman.supervision.isolation import ConfinedCommand, confine
from tillerman.supervision.linux.process_table import boot_id
from tillerman.workspace.files.refusal import Refused, refused
from tillerman.workspace.processes.live_processes import (
    ANSWER_WITHIN,
    SCRATCH,
    LiveProcess,
    LiveProcesses,
    clear,
    with_sizes,
)
from tillerman.workspace.processes.output_folders import OutputFolders, close_files
from tillerman.workspace.processes.process_place import ProcessPlace, UnknownProcess, not_started
from tillerman.workspace.processes.process_records import (
    ProcessRecords,
    expire,
    now,
    resolve_all_lost,
)
from tillerman.workspace.processes.reattach import reattach
from tillerman.workspace.processes.session_warden import SessionWarden

MOST = 20  # at once, per session
INPUT_CAP = 1024 * 1024  # bytes of input at the start
UPDATE_EVERY = 2.0  # seconds between two updates about a command that is waited for
_EXPIRE_EVERY = 3600.0
_START_TIMEOUT = 5.0

_logger = logging.getLogger(__name__)


class Processes:
    """The processes of a session. Open it with `open`; end it with `close` or `release`."""

    def __init__(
        self,
        session: str,
        registry: ProcessRecords,
        place: ProcessPlace,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._session = session
        self._registry = registry
        self._place = place
        self._clean = clean
        self._boot = boot_id()
        self._live = LiveProcesses(registry, place.folder / session)
        self._output = OutputFolders(place.folder, session)
        self._warden = SessionWarden(place)
        self._starting: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._expiry: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        session: str,
        registry: ProcessRecords,
        place: ProcessPlace,
        clean: Callable[[str], str] = str,
    ) -> Processes:
        """Opens it with the processes that an earlier server of this session left running.

        `clean` redacts secrets in a command before it is recorded.
        """
        opened = cls(session, registry, place, clean)
        await reattach(session, registry, place, opened._live, opened._warden)
        await resolve_all_lost(registry, place.folder, place.records)
        opened._expire()
        return opened

    # -- starting ---------------------------------------------------------------------------------

    async def warm(self) -> None:
        """Starts the warden before the first command needs it."""
        await self._warden.ready()

    async def start(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        mode: Mode = "async",
        isolation: str = "basic",
        stdin: bytes | bool | None = None,
        protected: Sequence[Path] = (),
        owner: str | None = None,
    ) -> WorkspaceProcess:
        """Starts a command; returns when it runs and is recorded.

        `stdin`: none, these bytes, or True: for `write`. `owner` is the client that started it, if
        there may be several. A sync process is recorded with its end, or when it runs for longer:
        its id is not needed before, and it ends with its harness. The caller has checked `cwd`;
        `env` is the whole environment.
        """
        if self._closed:
            raise Refused("the session has ended", hint="start another session")
        if self._live.running + len(self._starting) >= MOST:
            raise Refused(
                f"{MOST} processes of this session are already running",
                hint="`list_processes` shows them; end one with `kill_process`, or wait for one",
            )
        if "\0" in command:
            raise Refused("a command cannot contain a NUL character", hint="remove it")
        if isinstance(stdin, bytes) and len(stdin) > INPUT_CAP:
            raise Refused(
                f"{len(stdin)} bytes exceed the input limit of one call",
                hint="write them to a file that the command reads",
            )
        task = asyncio.create_task(
            self._start(command, cwd, env, mode, isolation, stdin, protected, owner)
        )
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._live.run_in_background(self._cancel_start(task))  # no caller knows its id
            raise

    async def _start(
        self,
        command: str,
        cwd: Path,
        env: Mapping[str, str],
        mode: Mode,
        isolation: str,
        stdin: bytes | bool | None,
        protected: Sequence[Path],
        owner: str | None,
    ) -> WorkspaceProcess:
        warden = await self._warden.ready()
        try:
            name, folder, files = self._output.pop()
        except OSError as error:
            raise refused(error, str(self._place.folder)) from error
        process = WorkspaceProcess(
            id=name,
            session=self._session,
            command=self._clean(command),
            cwd=str(cwd),
            mode=mode,
            isolation=isolation,
            boot=self._boot,
            began_at=now(),
            warden=warden.folder.name,
            owner=owner,
        )
        argv = ["/bin/sh", "-c", command]
        try:
            confined = await self._confine(argv, cwd, env, isolation, folder, protected)
        except BaseException:
            close_files(files)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        is_short = mode == "sync"  # most are: recorded later, which does not delay the start
        added = None if is_short else asyncio.wrap_future(self._registry.add(process))
        try:
            job = await warden.run(
                confined.argv,
                cwd=cwd,
                env=confined.env,
                name=name,
                folder=folder,
                files=files,
                cap=self._place.cap,
                stdin=stdin,
                lasting=mode == "background",
                rules=confined.rules,
                enforcement=self._warden.enforcement(env),
            )
        except (OSError, TillermanError) as error:
            await asyncio.to_thread(clear, confined, folder)
            await self._live.record_failed_start(process, added, str(error))
            if isinstance(error, OSError):
                raise not_started(error, cwd) from error
            raise
        if self._place.exec_rules:
            self._place.exec_rules.started(job.mount_failures)
        pid, ticks = await job.started()
        process = replace(process, status="running", pid=pid, started=ticks)
        live = self._live.watch(LiveProcess(process, job, confined, added, unrecorded=is_short))
        if live.ended:
            self._output.prepare(live.ended)
        if task := asyncio.current_task():
            self._starting.discard(task)  # it counts as running now
        self._live.record_start(live, waits=is_short)
        if not is_short:
            await self._live.wait_until_recorded(live)
        return live.process

    async def _confine(
        self,
        argv: list[str],
        cwd: Path,
        env: Mapping[str, str],
        isolation: str,
        folder: Path,
        protected: Sequence[Path],
    ) -> ConfinedCommand:
        def confined() -> ConfinedCommand:
            return confine(
                isolation,  # type: ignore[arg-type]  # refused if invalid
                workspace=self._place.workspace,
                argv=argv,
                env=env,
                cwd=cwd,
                protected=protected,
                scratch=folder / SCRATCH,
            )

        return confined() if isolation == "basic" else await asyncio.to_thread(confined)

    async def _cancel_start(self, task: asyncio.Task[WorkspaceProcess]) -> None:
        with contextlib.suppress(TillermanError, OSError):
            process = await task
            await self.kill(process.id, why="the call was cancelled")

    # -- queries ----------------------------------------------------------------------------------

    def known(self, process: str) -> WorkspaceProcess:
        """Returns the process; one of another session counts as unknown."""
        if live := self._live.by_id.get(process):
            return live.process
        found = self._registry.get(process)
        if found is None or found.session != self._session:
            raise UnknownProcess(process)
        return found

    def of_earlier_server(self, process: str) -> WorkspaceProcess | None:
        """Returns an ended process of another session that worked in this workspace."""
        found = self._registry.get(process)
        if found is None or found.live or found.session == self._session:
            return None
        return found if Path(found.cwd).is_relative_to(self._place.workspace) else None

    def folder(self, process: str) -> Path:
        """Returns the folder of its output: `stdout` and `stderr`."""
        return self.folder_of(self.known(process).id)

    def folder_of(self, process: str) -> Path:
        return self._live.folder_of(process)

    async def get(self, process: str, *, exact: bool = True) -> WorkspaceProcess:
        """Returns the process. `exact`: includes bytes that are not in its files yet."""
        found = self.known(process)
        live = self._live.by_id.get(process)
        least = 0 if exact else self._place.cap
        return await self._live.measured(live, least) if live else found

    def list(self, status: str = "all") -> list[WorkspaceProcess]:
        """Returns processes, oldest first: all, the live ones, or those with this status.

        Live ones have their file sizes.
        """
        stored = self._registry.list(self._session, live=status == "live")
        rows = [self._live.known(row) for row in stored]
        if status != "all":
            wanted = LIVE if status == "live" else {status}
            rows = [row for row in rows if row.status in wanted]
        return [self._live.sized(row) for row in rows]

    async def wait(self, process: str, seconds: float | None = None) -> WorkspaceProcess:
        """Waits for its end or the timeout; returns its current state."""
        found = self.known(process)
        live = self._live.by_id.get(process)
        if live is None:
            return found
        assert live.ended
        done, _ = await asyncio.wait({live.ended}, timeout=seconds)
        return live.ended.result() if done else await self._live.measured(live)

    async def wait_or_kill(
        self,
        process: WorkspaceProcess,
        timeout: float,
        on_timeout: Literal["kill", "background"] = "kill",
        on_update: Callable[[WorkspaceProcess], Awaitable[None]] | None = None,
    ) -> WorkspaceProcess:
        """Waits for its end; on timeout kills it or lets it continue. `on_update` gets updates."""
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            while process.live and (left := deadline - asyncio.get_running_loop().time()) > 0:
                process = await self.wait(
                    process.id, min(left, UPDATE_EVERY) if on_update else left
                )
                if on_update and process.live:
                    await on_update(process)
        except asyncio.CancelledError:
            self._live.run_in_background(self.kill(process.id, why="the call was cancelled"))
            raise
        if process.live and on_timeout == "background":
            return await self.move_to_background(process.id)
        return await self.kill(process.id, why=f"it took longer than {timeout:g} s")

    async def changed(self, process: str, since: int, seconds: float) -> WorkspaceProcess:
        """Waits until it ended or wrote more than `since` bytes in all, or for the timeout."""
        found = self.known(process)
        live = self._live.by_id.get(process)
        if live is None:
            return found
        try:
            async with asyncio.timeout(seconds):
                sizes = await live.job.grown(since)
                if sizes is None:
                    return await self.wait(process)
        except TimeoutError:
            return await self._live.measured(live)
        return with_sizes(live.process, sizes)

    def started(self, pid: int) -> bool:
        """Returns whether the pid is a process of this session, or a descendant of one."""
        return self._warden.started(pid)

    # -- actions ----------------------------------------------------------------------------------

    async def kill(
        self, process: str, number: int | None = None, *, why: str = ""
    ) -> WorkspaceProcess:
        """Kills the whole tree; or sends a signal to its process group.

        A process that has ended stays as it is.
        """
        found = self.known(process)
        live = self._live.by_id.get(process)
        if live is None or not live.process.live:
            return found
        if number is None or number == signal.SIGKILL:
            return await self._live.kill(live, why or "it was killed on request")
        if number not in set(signal.valid_signals()) - {0}:
            raise Refused(f"{number} is not a signal", hint="15 terminates it, 2 interrupts it")
        live.job.signal(number)
        return await self.wait(process, ANSWER_WITHIN)

    async def write(self, process: str, data: bytes, *, eof: bool = False) -> WorkspaceProcess:
        """Writes to its stdin, which must have been left open at the start."""
        self.known(process)
        live = self._live.by_id.get(process)
        answer = await live.job.write(data, eof=eof) if live else "closed"
        if answer == "full":
            raise Refused(
                f"process {process} does not read its input, and the pipe is full",
                hint="part of this text may have been received; check its output, or kill it",
            )
        if answer == "closed":
            raise Refused(
                f"the input of process {process} is closed",
                hint="start it with its input left open to write to it",
            )
        return await self.get(process)

    async def move_to_background(self, process: str) -> WorkspaceProcess:
        """Lets a process continue in the background, under the lease."""
        self.known(process)
        live = self._live.by_id.get(process)
        if live and await live.job.last():
            self._live.flush_start(live)
            await self._live.wait_until_recorded(live)
            live.process = replace(live.process, mode="background")
            self._live.record(process, mode="background")
            return await self._live.measured(live)
        return await self.wait(process)

    async def close(self) -> None:
        """Ends the session with all its processes."""
        await self._stop("the session ended")
        await self._warden.close()

    async def release(self) -> None:
        """Stops the server without ending the session: background processes continue."""
        await self._stop("its server ended", but_lasting=True)
        for live in self._live.by_id.values():
            if live.ended:
                live.ended.cancel()
        self._live.by_id.clear()
        self._warden.release()

    async def _stop(self, why: str, *, but_lasting: bool = False) -> None:
        self._closed = True
        self._output.close()
        if self._expiry:
            self._expiry.cancel()
        if self._starting:  # on a full disk one may wait for its record while it runs
            await asyncio.wait(self._starting, timeout=_START_TIMEOUT)
        those = [one for one in self._live.by_id.values() if not (but_lasting and one.job.lasting)]
        for live in those:
            live.intent = live.intent or why
        ends = [live.ended for live in those if live.ended]
        kills = [live.job.kill() for live in those]
        await asyncio.gather(*kills, *ends, return_exceptions=True)
        await self._live.drain()

    # -- internals --------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._live.run_in_background(expire(self._registry, self._place.folder))
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(_EXPIRE_EVERY, self._expire)
